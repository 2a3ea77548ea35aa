//! Elastic jobs: workers that find each other through etcd.

use api::{Phase, Role};
use plan::paddlejob::{EtcdWrite, Plan, Seen, Settings, Training};
use serde_json::Value;

use crate::support::*;

const ID: &str = "0a1b2c3d-default-a";

fn with_etcd() -> Settings {
    Settings {
        etcd: vec!["etcd.x:2379".to_owned(), "etcd.y:2379".to_owned()],
        ..settings()
    }
}

fn plan_of(job: &Job, seen: &Seen) -> Plan {
    plan::paddlejob::plan(job, seen, &with_etcd(), now())
}

/// Two workers, of one to three.
fn elastic() -> Job {
    job("a").workers(2).spec(|spec| {
        spec.elastic = Some(1);
        let worker = spec.worker.as_mut().unwrap();
        (worker.requests, worker.limits) = (Some(1), Some(3));
    })
}

fn np(count: i32, begins: bool) -> EtcdWrite {
    EtcdWrite::Workers {
        count,
        key: format!("/paddle/{ID}-2021/np"),
        mark: format!("/paddle/{ID}/np"),
        begins,
    }
}

fn removal() -> EtcdWrite {
    EtcdWrite::Remove {
        prefixes: vec![format!("/paddle/{ID}"), format!("/{ID}/")],
    }
}

fn variable(pod: &Value, name: &str) -> Option<String> {
    let env = pod["spec"]["containers"][0]["env"].as_array().unwrap();
    let found = env.iter().find(|variable| variable["name"] == name)?;
    Some(
        found["value"]
            .as_str()
            .unwrap_or("from elsewhere")
            .to_owned(),
    )
}

#[test]
fn both_generations_of_paddle_are_told() {
    let plan = plan_of(&elastic(), &nothing());
    assert_eq!(plan.created(), ["a-worker-0", "a-worker-1"]);
    let pod = plan.pod("a-worker-1");
    for (name, want) in [
        ("PADDLE_MASTER", Some("etcd://Etcd.x:2379")),
        ("PADDLE_NNODES", Some("1:3")),
        ("PADDLE_JOB_ID", Some(ID)),
        ("PADDLE_ELASTIC_LEVEL", Some("1")),
        ("PADDLE_ELASTIC_TIMEOUT", Some("30")),
        ("PADDLE_MAX_RESTART", Some("1000")),
        ("PADDLE_ELASTIC_SERVER", Some("etcd.x:2379")),
        ("PADDLE_ELASTIC_JOB_ID", Some("0a1b2c3d-default-a-2021")),
        ("PADDLE_ELASTIC_NP", Some("2")),
        ("POD_IP", Some("from elsewhere")),
        ("PADDLE_PORT", Some("36000")),
        // With these the launcher would not be elastic, or end with its peers.
        ("PADDLE_TRAINER_ENDPOINTS", None),
        ("PADDLE_TRAINER_ID", None),
        ("PADDLE_RANK", None),
    ] {
        assert_eq!(variable(pod, name).as_deref(), want, "{name}");
    }
    assert_eq!(pod["spec"]["restartPolicy"], "OnFailure");
}

/// Nothing waits for a list: there is none.
#[test]
fn there_is_no_config_map_and_no_wait() {
    let job = elastic().recorded();
    for job in [job.clone(), job.service()] {
        let plan = plan_of(&job, &nothing());
        let pod = plan.pod("a-worker-0");
        assert!(pod["spec"].get("initContainers").is_none());
        assert!(pod["spec"]["containers"][0].get("envFrom").is_none());
        assert_eq!(variable(pod, "PADDLE_OPERATOR_KEY"), None);
        let plan = plan_of(&job, &seen(&job, Pod::addressed));
        assert_eq!((plan.config_map, plan.pods_woken.len()), (None, 0));
    }
}

#[test]
fn etcd_is_told_once_and_again_when_the_number_changes() {
    let job = elastic();
    assert_eq!(plan_of(&job, &nothing()).etcd, Some(np(2, true)));
    let running = job.running();
    let told = Seen {
        told_etcd: Some(np(2, true)),
        ..seen(&running, Pod::ready)
    };
    assert_eq!(plan_of(&running, &told).etcd, None);
    let scaled = running.scaled(Role::Worker, 3);
    assert_eq!(plan_of(&scaled, &told).etcd, Some(np(3, false)));
}

