#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use serde_json::json;

use super::*;

const NOW: i64 = 1_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

/// A pod with an init container `init` and containers `a` and `b`.
fn pod(policy: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "pod"},
        "spec": {
            "restartPolicy": policy,
            "initContainers": [{"name": "init"}],
            "containers": [{"name": "a"}, {"name": "b"}],
        },
        "status": {"startTime": "1970-01-12T13:46:00Z"},
    }))
    .unwrap()
}

fn ended(code: i32) -> State {
    State::Ended(End {
        code,
        signal: None,
        reason: String::new(),
        message: None,
        started: Some(at(NOW - 5)),
        at: at(NOW),
    })
}

fn running() -> State {
    State::Running(at(NOW - 5))
}

/// What was seen of a pod with a sandbox.
fn seen(states: [State; 3]) -> Seen {
    let names = ["init", "a", "b"].map(str::to_owned);
    let containers = names.into_iter().zip(states).map(|(name, state)| {
        let seen = ContainerSeen {
            state,
            ..ContainerSeen::default()
        };
        (name, seen)
    });
    Seen {
        has_sandbox: true,
        containers: containers.collect(),
        ..Seen::default()
    }
}

fn step(policy: &str, states: [State; 3]) -> Step {
    next(&pod(policy), &seen(states), at(NOW))
}

fn start(name: &str) -> Step {
    Step::Start(name.to_owned())
}

#[test]
fn first_the_sandbox_then_init_containers_then_the_others() {
    use State::Absent;
    assert_eq!(
        next(&pod("Never"), &Seen::default(), at(NOW)),
        Step::Prepare
    );
    assert_eq!(step("Never", [Absent, Absent, Absent]), start("init"));
    assert_eq!(step("Never", [running(), Absent, Absent]), Step::Wait(None));
    assert_eq!(step("Never", [ended(0), Absent, Absent]), start("a"));
    assert_eq!(step("Never", [ended(0), running(), Absent]), start("b"));
    assert_eq!(
        step("Never", [ended(0), running(), running()]),
        Step::Wait(None)
    );
}

#[test]
fn the_policy_says_who_is_started_again() {
    for (policy, code, want) in [
        ("Never", 0, Step::Wait(None)),
        ("Never", 1, Step::Wait(None)),
        ("OnFailure", 0, Step::Wait(None)),
        ("OnFailure", 1, start("a")),
        ("Always", 0, start("a")),
        ("Always", 1, start("a")),
    ] {
        let states = [ended(0), ended(code), running()];
        assert_eq!(step(policy, states), want, "{policy} {code}");
    }
}

#[test]
fn a_failed_init_container_fails_the_pod_or_is_tried_again() {
    use State::Absent;
    let states = || [ended(1), Absent, Absent];
    assert_eq!(step("Never", states()), Step::Finish);
    assert_eq!(step("OnFailure", states()), start("init"));
    assert_eq!(step("Always", states()), start("init"));
}

#[test]
fn pauses_grow_and_end() {
    let State::Ended(end) = ended(1) else { return };
    let pauses = [0, 1, 2, 3, 5, 6, 60].map(|restarts| pause(&end, restarts).as_secs());
    assert_eq!(pauses, [0, 10, 20, 40, 160, 300, 300]);
    let long = End {
        started: Some(at(NOW - 600)),
        ..end
    };
    assert_eq!(pause(&long, 5).as_secs(), 0, "it ran for long");
}

#[test]
fn a_pause_is_waited_for() {
    let mut seen = seen([ended(0), ended(1), running()]);
    seen.containers.get_mut("a").unwrap().restarts = 1;
    let later = at(NOW + 10);
    assert_eq!(
        next(&pod("Always"), &seen, at(NOW)),
        Step::Wait(Some(later))
    );
    assert_eq!(next(&pod("Always"), &seen, later), start("a"));
}

#[test]
fn what_is_in_trouble_waits() {
    let mut seen = seen([ended(0), State::Absent, State::Absent]);
    seen.containers.get_mut("a").unwrap().trouble = Some(Trouble::new("ErrImagePull", ""));
    assert_eq!(next(&pod("Never"), &seen, at(NOW)), start("b"));
}

