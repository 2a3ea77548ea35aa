//! What a pod can't do.

use std::fs;

use serde_json::json;

use crate::support::{Local, script};

#[tokio::test]
async fn a_pod_that_removes_everything_harms_only_what_is_its_own() {
    let local = Local::start(&[]);
    let pods = local.pods().await;
    let parent = local.dir.parent().unwrap();
    let [kept, given] = ["kept", "given"].map(|name| parent.join(name));
    for dir in [&kept, &given] {
        fs::create_dir(dir).unwrap();
        fs::write(dir.join("file"), "precious").unwrap();
    }
    // All of a big machine would take minutes; so first what matters most here.
    let wild = "rm -rf /given/* /kept/* /etc /boot; timeout 5 rm -rf --no-preserve-root /; :";
    let mut pod = script("wild", wild);
    pod["spec"]["volumes"] = json!([
        {"name": "kept", "hostPath": {"path": kept}},
        {"name": "given", "hostPath": {"path": given}},
    ]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([
        {"name": "kept", "mountPath": "/kept", "readOnly": true},
        {"name": "given", "mountPath": "/given"},
    ]);
    pods.run(pod).await;
    assert_eq!(fs::read_to_string(kept.join("file")).unwrap(), "precious");
    assert!(!given.join("file").exists(), "it was mounted to be written");
    assert!(fs::exists("/bin/sh").unwrap() && fs::exists("/etc/passwd").unwrap());
    assert_eq!(pods.say("after", "echo well").await, "well\n");
}

#[tokio::test]
async fn a_pod_sees_nothing_of_the_state() {
    let local = Local::start(&[]);
    let pods = local.pods().await;
    let dir = local.dir.display();
    let look = format!("ls -A {dir} 2>/dev/null | wc -l; cat {dir}/kubeconfig 2>/dev/null; exit 0");
    assert_eq!(pods.say("root", &look).await, "0\n");
    // Neither through a volume that holds it.
    let mut pod = script(
        "volume",
        "ls -A /host/state | wc -l; cat /host/state/kubeconfig; exit 0",
    );
    pod["spec"]["volumes"] = json!([{"name": "host", "hostPath": {"path": local.dir.parent()}}]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "host", "mountPath": "/host"}]);
    let (_, log) = pods.run(pod).await;
    assert!(log.starts_with("0\n") && !log.contains("token"), "{log}");
}

#[tokio::test]
async fn a_pod_is_not_root_of_the_machine() {
    let local = Local::start(&[]);
    let pods = local.pods().await;
    let tries = "
        mount -t tmpfs none /mnt 2>/dev/null && echo mounted
        unshare -Urm mount -t tmpfs none /mnt 2>/dev/null && echo mounted in a namespace
        mknod /disk b 8 0 2>/dev/null && echo made
        ls /dev | grep -E '^(sd|vd|nvme)' && echo disks
        echo 1 2>/dev/null > /proc/sys/kernel/panic && echo set
        echo x 2>/dev/null > /sys/kernel/mm/x && echo wrote
        kill -0 2 2>/dev/null && echo others
        echo $(ls /proc | grep -cE '^[0-9]+$') processes
        exit 0";
    let said = pods.say("tries", tries).await;
    // The shell, the substitution, ls and grep.
    let count: u32 = said.strip_suffix(" processes\n").unwrap().parse().unwrap();
    assert!(count <= 4, "{said}");
}

#[tokio::test]
async fn a_pod_leaves_the_machine_as_it_was() {
    let mark = format!("/var/tmp/paddle-operator-test-{}", std::process::id());
    let local = Local::start(&[]);
    let pods = local.pods().await;
    pods.say(
        "writes",
        &format!("echo x > {mark}; echo x > /tmp/mark; ls {mark}"),
    )
    .await;
    assert!(!fs::exists(&mark).unwrap());
    assert_eq!(
        pods.say("next", &format!("ls {mark} /tmp 2>/dev/null; exit 0"))
            .await,
        "/tmp:\n"
    );
}

#[tokio::test]
async fn a_volume_shows_nothing_of_the_state() {
    let local = Local::start(&[]);
    let pods = local.pods().await;
    let mounted = |name: &str, path: &std::path::Path, sub: &str| {
        let mut pod = script(name, "ls -A /host; cat /host/token /host/kubeconfig");
        pod["spec"]["volumes"] = json!([{"name": "host", "hostPath": {"path": path}}]);
        pod["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "host", "mountPath": "/host", "subPath": sub}]);
        pod
    };
    let parent = local.dir.parent().unwrap();
    std::os::unix::fs::symlink(&local.dir, parent.join("link")).unwrap();
    for (name, pod) in [
        ("all", mounted("all", &local.dir, "")),
        ("part", mounted("part", &local.dir.join("credentials"), "")),
        ("linked", mounted("linked", &parent.join("link"), "")),
        ("sub", mounted("sub", parent, "state/credentials")),
    ] {
        pods.create(pod).await;
        let refused = |pod: &k8s_openapi::api::core::v1::Pod| {
            format!("{:?}", pod.status).contains("state directory")
        };
        pods.until(name, "refused", refused).await;
    }
}

#[tokio::test]
async fn a_link_in_a_volume_leads_nowhere_else() {
    let local = Local::start(&[]);
    let pods = local.pods().await;
    let outside = local.dir.parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    let mut pod = script("linked", "touch /sub/x");
    pod["spec"]["volumes"] = json!([{"name": "shared", "emptyDir": {}}]);
    pod["spec"]["initContainers"] = json!([{
        "name": "link", "image": "any",
        "command": ["ln", "-s", outside, "/shared/link"],
        "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
    }]);
    pod["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "shared", "mountPath": "/sub", "subPath": "link/made"}]);
    pods.create(pod).await;
    let refused = |pod: &k8s_openapi::api::core::v1::Pod| {
        format!("{:?}", pod.status).contains("leads out of it")
    };
    pods.until("linked", "refused", refused).await;
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[tokio::test]
async fn a_container_inherits_nothing() {
    let local = Local::start(&[]);
    let pods = local.pods().await;
    // ls has the directory itself open.
    let said = pods
        .say(
            "files",
            "ls /proc/self/fd | tr '\\n' ' '; umask; env | grep -c CARGO; :",
        )
        .await;
    assert_eq!(said, "0 1 2 3 0022\n0\n");
}
