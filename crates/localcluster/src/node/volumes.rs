//! Where the volumes of a pod are on the machine.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, HostPathVolumeSource, KeyToPath, PersistentVolume,
    PersistentVolumeClaim, Pod, Volume,
};
use kube::Api;

use super::environment::field_of;
use super::given::Given;
use super::lifecycle::Trouble;
use super::mounts::DRIVER;
use super::{DATA, Machine};
use crate::rootless;

/// Files of a volume by their path in it.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A volume that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Where.
    pub path: PathBuf,
    /// Where it is for those that only read, if that is elsewhere.
    pub read_only_path: Option<PathBuf>,
    /// It can't be written, whatever the container says.
    pub read_only: bool,
}

impl Source {
    /// A directory or a file.
    pub(super) fn at(path: PathBuf) -> Source {
        Source {
            path,
            read_only_path: None,
            read_only: false,
        }
    }
}

/// Prepares volumes.
pub(super) struct Volumes<'a> {
    /// Where they are, and where ConfigMaps, Secrets and claims are.
    pub(super) machine: &'a Arc<Machine>,
    /// Whose volumes.
    pub(super) pod: &'a Pod,
    /// Where those are that are the pod's own.
    pub(super) dir: &'a Path,
}

impl Volumes<'_> {
    /// Makes all volumes of the pod ready.
    ///
    /// # Errors
    /// When one can't be, in the words of a kubelet.
    pub(super) async fn prepare(&self) -> Result<BTreeMap<String, Source>, Trouble> {
        let mut sources = BTreeMap::new();
        for volume in self
            .pod
            .spec
            .iter()
            .flat_map(|spec| spec.volumes.iter().flatten())
        {
            let source = self.source(volume).await.map_err(|why| {
                let name = &volume.name;
                let message = format!("MountVolume.SetUp failed for volume {name:?} : {why}");
                Trouble::new("ContainerCreating", message)
            })?;
            sources.insert(volume.name.clone(), source);
        }
        Ok(sources)
    }

    async fn source(&self, volume: &Volume) -> Result<Source, String> {
        if let Some(host) = &volume.host_path {
            return self.host_path(host).await;
        }
        if let Some(claim) = &volume.persistent_volume_claim {
            let source = self.claimed(&claim.claim_name).await?;
            return Ok(Source {
                read_only: source.read_only || claim.read_only == Some(true),
                ..source
            });
        }
        let path = self.dir.join(&volume.name);
        let files = if let Some(map) = &volume.config_map {
            let (items, mode) = (map.items.as_deref(), map.default_mode);
            Some((self.config_map(&map.name, items, map.optional).await?, mode))
        } else if let Some(secret) = &volume.secret {
            let name = secret.secret_name.as_deref().unwrap_or_default();
            let (items, mode) = (secret.items.as_deref(), secret.default_mode);
            Some((self.secret(name, items, secret.optional).await?, mode))
        } else if let Some(downward) = &volume.downward_api {
            let items = downward.items.as_deref().unwrap_or_default();
            Some((self.downward(items)?, downward.default_mode))
        } else if let Some(projected) = &volume.projected {
            let mut files = Files::new();
            for source in projected.sources.iter().flatten() {
                if let Some(map) = &source.config_map {
                    let items = map.items.as_deref();
                    files.extend(self.config_map(&map.name, items, map.optional).await?);
                } else if let Some(secret) = &source.secret {
                    let items = secret.items.as_deref();
                    files.extend(self.secret(&secret.name, items, secret.optional).await?);
                } else if let Some(downward) = &source.downward_api {
                    files.extend(self.downward(downward.items.as_deref().unwrap_or_default())?);
                } else {
                    return Err(
                        "only configMap, secret and downwardAPI can be projected here".into(),
                    );
                }
            }
            Some((files, projected.default_mode))
        } else if volume.empty_dir.is_some() {
            None
        } else {
            return Err(
                "this kind of volume is not known here; emptyDir, hostPath, configMap, secret, \
                 downwardAPI, projected and persistentVolumeClaim are"
                    .into(),
            );
        };
        let read_only = files.is_some();
        let group = self.group();
        let made = match files {
            Some((files, mode)) => fill(&path, &files, mode.unwrap_or(0o644), group),
            None => empty(&path, group),
        };
        made.map_err(|error| error.to_string())?;
        Ok(Source {
            read_only,
            ..Source::at(path)
        })
    }

    /// The group that owns the volumes of the pod.
    fn group(&self) -> Option<u32> {
        let context = self.pod.spec.as_ref()?.security_context.as_ref()?;
        // An ordinary user has no other groups to give.
        u32::try_from(context.fs_group?)
            .ok()
            .filter(|group| rootless::has_group(*group))
    }

    fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    async fn config_map(
        &self,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
    ) -> Result<Files, String> {
        let map = self.given().config_map(name, optional).await?;
        let texts = map.data.unwrap_or_default().into_iter();
        let texts = texts.map(|(key, text)| (key, text.into_bytes()));
        let bytes = map.binary_data.unwrap_or_default().into_iter();
        let data = texts.chain(bytes.map(|(key, bytes)| (key, bytes.0)));
        chosen(data.collect(), items, optional)
    }

    async fn secret(
        &self,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
    ) -> Result<Files, String> {
        chosen(self.given().secret(name, optional).await?, items, optional)
    }

    fn given(&self) -> Given<'_> {
        Given {
            client: &self.machine.client,
            pod: self.pod,
        }
    }

    fn downward(&self, items: &[DownwardAPIVolumeFile]) -> Result<Files, String> {
        let files = items.iter().map(|item| {
            let field = item.field_ref.as_ref();
            let field = field.ok_or("only fieldRef is known in a downwardAPI volume here")?;
            let value = field_of(self.pod, field).map_err(|trouble| trouble.message)?;
            Ok((inside(&item.path)?, value.into_bytes()))
        });
        files.collect()
    }

    /// The directory behind a claim.
    async fn claimed(&self, name: &str) -> Result<Source, String> {
        let claims: Api<PersistentVolumeClaim> =
            Api::namespaced(self.machine.client.clone(), self.namespace());
        let claim = claims
            .get_opt(name)
            .await
            .map_err(|error| error.to_string())?;
        let claim = claim.ok_or(format!("persistentvolumeclaim {name:?} not found"))?;
        let volume = claim.spec.and_then(|spec| spec.volume_name);
        let volume = volume.ok_or(format!("persistentvolumeclaim {name:?} is not bound"))?;
        let volumes: Api<PersistentVolume> = Api::all(self.machine.client.clone());
        let found = volumes
            .get_opt(&volume)
            .await
            .map_err(|error| error.to_string())?;
        let found = found.ok_or(format!("persistentvolume {volume:?} not found"))?;
        let spec = found.spec.clone().unwrap_or_default();
        if spec.csi.is_some_and(|csi| csi.driver == DRIVER) {
            return self.machine.mount_volume(&found, self.pod).await;
        }
        if let Some(host) = &spec.host_path {
            return self.host_path(host).await;
        }
        if let Some(local) = &spec.local {
            let local = HostPathVolumeSource {
                path: local.path.clone(),
                type_: Some("Directory".to_owned()),
            };
            return host_path(&local, &self.machine.dir);
        }
        Err(format!(
            "persistentvolume {volume:?} is neither hostPath nor local, nor of the CSI driver {DRIVER}"
        ))
    }

    /// A directory or a file of the node: of the machine, but for caches, which each
    /// node has for itself.
    async fn host_path(&self, host: &HostPathVolumeSource) -> Result<Source, String> {
        match self.machine.cache_dir(host, self.pod).await? {
            Some(own) => Ok(own),
            None => host_path(host, &self.machine.dir),
        }
    }
}

