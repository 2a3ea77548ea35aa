//! A volume on a node: `nodes/<node>/volumes/<volume>/` in the state directory.
//!
//! JuiceFS mounts at `mount`. Pods are shown `shared/writable` or `shared/read-only`,
//! where the same is mounted: what is mounted there once more, after the process of
//! the first mount was killed, arrives in pods that run. `users/` has a file for each
//! pod that uses it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::table::Table;
use crate::process::Process;
use crate::shim::{self, bind, read_only};

/// The file that says what is mounted, and by which process.
const RECORD: &str = "mount.json";
/// The file for what JuiceFS says.
const LOG: &str = "juicefs.log";

/// How long JuiceFS may write what it still holds after it was unmounted.
const PATIENCE: Duration = Duration::from_secs(30);

const NOTHING: Option<&Path> = None;

/// The folder.
#[derive(Clone, Debug)]
pub(super) struct Place(PathBuf);

/// What is mounted.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Record {
    /// The process that serves it.
    pub(super) process: Process,
    /// The uid of the PersistentVolume.
    pub(super) volume: String,
}

impl Place {
    pub(super) fn of(state: &Path, node: &str, volume: &str) -> Place {
        Place(super::nodes(state).join(node).join("volumes").join(volume))
    }

    /// Those that there are.
    pub(super) fn all(state: &Path) -> Vec<Place> {
        let nodes = entries(&super::nodes(state));
        let volumes = nodes.iter().flat_map(|node| entries(&node.join("volumes")));
        volumes.map(Place).collect()
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn volume(&self) -> String {
        name(&self.0)
    }

    pub(super) fn node(&self) -> String {
        let node = self.0.parent().and_then(Path::parent);
        node.map(name).unwrap_or_default()
    }

    /// Where JuiceFS mounts it.
    pub(super) fn mount(&self) -> PathBuf {
        self.0.join("mount")
    }

    /// What pods are shown.
    pub(super) fn writable(&self) -> PathBuf {
        self.0.join("shared/writable")
    }

    /// The same, for those that may not write.
    pub(super) fn read_only(&self) -> PathBuf {
        self.0.join("shared/read-only")
    }

    fn shared(&self) -> PathBuf {
        self.0.join("shared")
    }

    /// Where what is shown read-only gets so, before anybody sees it.
    fn stage(&self) -> PathBuf {
        self.0.join("stage")
    }

    fn users_dir(&self) -> PathBuf {
        self.0.join("users")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.0.join(LOG)
    }

    /// From now on a pod uses it.
    pub(super) fn add_user(&self, pod: &str) -> io::Result<()> {
        fs::create_dir_all(self.users_dir())?;
        fs::write(self.users_dir().join(pod), "")
    }

    /// A pod does not use it any more; whether it did.
    pub(super) fn remove_user(&self, pod: &str) -> bool {
        fs::remove_file(self.users_dir().join(pod)).is_ok()
    }

    /// The pods that use it.
    pub(super) fn users(&self) -> Vec<String> {
        let users = entries(&self.users_dir());
        users.iter().map(|user| name(user)).collect()
    }

    pub(super) fn record(&self) -> Option<Record> {
        shim::read(&self.0.join(RECORD)).ok()?
    }

    pub(super) fn write_record(&self, record: &Record) -> io::Result<()> {
        shim::write(&self.0.join(RECORD), record)
    }

    /// Ends what is left of an earlier mount. JuiceFS could take it over without a gap,
    /// but then requests that the dead process had read are never answered, and who
    /// asked hangs; so they fail.
    pub(super) fn abort(&self) {
        let flags = MntFlags::MNT_FORCE | MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW;
        while umount2(&self.mount(), flags).is_ok() {}
    }

    /// Makes the directories, where they are not there. What pods are shown is left
    /// alone, and may be dead.
    pub(super) fn make(&self) -> io::Result<()> {
        for path in [self.stage(), self.shared()] {
            fs::create_dir_all(path)?;
        }
        let table = Table::read()?;
        for path in [self.mount(), self.writable(), self.read_only()] {
            if table.device_at(&path).is_none() {
                fs::create_dir_all(path)?;
            }
        }
        Ok(())
    }

    /// A volume is mounted by a process that lives, and pods are shown it.
    pub(super) fn is_mounted(&self, volume: &str) -> bool {
        let is_served = self
            .record()
            .is_some_and(|record| record.volume == volume && record.process.open().is_some());
        let is_shown = || {
            let table = Table::read().ok()?;
            let mounted = table.device_at(&self.mount())?;
            let shown = [self.writable(), self.read_only()];
            let is_same = |path: &PathBuf| table.device_at(path) == Some(mounted);
            Some(shown.iter().all(is_same))
        };
        is_served && is_shown() == Some(true)
    }

    /// Shows pods what JuiceFS has mounted: also those that run, and were shown what is
    /// dead by now.
    pub(super) fn show(&self) -> io::Result<()> {
        let (mounted, shared) = (self.mount(), self.shared());
        let table = Table::read()?;
        let device = table
            .device_at(&mounted)
            .ok_or_else(|| io::Error::other("JuiceFS has unmounted it"))?;
        let becomes = |path: &Path, kind| mount(NOTHING, path, NOTHING, kind, NOTHING);
        if table.device_at(&shared).is_none() {
            bind(&shared, &shared)?;
            becomes(&shared, MsFlags::MS_SHARED)?;
        }
        // On some machines all mounts are shared: then what is mounted on one place
        // would show up on the others too, and be writable.
        becomes(&mounted, MsFlags::MS_PRIVATE)?;
        if table.device_at(&self.writable()) != Some(device) {
            bind(&mounted, &self.writable())?;
        }
        if table.device_at(&self.read_only()) != Some(device) {
            bind(&mounted, &self.stage())?;
            becomes(&self.stage(), MsFlags::MS_PRIVATE)?;
            read_only(&self.stage(), MsFlags::empty())?;
            bind(&self.stage(), &self.read_only())?;
            detach(&self.stage());
        }
        Ok(())
    }

    /// Unmounts it, waits for JuiceFS to end, and removes the folder. Nothing is removed
    /// with what is in it: that would be the data, should it still be mounted.
    pub(super) async fn unmount(&self) {
        let shown = [self.read_only(), self.writable(), self.shared()];
        let all = shown.into_iter().chain([self.stage(), self.mount()]);
        all.for_each(|path| detach(&path));
        if let Some(Record { process, .. }) = self.record() {
            if timeout(PATIENCE, process.end()).await.is_err() {
                tracing::warn!(volume = %self.0.display(), "JuiceFS does not end; it is killed");
                process.kill_group();
            }
            forget_socket(process);
        }
        for name in [RECORD, LOG] {
            let _: io::Result<()> = fs::remove_file(self.0.join(name));
        }
        for user in self.users() {
            self.remove_user(&user);
        }
        let directories = [
            self.users_dir(),
            self.read_only(),
            self.writable(),
            self.shared(),
            self.stage(),
            self.mount(),
            self.0.clone(),
        ];
        for directory in directories {
            match fs::remove_dir(&directory) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(path = %directory.display(), %error, "it stays");
                }
                _ => {}
            }
        }
    }
}

/// A process of JuiceFS that is killed leaves its socket.
pub(super) fn forget_socket(process: Process) {
    let socket = format!("/tmp/fuse_fd_comm.{}", process.pid);
    let _: io::Result<()> = fs::remove_file(socket);
}

/// Takes away all that is mounted at a path. Who has it open keeps it.
pub(super) fn detach(path: &Path) {
    while umount2(path, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW).is_ok() {}
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    entries.flatten().map(|entry| entry.path()).collect()
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
