//! Many objects at once.

use serde_json::json;

use crate::request::{METADATA, METADATA_LIST, Request, core, get, post};

pub fn all() -> Vec<Request> {
    // Of a kind of which nobody else makes any.
    let secrets = &core("secrets");
    let labelled = |name: &'static str, label: &str| {
        post(
            name,
            secrets,
            json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": format!("s-{label}"), "labels": {"list": label, "all": "yes"}},
                "stringData": {"key": label},
            }),
        )
    };
    let list = |name: &'static str, query: &str| get(name, &format!("{secrets}?{query}"));
    let mut all = vec![
        labelled("make the first of a list", "a"),
        labelled("make the second of a list", "b"),
        labelled("make the third of a list", "c").keep("third", "/body/metadata/resourceVersion"),
        get("list", secrets),
        list("list with a label", "labelSelector=list%3Da"),
        list(
            "list with a label, in the other way",
            "labelSelector=list%3D%3Da",
        ),
        list("list without a label", "labelSelector=list!%3Da"),
        list(
            "list with one of some labels",
            "labelSelector=list%20in%20(a,b)",
        ),
        list(
            "list with none of some labels",
            "labelSelector=list%20notin%20(a,b)",
        ),
        list("list with any label", "labelSelector=list"),
        list("list without any label", "labelSelector=!list"),
        list("list with two labels", "labelSelector=list%3Da,all%3Dyes"),
        list("list with greater labels", "labelSelector=list%3E1"),
        list("list with a bad selector", "labelSelector=list%20in"),
        list("list with a bad label", "labelSelector=a%20b%3Dc"),
        list("list with a name", "fieldSelector=metadata.name%3Ds-a"),
        list("list without a name", "fieldSelector=metadata.name!%3Ds-a"),
        list(
            "list with a name and a namespace",
            "fieldSelector=metadata.name%3Ds-a,metadata.namespace%3D$ns",
        ),
        list("list secrets of a type", "fieldSelector=type%3DOpaque"),
        list(
            "list with a field that is not selected by",
            "fieldSelector=data.key%3Dx",
        ),
        list(
            "list with a bad field selector",
            "fieldSelector=metadata.name",
        ),
        get(
            "list in all namespaces",
            "/api/v1/secrets?labelSelector=list%3Da",
        ),
        get(
            "list in a namespace that is not there",
            "/api/v1/namespaces/no-such/secrets",
        ),
        list("the first page", "limit=2").keep("page", "/body/metadata/continue"),
        list("the last page", "limit=2&continue=$page"),
        list("a page with a selector", "limit=1&labelSelector=all")
            .keep("selected", "/body/metadata/continue"),
        list(
            "the rest with a selector",
            "labelSelector=all&continue=$selected",
        ),
        list("a page that was never promised", "limit=2&continue=abc"),
        list(
            "a page at a version",
            "limit=2&continue=$page&resourceVersion=$third",
        ),
        list("a limit below nothing", "limit=-1"),
        list("a limit that is none", "limit=many"),
        list("list of any version", "resourceVersion=0"),
        list(
            "list not older than",
            "resourceVersion=$third&resourceVersionMatch=NotOlderThan",
        ),
        list(
            "list exactly at",
            "resourceVersion=$third&resourceVersionMatch=Exact",
        ),
        list("match without a version", "resourceVersionMatch=Exact"),
        list("list of a version that is none", "resourceVersion=abc"),
    ];
    all.extend([
        list("metadata of many", "labelSelector=list%3Da").accept(METADATA_LIST),
        get("metadata of one", &core("secrets/s-a")).accept(METADATA),
        get("what nobody can make", &core("secrets/s-a")).accept("application/xml"),
    ]);
    all
}
