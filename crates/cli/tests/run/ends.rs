//! How it ends, and who ends with it.

use std::fs::{self, File};
use std::process::Command;

use crate::support::{PROGRAM, Running, World};

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
