//! A terminal beside a cluster, with the real kubectl.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::installed::{cache, installed};
use crate::printed::{is_shown, is_watched};
use crate::servers::Ending;
use crate::wait::{until, until_ok};

/// Looks like the repository, and takes files of its own.
pub struct Shell {
    pub dir: TempDir,
    kubeconfig: PathBuf,
    programs: PathBuf,
}

/// `kubectl get -w`.
pub struct Watch {
    command: String,
    out: PathBuf,
    _process: Ending,
}

impl Shell {
    /// In a repository, with a cluster and a directory of programs of its own.
    pub fn new(repository: &Path, kubeconfig: PathBuf, programs: PathBuf) -> Shell {
        let dir = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(repository).unwrap() {
            let entry = entry.unwrap();
            symlink(entry.path(), dir.path().join(entry.file_name())).unwrap();
        }
        Shell {
            dir,
            kubeconfig,
            programs,
        }
    }

    /// A program that is to find what the guides speak of.
    pub fn command(&self, program: &str) -> Command {
        let own = [
            // The kubectl of the test clusters, or else the machine's.
            cache().join("bin"),
            self.programs.clone(),
            installed("redis/bin"),
        ];
        let machine = std::env::var_os("PATH").unwrap_or_default();
        let path = own.into_iter().chain(std::env::split_paths(&machine));
        let mut command = Command::new(program);
        command
            .current_dir(self.dir.path())
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", self.dir.path().join("kubectl-cache"));
        command
    }

    fn start(&self, text: &str, out: impl Into<Stdio>) -> Ending {
        let mut command = self.command("bash");
        let process = command.args(["-c", &format!("exec {text}")]).stdout(out);
        Ending(process.spawn().unwrap())
    }

    /// What a command prints that must end well, when it is told something.
    pub fn tell(&self, text: &str, input: &str) -> String {
        let mut process = self
            .command("timeout")
            .args(["600", "bash", "-o", "pipefail", "-c", text])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = process.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        let output = process.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}: {}: {said}", output.status);
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a command prints that must end well.
    pub fn run(&self, text: &str) -> String {
        self.tell(text, "")
    }

    /// Waits until a command prints what is shown.
    pub async fn shows(&self, text: &str, shown: &str) {
        let what = format!("{text} prints\n{shown}");
        until_ok(&what, async || match self.run(text) {
            printed if is_shown(&printed, shown) => Ok(()),
            printed => Err(format!("but\n{printed}")),
        })
        .await;
    }

    /// Starts a Redis.
    pub fn serve(&self, text: &str) -> Ending {
        let libraries = installed("redis/lib");
        let text = format!("env LD_LIBRARY_PATH={} {text}", libraries.display());
        self.start(&text, Stdio::null())
    }

    pub fn watch(&self, text: &str) -> Watch {
        let out = tempfile::Builder::new().tempfile_in(&self.dir).unwrap();
        let (file, out) = out.keep().unwrap();
        Watch {
            command: text.to_owned(),
            out,
            _process: self.start(text, file),
        }
    }
}

impl Watch {
    /// Waits until it has printed what is shown.
    pub async fn shows(&self, shown: &str) {
        let printed = || fs::read_to_string(&self.out).unwrap();
        let what = format!("{} prints\n{shown}", self.command);
        until(&what, async || is_watched(&printed(), shown)).await;
    }
}
