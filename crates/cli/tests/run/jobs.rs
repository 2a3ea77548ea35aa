//! What is seen and heard of jobs.

use std::fs;

use crate::support::World;

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

/// What the API takes and the controller does not: waiting would not help.
#[test]
fn a_job_that_can_not_start_ends_at_once() {
    let Some(world) = World::new() else { return };
    let job = world.job("odd", 1, "withGloo: 3\n  intranet: host", "true");
    let mut run = world.run(&job);
    assert_eq!(run.code(), 1);
    let said = run.err();
    for words in [
        "warning: paddlejob/odd: spec.intranet is \"host\", which acts as PodIP",
        "paddlejob default/odd: refused after ",
        ": spec.withGloo is 3; it must be 0 (off), 1 (workers) or 2 (workers and servers)\n",
        " --namespace default describe paddlejobs odd\n",
    ] {
        assert!(said.contains(words), "{words} is not in:\n{said}");
    }
    assert_eq!(world.remains(), [""; 0]);
}
