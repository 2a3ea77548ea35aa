//! From template to pod: what the user wrote stays.

use api::Role;
use insta::assert_yaml_snapshot;
use plan::paddlejob::Settings;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::*;

/// A template with a bit of everything, and with fields that no version of
/// this program has heard of.
fn rich() -> Value {
    json!({
        "metadata": {
            "name": "ignored",
            "namespace": "ignored",
            "labels": {"team": "vision", "app.kubernetes.io/name": "resnet"},
            "annotations": {"prometheus.io/scrape": "true"},
        },
        "spec": {
            "initContainers": [{"name": "fetch", "image": "busybox", "command": ["true"]}],
            "containers": [
                {"name": "proxy", "image": "envoy", "ports": [{"containerPort": 8080}]},
                {
                    "name": "paddle",
                    "image": "paddle:3",
                    "command": ["python", "-m", "paddle.distributed.launch", "train.py"],
                    "env": [{"name": "GLOG_v", "value": "3"}],
                    "resources": {"limits": {"nvidia.com/gpu": 1}},
                    "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
                    "terminationMessagePolicy": "File",
                    "fieldOfTheFuture": {"deep": [1, 2, 3]},
                },
            ],
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
            "nodeSelector": {"gpu": "a100"},
            "tolerations": [{"operator": "Exists"}],
            "hostname": "mine",
            "schedulingGroupOfTheFuture": "x",
        },
    })
}

/// Whether everything in `part` is in `whole`: lists may be longer there, at
/// their end.
fn is_kept(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|found| is_kept(value, found))),
        (Value::Array(part), Value::Array(whole)) => {
            part.len() <= whole.len() && part.iter().zip(whole).all(|(p, w)| is_kept(p, w))
        }
        _ => part == whole,
    }
}

#[test]
fn the_template_is_kept_whole() {
    let plan = job("a")
        .ps(1)
        .role(Role::Worker, 2, rich())
        .plan(&nothing());
    let pod = plan.pod("a-worker-1");
    let mut template = rich();
    let meta = template["metadata"].as_object_mut().unwrap();
    // Every rank has a name of its own.
    meta.remove("name");
    meta.remove("namespace");
    assert!(is_kept(&template, pod), "{pod:#}");
    assert_yaml_snapshot!(pod);
}

#[test]
fn a_server_in_pod_ip_mode() {
    let plan = job("a").ps(1).workers(1).plan(&nothing());
    assert_yaml_snapshot!(plan.pod("a-ps-0"));
}

#[test]
fn a_worker_in_service_mode() {
    let plan = job("a").ps(1).workers(1).service().plan(&nothing());
    assert_yaml_snapshot!(plan.pod("a-worker-0"));
}

#[test]
fn a_service() {
    let plan = job("a").workers(1).service().plan(&nothing());
    assert_eq!(plan.services_created.len(), 1);
    assert_yaml_snapshot!(plan.services_created[0]);
}

#[test]
fn a_config_map() {
    let job = job("a").workers(1).service().recorded();
    let plan = job.plan(&seen(&job, Pod::addressed));
    let object = plan::paddlejob::config_map(&job, &plan.config_map.unwrap());
    assert_yaml_snapshot!(object);
}

