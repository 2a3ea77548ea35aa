//! `paddle-operator run`, the real program, with small jobs on this machine's own root.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test may fail, and says what it did not try"
)]

use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_paddle-operator");
/// For anything, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// A state directory, and files beside it.
struct World {
    dir: TempDir,
    /// So many programs were started.
    started: Cell<usize>,
}

impl World {
    /// None for an ordinary user, who may not be allowed to make the namespaces.
    fn new() -> Option<World> {
        if fs::metadata("/proc/self").unwrap().uid() != 0 {
            eprintln!("NOT TESTED: only root can run pods everywhere");
            return None;
        }
        Some(World {
            dir: tempfile::tempdir().unwrap(),
            started: Cell::new(0),
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// A file with a job whose workers run a script.
    fn job(&self, name: &str, workers: usize, more: &str, script: &str) -> PathBuf {
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
        let file = self.path(&format!("{name}.yaml"));
        fs::write(&file, yaml).unwrap();
        file
    }

    fn start(&self, command: &str, args: &[&str]) -> Running {
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

    fn run(&self, file: &Path) -> Running {
        self.start("run", &["-f", file.to_str().unwrap()])
    }

    /// What is left of pods on this machine.
    fn remains(&self) -> Vec<String> {
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
struct Running {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    fn out(&self) -> String {
        fs::read_to_string(&self.out).unwrap()
    }

    fn err(&self) -> String {
        fs::read_to_string(&self.err).unwrap()
    }

    #[track_caller]
    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Running) -> bool) {
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
    fn code(&mut self) -> i32 {
        let mut code = None;
        self.until("ended", |running| {
            let status = running.child.try_wait().unwrap();
            code = status.map(|status| status.code().unwrap_or(-1));
            code.is_some()
        });
        code.unwrap()
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(sent.unwrap().success());
    }

    /// The lines of one who speaks.
    fn said(&self, speaker: &str) -> Vec<String> {
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

#[test]
fn a_job_completes_and_no_line_is_lost_or_doubled() {
    let Some(world) = World::new() else { return };
    // The pods are deleted as soon as they have succeeded.
    let file = world.job(
        "lines",
        2,
        "cleanPodPolicy: Always",
        "seq 2000; printf 'no end'",
    );
    let mut want: Vec<String> = (1..=2000).map(|n| n.to_string()).collect();
    want.push("no end".to_owned());
    // One that has ended is run once more.
    for verb in ["created", "started again"] {
        let mut run = world.run(&file);
        assert_eq!(run.code(), 0, "{}", run.err());
        for worker in ["worker-0", "worker-1"] {
            assert_eq!(run.said(worker), want);
            let log = world
                .state()
                .join(format!("logs/default/lines/{worker}.log"));
            let log = fs::read_to_string(log).unwrap();
            assert_eq!(log.lines().collect::<Vec<_>>(), want);
        }
        assert_eq!(run.out().lines().count(), 2 * want.len());
        let said = run.err();
        for words in [
            format!("paddlejob/lines {verb}\n"),
            "paddlejob default/lines: Completed in ".to_owned(),
            "(worker 2 succeeded)\n".to_owned(),
            "logs/default/lines\n".to_owned(),
        ] {
            assert!(said.contains(&words), "{words} is not in:\n{said}");
        }
        assert!(!said.contains(|c: char| c.is_control() && c != '\n'));
        assert_eq!(world.remains(), [""; 0]);
    }
}

/// A file with a SampleSet of a folder beside the state directory.
fn set(world: &World, name: &str, folder: &str) -> PathBuf {
    let yaml = format!(
        "apiVersion: batch.paddlepaddle.org/v1alpha1
kind: SampleSet
metadata:
  name: {name}
spec:
  partitions: 1
  source:
    uri: file://{}/
  csi:
    driver: juicefs
    juiceFSMountOptions: {{free-space-ratio: \"0.01\"}}
",
        world.path(folder).display()
    );
    let file = world.path(&format!("{name}.yaml"));
    fs::write(&file, yaml).unwrap();
    file
}

#[test]
fn a_job_reads_a_set_from_its_cache() {
    let Some(world) = World::new() else { return };
    fs::create_dir(world.path("photos")).unwrap();
    for n in 0..100 {
        fs::write(
            world.path(&format!("photos/{n:02}.jpg")),
            format!("photo {n}"),
        )
        .unwrap();
    }
    let data = set(&world, "photos", "photos");
    let with_data = "sampleSetRef: {name: photos, mountPath: /photos}";
    let job = world.job(
        "looks",
        1,
        with_data,
        "cat /photos/* | wc -c; ls /photos | wc -l",
    );
    let files = [&data, &job].map(|file| file.to_str().unwrap());
    // The second time it is there already.
    for verb in ["created", "unchanged"] {
        let mut run = world.start("run", &["-f", files[0], "-f", files[1]]);
        assert_eq!(run.code(), 0, "{}", run.err());
        assert_eq!(run.said("worker-0"), ["790", "100"]);
        let said = run.err();
        for words in [
            &format!("sampleset/photos {verb}\n"),
            "photos: Ready: 100 files, 100% cached\n",
            "sampleset default/photos: Ready after ",
            "sampleset default/photos: 100% of what the workers read came from the cache: \
             100 of 100 blocks, ",
        ] {
            assert!(said.contains(words), "{words} is not in:\n{said}");
        }
        assert_eq!(world.remains(), [""; 0]);
    }
    // Its data can be emptied, as often as wanted.
    let clear = world.path("clear.yaml");
    let yaml = "apiVersion: batch.paddlepaddle.org/v1alpha1
kind: SampleJob
metadata: {name: clear}
spec: {type: clear, sampleSetRef: {name: photos}}
";
    fs::write(&clear, yaml).unwrap();
    for verb in ["created", "started again"] {
        let mut run = world.run(&clear);
        assert_eq!(run.code(), 0, "{}", run.err());
        let said = run.err();
        assert!(
            said.contains(&format!("samplejob/clear {verb}\n")),
            "{said}"
        );
        assert!(
            said.contains("samplejob default/clear: Succeeded after "),
            "{said}"
        );
    }
}

#[test]
fn a_set_that_fails_says_why_and_its_job_does_not_start() {
    let Some(world) = World::new() else { return };
    let data = set(&world, "photos", "photos");
    // Refused at once; an empty folder would be tried three times.
    let yaml = fs::read_to_string(&data).unwrap();
    fs::write(&data, yaml.replace("0.01", "1.01")).unwrap();
    let with_data = "sampleSetRef: {name: photos, mountPath: /photos}";
    let job = world.job("looks", 1, with_data, "echo never");
    let files = [&data, &job].map(|file| file.to_str().unwrap());
    let mut run = world.start("run", &["-f", files[0], "-f", files[1]]);
    assert_eq!(run.code(), 1, "{}", run.err());
    assert_eq!(run.out(), "");
    let said = run.err();
    for words in [
        "sampleset default/photos: refused after ",
        "free-space-ratio is \"1.01\"",
        "paddlejob default/looks: was not started, for its SampleSet failed\n",
    ] {
        assert!(said.contains(words), "{words} is not in:\n{said}");
    }
}

#[test]
fn a_job_that_fails_says_why() {
    let Some(world) = World::new() else { return };
    let file = world.job(
        "fails",
        2,
        "",
        "trap 'echo told to stop; exit' TERM
if [ $PADDLE_TRAINER_ID = 1 ]; then echo there is no data >&2; exit 3; fi
while true; do sleep 0.1; done",
    );
    let mut run = world.run(&file);
    assert_eq!(run.code(), 1);
    assert_eq!(run.said("worker-0"), ["told to stop"]);
    assert_eq!(run.said("worker-1"), ["there is no data"]);
    let said = run.err();
    assert!(
        said.contains("pod fails-worker-1 failed: container paddle exited with code 3"),
        "{said}"
    );
    assert!(said.contains("there is no data"), "{said}");
    assert_eq!(world.remains(), [""; 0]);
}

#[test]
fn a_job_that_starts_again_is_heard_both_times() {
    let Some(world) = World::new() else { return };
    let file = world.job(
        "again",
        1,
        "backoffLimit: 1",
        "if mkdir /outside/once 2>/dev/null; then echo first; exit 1; fi; echo second",
    );
    let mut run = world.run(&file);
    assert_eq!(run.code(), 0, "{}", run.err());
    assert_eq!(run.said("worker-0"), ["first", "second"]);
    assert!(run.err().contains("again: Restarting"), "{}", run.err());
}

#[test]
fn an_init_container_is_heard_when_it_fails() {
    let Some(world) = World::new() else { return };
    let file = world.job("init", 1, "", "echo never");
    let yaml = fs::read_to_string(&file).unwrap();
    let init = "        initContainers:
        - {name: good, image: any, command: [sh, -c, echo quiet]}
        - {name: bad, image: any, command: [sh, -c, echo no permission; exit 9]}
        containers:\n";
    fs::write(&file, yaml.replace("        containers:\n", init)).unwrap();
    let mut run = world.run(&file);
    assert_eq!(run.code(), 1);
    assert_eq!(run.out(), "worker-0/bad | no permission\n");
}

#[test]
fn a_mistake_is_named_and_nothing_runs() {
    let Some(world) = World::new() else { return };
    let good = world.job(
        "good",
        1,
        "",
        "trap exit TERM; while true; do sleep 0.1; done",
    );
    let bad = world.job("bad", 0, "", "true");
    let unknown = world.job("unknown", 1, "backoffLimits: 1", "true");
    let [good, bad, unknown] = [&good, &bad, &unknown].map(|file| file.to_str().unwrap());
    let cases = [
        (
            vec!["-f", good, "-f", bad],
            format!("error: {bad}: PaddleJob.batch.paddlepaddle.org \"bad\" is invalid: "),
            "spec.worker.replicas: ",
        ),
        (
            vec!["-f", unknown],
            format!("error: {unknown}: PaddleJob unknown: "),
            "\"spec.backoffLimits\"",
        ),
        (
            vec!["-f", good, "-n", "nowhere"],
            format!("error: {good}: "),
            "namespaces \"nowhere\" not found",
        ),
    ];
    for (args, place, field) in cases {
        let mut run = world.start("run", &args);
        assert_eq!(run.code(), 1);
        let said = run.err();
        let error = said
            .lines()
            .find(|line| line.starts_with("error: "))
            .unwrap();
        assert!(error.starts_with(&place), "{error}");
        assert!(error.contains(field), "{error}");
        assert_eq!(world.remains(), [""; 0]);
    }
}

fn interrupted(signal: &str, code: i32) {
    let Some(world) = World::new() else { return };
    let file = world.job(
        "endless",
        2,
        "",
        "trap 'echo bye; exit' TERM; echo ready; while true; do sleep 0.1; done",
    );
    let mut run = world.run(&file);
    let workers = ["worker-0", "worker-1"];
    run.until("ready", |run| {
        workers.iter().all(|w| run.said(w) == ["ready"])
    });
    assert_ne!(world.remains(), [""; 0]);
    run.signal(signal);
    assert_eq!(run.code(), code);
    for worker in workers {
        assert_eq!(run.said(worker), ["ready", "bye"]);
    }
    assert!(run.err().contains("stopping paddlejob default/endless"));
    assert_eq!(world.remains(), [""; 0]);
    assert_eq!(fs::read_dir(world.state().join("pods")).unwrap().count(), 0);
}

#[test]
fn ctrl_c_stops_the_job_and_leaves_nothing_behind() {
    interrupted("INT", 130);
}

#[test]
fn so_does_sigterm() {
    interrupted("TERM", 143);
}

#[test]
fn finds_a_local_mode_that_runs() {
    let Some(world) = World::new() else { return };
    let map = world.path("map.yaml");
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {b: c}\n";
    fs::write(&map, text).unwrap();
    // Nobody would keep it.
    let mut run = world.run(&map);
    assert_eq!(run.code(), 1);
    assert!(
        run.err().contains("`paddle-operator local`"),
        "{}",
        run.err()
    );

    let mut local = world.start("local", &[]);
    local.until("started", |local| local.out().contains("KUBECONFIG"));
    for verb in ["created", "unchanged"] {
        let mut run = world.run(&map);
        assert_eq!(run.code(), 0, "{}", run.err());
        let said = run.err();
        assert!(said.contains(&format!("configmap/a {verb}\n")), "{said}");
        assert!(said.contains("no PaddleJob"), "{said}");
    }
    let mut run = world.run(&world.job("job", 2, "", "seq 100"));
    assert_eq!(run.code(), 0, "{}", run.err());
    let want: Vec<String> = (1..=100).map(|n| n.to_string()).collect();
    for worker in ["worker-0", "worker-1"] {
        assert_eq!(run.said(worker), want);
    }
    assert!(local.child.try_wait().unwrap().is_none(), "it goes on");
    local.signal("INT");
    assert_eq!(local.code(), 0);
    assert_eq!(world.remains(), [""; 0]);
}

#[test]
fn who_started_it_waits_for_those_who_found_it() {
    let Some(world) = World::new() else { return };
    let until = |file: &str| {
        format!("trap exit TERM; echo ready; until [ -e /outside/{file} ]; do sleep 0.1; done")
    };
    let start = |name: &str| {
        let mut run = world.run(&world.job(name, 1, "", &until(name)));
        run.until("ready", |run| run.said("worker-0") == ["ready"]);
        run
    };
    let mut owner = start("owner");
    let mut guest = start("guest");
    assert!(guest.err().contains("found the Kubernetes"));
    fs::write(world.path("owner"), "").unwrap();
    owner.until("waiting", |owner| {
        owner
            .err()
            .contains("another paddle-operator run uses this")
    });
    assert!(guest.child.try_wait().unwrap().is_none(), "it goes on");
    fs::write(world.path("guest"), "").unwrap();
    assert_eq!(guest.code(), 0, "{}", guest.err());
    assert_eq!(owner.code(), 0, "{}", owner.err());
    assert_eq!(world.remains(), [""; 0]);
}

#[test]
fn the_init_container_ends_when_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (out, err) = (dir.path().join("out"), dir.path().join("err"));
    // A port on which nobody listens.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap().to_string();
    drop(listener);
    let child = Command::new(PROGRAM)
        .args(["wait", "--servers", "--server-endpoints", &server])
        .stdout(File::create(&out).unwrap())
        .stderr(File::create(&err).unwrap())
        .spawn()
        .unwrap();
    let mut wait = Running { child, out, err };
    // Bit 14 of what it takes: SIGTERM.
    let status = format!("/proc/{}/status", wait.child.id());
    wait.until("listening to signals", |_| {
        let status = fs::read_to_string(&status).unwrap();
        let taken = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        u64::from_str_radix(taken.unwrap().trim(), 16).unwrap() & 1 << 14 != 0
    });
    wait.signal("TERM");
    assert_eq!(wait.code(), 128 + 15);
}