/// The items of a ConfigMap or Secret that are wanted, by their paths.
fn chosen(
    mut data: BTreeMap<String, Vec<u8>>,
    items: Option<&[KeyToPath]>,
    optional: Option<bool>,
) -> Result<Files, String> {
    let Some(items) = items else {
        return data
            .into_iter()
            .map(|(key, bytes)| Ok((inside(&key)?, bytes)))
            .collect();
    };
    let mut files = Files::new();
    for item in items {
        match data.remove(&item.key) {
            Some(bytes) => drop(files.insert(inside(&item.path)?, bytes)),
            None if optional == Some(true) => {}
            None => return Err(format!("references non-existent config key: {}", item.key)),
        }
    }
    Ok(files)
}

/// A path that stays where it is joined to.
///
/// # Errors
/// When it does not.
pub fn inside(path: &str) -> Result<PathBuf, String> {
    let path = Path::new(path);
    match path
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
    {
        true => Ok(path.to_owned()),
        false => Err(format!("{path:?} leads out of the volume")),
    }
}

fn host_path(host: &HostPathVolumeSource, hidden: &Path) -> Result<Source, String> {
    let path = Path::new(&host.path);
    if !path.is_absolute() {
        return Err(format!("hostPath {:?} is not absolute", host.path));
    }
    let failed = |error: io::Error| format!("hostPath {:?}: {error}", host.path);
    match host.type_.as_deref().unwrap_or_default() {
        "DirectoryOrCreate" => fs::create_dir_all(path).map_err(failed)?,
        "FileOrCreate" if !path.exists() => drop(fs::File::create(path).map_err(failed)?),
        _ => {}
    }
    // Where it really is, so that what is hidden can be told from what is not.
    let path = fs::canonicalize(path).map_err(failed)?;
    if path.starts_with(hidden) && !path.starts_with(hidden.join(DATA)) {
        return Err(format!(
            "hostPath {:?} is part of the state directory",
            host.path
        ));
    }
    match host.type_.as_deref().unwrap_or_default() {
        "Directory" if !path.is_dir() => Err(format!("hostPath {:?} is no directory", host.path)),
        "File" if !path.is_file() => Err(format!("hostPath {:?} is no file", host.path)),
        _ => Ok(Source::at(path)),
    }
}

fn empty(path: &Path, group: Option<u32>) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    fs::create_dir_all(path)?;
    let mode = match group {
        Some(_) => 0o2777,
        None => 0o777,
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    chown(path, None, group)
}

fn fill(path: &Path, files: &Files, mode: i32, group: Option<u32>) -> io::Result<()> {
    fs::create_dir_all(path)?;
    let mode = u32::try_from(mode).unwrap_or(0o644);
    let mode = match group {
        Some(_) => mode | 0o440,
        None => mode,
    };
    for (name, bytes) in files {
        let path = path.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        // As a whole or not at all, for those that read it now.
        let draft = path.with_extension("draft~");
        fs::write(&draft, bytes)?;
        fs::set_permissions(&draft, fs::Permissions::from_mode(mode))?;
        chown(&draft, None, group)?;
        fs::rename(draft, path)?;
    }
    Ok(())
}
