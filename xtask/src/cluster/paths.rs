//! Where binaries and clusters live: outside the source tree, so that a clean
//! checkout need not build Kubernetes again.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// The cache directory: `bin/`, `images/` and one directory per cluster under `cluster/`.
#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// `$PADDLE_OPERATOR_CACHE`, or the user's cache directory.
    pub fn from_env() -> Result<Self> {
        let root = cache_root(|name| env::var_os(name))
            .context("set PADDLE_OPERATOR_CACHE (neither XDG_CACHE_HOME nor HOME is set)")?;
        // Components run in other directories, so they need absolute paths.
        let root = std::path::absolute(&root)
            .with_context(|| format!("cannot resolve {}", root.display()))?;
        if root.to_str().is_none() {
            // Flags and kubeconfigs are text.
            bail!("the cache directory {} is not UTF-8", root.display());
        }
        Ok(Self { root })
    }

    /// A cache at `root`.
    #[cfg(test)]
    pub fn at(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A file among the binaries.
    pub fn bin(&self, name: &str) -> PathBuf {
        self.root.join("bin").join(name)
    }

    /// The state of the cluster `name`.
    pub fn cluster(&self, name: &str) -> State {
        State {
            dir: self.root.join("cluster").join(name),
        }
    }
}

/// The first of the three places that the environment names.
fn cache_root(var: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| {
        var(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("PADDLE_OPERATOR_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("paddle-operator")))
        .or_else(|| Some(set("HOME")?.join(".cache/paddle-operator")))
}

/// Checks a cluster's name: it becomes a directory.
pub fn cluster_name(name: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || !name.chars().all(good) {
        return Err(format!(
            "cluster name {name:?}: use lower-case letters, digits and '-'"
        ));
    }
    Ok(name.to_owned())
}

/// The directory of one cluster. `down` removes all of it.
#[derive(Debug)]
pub struct State {
    dir: PathBuf,
}

impl State {
    /// The directory itself.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A file directly in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A certificate or key.
    pub fn pki(&self, name: &str) -> PathBuf {
        self.dir.join("pki").join(name)
    }

    /// The kubeconfig of `user`.
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.dir.join(format!("{user}.kubeconfig"))
    }

    /// What kube-apiserver writes about every request.
    pub fn audit_log(&self) -> PathBuf {
        self.dir.join("audit.log")
    }

    /// The configuration of Volcano's scheduler. In a directory of its own: the scheduler reads
    /// it again whenever any file beside it changes, such as the audit log.
    pub fn volcano_scheduler(&self) -> PathBuf {
        self.dir.join("volcano").join("scheduler.yaml")
    }

    /// The output of a component.
    pub fn log(&self, component: &str) -> PathBuf {
        self.dir.join("log").join(format!("{component}.log"))
    }

    /// The process id of a component.
    pub fn pid(&self, component: &str) -> PathBuf {
        self.dir.join("run").join(format!("{component}.pid"))
    }

    /// Held by whoever changes the cluster. Beside the directory, because `down`
    /// removes that.
    pub fn lock(&self) -> PathBuf {
        self.dir.with_extension("lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_the_environment_says() {
        let root = |vars: &[(&str, &str)]| {
            cache_root(|name| {
                vars.iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| OsString::from(value))
            })
        };
        let all = [
            ("PADDLE_OPERATOR_CACHE", "/a"),
            ("XDG_CACHE_HOME", "/b"),
            ("HOME", "/c"),
        ];
        assert_eq!(root(&all), Some("/a".into()));
        assert_eq!(root(&all[1..]), Some("/b/paddle-operator".into()));
        assert_eq!(root(&all[2..]), Some("/c/.cache/paddle-operator".into()));
        assert_eq!(
            root(&[("XDG_CACHE_HOME", ""), ("HOME", "/c")]),
            root(&all[2..])
        );
        assert_eq!(root(&[]), None);
    }

    #[test]
    fn a_cluster_name_cannot_leave_its_directory() {
        assert!(cluster_name("bench-2").is_ok());
        for bad in ["", "..", "a/b", "a.lock", "A"] {
            assert!(cluster_name(bad).is_err(), "{bad:?}");
        }
    }
}
