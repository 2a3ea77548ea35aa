//! Manifests, chart, overlays and guides say the same. Needs helm and kubectl, which
//! `xtask/setup.sh helm kubectl` sees to.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::process::Command;

use serde_json::json;

use super::*;
use crate::cluster::paths::Cache;
use crate::repository;

const CHART: &str = "charts/paddle-operator";
const IMAGE: &str = concat!("paddlepaddle/paddle-operator:v", env!("CARGO_PKG_VERSION"));

/// What a program prints that must end well; it is the one of the test bed, or else the
/// machine's.
fn run(program: &str, arguments: &[&str]) -> String {
    let own = Cache::from_env().unwrap().bin("");
    let machine = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(own).chain(std::env::split_paths(&machine));
    let output = Command::new(program)
        .args(arguments)
        .current_dir(repository())
        .env("PATH", std::env::join_paths(path).unwrap())
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}; run `xtask/setup.sh {program}`"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// What the chart installs with these values, without what only Helm wants to know.
fn chart(values: &[&str]) -> Vec<Value> {
    let mut arguments = vec!["template", "paddle", CHART, "--namespace=paddle-system"];
    arguments.extend(["--kube-version=1.37.1"]);
    arguments.extend(values);
    let mut objects = read(&run("helm", &arguments));
    for object in &mut objects {
        if let Some(pod) = object.pointer_mut("/spec/template/metadata/labels") {
            let labels = pod.as_object_mut().unwrap();
            assert!(labels.remove("app.kubernetes.io/instance").is_some());
        }
        let meta = object["metadata"].as_object_mut().unwrap();
        for (of, helms) in [
            ("labels", ["app.kubernetes.io/", "helm.sh/"]),
            ("annotations", ["helm.sh/", "helm.sh/"]),
        ] {
            let Some(there) = meta.get_mut(of).and_then(Value::as_object_mut) else {
                continue;
            };
            there.retain(|key, _| !helms.iter().any(|prefix| key.starts_with(prefix)));
            if there.is_empty() {
                meta.remove(of);
            }
        }
    }
    objects
}

fn read(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(yaml).unwrap()
}

/// Those of these kinds, by kind and name.
fn of_kinds(objects: Vec<Value>, kinds: &[&str]) -> BTreeMap<String, Value> {
    let kind = |object: &Value| schema::text(object, "/kind").to_owned();
    let key = |object: &Value| {
        format!(
            "{} {}",
            kind(object),
            schema::text(object, "/metadata/name")
        )
    };
    let chosen = objects
        .into_iter()
        .filter(|object| kinds.contains(&kind(object).as_str()));
    chosen.map(|object| (key(&object), object)).collect()
}

const INSTALLED: [&str; 6] = [
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Deployment",
];
const CRD: [&str; 1] = ["CustomResourceDefinition"];

#[test]
fn the_chart_installs_what_the_manifests_do() {
    let manifests = of_kinds(objects().unwrap(), &INSTALLED);
    // Of each manager, and two roles for users.
    assert_eq!(manifests.len(), 3 * 8 + 2);
    let chart = chart(&[]);
    assert_eq!(of_kinds(chart.clone(), &INSTALLED), manifests);
    let crds = fs::read_to_string(repository().join("deploy/v1/crd.yaml")).unwrap();
    assert_eq!(of_kinds(chart.clone(), &CRD), of_kinds(read(&crds), &CRD));
    // Beside these only the Services of the metrics.
    assert_eq!(of_kinds(chart.clone(), &["Service"]).len(), 3);
    assert_eq!(chart.len(), manifests.len() + 3 + 3);
}

