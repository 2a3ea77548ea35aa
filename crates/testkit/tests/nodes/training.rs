//! Real Paddle on real nodes, by the examples of the guides.

use serde_json::json;

use crate::bed::Bed;
use crate::wait::until;
use crate::worlds::{self, Shared};

/// Waits for the end of a job, which takes minutes when two cores play three nodes.
fn completes(bed: &Bed, job: &str) {
    let done = "--for=jsonpath='{.status.phase}'=Completed --timeout=500s";
    bed.shell
        .run(&format!("kubectl -n paddle-system wait pdj/{job} {done}"));
}

/// Creates jobs of the guides.
fn create(bed: &Bed, examples: [&str; 2]) {
    let files = examples.map(|example| format!("-f deploy/examples/{example}.yaml"));
    bed.shell.run(&format!(
        "kubectl -n paddle-system apply {}",
        files.join(" ")
    ));
}

/// Parameter servers, found by their addresses and by their names, whose pods go when all is
/// done.
pub async fn wide_and_deep(bed: &Bed) {
    bed.install().await;
    let shell = &bed.shell;
    create(bed, ["wide_and_deep", "wide_and_deep_service"]);
    completes(bed, "wide-and-deep");
    completes(bed, "wide-and-deep-service");
    let shown = "NAME                    STATUS      MODE   AGE\n\
                 wide-and-deep           Completed   PS     2m\n\
                 wide-and-deep-service   Completed   PS     2m\n";
    shell.shows("kubectl -n paddle-system get pdj", shown).await;
    let pods = "kubectl -n paddle-system get pods -o name | { grep wide-and-deep || true; }";
    until("their pods are gone", async || shell.run(pods).is_empty()).await;
    bed.clean_up().await;
}

/// Collective, by address, on the network of the nodes, and by name.
pub async fn resnet(bed: &Bed) {
    bed.install().await;
    create(bed, ["resnet", "host"]);
    let ports = ".metadata.annotations.host-port";
    bed.is("pdj/resnet-host", ports, "35000").await;
    train_as_one(bed, "resnet");
    train_as_one(bed, "resnet-host");
    let is_on_host = |rank: u8| {
        let pod = format!("pod/resnet-host-worker-{rank}");
        bed.field(&pod, ".spec.hostNetwork")
    };
    assert_eq!([0, 1].map(is_on_host), ["true", "true"]);
    let by_name =
        "sed -e 's/name: resnet$/name: resnet-named/' -e 's/^spec:/&\\n  intranet: Service/'";
    bed.shell.run(&format!(
        "{by_name} deploy/examples/resnet.yaml | kubectl -n paddle-system apply -f -"
    ));
    train_as_one(bed, "resnet-named");
    let endpoints = ".data.PADDLE_TRAINER_ENDPOINTS";
    let named = [0, 1].map(|rank| format!("resnet-named-worker-{rank}.paddle-system:36000"));
    assert_eq!(
        bed.field("configmap/resnet-named", endpoints),
        named.join(",")
    );
    bed.clean_up().await;
}

/// The two workers of a job compute the same model.
fn train_as_one(bed: &Bed, job: &str) {
    completes(bed, job);
    let models = [0, 1].map(|rank| {
        let log = bed.shell.run(&format!(
            "kubectl -n paddle-system logs {job}-worker-{rank}"
        ));
        let says = format!("rank={rank} world_size=2");
        assert!(log.contains(&says), "{says}: {log}");
        let mut hashes = log.split_whitespace().rev();
        let hash = hashes.find_map(|word| word.strip_prefix("sha256="));
        hash.unwrap().to_owned()
    });
    assert_eq!(models[0], models[1]);
}

