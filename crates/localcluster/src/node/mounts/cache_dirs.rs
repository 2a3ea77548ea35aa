//! Cache directories. A volume names them by their paths on a node; here several nodes
//! share one machine, so each has its own, below the state directory.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use juicefs::MountOptions;
use k8s_openapi::api::core::v1::PersistentVolume;
use nix::mount::{MsFlags, mount};

use super::DRIVER;
use super::place::detach;
use super::table::Table;

/// What is below is in memory.
const MEMORY: &str = "/dev/shm";

/// Whether a path of a node is a cache directory of a volume, or lies in one.
pub(super) fn is_cache_dir<'a>(
    path: &Path,
    mut volumes: impl Iterator<Item = &'a PersistentVolume>,
) -> bool {
    volumes.any(|volume| {
        let Some(spec) = &volume.spec else {
            return false;
        };
        let is_ours = spec.csi.as_ref().is_some_and(|csi| csi.driver == DRIVER);
        let options = MountOptions::parse(spec.mount_options.iter().flatten());
        let contains = |options: MountOptions| {
            let mut dirs = options.cache_dirs().into_iter();
            dirs.any(|dir| path.starts_with(dir))
        };
        is_ours && options.is_ok_and(contains)
    })
}

/// Where a cache directory of a node is on this machine; made if it is not there.
///
/// # Errors
/// When it can't be, or its path is not a plain one.
pub(super) fn own(state: &Path, node: &str, path: &Path) -> Result<PathBuf, String> {
    let mut parts = path.components();
    let is_absolute = parts.next() == Some(Component::RootDir);
    let is_plain = parts
        .clone()
        .all(|part| matches!(part, Component::Normal(_)));
    if !is_absolute || !is_plain {
        return Err(format!("cache-dir {path:?} is not a plain absolute path"));
    }
    let root = root(state, node);
    let own = root.join(parts.as_path());
    let made = match path.starts_with(MEMORY) {
        true => memory(&in_memory(&root)),
        false => Ok(()),
    };
    made.and_then(|()| fs::create_dir_all(&own))
        .map_err(|error| format!("cache-dir {path:?} ({}): {error}", own.display()))?;
    Ok(own)
}

/// Frees the memory that caches of a node take.
pub(super) fn free_memory(state: &Path, node: &str) {
    detach(&in_memory(&root(state, node)));
}

fn root(state: &Path, node: &str) -> PathBuf {
    super::nodes(state).join(node).join("cache")
}

fn in_memory(root: &Path) -> PathBuf {
    root.join(MEMORY.trim_start_matches('/'))
}

fn memory(at: &Path) -> io::Result<()> {
    fs::create_dir_all(at)?;
    if Table::read()?.device_at(at).is_none() {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mount(Some("tmpfs"), at, Some("tmpfs"), flags, Some("mode=1777"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use serde_json::json;

    fn volume(driver: &str, options: &[&str]) -> PersistentVolume {
        let spec = json!({
            "csi": {"driver": driver, "volumeHandle": "v"},
            "mountOptions": options,
        });
        serde_json::from_value(json!({"metadata": {"name": "v"}, "spec": spec})).unwrap()
    }

    #[test]
    fn only_cache_directories_of_volumes_are_a_nodes_own() {
        let volumes = [
            volume(
                DRIVER,
                &["cache-size=1", "cache-dir=/var/lib/juicefs/a:/dev/shm/a"],
            ),
            volume("other.example.com", &["cache-dir=/data"]),
        ];
        let is = |path: &str| is_cache_dir(Path::new(path), volumes.iter());
        assert!(is("/var/lib/juicefs/a"));
        assert!(is("/var/lib/juicefs/a/"));
        assert!(is("/dev/shm/a/uuid"));
        for other in [
            "/var/lib/juicefs",
            "/var/lib/juicefs/ab",
            "/data",
            "/var/jfsCache",
        ] {
            assert!(!is(other), "{other}");
        }
        let usual = [volume(DRIVER, &[])];
        assert!(is_cache_dir(Path::new("/var/jfsCache"), usual.iter()));
    }

    #[test]
    fn each_node_has_its_own() {
        let state = tempfile::tempdir().unwrap();
        let path = Path::new("/var/lib/juicefs/a");
        let [first, second] =
            ["node-0", "node-1"].map(|node| own(state.path(), node, path).unwrap());
        assert!(first.is_dir() && second.is_dir() && first != second);
        assert!(first.ends_with("nodes/node-0/cache/var/lib/juicefs/a"));
        for path in ["relative", "/a/../../b", ""] {
            assert!(
                own(state.path(), "node-0", Path::new(path)).is_err(),
                "{path}"
            );
        }
    }
}
