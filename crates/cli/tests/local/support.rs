//! A machine of its own for each test, and that nothing is left of it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures::AsyncReadExt;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::{Api, AttachParams, LogParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// `paddle-operator local` in a directory of its own.
pub struct Local {
    pub dir: PathBuf,
    process: Option<Child>,
    arguments: Vec<String>,
    user: Option<u32>,
    _parent: TempDir,
}

impl Local {
    /// Starts it.
    pub fn start(arguments: &[&str]) -> Local {
        Local::start_as(None, arguments)
    }

    /// Starts it for an ordinary user.
    pub fn start_as(user: Option<u32>, arguments: &[&str]) -> Local {
        let parent = tempfile::tempdir().unwrap();
        if let Some(user) = user {
            std::os::unix::fs::chown(parent.path(), Some(user), Some(user)).unwrap();
        }
        let mut local = Local {
            dir: parent.path().join("state"),
            process: None,
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
            user,
            _parent: parent,
        };
        local.run();
        local
    }

    /// Starts it again.
    pub fn run(&mut self) {
        let binary = env!("CARGO_BIN_EXE_paddle-operator");
        let mut command = match self.user {
            None => Command::new(binary),
            Some(user) => {
                // Others may not enter the directory that the repository is in.
                let home = self.dir.parent().unwrap();
                let own = home.join("paddle-operator");
                if !own.exists() {
                    fs::copy(binary, &own).unwrap();
                }
                let mut command = Command::new("setpriv");
                command
                    .args([&format!("--reuid={user}"), &format!("--regid={user}")])
                    .arg("--clear-groups")
                    .arg(own)
                    .env("HOME", home)
                    .current_dir(home);
                command
            }
        };
        command
            .arg("local")
            .arg("--dir")
            .arg(&self.dir)
            .args(&self.arguments);
        let log = File::options().create(true).append(true).open(self.log());
        let mut process = command
            .stdout(Stdio::piped())
            .stderr(log.unwrap())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(
            line.contains("https://127.0.0.1:"),
            "it says where it is: {line:?}"
        );
        // What it says later must go somewhere.
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        self.process = Some(process);
    }

    /// What it has said of its work, over all its lives.
    pub fn log(&self) -> PathBuf {
        self.dir.with_file_name("log")
    }

    /// Ends it without a word.
    pub fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Ends it as Ctrl-C does.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            signal(process.id(), "INT");
            let status = process.wait().unwrap();
            assert!(status.success(), "{status}");
        }
    }

    pub async fn client(&self) -> Client {
        let file = Kubeconfig::read_from(self.dir.join("kubeconfig")).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(file, &options)
            .await
            .unwrap();
        Client::try_from(config).unwrap()
    }

    pub async fn pods(&self) -> Pods {
        Pods(Api::default_namespaced(self.client().await))
    }

    /// Where all of the only pod is.
    pub fn pod_folder(&self) -> PathBuf {
        let mut folders = fs::read_dir(self.dir.join("pods")).unwrap();
        folders.next().unwrap().unwrap().path()
    }

    /// The files that it has written and that anybody could read, but for its database.
    pub fn files(&self) -> Vec<(PathBuf, String)> {
        let (mut files, mut folders) = (vec![self.log()], vec![self.dir.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let (path, kind) = (entry.path(), entry.file_type().unwrap());
                let is = |names: [&str; 2]| names.iter().any(|name| path.ends_with(name));
                // What is mounted has a file that never ends.
                if kind.is_dir() && !is(["mount", "shared"]) {
                    folders.push(path);
                } else if kind.is_file() && !is(["state.redb", "program"]) {
                    files.push(path);
                }
            }
        }
        let read = |path: PathBuf| {
            let text = fs::read(&path).unwrap_or_default();
            (path, String::from_utf8_lossy(&text).into_owned())
        };
        files.into_iter().map(read).collect()
    }

    /// The processes that have to do with it.
    fn processes(&self) -> Vec<u32> {
        let dir = self.dir.to_str().unwrap();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let ours = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(dir)
        };
        pids.filter(ours).collect()
    }

    /// What of it is still there, outside of its directory.
    pub fn leftovers(&self) -> Vec<String> {
        let mut found = Vec::new();
        let dir = self.dir.to_str().unwrap();
        found.extend(self.processes().iter().map(|pid| format!("process {pid}")));
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        found.extend(
            mounts
                .lines()
                .filter(|line| line.contains(dir))
                .map(str::to_owned),
        );
        let network = fs::read_to_string(self.dir.join("network.json")).unwrap_or_default();
        let network: Value = serde_json::from_str(&network).unwrap_or_default();
        if let Some(bridge) = network["bridge"].as_str() {
            let links = fs::read_dir("/sys/class/net").unwrap().flatten();
            let links = links.map(|link| link.file_name().into_string().unwrap());
            found.extend(links.filter(|link| link.starts_with(bridge)));
        }
        found
    }
}