/// Gang scheduling by Volcano, with the flag that the README has one add.
pub async fn gang(bed: &Bed) {
    bed.install().await;
    let shell = &bed.shell;
    with_flag(bed, "--scheduling=volcano");
    // A name that somebody else has is told of, and taken when it is free.
    let name = "wide-and-deep-volcano";
    bed.apply(&json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "paddle-system"},
        "spec": {"minMember": 1},
    }));
    shell.run(&format!(
        "kubectl -n paddle-system apply -f deploy/examples/{}.yaml",
        name.replace('-', "_")
    ));
    let job = format!("pdj/{name}");
    let reason = ".status.conditions[?(@.type==\"Scheduled\")].reason";
    bed.is(&job, reason, "NameTaken").await;
    shell.run(&format!("kubectl -n paddle-system delete podgroup {name}"));
    bed.is(&format!("podgroup/{name}"), ".spec.minMember", "4")
        .await;
    // Three of the four suffice from now on.
    let patch = json!({"spec": {"schedulingPolicy": {"minAvailable": 3}}});
    shell.run(&format!(
        "kubectl -n paddle-system patch {job} --type=merge --patch='{patch}'"
    ));
    bed.is(&format!("podgroup/{name}"), ".spec.minMember", "3")
        .await;
    completes(bed, name);
    let left = "kubectl -n paddle-system get podgroups -o name";
    until("its PodGroup is gone", async || shell.run(left).is_empty()).await;
    with_flag(bed, "");
    bed.clean_up().await;
}

/// Workers that come, go and are killed while the others train, with the flag and the etcd
/// that the README names.
pub async fn elastic(bed: &Bed) {
    bed.install().await;
    let shell = &bed.shell;
    shell.run(
        "kubectl apply -f deploy/elastic/etcd.yaml && \
         kubectl -n paddle-system rollout status statefulset --timeout=120s",
    );
    let etcd = "paddle-elastic-etcd.paddle-system.svc.cluster.local:2379";
    with_flag(bed, &format!("--etcd-server={etcd}"));
    let shared = Shared::new();
    let mut job = worlds::elastic("a", [2, 2, 3], &shared);
    job["metadata"]["namespace"] = json!("paddle-system");
    bed.apply(&job);
    shared.trains(2).await;
    scale(bed, "a", 3);
    let three = shared.trains(3).await;
    kill(bed, "a-worker-1");
    until("a world of three follows", async || {
        let worlds = shared.worlds();
        let last = worlds.last();
        last.is_some_and(|last| last.size == 3 && last.done() > three.done() + 1)
    })
    .await;
    let done = shared.worlds().last().unwrap().done();
    shared.end_after(done + 20);
    scale(bed, "a", 2);
    completes(bed, "a");
    let worlds = shared.worlds();
    let mut sizes: Vec<u32> = worlds.iter().map(|world| world.size).collect();
    sizes.dedup();
    // While the killed one is away, the other two may train.
    assert_eq!(
        (sizes.first(), sizes.last(), sizes.contains(&3)),
        (Some(&2), Some(&2), true),
        "{worlds:#?}"
    );
    worlds::learn_on(worlds);
    let keys = "kubectl -n paddle-system exec paddle-elastic-etcd-0 -- \
                etcdctl get --prefix --keys-only /";
    until("etcd knows nothing of it", async || {
        shell.run(keys).trim().is_empty()
    })
    .await;
    with_flag(bed, "");
    shell.run("kubectl delete -f deploy/elastic/etcd.yaml");
    bed.clean_up().await;
}

/// Installs the manager of jobs with one more flag, or without any.
fn with_flag(bed: &Bed, flag: &str) {
    let added = match flag {
        "" => String::new(),
        flag => format!(r"s#^( *)- --leader-elect$#&\n\1- {flag}#"),
    };
    bed.shell.run(&format!(
        "sed -E '{added}' deploy/v1/operator.yaml | kubectl apply -f - && \
         kubectl -n paddle-system rollout status deployment --timeout=120s"
    ));
}

fn scale(bed: &Bed, job: &str, workers: u32) {
    bed.shell.run(&format!(
        "kubectl -n paddle-system scale pdj/{job} --replicas={workers}"
    ));
}

/// Ends the container of a pod with SIGKILL.
fn kill(bed: &Bed, pod: &str) {
    let id = bed.field(
        &format!("pod/{pod}"),
        ".status.containerStatuses[0].containerID",
    );
    let id = id.strip_prefix("containerd://").unwrap();
    let ctr = ["ctr", "--namespace=k8s.io", "tasks", "kill"];
    let node = bed.node_of(pod);
    let command = ["exec", &node].into_iter().chain(ctr);
    let command: Vec<&str> = command.chain(["--signal=SIGKILL", id]).collect();
    bed.cluster(&command);
}
