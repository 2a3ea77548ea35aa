//! Installing, as the guides show it.

use serde_json::json;

use crate::bed::{Bed, MANIFESTS, job};
use crate::pages::{commands, follow};
use crate::uninstall;

const CRDS: &str = "\
NAME                                CREATED AT
paddlejobs.batch.paddlepaddle.org   2021-08-23T08:45:17Z
samplejobs.batch.paddlepaddle.org   2021-08-23T08:45:18Z
samplesets.batch.paddlepaddle.org   2021-08-23T08:45:18Z
";

const MANAGER: &str = "\
NAME                                         READY   STATUS    RESTARTS   AGE
paddle-controller-manager-698dd7b855-n65jr   1/1     Running   0          1m
";

const MANAGERS: &str = "\
NAME                                         READY   STATUS    RESTARTS   AGE
paddle-controller-manager-776b84bfb4-5hd4s   1/1     Running   0          60s
paddle-samplejob-manager-69b4944fb5-jqqrx    1/1     Running   0          60s
paddle-sampleset-manager-5cd689db4d-j56rg    1/1     Running   0          60s
";

/// On a cluster that has nothing of it.
pub async fn as_shown(bed: &Bed) {
    let [crds, operator, extensions] =
        MANIFESTS.map(|manifest| format!("kubectl apply -f {manifest}"));
    bed.shell.run(&crds);
    // Newer versions of Kubernetes print other columns.
    let columns = "'NAME:.metadata.name,CREATED AT:.metadata.creationTimestamp'";
    // Those of Volcano were there before.
    let command = format!("kubectl get crd -o custom-columns={columns} | grep -v volcano.sh");
    bed.shell.shows(&command, CRDS).await;
    bed.shell.run(&operator);
    bed.shows_pods(MANAGER).await;
    bed.shell.run(&extensions);
    bed.shows_pods(MANAGERS).await;
    editors_create_jobs(bed).await;
}

/// The built-in roles take in those for users. kube-controller-manager does it in its own time.
async fn editors_create_jobs(bed: &Bed) {
    let namespaced = "kubectl -n paddle-system";
    let edit = "rolebinding somebody --clusterrole=edit --user=somebody";
    bed.shell.run(&format!("{namespaced} create {edit}"));
    let create = "auth can-i create paddlejobs.batch.paddlepaddle.org --as=somebody";
    bed.prints(&format!("{namespaced} {create}"), "yes\n").await;
    bed.shell
        .run(&format!("{namespaced} delete rolebinding somebody"));
}

/// The chart in a namespace for managers alone, of the strictest level, as is that of the jobs.
pub async fn restricted(bed: &Bed) {
    uninstall::by_files(bed);
    let [install] = commands("installation.md", "Pod Security");
    follow(bed, &install);
    let shell = &bed.shell;
    shell.run("kubectl -n paddle-managers rollout status deployment --timeout=120s");
    bed.forgive_refusals();
    let level = "pod-security.kubernetes.io/enforce=restricted";
    shell.run(&format!("kubectl label namespace paddle-jobs {level}"));
    let mut job = job("paddle-jobs", "strict", 2);
    // Its init container has to satisfy the level too, which workers have that stay ended.
    job["spec"]["intranet"] = json!("Service");
    job["spec"]["worker"]["template"]["spec"] = json!({
        "restartPolicy": "Never",
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": 1,
        "containers": [{
            "name": "paddle",
            "image": "nginx",
            "command": ["sleep", "infinity"],
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
            },
        }],
    });
    bed.apply(&job);
    let phase = "kubectl -n paddle-jobs get pdj/strict -o jsonpath='{.status.phase}'";
    bed.prints(phase, "Running").await;
    let waited = "kubectl -n paddle-jobs get pod/strict-worker-0 -o jsonpath='{.spec.initContainers[*].name}'";
    bed.prints(waited, "coord-paddle").await;
    bed.judge_refusals();
    uninstall::by_helm(bed, "paddle-managers").await;
    shell.run("kubectl delete namespace paddle-jobs");
}
