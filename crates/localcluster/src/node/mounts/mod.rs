//! Volumes of the CSI driver of JuiceFS, which the node agent mounts itself: one mount
//! for each node and volume, which the pods of the node share.
//!
//! The processes that serve them outlive this one, as pods do, and are found again.

mod cache_dirs;
mod place;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use juicefs::{Juicefs, Mount, MountOptions, Volume};
use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, HostPathVolumeSource, PersistentVolume, Pod, Secret,
};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use tokio::task::JoinHandle;

use super::folder::Folder;
use super::pod::RETRY;
use super::volumes::Source;
use super::{DATA, Machine};
use crate::events::Weight;
use crate::process::Process;
use place::{Place, Record, forget_socket};

/// The driver that is here.
pub(super) const DRIVER: &str = "csi.juicefs.com";

/// Where what belongs to one node lies.
fn nodes(state: &Path) -> PathBuf {
    state.join("nodes")
}

/// Where a volume is mounted: once for each node that uses it.
pub fn mounts_of(state: &Path, volume: &str) -> Vec<PathBuf> {
    let places = Place::all(state).into_iter();
    let own = places.filter(|place| place.volume() == volume);
    own.map(|place| place.mount()).collect()
}

/// What is known of the mounts of the machine.
pub(super) struct Mounts {
    /// Where what was installed for the project is.
    installed: PathBuf,
    /// Who mounts or unmounts a volume on a node has its lock. It holds the task that
    /// mounts it again when its process dies.
    keepers: Mutex<BTreeMap<PathBuf, Lock>>,
    /// Two that make the same volume at once would make two of it. By metaurl: one
    /// that does not answer keeps nobody else waiting.
    formatting: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

type Lock = Arc<tokio::sync::Mutex<Option<JoinHandle<()>>>>;

impl Mounts {
    pub(super) fn new(installed: PathBuf) -> Mounts {
        Mounts {
            installed,
            keepers: Mutex::default(),
            formatting: Mutex::default(),
        }
    }

    fn lock_of(&self, place: &Place) -> Lock {
        let mut keepers = self.keepers.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(keepers.entry(place.path().to_owned()).or_default())
    }

    fn formatting_of(&self, volume: &Volume) -> Arc<tokio::sync::Mutex<()>> {
        let all = self.formatting.lock();
        let mut all = all.unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(volume.metaurl().to_owned()).or_default())
    }
}

impl Machine {
    /// A volume on the node of a pod, mounted if it is not.
    pub(super) async fn mount_volume(
        self: &Arc<Machine>,
        volume: &PersistentVolume,
        pod: &Pod,
    ) -> Result<Source, String> {
        let place = Place::of(&self.dir, node_of(pod), &volume.name_any());
        let lock = self.mounts.lock_of(&place);
        let mut keeper = lock.lock().await;
        let user = pod.metadata.uid.as_deref().unwrap_or_default();
        place.add_user(user).map_err(|error| error.to_string())?;
        if !place.is_mounted(uid_of(volume)) {
            self.mount(&place, volume).await?;
        }
        if keeper.as_ref().is_none_or(JoinHandle::is_finished) {
            *keeper = Some(tokio::spawn(keep(Arc::clone(self), place.clone())));
        }
        let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
        Ok(Source {
            path: place.writable(),
            read_only_path: Some(place.read_only()),
            read_only: csi.is_some_and(|csi| csi.read_only == Some(true)),
        })
    }

    /// The directory behind a path of a node, if that is a cache directory.
    pub(super) async fn cache_dir(
        &self,
        host: &HostPathVolumeSource,
        pod: &Pod,
    ) -> Result<Option<Source>, String> {
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let volumes = volumes.list(&ListParams::default()).await;
        let volumes = volumes.map_err(|error| error.to_string())?;
        let path = Path::new(&host.path);
        if !cache_dirs::is_cache_dir(path, volumes.iter()) {
            return Ok(None);
        }
        let path = cache_dirs::own(&self.dir, node_of(pod), path)?;
        Ok(Some(Source::at(path)))
    }

    /// A pod has ended: what no other pod uses is unmounted.
    pub(super) async fn release_volumes(&self, pod: &str) {
        for place in Place::all(&self.dir) {
            if !place.users().iter().any(|user| user == pod) {
                continue;
            }
            let lock = self.mounts.lock_of(&place);
            let mut keeper = lock.lock().await;
            place.remove_user(pod);
            if place.users().is_empty() {
                unmount(&place, &mut keeper).await;
            }
        }
    }

    /// Finds what an earlier life of this program has mounted.
    pub(super) async fn adopt_volumes(self: &Arc<Machine>) {
        for place in Place::all(&self.dir) {
            let lock = self.mounts.lock_of(&place);
            let mut keeper = lock.lock().await;
            for user in place.users() {
                if !Folder::of(&self.dir, &user).path().exists() {
                    place.remove_user(&user);
                }
            }
            match place.users().is_empty() {
                true => unmount(&place, &mut keeper).await,
                false if keeper.is_none() => {
                    *keeper = Some(tokio::spawn(keep(Arc::clone(self), place.clone())));
                }
                false => {}
            }
        }
    }

    /// Unmounts all of it: no pod runs any more.
    pub(super) async fn end_volumes(&self, nodes: &[String]) {
        let all = Place::all(&self.dir).into_iter().map(|place| async move {
            let lock = self.mounts.lock_of(&place);
            let mut keeper = lock.lock().await;
            unmount(&place, &mut keeper).await;
        });
        futures::future::join_all(all).await;
        for node in nodes {
            cache_dirs::free_memory(&self.dir, node);
        }
    }

