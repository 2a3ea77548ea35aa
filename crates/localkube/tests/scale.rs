//! Scaling while others write.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::json;
use support::File;

/// A patch of the scale names no version, so nobody can be too late with it.
#[tokio::test]
async fn a_patch_of_the_scale_meets_no_conflict() {
    let file = File::new("scale");
    let api = localkube::Api::open(&file.0).await.unwrap();
    let router = localkube::http::router(api, axum::Router::new());
    let client = Client::new(router.into_service(), "default");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = serde_json::from_value(json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Widget", "plural": "widgets"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
                }},
            }],
        },
    }));
    let params = PostParams::default();
    definitions
        .create(&params, &definition.unwrap())
        .await
        .unwrap();
    let kind = ApiResource {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        api_version: "example.com/v1".to_owned(),
        kind: "Widget".to_owned(),
        plural: "widgets".to_owned(),
    };
    let widgets: Api<DynamicObject> = Api::default_namespaced_with(client, &kind);
    let widget = DynamicObject::new("a", &kind).data(json!({"spec": {"size": 0}}));
    widgets.create(&params, &widget).await.unwrap();
    let params = PatchParams::default();
    let report = async {
        for size in 1..=50 {
            let patch = Patch::Merge(json!({"status": {"size": size}}));
            widgets.patch_status("a", &params, &patch).await.unwrap();
        }
    };
    let scale = async {
        for size in 1..=50 {
            let patch = Patch::Merge(json!({"spec": {"replicas": size}}));
            widgets.patch_scale("a", &params, &patch).await.unwrap();
        }
    };
    tokio::join!(report, scale);
    let late = Patch::Merge(json!({
        "metadata": {"resourceVersion": "1"}, "spec": {"replicas": 1},
    }));
    assert!(widgets.patch_scale("a", &params, &late).await.is_err());
}