#[test]
fn what_etcd_knows_goes_with_the_job() {
    let ended = elastic().ended(Phase::Completed, now());
    assert_eq!(plan_of(&ended, &nothing()).etcd, Some(removal()));
    let forgotten = Seen {
        told_etcd: Some(removal()),
        ..nothing()
    };
    assert_eq!(plan_of(&ended, &forgotten).etcd, None);
    // Launchers that still run would write them again.
    let stopping = seen(&ended, Pod::ready);
    assert_eq!(plan_of(&ended, &stopping).etcd, None);
    assert_eq!(plan::paddlejob::remove_keys(&elastic()), Some(removal()));
    assert_eq!(plan::paddlejob::remove_keys(&job("a").workers(2)), None);
}

#[test]
fn workers_come_and_go_while_the_others_train() {
    let job = elastic().running();
    let world = seen(&job, Pod::ready);
    let larger = job.clone().scaled(Role::Worker, 3);
    let plan = plan_of(&larger, &world);
    assert_eq!(plan.created(), ["a-worker-2"]);
    assert!(plan.pods_deleted.is_empty());
    assert_eq!(plan.phase(), Phase::Scaling);
    assert_eq!(plan.status.attempt, Some(0));
    let smaller = job.scaled(Role::Worker, 1);
    let plan = plan_of(&smaller, &world);
    assert_eq!(plan.deleted(), ["a-worker-1"]);
    assert_eq!(plan.status.attempt, Some(0));
}

/// Running pods know the range of their birth, and this one depends on their number.
#[test]
fn without_a_range_a_change_of_size_starts_the_job_again() {
    let job = elastic().spec(|spec| spec.worker.as_mut().unwrap().limits = None);
    let plan = plan_of(&job, &nothing());
    let pod = plan.pod("a-worker-0");
    assert_eq!(variable(pod, "PADDLE_NNODES").as_deref(), Some("1:2"));
    let job = job.running();
    let world = seen(&job, |pod| {
        pod.ready()
            .edit(|pod| pod.elastic_range = Some("1:2".to_owned()))
    });
    let plan = plan_of(&job.scaled(Role::Worker, 3), &world);
    assert_eq!(plan.status.attempt, Some(1));
}

#[test]
fn a_worker_that_is_gone_comes_back_alone() {
    let job = elastic().running();
    let plan = plan_of(&job, &seen(&job, Pod::ready).without("worker-0"));
    assert_eq!(plan.created(), ["a-worker-0"]);
    assert!(plan.pods_deleted.is_empty());
    assert_eq!(plan.status.attempt, Some(0));
}

fn ended(training: Option<Training>) -> (Job, Seen) {
    let job = elastic().running();
    let seen = seen(&job, |pod| told(pod).succeeded());
    (job, Seen { training, ..seen })
}

/// A pod that knows of etcd.
fn told(pod: Pod) -> Pod {
    pod.edit(|pod| pod.elastic_range = Some("1:3".to_owned()))
}

#[test]
fn the_job_is_complete_when_etcd_says_so() {
    let (job, seen) = ended(Some(Training::Complete));
    let plan = plan_of(&job, &seen);
    assert_eq!(plan.phase(), Phase::Completed);
}

/// A launcher whose peers do not come in time exits with 0 as well.
#[test]
fn workers_that_ended_without_having_trained_are_made_again() {
    let (job, seen) = ended(Some(Training::Incomplete));
    let plan = plan_of(&job, &seen);
    assert_eq!(plan.phase(), Phase::Running);
    assert_eq!(plan.deleted(), ["a-worker-0", "a-worker-1"]);
    assert_eq!(plan.told(), ["NotTrained", "NotTrained"]);
    assert!(plan.is_urgent, "what it tells is told now or never");
    let condition = plan.condition("Running");
    assert!(
        condition.starts_with("False NotTrained: pod a-worker-0 "),
        "{condition}"
    );
    assert_eq!(
        plan.events[0].message,
        "pod a-worker-0 ended and has not trained: etcd knows of no complete training (is its program started by python -m paddle.distributed.launch?)"
    );
    let records = plan.status.worker.unwrap().refs;
    assert!(records.iter().all(|record| !record.succeeded));
}

#[test]
fn while_etcd_does_not_answer_nothing_is_decided() {
    let (job, seen) = ended(None);
    let plan = plan_of(&job, &seen);
    assert_eq!(plan.phase(), Phase::Running);
    assert!(plan.pods_deleted.is_empty());
    assert_eq!(plan.wake_at, Some(now() + seconds(5)));
}

/// Every launcher that starts wipes the word away.
#[test]
fn what_was_complete_stays_so() {
    let (job, seen) = ended(Some(Training::Incomplete));
    let recorded = job.succeeded("worker-1");
    assert_eq!(plan_of(&recorded, &seen).phase(), Phase::Completed);
}

