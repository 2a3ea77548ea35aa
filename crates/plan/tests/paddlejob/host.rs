//! Jobs on the network of their nodes: a block of ports each.

use api::Phase;
use plan::paddlejob::{ConfigMapView, Plan, PortHolder, PortRange, Seen, Settings};
use serde_json::json;

use crate::support::*;

fn host(name: &str) -> Job {
    job(name)
        .workers(2)
        .spec(|spec| spec.intranet = Some("Host".to_owned()))
}

fn holding(port: &str) -> Job {
    host("a").edit(|job| {
        job.metadata.annotations = Some(map(&[("host-port", port)]));
    })
}

fn taken(ports: &[(&str, u16)]) -> Seen {
    let holders = ports.iter().map(|(uid, port)| PortHolder {
        uid: (*uid).to_owned(),
        port: *port,
        has_begun: false,
    });
    Seen {
        port_holders: holders.collect(),
        ..Seen::default()
    }
}

#[test]
fn ports_come_before_pods() {
    let plan = host("a").plan(&nothing());
    assert_eq!(plan.host_port, Some(35_000));
    let only = Plan {
        host_port: None,
        ..plan
    };
    assert!(only.is_idle(), "nothing else is done in that pass");
}

#[test]
fn the_first_block_that_nobody_has_a_port_of() {
    for (others, want) in [
        (&[("x", 35_000)][..], 35_020),
        (&[("x", 35_020)], 35_000),
        // Not one of our blocks: a port in the middle of two.
        (&[("x", 35_010)], 35_040),
        (&[("x", 35_000), ("y", 35_020), ("z", 35_060)], 35_040),
    ] {
        let plan = host("a").plan(&taken(others));
        assert_eq!(plan.host_port, Some(want), "{others:?}");
    }
}

#[test]
fn pods_are_on_their_nodes_and_say_which_port_they_take() {
    let plan = holding("35040").plan(&nothing());
    assert_eq!((plan.host_port, plan.created().len()), (None, 2));
    let spec = &plan.pod("a-worker-1")["spec"];
    assert_eq!(spec["hostNetwork"], true);
    assert_eq!(spec["dnsPolicy"], "ClusterFirstWithHostNet");
    let paddle = &spec["containers"][0];
    assert_eq!(
        paddle["ports"],
        json!([{"containerPort": 35_040, "hostPort": 35_040}])
    );
    let env = paddle["env"].as_array().unwrap();
    let endpoint = json!({"name": "PADDLE_CURRENT_ENDPOINT", "value": "$(POD_IP):35040"});
    assert!(env.contains(&endpoint), "{env:?}");
}

#[test]
fn lists_have_the_port_of_the_job() {
    let job = holding("35040").ps(1).recorded();
    let data = job.plan(&seen(&job, Pod::addressed)).config_map.unwrap();
    for (key, want) in [
        ("PADDLE_PORT", "35040"),
        ("PADDLE_TRAINER_ENDPOINTS", "10.0.2.1:35040,10.0.2.2:35040"),
        ("PADDLE_PSERVERS_IP_PORT_LIST", "10.0.1.1:35040"),
        ("PADDLE_GLOO_HTTP_ENDPOINT", "10.0.1.1:35058"),
    ] {
        assert_eq!(data.get(key).map(String::as_str), Some(want), "{key}");
    }
}

/// What the user chose stays.
#[test]
fn the_template_may_say_how_names_resolve() {
    let template = json!({"spec": {
        "dnsPolicy": "Default",
        "containers": [{"name": "paddle", "image": "paddle:3"}],
    }});
    let job = holding("35040").role(api::Role::Worker, 1, template);
    assert_eq!(
        job.plan(&nothing()).pod("a-worker-0")["spec"]["dnsPolicy"],
        "Default"
    );
}

