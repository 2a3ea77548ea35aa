//! When the lists are published, and who is woken for them.

use api::{Phase, Role};
use plan::paddlejob::{Address, Plan, Seen, Settings};

use crate::support::*;

#[test]
fn lists_wait_for_the_last_address() {
    let job = job("a").workers(2).recorded();
    let one_is_late = seen(&job, Pod::addressed).pod("worker-1", |p| p.edit(|p| p.address = None));
    assert_eq!(job.plan(&one_is_late).config_map, None);
    let all = seen(&job, Pod::addressed);
    assert!(job.plan(&all).config_map.is_some());
}

/// A pod that is not on record could vanish unnoticed, and its successor would
/// start with its address in the lists.
#[test]
fn an_address_is_published_only_when_the_pod_is_on_record() {
    let recorded = job("a").workers(2).recorded();
    let all = seen(&recorded, Pod::addressed);
    let forgotten = recorded
        .clone()
        .status(|status| drop(status.worker.as_mut().unwrap().refs.pop()));
    let another = recorded
        .clone()
        .status(|status| status.worker.as_mut().unwrap().refs[1].uid = "another".to_owned());
    for job in [forgotten, another] {
        let plan = job.plan(&all);
        assert_eq!(plan.config_map, None);
        assert!(plan.is_urgent, "the lists wait for the status");
    }
}

/// By name nothing waits for the status, but a pod that is lost before it is
/// on record would be made again, and its peers would not start again with it.
#[test]
fn in_service_mode_a_pod_is_put_on_record_at_once() {
    let job = job("a").ps(1).workers(2).service();
    let first = job.plan(&nothing());
    let told = job.status(|status| *status = first.status);
    let one = seen(&told, Pod::created).without("worker-1");
    assert!(!told.plan(&one).is_urgent, "more are to come");
    let plan = told.plan(&seen(&told, Pod::created));
    assert!(plan.is_urgent);
    assert_eq!(plan.status.worker.as_ref().unwrap().refs.len(), 2);
    let recorded = told.status(|status| *status = plan.status);
    assert!(!recorded.plan(&seen(&recorded, Pod::created)).is_urgent);
}

#[test]
fn the_address_of_a_pod_that_goes_is_not_published() {
    let job = job("a").ps(1).workers(2).recorded();
    let going = seen(&job, Pod::addressed).pod("worker-1", |p| p.terminating(now()));
    assert_eq!(job.plan(&going).config_map, None);
}

#[test]
fn published_lists_are_not_written_again() {
    let job = job("a").workers(2).running();
    let all = seen(&job, Pod::ready);
    let data = job.plan(&all).config_map.unwrap();
    assert_eq!(job.plan(&all.config_map(data)).config_map, None);
}

#[test]
fn a_list_that_somebody_changed_is_put_right() {
    let job = job("a").workers(2).running();
    let all = seen(&job, Pod::ready);
    let data = job.plan(&all).config_map.unwrap();
    let mut broken = data.clone();
    broken.insert("PADDLE_TRAINERS".to_owned(), "nobody".to_owned());
    broken.insert("MINE".to_owned(), "x".to_owned());
    assert_eq!(job.plan(&all.config_map(broken)).config_map, Some(data));
}

#[test]
fn a_replaced_worker_gets_its_key_with_its_address() {
    let old = job("a").ps(1).workers(2).running();
    let data = old.plan(&seen(&old, Pod::ready)).config_map.unwrap();
    let key = "PADDLE_OPERATOR_0a1b2c3d_0_1_uid-of-a";
    let reborn = |p: Pod| {
        p.edit(|p| {
            p.uid = "second".to_owned();
            p.key = Some(key.to_owned());
            p.woken = None;
            p.started = false;
            p.ready = false;
            p.address = Some(Address::V4([10, 9, 9, 9].into()));
        })
    };
    let seen = seen(&old, Pod::ready)
        .pod("worker-1", reborn)
        .config_map(data.clone());
    let first = old.plan(&seen);
    assert_eq!(first.config_map, None, "it is not on record yet");
    assert!(first.is_urgent);
    let recorded = old.status(|status| *status = first.status);
    let second = recorded.plan(&seen);
    let new = second.config_map.as_ref().unwrap();
    assert_eq!(new["PADDLE_TRAINERS"], "10.0.2.1,10.9.9.9");
    assert!(new.contains_key(key));
    assert!(new.contains_key(FIRST_KEY), "its peers may start again");
    assert_eq!(second.woken(), ["a-worker-1"]);
}

/// A node that boots anew gives its pods other addresses.
fn elsewhere(p: Pod) -> Pod {
    p.edit(|p| p.address = Some(Address::V4([10, 9, 9, 9].into())))
}