#[test]
fn the_chart_and_the_overlay_manage_all_namespaces_alike() {
    let overlay = read(&run(
        "kubectl",
        &["kustomize", "deploy/overlays/all-namespaces"],
    ));
    let chart = chart(&["--set=watchNamespace=*"]);
    let same = ["Deployment", "ClusterRole", "ClusterRoleBinding", "Role"];
    let chart = of_kinds(chart, &same);
    assert_eq!(of_kinds(overlay, &same), chart);
    let deployment = &chart["Deployment paddle-controller-manager"];
    let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    assert_eq!(arguments[1], "--namespace=");
}

#[test]
fn the_bases_are_the_manifests() {
    for base in ["v1", "extensions"] {
        let base = read(&run("kubectl", &["kustomize", &format!("deploy/{base}")]));
        let found = of_kinds(base, &INSTALLED);
        assert!(!found.is_empty());
        let manifests = of_kinds(objects().unwrap(), &INSTALLED);
        for (key, object) in found {
            assert_eq!(object, manifests[&key], "{key}");
        }
    }
}

#[test]
fn the_manager_for_old_clusters_takes_no_lease() {
    let old = read(&run("kubectl", &["kustomize", "deploy/v1beta1"]));
    let found = of_kinds(old, &INSTALLED);
    let leases = |key: &String| key.contains("leader-election");
    let manifests = of_kinds(read(OPERATOR), &INSTALLED);
    let wanted = manifests.keys().filter(|key| !leases(key));
    assert!(found.keys().eq(wanted), "{:?}", found.keys());
    let deployment = &found["Deployment paddle-controller-manager"]["spec"];
    assert_eq!(deployment["strategy"], json!({"type": "Recreate"}));
    let arguments = &deployment["template"]["spec"]["containers"][0]["args"];
    let wanted = ["--namespace=paddle-system", "--controllers=paddlejob"];
    assert_eq!(arguments, &json!(wanted));
}

#[test]
fn the_chart_leaves_the_roles_of_users_to_them() {
    let roles = of_kinds(chart(&["--set=rbac.aggregate=false"]), &["ClusterRole"]);
    for role in [
        "ClusterRole paddle-jobs-edit",
        "ClusterRole paddle-jobs-view",
    ] {
        assert_eq!(roles[role].pointer("/metadata/labels"), None, "{role}");
    }
}

#[test]
fn the_chart_can_be_changed() {
    run("helm", &["lint", "--strict", CHART]);
    let values = [
        "--set=image.repository=registry.test/operator,image.tag=v1,namePrefix=ml",
        "--set=watchNamespace=jobs,crds.install=false,sampleCache.enabled=false",
        "--set=metrics.serviceMonitor.enabled=true,nodeSelector.disk=ssd",
    ];
    let mut lint = vec!["lint", "--strict", CHART];
    lint.extend(values);
    run("helm", &lint);
    let objects = chart(&values);
    assert!(of_kinds(objects.clone(), &CRD).is_empty());
    assert_eq!(of_kinds(objects.clone(), &["ServiceMonitor"]).len(), 1);
    let deployments = of_kinds(objects.clone(), &["Deployment"]);
    assert_eq!(deployments.len(), 1);
    let pod = &deployments["Deployment ml-controller-manager"]["spec"]["template"]["spec"];
    assert_eq!(pod["nodeSelector"]["disk"], "ssd");
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "registry.test/operator:v1");
    assert_eq!(container["env"][0]["value"], "registry.test/operator:v1");
    let wanted = [
        "--leader-elect",
        "--namespace=jobs",
        "--controllers=paddlejob",
    ];
    assert_eq!(container["args"], json!(wanted));
    let bindings = of_kinds(objects, &["RoleBinding"]);
    assert_eq!(
        bindings["RoleBinding ml-manager-rolebinding"]["metadata"]["namespace"],
        "jobs"
    );
}