/// One worker is done, and the other is not yet: the word that it is may be gone soon.
#[test]
fn that_the_training_is_complete_goes_on_record_at_once() {
    let job = elastic().running();
    let one = seen(&job, |pod| told(pod).ready()).pod("worker-0", Pod::succeeded);
    let seen = Seen {
        training: Some(Training::Complete),
        ..one
    };
    let plan = plan_of(&job, &seen);
    assert!(plan.is_urgent);
    assert!(plan.status.worker.unwrap().refs[0].succeeded);
}

/// Launchers of today wipe the mark away when they start. Of others, and of programs without
/// a launcher, exit code 0 is believed.
#[test]
fn what_launchers_write() {
    for (word, is_marked, want) in [
        (Some("completed"), false, Training::Complete),
        (Some("running"), false, Training::Incomplete),
        (Some("failed"), false, Training::Incomplete),
        (Some("failed"), true, Training::Incomplete),
        (None, false, Training::Incomplete),
        (None, true, Training::Complete),
    ] {
        assert_eq!(
            Training::read(word, is_marked),
            want,
            "{word:?} {is_marked}"
        );
    }
}

/// Those of the Go operator, and of a job that became elastic while it ran.
#[test]
fn etcd_is_not_asked_of_pods_that_do_not_know_of_it() {
    let job = elastic().running();
    let seen = seen(&job, Pod::succeeded);
    assert!(!plan::paddlejob::awaits_training(&job, &seen.pods));
    assert_eq!(plan_of(&job, &seen).phase(), Phase::Completed);
    let (job, seen) = ended(None);
    assert!(plan::paddlejob::awaits_training(&job, &seen.pods));
}

/// Launchers with two ranges would wait for each other for ever.
#[test]
fn another_range_starts_the_job_again() {
    let job = elastic().running();
    let born = seen(&job, |pod| {
        pod.ready()
            .edit(|pod| pod.elastic_range = Some("1:3".to_owned()))
    });
    assert_eq!(plan_of(&job, &born).status.attempt, Some(0));
    let wider = job.spec(|spec| spec.worker.as_mut().unwrap().limits = Some(4));
    assert_eq!(plan_of(&wider, &born).status.attempt, Some(1));
}

/// What trains does not depend on the number in etcd.
#[test]
fn only_a_job_that_has_not_begun_waits_for_etcd() {
    assert!(plan_of(&elastic(), &nothing()).awaits_etcd);
    let running = elastic().running();
    let plan = plan_of(&running, &seen(&running, Pod::ready));
    assert!(plan.etcd.is_some() && !plan.awaits_etcd);
}

#[test]
fn without_etcd_it_is_said_what_is_missing() {
    let plan = elastic().plan(&nothing());
    assert!(plan.is_idle());
    assert_eq!(
        plan.condition("Scheduled"),
        "False NotSupported: spec.elastic is set, and the manager knows no etcd through which workers find each other; start it with --etcd-server=HOST:2379, or remove spec.elastic"
    );
}

#[test]
fn what_can_not_be_elastic() {
    let ranged = |least, most| {
        elastic().spec(|spec| {
            let worker = spec.worker.as_mut().unwrap();
            (worker.requests, worker.limits) = (least, most);
        })
    };
    for (job, want) in [
        (
            elastic().ps(1),
            "spec.elastic is set, and so is spec.ps; only workers train elastically: remove one of the two",
        ),
        (
            ranged(Some(3), None),
            "spec.worker.replicas is 2; it must be at least 3 (spec.worker.requests)",
        ),
        (
            ranged(Some(0), None),
            "spec.worker.requests is 0; it must be at least 1",
        ),
        (
            ranged(None, Some(1)),
            "spec.worker.replicas is 2; it must be at most 1 (spec.worker.limits)",
        ),
        (
            ranged(Some(1), Some(0)),
            "spec.worker.limits is 0; it must be at least 1",
        ),
        (
            ranged(Some(4), Some(3)),
            "spec.worker.requests is 4; it must be at most spec.worker.limits, which is 3",
        ),
    ] {
        assert_eq!(
            plan_of(&job, &nothing()).condition("Scheduled"),
            format!("False InvalidSpec: {want}")
        );
    }
}

/// More pods than the launchers expect break all of them.
#[test]
fn a_size_beyond_the_range_is_refused_and_what_trains_goes_on() {
    let job = elastic().running();
    let world = seen(&job, Pod::ready);
    let plan = plan_of(&job.scaled(Role::Worker, 4), &world);
    assert!(plan.is_idle());
    assert_eq!(
        plan.condition("Scheduled"),
        "False InvalidSpec: spec.worker.replicas is 4; it must be at least 1 (spec.worker.requests) and at most 3 (spec.worker.limits)"
    );
}
