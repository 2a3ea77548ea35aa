//! From a container of a pod to a process that can be started.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{
    Container, PodSecurityContext, PodSpec, SecurityContext, VolumeMount,
};

use super::environment::{Variables, expand};
use super::images::Image;
use super::lifecycle::Trouble;
use super::volumes::{Source, inside};
use crate::process::Process;
use crate::shim::{
    DEFAULT_CAPABILITIES, Mount, MountKind, Root, Run, User, all_capabilities, parse_capability,
};

/// What a container is made of, beside its spec.
pub struct Parts<'a> {
    /// The spec of its pod.
    pub spec: &'a PodSpec,
    /// The sandbox of its pod.
    pub sandbox: Process,
    /// Its image.
    pub image: &'a Image,
    /// Its variables.
    pub variables: Variables,
    /// The volumes of its pod.
    pub volumes: &'a BTreeMap<String, Source>,
    /// Where what is the pod's own lies: `hosts`, `hostname`, `resolv.conf`.
    pub pod_dir: &'a Path,
    /// Where what is the container's own lies.
    pub own_dir: &'a Path,
    /// What it must not see.
    pub hidden: &'a Path,
}

/// The name of the file with the last words of a container.
pub const LAST_WORDS: &str = "termination-log";

impl Parts<'_> {
    /// The process.
    ///
    /// # Errors
    /// When it can't be as it is asked for.
    pub fn run(mut self, container: &Container) -> Result<Run, Trouble> {
        let user = self.user(container)?;
        let home = home(self.image, user.uid);
        self.variables.entry("HOME".to_owned()).or_insert(home);
        let context = container.security_context.as_ref();
        let is_privileged = is_privileged(context);
        let directory = container.working_dir.as_ref().filter(|dir| !dir.is_empty());
        Ok(Run {
            within: self.sandbox,
            command: command(container, self.image, &self.variables),
            directory: directory.map_or(self.image.working_dir.clone(), PathBuf::from),
            user,
            capabilities: capabilities(context, is_privileged)?,
            no_new_privileges: context
                .is_some_and(|context| context.allow_privilege_escalation == Some(false)),
            unconfined: is_privileged,
            terminal: false,
            root: Some(Root {
                lower: self.image.root.clone(),
                own: self.own_dir.join("own"),
                read_only: context
                    .is_some_and(|context| context.read_only_root_filesystem == Some(true)),
                hidden: vec![self.hidden.to_owned()],
                mounts: self.mounts(container)?,
            }),
            environment: self.variables,
        })
    }

    /// What is mounted: those above others before them.
    fn mounts(&self, container: &Container) -> Result<Vec<Mount>, Trouble> {
        let files = self.image.files.iter().map(|(target, source)| Mount {
            source: source.clone(),
            target: target.clone(),
            kind: match source.is_dir() {
                true => MountKind::CopyOnWrite,
                false => MountKind::ReadOnly,
            },
        });
        let own = ["hosts", "hostname", "resolv.conf"].map(|name| Mount {
            source: self.pod_dir.join(name),
            target: Path::new("/etc").join(name),
            kind: MountKind::Writable,
        });
        let last_words = container.termination_message_path.as_deref();
        let last_words = Mount {
            source: self.own_dir.join(LAST_WORDS),
            target: last_words.unwrap_or("/dev/termination-log").into(),
            kind: MountKind::Writable,
        };
        let mut mounts: Vec<Mount> = files.chain(own).chain([last_words]).collect();
        for mount in container.volume_mounts.iter().flatten() {
            mounts.push(self.volume(mount)?);
        }
        mounts.sort_by_key(|mount| mount.target.components().count());
        Ok(mounts)
    }

    fn volume(&self, mount: &VolumeMount) -> Result<Mount, Trouble> {
        let trouble = |message: String| Trouble::new("CreateContainerConfigError", message);
        let volume = self.volumes.get(&mount.name);
        let volume =
            volume.ok_or_else(|| trouble(format!("there is no volume {:?}", mount.name)))?;
        let expanded = mount.sub_path_expr.as_deref();
        let expanded = expanded.map(|path| expand(path, &[&self.variables]));
        let is_read_only = volume.read_only || mount.read_only == Some(true);
        let read_only_path = volume.read_only_path.as_ref().filter(|_| is_read_only);
        let root = read_only_path.unwrap_or(&volume.path);
        let mut source = root.clone();
        if let Some(path) = expanded
            .or(mount.sub_path.clone())
            .filter(|path| !path.is_empty())
        {
            let failed =
                |why: String| trouble(format!("subPath of volume {:?}: {why}", mount.name));
            let path = inside(&path).map_err(failed)?;
            source = within(root, &path).map_err(|error| failed(error.to_string()))?;
            if source.starts_with(self.hidden) && !volume.path.starts_with(self.hidden) {
                return Err(failed(format!("{path:?} is the state directory")));
            }
        }
        Ok(Mount {
            source,
            target: Path::new("/").join(&mount.mount_path),
            kind: match is_read_only {
                true => MountKind::ReadOnly,
                false => MountKind::Writable,
            },
        })
    }

    fn user(&self, container: &Container) -> Result<User, Trouble> {
        let own = container.security_context.clone().unwrap_or_default();
        let pod: PodSecurityContext = self.spec.security_context.clone().unwrap_or_default();
        let id = |own: Option<i64>, pod: Option<i64>| {
            own.or(pod)
                .and_then(|id| u32::try_from(id).ok())
                .unwrap_or(0)
        };
        let uid = id(own.run_as_user, pod.run_as_user);
        if uid == 0 && own.run_as_non_root.or(pod.run_as_non_root) == Some(true) {
            return Err(Trouble::new(
                "CreateContainerConfigError",
                "container has runAsNonRoot and image will run as root",
            ));
        }
        let groups = pod
            .supplemental_groups
            .into_iter()
            .flatten()
            .chain(pod.fs_group);
        Ok(User {
            uid,
            gid: id(own.run_as_group, pod.run_as_group),
            groups: groups
                .filter_map(|group| u32::try_from(group).ok())
                .collect(),
        })
    }
}

