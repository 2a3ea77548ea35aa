//! What `kubectl get` prints.

use crate::request::{Request, TABLE, core, get, job};

pub fn all() -> Vec<Request> {
    let table = |name: &'static str, path: &str| get(name, path).accept(TABLE);
    let only = "fieldSelector=metadata.name%3D";
    vec![
        table("table: config maps", &core("configmaps?labelSelector=tier")),
        table("table: one config map", &core("configmaps/a")),
        table(
            "table: with whole objects",
            &core("configmaps?labelSelector=tier&includeObject=Object"),
        ),
        table(
            "table: without objects",
            &core("configmaps?labelSelector=tier&includeObject=None"),
        ),
        table(
            "table: with objects of no kind",
            &core("configmaps?labelSelector=tier&includeObject=Some"),
        ),
        table("table: pods", &core("pods")),
        table("table: secrets", &core("secrets")),
        table("table: services", &core("services")),
        table(
            "table: service accounts",
            &core(&format!("serviceaccounts?{only}account")),
        ),
        table("table: events", &core("events?fieldSelector=reason%3DTold")),
        table(
            "table: new events",
            "/apis/events.k8s.io/v1/namespaces/$ns/events?fieldSelector=reason%3DTold",
        ),
        table("table: nodes", &format!("/api/v1/nodes?{only}node-of-$ns")),
        table(
            "table: namespaces",
            &format!("/api/v1/namespaces?{only}$ns"),
        ),
        table(
            "table: volumes",
            &format!("/api/v1/persistentvolumes?{only}volume-of-$ns"),
        ),
        table("table: claims", &core("persistentvolumeclaims")),
        table(
            "table: StatefulSets",
            "/apis/apps/v1/namespaces/$ns/statefulsets",
        ),
        table(
            "table: leases",
            "/apis/coordination.k8s.io/v1/namespaces/$ns/leases",
        ),
        table(
            "table: storage classes",
            &format!("/apis/storage.k8s.io/v1/storageclasses?{only}class-of-$ns"),
        ),
        table(
            "table: definitions",
            &format!(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?{only}widgets.$ns.example.com"
            ),
        ),
        table(
            "table: custom objects",
            "/apis/$ns.example.com/v1/namespaces/$ns/widgets",
        ),
        table("table: jobs", &job("")),
        table("table: one job", &job("/job")),
        table("table: a job that is not there", &job("/none")),
        table("table: a page", &core("secrets?limit=1")),
        table("table: nothing", &core("configmaps?labelSelector=nothing")),
    ]
}