#[test]
fn the_chart_gives_the_manager_of_jobs_its_flags() {
    let values = [
        "--set=paddlejob.scheduling=volcano",
        r"--set=paddlejob.etcdServer=a.etcd:2379\,b.etcd:2379",
        r"--set=paddlejob.portRange=40000\,45000",
        "--set=paddlejob.extraArgs[0]=--metrics-bind-address=0",
    ];
    let mut lint = vec!["lint", "--strict", CHART];
    lint.extend(values);
    run("helm", &lint);
    let deployments = of_kinds(chart(&values), &["Deployment"]);
    let arguments = |deployment: &str| {
        let deployment = &deployments[&format!("Deployment paddle-{deployment}-manager")];
        deployment["spec"]["template"]["spec"]["containers"][0]["args"].clone()
    };
    let wanted = [
        "--leader-elect",
        "--namespace=paddle-system",
        "--controllers=paddlejob",
        "--scheduling=volcano",
        "--etcd-server=a.etcd:2379,b.etcd:2379",
        "--port-range=40000,45000",
        "--metrics-bind-address=0",
    ];
    assert_eq!(arguments("controller"), json!(wanted));
    for other in ["sampleset", "samplejob"] {
        assert_eq!(arguments(other).as_array().unwrap().len(), 3, "{other}");
    }
}

#[test]
fn the_image_is_that_of_this_version() {
    for text in [OPERATOR, CONTROLLERS] {
        let images = text.lines().filter(|line| line.contains("paddlepaddle/"));
        let images: Vec<&str> = images.collect();
        assert!(images.len() >= 2, "{images:?}");
        for line in images {
            assert!(line.ends_with(IMAGE), "{line}");
        }
    }
    let chart = fs::read_to_string(repository().join(CHART).join("Chart.yaml")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    for line in [
        format!("version: {version}"),
        format!("appVersion: v{version}"),
    ] {
        assert!(chart.lines().any(|other| other == line), "{line}");
    }
}

/// Whether built-in roles take it in: it is for users, who know what they need it for.
fn is_for_users(role: &Value) -> bool {
    let labels = role.pointer("/metadata/labels").and_then(Value::as_object);
    let mut labels = labels.into_iter().flatten();
    labels.any(|(label, _)| label.contains("/aggregate-to-"))
}

/// The rules of a role as rows of a table, without the reasons.
fn rows(role: &Value) -> Vec<String> {
    let list = |rule: &Value, of: &str| -> Vec<String> {
        let list = rule[of].as_array().into_iter().flatten();
        list.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let row = |rule: &Value| {
        let resources: Vec<_> = list(rule, "resources")
            .iter()
            .map(|resource| format!("`{resource}`"))
            .collect();
        let names = list(rule, "resourceNames");
        let only = match names.is_empty() {
            true => String::new(),
            false => format!(" `{}`", names.join(", ")),
        };
        let verbs = list(rule, "verbs").join(", ");
        format!("| {}{only} | {verbs} |", resources.join(", "))
    };
    role["rules"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn the_guides_explain_every_rule() {
    let objects = objects().unwrap();
    for language in ["en", "zh_CN"] {
        let path = format!("docs/{language}/installation.md");
        let guide = fs::read_to_string(repository().join(&path)).unwrap();
        for role in roles(&objects) {
            let name = schema::text(role, "/metadata/name");
            if is_for_users(role) {
                assert!(guide.contains(&format!("`{name}`")), "{path}: no {name}");
                continue;
            }
            let (_, section) = guide
                .split_once(&format!("`{name}`\n"))
                .unwrap_or_else(|| panic!("{path}: no line ends with `{name}`"));
            let table = section.lines().skip_while(|line| !line.starts_with("|---"));
            let table = table.skip(1).take_while(|line| line.starts_with('|'));
            let told: Vec<String> = table
                .map(|line| {
                    let reason = line.trim_end_matches(" |").rfind('|').unwrap();
                    assert!(line.len() - reason > 6, "{path}: {name}: no reason: {line}");
                    line[..=reason].to_owned()
                })
                .collect();
            assert_eq!(told, rows(role), "{path}: {name}");
        }
    }
}