#[test]
fn a_pod_that_moves_starts_the_whole_job_again() {
    let cases = [
        (job("a").workers(2), "worker-1"),
        (job("a").ps(1).workers(2), "ps-0"),
    ];
    for (kind, pod) in cases {
        let job = kind.running();
        let all = seen(&job, Pod::ready);
        let data = job.plan(&all).config_map.unwrap();
        let moved = all.config_map(data.clone()).pod(pod, elsewhere);
        let plan = job.plan(&moved);
        assert!(plan.is_idle(), "{plan:#?}");
        assert_eq!(plan.phase(), Phase::Restarting);
        assert_eq!(plan.status.restarts, Some(0));
        assert_eq!(
            plan.condition("Running"),
            format!(
                "False PodLost: pod a-{pod} has another address than before; its peers start again with it"
            )
        );
        // One that nobody was told of, that is done, that has no address for
        // the moment or that the Go operator made is left alone.
        let unlisted = {
            let mut unlisted = data;
            unlisted.retain(|key, _| key != FIRST_KEY);
            moved.clone().config_map(unlisted)
        };
        let cases = [
            unlisted,
            moved.clone().pod(pod, Pod::succeeded).pod(pod, elsewhere),
            moved.clone().pod(pod, |p| p.edit(|p| p.address = None)),
            moved.pod(pod, Pod::legacy),
        ];
        for seen in cases {
            assert_eq!(job.plan(&seen).phase(), Phase::Running, "{seen:#?}");
        }
    }
}

#[test]
fn the_lists_follow_a_worker_of_a_ps_job_that_moves() {
    let job = job("a").ps(1).workers(2).running();
    let all = seen(&job, Pod::ready);
    let data = job.plan(&all).config_map.unwrap();
    let plan = job.plan(&all.config_map(data).pod("worker-1", elsewhere));
    assert_eq!(plan.phase(), Phase::Running);
    assert_eq!(
        plan.config_map.unwrap()["PADDLE_TRAINERS"],
        "10.0.2.1,10.9.9.9"
    );
}

/// By name a pod is found wherever it is.
#[test]
fn by_name_a_pod_may_move() {
    let job = job("a").workers(2).service().running();
    let all = seen(&job, Pod::ready).services(&["a-worker-0", "a-worker-1"]);
    let data = job.plan(&all).config_map.unwrap();
    let plan = job.plan(&all.config_map(data).pod("worker-1", elsewhere));
    assert!(plan.is_idle(), "{plan:#?}");
    assert_eq!(plan.phase(), Phase::Running);
}

#[test]
fn keys_of_earlier_attempts_go() {
    let job = job("a").workers(1).attempt(1).recorded();
    let old = map(&[(FIRST_KEY, "1"), ("PADDLE_TRAINERS", "10.0.2.1")]);
    let data = job
        .plan(&seen(&job, Pod::addressed).config_map(old))
        .config_map;
    let data = data.unwrap();
    assert!(!data.contains_key(FIRST_KEY));
    assert!(data.contains_key("PADDLE_OPERATOR_0a1b2c3d_1_1"));
}

/// In Service mode a key is published before its pod is seen: taken back, it
/// would keep the pod from starting.
#[test]
fn the_key_of_a_pod_that_is_being_created_stays() {
    let new = job("a").role(Role::Worker, 1, never_restarted()).service();
    let first = new.plan(&nothing());
    let told = new.status(|status| *status = first.status.clone());
    let seen = nothing()
        .creating("a-worker-0")
        .config_map(first.config_map.unwrap())
        .services(&["a-worker-0"]);
    assert!(told.plan(&seen).is_idle());
}

/// The address of a worker that is done and deleted stays: others may still
/// start, and look for it at its place in the list.
#[test]
fn a_finished_worker_keeps_its_place_in_the_lists() {
    let job = job("a").ps(1).workers(2).running();
    let data = job.plan(&seen(&job, Pod::ready)).config_map.unwrap();
    let done = job.succeeded("worker-0").scaled(Role::Worker, 3);
    let grown = done.clone().status(|status| {
        status
            .worker
            .as_mut()
            .unwrap()
            .refs
            .push(reference("a", Role::Worker, 2))
    });
    let seen = seen(&grown, Pod::addressed)
        .without("worker-0")
        .config_map(data);
    let data = grown.plan(&seen).config_map.unwrap();
    assert_eq!(data["PADDLE_TRAINERS"], "10.0.2.1,10.0.2.2,10.0.2.3");
}