/// Which init container is there: its arguments, and the key that it requires.
fn wait(job: &Job, pod: &str, image: Option<&str>) -> Option<(String, Option<String>)> {
    let settings = Settings {
        init_image: image.map(str::to_owned),
        ..Settings::default()
    };
    let plan = plan::paddlejob::plan(job, &nothing(), &settings, now());
    let init = plan.pod(pod)["spec"].get("initContainers")?.clone();
    let init = init.as_array().unwrap().last().unwrap().clone();
    assert_eq!(init["name"], "coord-paddle");
    assert_eq!(Some(init["image"].as_str().unwrap()), image);
    let env = init["env"].as_array().unwrap();
    let key = env
        .iter()
        .find_map(|v| v.pointer("/valueFrom/configMapKeyRef/key"));
    let args: Vec<&str> = init["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|arg| arg.as_str().unwrap())
        .collect();
    Some((args.join(" "), key.map(|k| k.as_str().unwrap().to_owned())))
}

#[test]
fn who_waits_for_what() {
    let ps = job("a").ps(1).workers(2);
    let collective = job("a").workers(2);
    let never = job("a").role(Role::Worker, 2, never_restarted()).service();
    let named = Some(("wait --names".to_owned(), None));
    let servers = Some(FIRST_SERVERS_KEY.to_owned());
    let cases = [
        (&ps, "a-ps-0", None),
        (
            &ps,
            "a-worker-0",
            Some(("wait --servers".to_owned(), servers.clone())),
        ),
        (&collective, "a-worker-0", None),
        (&ps.clone().service(), "a-ps-0", named.clone()),
        (
            &ps.clone().service(),
            "a-worker-1",
            Some(("wait --names --servers".to_owned(), servers)),
        ),
        (&collective.clone().service(), "a-worker-1", None),
        // DNS takes a while to have the names of many, and who ends for want of one stays so.
        (&job("a").workers(17).service(), "a-worker-1", named.clone()),
        (&never, "a-worker-1", named),
    ];
    for (job, pod, want) in cases {
        assert_eq!(wait(job, pod, Some("op:1")), want, "{pod}");
        assert_eq!(wait(job, pod, None), None, "no image, {pod}");
    }
}

#[test]
fn waiting_costs_a_pod_no_cpu() {
    let small = json!({"cpu": "10m", "memory": "32Mi"});
    let large = json!({"cpu": "4", "memory": "32Mi"});
    let unlimited = json!({"requests": small, "limits": {"memory": "32Mi"}});
    let limited = json!({"requests": large, "limits": large});
    let cases = [
        (json!({}), &unlimited),
        (json!({"requests": {"cpu": "4"}}), &unlimited),
        (json!({"limits": {"cpu": "4"}}), &limited),
        (
            json!({"requests": {"cpu": "10m"}, "limits": {"cpu": "4"}}),
            &json!({"requests": small, "limits": large}),
        ),
    ];
    for (resources, want) in cases {
        let mut template = rich();
        template["spec"]["containers"][1]["resources"] = resources.clone();
        let job = job("a").ps(1).role(Role::Worker, 2, template);
        let plan = job.plan(&nothing());
        let pod = plan.pod("a-worker-0");
        assert_eq!(
            &pod["spec"]["initContainers"][1]["resources"], want,
            "{resources}"
        );
    }
}

#[test]
fn restart_policy() {
    let with = |policy: &str| json!({"spec": {"containers": [{"name": "paddle"}], "restartPolicy": policy}});
    let ps = || job("a").ps(1).workers(1);
    let mine = |policy| job("a").role(Role::Worker, 1, with(policy));
    let cases = [
        (ps(), "a-ps-0", "Never"),
        (ps(), "a-worker-0", "Never"),
        (ps().service(), "a-ps-0", "Never"),
        (ps().service(), "a-worker-0", "OnFailure"),
        (mine("Always"), "a-worker-0", "Always"),
        (mine("Never").service(), "a-worker-0", "Never"),
    ];
    for (job, pod, want) in cases {
        let plan = job.plan(&nothing());
        assert_eq!(plan.pod(pod)["spec"]["restartPolicy"], want, "{pod}");
    }
}

/// The launcher prints host names; one that is no host name is left out.
#[test]
fn the_host_name_is_the_name_of_the_pod() {
    let host = |name: &str| {
        let plan = job(name).workers(1).plan(&nothing());
        let spec = &plan.pods_created[0]["spec"];
        (spec["hostname"].clone(), spec["subdomain"].clone())
    };
    assert_eq!(host("a"), (json!("a-worker-0"), json!("a-worker-0")));
    assert_eq!(host("a.b"), (Value::Null, Value::Null));
}

#[test]
fn ports_are_declared_once_in_service_mode() {
    let ports = |ports: Value| {
        let template = json!({"spec": {"containers": [{"name": "paddle", "ports": ports}]}});
        let job = job("a").role(Role::Worker, 1, template).service();
        let plan = job.plan(&nothing());
        plan.pods_created[0]["spec"]["containers"][0]["ports"].clone()
    };
    let mine = json!({"containerPort": 36000, "name": "mine"});
    assert_eq!(ports(json!([mine])), json!([mine]));
    let other = json!({"containerPort": 80});
    assert_eq!(
        ports(json!([other])),
        json!([other, {"containerPort": 36000}])
    );
}

/// Any JSON, not too deep.
pub fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z]{0,6}".prop_map(Value::from),
    ];
    // Names that the operator looks at come up often.
    let key = prop_oneof![
        Just("metadata"),
        Just("labels"),
        Just("annotations"),
        Just("spec"),
        Just("containers"),
        Just("initContainers"),
        Just("name"),
        Just("env"),
        Just("envFrom"),
        Just("ports"),
        Just("value"),
        Just("hostname"),
        Just("other"),
    ];
    leaf.prop_recursive(5, 40, 4, move |inner| {
        let key = key.clone().prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a pod spec holds, it holds it still in the pod.
    #[test]
    fn any_template_is_kept(mut spec in any_json(), container in any_json(), service: bool) {
        if !spec.is_object() {
            spec = json!({"other": spec});
        }
        let mut container = container.as_object().cloned().unwrap_or_default();
        container.insert("name".into(), "paddle".into());
        spec["containers"] = json!([container]);
        let template = json!({"metadata": {"labels": {"mine": "1"}}, "spec": spec});
        let job = job("a").role(Role::Worker, 1, template.clone());
        let job = if service { job.service() } else { job };
        let plan = job.plan(&nothing());
        prop_assert_eq!(plan.created(), ["a-worker-0"]);
        // A null is no wish; where a list belongs, it makes room for one.
        prop_assert!(
            is_kept(&without_nulls(template), plan.pod("a-worker-0")),
            "{:#}",
            plan.pod("a-worker-0")
        );
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        Value::Array(list) => list.into_iter().map(without_nulls).collect(),
        other => other,
    }
}