/// A path in a volume, made where it is not there yet. A link in the volume must not
/// lead out of it, and nothing is made where one leads to.
fn within(volume: &Path, path: &Path) -> io::Result<PathBuf> {
    let volume = volume.canonicalize()?;
    let mut real = volume.clone();
    for part in path {
        let next = real.join(part);
        match next.canonicalize() {
            Ok(found) if found.starts_with(&volume) => real = found,
            Ok(_) => return Err(io::Error::other(format!("{path:?} leads out of it"))),
            Err(_) if next.is_symlink() => {
                return Err(io::Error::other(format!("{path:?} leads nowhere")));
            }
            Err(_) => {
                std::fs::create_dir(&next)?;
                real = next;
            }
        }
    }
    Ok(real)
}

fn is_privileged(context: Option<&SecurityContext>) -> bool {
    context.is_some_and(|context| context.privileged == Some(true))
}

/// A pod's command takes the place of the image's; arguments follow what there is.
fn command(container: &Container, image: &Image, variables: &Variables) -> Vec<String> {
    let own = container.command.as_deref().unwrap_or_default();
    let command = match own.is_empty() {
        true => &image.command,
        false => own,
    };
    let words = command.iter().chain(container.args.iter().flatten());
    words.map(|word| expand(word, &[variables])).collect()
}

fn capabilities(
    context: Option<&SecurityContext>,
    is_privileged: bool,
) -> Result<Vec<String>, Trouble> {
    if is_privileged {
        return Ok(all_capabilities());
    }
    let change = context
        .and_then(|context| context.capabilities.clone())
        .unwrap_or_default();
    let known = |name: &String| match name.as_str() {
        "ALL" => Ok(name.clone()),
        _ => parse_capability(name)
            .map(|found| found.to_string())
            .ok_or_else(|| {
                Trouble::new(
                    "CreateContainerError",
                    format!("unknown capability {name:?}"),
                )
            }),
    };
    let add = change
        .add
        .iter()
        .flatten()
        .map(known)
        .collect::<Result<Vec<_>, _>>()?;
    let drop = change
        .drop
        .iter()
        .flatten()
        .map(known)
        .collect::<Result<Vec<_>, _>>()?;
    let default = DEFAULT_CAPABILITIES.map(|name| format!("CAP_{name}"));
    let base = match add.iter().any(|name| name == "ALL") {
        true => all_capabilities(),
        false => default.to_vec(),
    };
    let keeps = |name: &String| !drop.contains(name) && !drop.iter().any(|name| name == "ALL");
    let added = add.iter().filter(|name| *name != "ALL").cloned();
    Ok(base.into_iter().filter(keeps).chain(added).collect())
}

fn home(image: &Image, uid: u32) -> String {
    let users = std::fs::read_to_string(image.root.join("etc/passwd")).unwrap_or_default();
    let home = users.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [_, _, id, _, _, home, ..] = fields.as_slice() else {
            return None;
        };
        (id.parse() == Ok(uid)).then(|| (*home).to_owned())
    });
    home.unwrap_or_else(|| "/".to_owned())
}