#[test]
fn workers_may_start_when_every_server_has() {
    let job = job("a").ps(2).workers(1).recorded();
    let has_key = |seen: &Seen| {
        let plan = job.plan(seen);
        plan.config_map.unwrap().contains_key(FIRST_SERVERS_KEY)
    };
    let one = seen(&job, Pod::addressed).pod("ps-0", Pod::started);
    assert!(!has_key(&one));
    let both = one.clone().pod("ps-1", Pod::started);
    assert!(has_key(&both));
    // One that has ended has started, also when its pod is gone.
    let done = job.clone().succeeded("ps-1");
    let data = done.plan(&one.clone().pod("ps-1", Pod::succeeded));
    assert!(data.config_map.unwrap().contains_key(FIRST_SERVERS_KEY));
    let lists = job.plan(&one).config_map.unwrap();
    let data = done.plan(&one.clone().without("ps-1").config_map(lists));
    assert!(data.config_map.unwrap().contains_key(FIRST_SERVERS_KEY));
    // Once said, it stays said: a server that is started again is not new.
    let data = job.plan(&both).config_map.unwrap();
    let again = one.config_map(data);
    assert_eq!(job.plan(&again).config_map, None);
}

/// The pods of a plan that are woken, with and without the init container.
fn woken(job: &Job, seen: &Seen, init: bool) -> Vec<String> {
    let settings = Settings {
        init_image: init.then(|| INIT_IMAGE.to_owned()),
        ..Settings::default()
    };
    let plan: Plan = plan::paddlejob::plan(job, seen, &settings, now());
    plan.woken().into_iter().map(str::to_owned).collect()
}

#[test]
fn who_waits_is_woken_once_and_not_earlier() {
    let ps = job("a").ps(1).workers(1).recorded();
    let collective = job("a").workers(2).recorded();
    let (named, few) = (ps.clone().service(), collective.clone().service());
    let addressed = |job: &Job| seen(job, Pod::addressed);
    let wake = |p: Pod| p.edit(|p| p.woken = p.key.clone());
    let cases: Vec<(&str, &Job, Seen, bool, &[&str])> = vec![
        (
            "Collective: all, when the lists are there",
            &collective,
            addressed(&collective),
            true,
            &["a-worker-0", "a-worker-1"],
        ),
        (
            "nobody before that",
            &collective,
            addressed(&collective).pod("worker-1", |p| p.edit(|p| p.address = None)),
            true,
            &[],
        ),
        (
            "nobody twice",
            &collective,
            addressed(&collective).pod("worker-0", wake),
            true,
            &["a-worker-1"],
        ),
        (
            "nobody who has started",
            &collective,
            addressed(&collective).pod("worker-0", Pod::started),
            true,
            &["a-worker-1"],
        ),
        (
            "nobody who is being deleted, for whom there is no list anyway",
            &collective,
            addressed(&collective).pod("worker-0", |p| p.terminating(now())),
            true,
            &[],
        ),
        ("PS: servers first", &ps, addressed(&ps), true, &["a-ps-0"]),
        (
            "PS: workers when the servers have started",
            &ps,
            addressed(&ps).pod("ps-0", Pod::started),
            true,
            &["a-worker-0"],
        ),
        (
            "PS without the init container: all at once",
            &ps,
            addressed(&ps),
            false,
            &["a-ps-0", "a-worker-0"],
        ),
        (
            "Service: the lists were there before",
            &named,
            addressed(&named),
            true,
            &[],
        ),
        (
            "Service: workers wait for the servers all the same",
            &named,
            addressed(&named).pod("ps-0", Pod::started),
            true,
            &["a-worker-0"],
        ),
        (
            "Service without the init container: all at once",
            &named,
            addressed(&named),
            false,
            &["a-ps-0", "a-worker-0"],
        ),
        (
            "a few workers by name: all, when they have addresses",
            &few,
            addressed(&few),
            true,
            &["a-worker-0", "a-worker-1"],
        ),
        (
            "and nobody before that",
            &few,
            addressed(&few).pod("worker-1", |p| p.edit(|p| p.address = None)),
            true,
            &[],
        ),
        (
            "an address that Paddle can't write has a name",
            &few,
            addressed(&few).pod("worker-1", |p| {
                p.edit(|p| p.address = Some(Address::V6Only))
            }),
            true,
            &["a-worker-0", "a-worker-1"],
        ),
    ];
    for (case, job, seen, init, want) in cases {
        assert_eq!(woken(job, &seen, init), want, "{case}");
    }
}

/// A wake-up that got lost is repeated although the lists are written.
#[test]
fn a_lost_wake_up_is_repeated() {
    let job = job("a").workers(1).recorded();
    let all = seen(&job, Pod::addressed);
    let data = job.plan(&all).config_map.unwrap();
    let plan = job.plan(&all.config_map(data));
    assert_eq!(plan.config_map, None);
    assert_eq!(plan.woken(), ["a-worker-0"]);
}

#[test]
fn a_pod_without_a_node_is_not_woken() {
    let job = job("a").ps(1).workers(1).service().recorded();
    let seen = seen(&job, Pod::created).pod("ps-0", Pod::started);
    assert_eq!(job.plan(&seen).phase(), Phase::Pending);
    assert!(woken(&job, &seen, true).is_empty());
}