#[test]
fn phases() {
    use Phase::{Failed, Pending, Running, Succeeded};
    use State::Absent;
    for (policy, states, want) in [
        ("Never", [Absent, Absent, Absent], Pending),
        ("Never", [ended(0), running(), Absent], Pending),
        ("Never", [ended(0), running(), running()], Running),
        ("Never", [ended(0), ended(1), running()], Running),
        ("Never", [ended(0), ended(0), ended(0)], Succeeded),
        ("Never", [ended(0), ended(1), ended(0)], Failed),
        ("OnFailure", [ended(0), ended(1), ended(0)], Running),
        ("Always", [ended(0), ended(0), ended(0)], Running),
        ("Never", [ended(1), Absent, Absent], Failed),
        ("Always", [ended(1), Absent, Absent], Pending),
    ] {
        let (pod, seen) = (pod(policy), seen(states.clone()));
        let phase = phase(&pod, pod.spec.as_ref().unwrap(), &seen);
        assert_eq!(phase, want, "{policy} {states:?}");
    }
}

#[test]
fn what_was_final_stays_so() {
    let mut pod = pod("Always");
    pod.status.as_mut().unwrap().phase = Some("Failed".to_owned());
    let seen = seen([ended(0), ended(1), ended(1)]);
    assert_eq!(
        next(&pod, &seen, at(NOW)),
        Step::Finish,
        "nothing is started again"
    );
}

#[test]
fn a_deleted_pod_ends_and_goes() {
    let mut pod = pod("Always");
    let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(NOW + 7));
    pod.metadata.deletion_timestamp = Some(time);
    let stop = Step::Stop {
        until: at(NOW + 7),
        doom: None,
    };
    assert_eq!(
        next(&pod, &seen([ended(0), running(), ended(0)]), at(NOW)),
        stop
    );
    assert_eq!(
        next(&pod, &seen([ended(0), ended(0), ended(0)]), at(NOW)),
        Step::Remove
    );
    assert_eq!(
        next(&pod, &Seen::default(), at(NOW)),
        Step::Remove,
        "never begun"
    );
}

#[test]
fn a_deadline_is_waited_for_and_kept() {
    let mut pod = pod("Never");
    pod.spec.as_mut().unwrap().active_deadline_seconds = Some(60);
    // The pod began 40 s before now.
    let seen = seen([ended(0), running(), running()]);
    assert_eq!(next(&pod, &seen, at(NOW)), Step::Wait(Some(at(NOW + 20))));
    let step = next(&pod, &seen, at(NOW + 20));
    let Step::Stop {
        doom: Some(doom), ..
    } = step
    else {
        panic!("{step:?}");
    };
    assert_eq!(doom.reason, "DeadlineExceeded");
}

#[test]
fn without_a_sandbox_all_start_anew() {
    let mut seen = seen([ended(0), running(), running()]);
    seen.has_sandbox = false;
    let stop = Step::Stop {
        until: at(NOW),
        doom: None,
    };
    assert_eq!(next(&pod("Always"), &seen, at(NOW)), stop);
}

#[test]
fn a_node_that_stops_ends_its_pods() {
    let mut seen = seen([ended(0), running(), running()]);
    seen.is_node_stopping = true;
    let step = next(&pod("Always"), &seen, at(NOW));
    assert!(matches!(&step, Step::Stop { doom: Some(doom), .. } if doom.reason == "Terminated"));
}

#[test]
fn an_init_container_may_run_along() {
    let mut pod = pod("Never");
    let init = &mut pod.spec.as_mut().unwrap().init_containers.as_mut().unwrap()[0];
    init.restart_policy = Some("Always".to_owned());
    let mut seen = seen([running(), State::Absent, State::Absent]);
    assert_eq!(
        next(&pod, &seen, at(NOW)),
        Step::Wait(None),
        "it has not started"
    );
    seen.containers.get_mut("init").unwrap().has_started = true;
    assert_eq!(next(&pod, &seen, at(NOW)), start("a"));
    for name in ["a", "b"] {
        seen.containers.get_mut(name).unwrap().state = ended(0);
    }
    assert!(
        matches!(next(&pod, &seen, at(NOW)), Step::Stop { .. }),
        "the others are done"
    );
}