    async fn mount(&self, place: &Place, volume: &PersistentVolume) -> Result<(), String> {
        let said = |error: &dyn std::error::Error| error.to_string();
        let spec = volume.spec.clone().unwrap_or_default();
        let csi = spec.csi.unwrap_or_default();
        let secret = self.secret_of(&csi).await?;
        let options = MountOptions::parse(spec.mount_options.iter().flatten());
        let options = options.map_err(|error| said(&error))?;
        let juicefs = Juicefs::find(&self.mounts.installed).map_err(|error| said(&error))?;
        can_mount()?;
        let dirs = options.cache_dirs().into_iter();
        let dirs = dirs.map(|dir| cache_dirs::own(&self.dir, &place.node(), dir));
        let dirs = dirs.collect::<Result<Vec<PathBuf>, String>>()?;
        {
            let formatting = self.mounts.formatting_of(&secret);
            let _alone = formatting.lock().await;
            self.make_own(&secret).map_err(|error| said(&error))?;
            let made = juicefs.format(&secret).await;
            made.map_err(|error| said(&error))?;
        }
        place.abort();
        place.make().map_err(|error| said(&error))?;
        let mount = Mount {
            volume: &secret,
            options: &options,
            cache_dirs: &dirs,
            at: &place.mount(),
            log: &place.log(),
        };
        let process = juicefs.mount(&mount).await.map_err(|error| said(&error))?;
        let record = |process| Record {
            process,
            volume: uid_of(volume).to_owned(),
        };
        let shown = Process::of(process)
            .and_then(|process| place.write_record(&record(process)))
            .and_then(|()| place.show());
        shown.map_err(|error| said(&error))
    }

    /// Makes the directories of a volume that this machine keeps for its user. Those of
    /// his own choice are his to make.
    fn make_own(&self, volume: &Volume) -> io::Result<()> {
        let own = self.dir.join(DATA);
        let dirs = volume.directories().into_iter();
        dirs.filter(|dir| dir.starts_with(&own))
            .try_for_each(fs::create_dir_all)
    }

    async fn secret_of(&self, csi: &CSIPersistentVolumeSource) -> Result<Volume, String> {
        let named = csi.node_publish_secret_ref.clone().unwrap_or_default();
        let name = named
            .name
            .ok_or("the persistentvolume has no csi.nodePublishSecretRef")?;
        let namespace = named.namespace.unwrap_or_default();
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &namespace);
        let found = secrets.get_opt(&name).await;
        let found = found.map_err(|error| format!("secret {namespace}/{name}: {error}"))?;
        let found = found.ok_or(format!("secret {namespace}/{name} not found"))?;
        let data = found.data.unwrap_or_default().into_iter();
        let data = data.map(|(key, bytes)| (key, bytes.0)).collect();
        Volume::from_secret(&data).map_err(|error| format!("secret {namespace}/{name}: {error}"))
    }

    /// Mounts a volume again whose process has ended, as often as it takes.
    async fn mount_again(&self, place: &Place) {
        let name = place.volume();
        let mut pause = RETRY.0;
        let mut told = String::new();
        loop {
            let lock = self.mounts.lock_of(place);
            let alone = lock.lock().await;
            let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
            let again = match volumes.get_opt(&name).await {
                // A pod that started meanwhile may have done it.
                Ok(Some(volume)) if place.is_mounted(uid_of(&volume)) => return,
                Ok(Some(volume)) => self.mount(place, &volume).await,
                Ok(None) => Err(format!("persistentvolume {name:?} not found")),
                Err(error) => Err(error.to_string()),
            };
            let Err(why) = again else {
                tracing::info!(volume = name, node = place.node(), "mounted again");
                return;
            };
            drop(alone);
            let message = format!("the mount of volume {name:?} was lost: {why}");
            if message != told {
                self.tell_users(place, &message).await;
                told = message;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY.1);
        }
    }

    async fn tell_users(&self, place: &Place, message: &str) {
        tracing::warn!(node = place.node(), "{message}");
        for pod in self.users_of(place) {
            self.event(&pod, Weight::Warning, "FailedMount", message)
                .await;
        }
    }

    fn users_of(&self, place: &Place) -> Vec<Arc<Pod>> {
        let pods = self.pods.read().unwrap_or_else(PoisonError::into_inner);
        let users = place.users();
        users
            .iter()
            .filter_map(|user| pods.get(user).cloned())
            .collect()
    }
}

/// Mounts a volume again whenever its process has ended. Whoever unmounts it ends this
/// first.
async fn keep(machine: Arc<Machine>, place: Place) {
    loop {
        let served = place.record().map(|record| record.process);
        if let Some(process) = served {
            process.end().await;
        }
        machine.mount_again(&place).await;
        if let Some(process) = served {
            forget_socket(process);
        }
    }
}

/// Unmounts a volume. Its lock is held.
async fn unmount(place: &Place, keeper: &mut Option<JoinHandle<()>>) {
    if let Some(keeper) = keeper.take() {
        keeper.abort();
    }
    place.unmount().await;
}

fn uid_of(volume: &PersistentVolume) -> &str {
    volume.metadata.uid.as_deref().unwrap_or_default()
}

fn node_of(pod: &Pod) -> &str {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.node_name.as_deref())
        .unwrap_or_default()
}

/// An ordinary user may not have the device; a container may not either.
fn can_mount() -> Result<(), String> {
    let device = fs::File::options().read(true).write(true).open("/dev/fuse");
    let missing = |error: io::Error| {
        format!("a JuiceFS volume needs /dev/fuse, which this user can't open: {error}")
    };
    device.map(drop).map_err(missing)
}
