//! Installing, as the guides show it.

use crate::bed::{Bed, MANIFESTS};

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
}
