//! A machine for each test, and the program on it.

use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_paddle-operator");
/// For anything, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// A state directory, and files beside it.
pub struct World {
    pub dir: TempDir,
    /// So many programs were started.
    started: Cell<usize>,
}

impl World {
    /// None for an ordinary user, who may not be allowed to make the namespaces.
    pub fn new() -> Option<World> {
        if fs::metadata("/proc/self").unwrap().uid() != 0 {
            eprintln!("NOT TESTED: only root can run pods everywhere");
            return None;
        }
        Some(World {
            dir: tempfile::tempdir().unwrap(),
            started: Cell::new(0),
        })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file with this in it.
    pub fn yaml(&self, name: &str, yaml: &str) -> PathBuf {
        let file = self.path(&format!("{name}.yaml"));
        fs::write(&file, yaml).unwrap();
        file
    }

    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// A file with a job whose workers run a script.
    pub fn job(&self, name: &str, workers: usize, more: &str, script: &str) -> PathBuf {
        // The path, so that its processes can be found.
        let script = format!(": {}\n{script}", self.state().display());
        let script = script.replace('\n', "\n            ");
        let yaml = format!(
            "apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata:
  name: {name}
spec:
  {more}
  worker:
    replicas: {workers}
    template:
      spec:
        volumes:
        - name: outside
          hostPath:
            path: {}
        containers:
        - name: paddle
          image: whatever
          volumeMounts:
          - name: outside
            mountPath: /outside
          command:
          - sh
          - -c
          - |
            {script}
",
            self.dir.path().display()
        );
        self.yaml(name, &yaml)
    }

    pub fn start(&self, command: &str, args: &[&str]) -> Running {
        let number = self.started.replace(self.started.get() + 1);
        let output = |stream: &str| self.path(&format!("{number}.{stream}"));
        let (out, err) = (output("out"), output("err"));
        let child = Command::new(PROGRAM)
            .arg(command)
            .arg("--dir")
            .arg(self.state())
            .args(args)
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&err).unwrap())
            .spawn()
            .unwrap();
        Running { child, out, err }
    }

    pub fn run(&self, file: &Path) -> Running {
        self.start("run", &["-f", file.to_str().unwrap()])
    }

    /// What is left of pods on this machine.
    pub fn remains(&self) -> Vec<String> {
        let state = self.state().display().to_string();
        let mut remains = Vec::new();
        for entry in fs::read_dir("/proc").unwrap() {
            let line = fs::read(entry.unwrap().path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            if line.contains(&state) {
                remains.push(line);
            }
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        remains.extend(
            mounts
                .lines()
                .filter(|m| m.contains(&state))
                .map(str::to_owned),
        );
        let network = fs::read_to_string(self.state().join("network.json")).unwrap();
        let network: serde_json::Value = serde_json::from_str(&network).unwrap();
        let bridge = network["bridge"].as_str().unwrap();
        let links = fs::read_dir("/sys/class/net").unwrap();
        let links = links.map(|link| link.unwrap().file_name().into_string().unwrap());
        remains.extend(links.filter(|link| link.starts_with(bridge)));
        remains
    }
}

/// The program while it runs.
pub struct Running {
    pub child: Child,
    pub out: PathBuf,
    pub err: PathBuf,
}

impl Running {
    pub fn out(&self) -> String {
        fs::read_to_string(&self.out).unwrap()
    }

    pub fn err(&self) -> String {
        fs::read_to_string(&self.err).unwrap()
    }

    #[track_caller]
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Running) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            if begin.elapsed() > PATIENCE {
                panic!("not {what}:\n{}\n{}", self.out(), self.err());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for its end.
    #[track_caller]
    pub fn code(&mut self) -> i32 {
        let mut code = None;
        self.until("ended", |running| {
            let status = running.child.try_wait().unwrap();
            code = status.map(|status| status.code().unwrap_or(-1));
            code.is_some()
        });
        code.unwrap()
    }

    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(sent.unwrap().success());
    }

    /// The lines of one who speaks.
    pub fn said(&self, speaker: &str) -> Vec<String> {
        let out = self.out();
        let lines = out.lines().filter_map(|line| line.split_once(" | "));
        let own = lines.filter(|(who, _)| *who == speaker);
        own.map(|(_, line)| line.to_owned()).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            self.signal("TERM");
            let _ = self.child.wait();
        }
    }
}