impl Drop for Local {
    #[expect(
        clippy::print_stderr,
        reason = "what a test that failed needs to be understood"
    )]
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            signal(process.id(), "INT");
            let _ = process.wait();
        }
        let left = self.leftovers();
        if !std::thread::panicking() {
            assert!(left.is_empty(), "left behind: {left:#?}");
        } else {
            eprintln!("{}", fs::read_to_string(self.log()).unwrap_or_default());
        }
        // A test that failed leaves nothing behind either.
        for pid in self.processes() {
            signal(pid, "KILL");
        }
    }
}

/// Tells a process something, if it is still there.
pub fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status();
}

/// The pods of the default namespace.
pub struct Pods(pub Api<Pod>);

/// A pod with one container that runs a script in a shell.
pub fn script(name: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "any", "command": ["sh", "-c", text]}],
        },
    })
}

impl Pods {
    pub async fn create(&self, pod: Value) {
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.0.create(&PostParams::default(), &pod).await.unwrap();
    }

    /// Waits until a pod is as wanted.
    pub async fn until(&self, name: &str, what: &str, is: impl Fn(&Pod) -> bool) -> Pod {
        let begin = Instant::now();
        loop {
            let pod = self.0.get(name).await.unwrap();
            if is(&pod) {
                return pod;
            }
            if begin.elapsed() > PATIENCE {
                panic!("{name} is not {what}: {:#?}", pod.status);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn phase(&self, name: &str, phase: &str) -> Pod {
        self.until(name, phase, |pod| phase_of(pod) == phase).await
    }

    /// Runs a pod to its end; its phase and what it said.
    pub async fn run(&self, pod: Value) -> (String, String) {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        self.create(pod).await;
        let done = |pod: &Pod| ["Succeeded", "Failed"].contains(&phase_of(pod));
        let pod = self.until(&name, "finished", done).await;
        (phase_of(&pod).to_owned(), self.log(&name).await)
    }

    /// What a script says that must end well.
    pub async fn say(&self, name: &str, text: &str) -> String {
        let (phase, log) = self.run(script(name, text)).await;
        assert_eq!(phase, "Succeeded", "{log}");
        log
    }

    pub async fn log(&self, name: &str) -> String {
        self.0.logs(name, &LogParams::default()).await.unwrap()
    }

    /// Runs a command in a pod: its output and whether it ended well.
    pub async fn exec(&self, name: &str, command: &[&str]) -> (String, bool) {
        let mut process = self
            .0
            .exec(
                name,
                command.to_vec(),
                &AttachParams::default().stderr(false),
            )
            .await
            .unwrap();
        let mut said = String::new();
        process
            .stdout()
            .unwrap()
            .read_to_string(&mut said)
            .await
            .unwrap();
        let status = process.take_status().unwrap().await.unwrap();
        (said, status.status.as_deref() == Some("Success"))
    }

    pub async fn delete(&self, name: &str) {
        self.0.delete(name, &Default::default()).await.unwrap();
        let begin = Instant::now();
        while self.0.get_opt(name).await.unwrap().is_some() {
            assert!(begin.elapsed() < PATIENCE, "{name} is still there");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Follows a log to its end.
    pub async fn follow(&self, name: &str) -> String {
        let wanted = LogParams {
            follow: true,
            ..LogParams::default()
        };
        let mut text = String::new();
        let mut stream = self.0.log_stream(name, &wanted).await.unwrap();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }
}

pub fn phase_of(pod: &Pod) -> &str {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    phase.unwrap_or_default()
}

pub fn container(pod: &Pod) -> &ContainerStatus {
    &pod.status
        .as_ref()
        .unwrap()
        .container_statuses
        .as_ref()
        .unwrap()[0]
}

/// The root of the repository.
pub fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