/// Managers that did not know of each other gave the same ports to two jobs, or somebody
/// made a job from another with its annotations.
#[test]
fn of_two_jobs_with_one_block_the_second_takes_another() {
    let job = holding("35000");
    let smaller = taken(&[("00000000-first", 35_000)]);
    assert_eq!(job.plan(&smaller).host_port, Some(35_020));
    let larger = taken(&[("ffffffff-second", 35_000)]);
    assert_eq!(job.plan(&larger).host_port, None);
    // One whose pods are there keeps it: they listen on it.
    let begun = job.clone().recorded();
    let mut seen = seen(&begun, Pod::ready);
    seen.port_holders = smaller.port_holders;
    assert_eq!(begun.plan(&seen).host_port, None);
    let mut begun = larger;
    begun.port_holders[0].has_begun = true;
    assert_eq!(job.plan(&begun).host_port, Some(35_020));
}

/// Between looking and creating, the ports may be given to another.
#[test]
fn the_first_pods_come_only_if_the_ports_are_still_the_jobs() {
    let job = holding("35040");
    assert_eq!(job.plan(&nothing()).begins_at, Some(35_040));
    let running = job.running();
    let lost = seen(&running, Pod::ready).without("worker-1");
    let again = running.plan(&lost);
    assert_eq!(again.begins_at, None, "others of its pods listen there");
}

/// `kubectl replace` with the file that the job was made from takes the annotation away.
#[test]
fn a_job_that_runs_gets_back_the_ports_that_its_pods_have() {
    let job = host("a").recorded();
    let map = map(&[("PADDLE_PORT", "35040")]);
    let seen = Seen {
        config_map: Some(std::sync::Arc::new(ConfigMapView { data: map })),
        ..seen(&job, Pod::ready)
    };
    assert_eq!(job.plan(&seen).host_port, Some(35_040));
    // Elastic jobs have no ConfigMap, and others none at first: the pods themselves tell.
    let listening = crate::support::seen(&job, |pod| {
        pod.ready().edit(|pod| pod.host_port = Some(35_060))
    });
    assert_eq!(job.plan(&listening).host_port, Some(35_060));
    // Not those of a job of the same name that was there before.
    let new = host("a");
    let seen = Seen {
        config_map: seen.config_map,
        ..nothing()
    };
    assert_eq!(new.plan(&seen).host_port, Some(35_000));
}

#[test]
fn an_annotation_that_is_no_port_is_replaced() {
    for written in ["", "x", "0", "65530", "-1"] {
        assert_eq!(
            holding(written).plan(&nothing()).host_port,
            Some(35_000),
            "{written:?}"
        );
    }
    assert_eq!(holding("40000").plan(&nothing()).host_port, None);
}

#[test]
fn a_job_without_ports_says_why_and_looks_again() {
    let settings = Settings {
        ports: PortRange::parse("35000,35050").unwrap(),
        ..settings()
    };
    let seen = taken(&[("x", 35_000), ("y", 35_020)]);
    let plan = plan::paddlejob::plan(&host("a"), &seen, &settings, now());
    assert!(plan.is_idle());
    assert_eq!(plan.phase(), Phase::Pending);
    assert_eq!(
        plan.condition("Scheduled"),
        "False NoPorts: no 20 ports are free between 35000 and 35050 (--port-range): \
         other jobs with intranet: Host have them; the job starts when one of them ends"
    );
    assert_eq!(plan.wake_at, Some(now() + seconds(10)));
}

#[test]
fn ranges_of_ports() {
    let range = |first, end| Ok(PortRange { first, end });
    assert_eq!(PortRange::parse("35000,65000"), range(35_000, 65_000));
    assert_eq!(PortRange::parse("40000, 40020"), range(40_000, 40_020));
    for wrong in ["", "35000", "35000,35019", "a,b", "0,100", "35000,70000"] {
        let said = PortRange::parse(wrong).unwrap_err();
        assert!(said.contains("35000,65000"), "{wrong}: {said}");
    }
}

/// Other jobs have nothing to do with ports of nodes.
#[test]
fn by_address_or_by_name_no_port_is_taken() {
    let job = job("a").workers(1);
    assert_eq!(job.plan(&taken(&[("x", 35_000)])).host_port, None);
}
