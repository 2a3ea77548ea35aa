//! SampleSets, as far as no volume and no server is needed.

use anyhow::{Context as _, Result, ensure};
use api::SampleSet;
use controllers::{Options, sampleset};
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::timeout;

use super::same;
use crate::wait::PATIENCE;
use crate::{Env, accounts};

/// A name that is taken is a condition; what has it is not touched; the set goes on
/// when the name is free, which no watch tells.
pub(super) async fn name_taken(env: &Env) -> Result<()> {
    let options = Options {
        namespace: Some(env.namespace.clone()),
        settings: plan::sampleset::Settings {
            cache_path_prefixes: vec!["/var/lib/juicefs".to_owned()],
            ..plan::sampleset::Settings::default()
        },
        ..Options::default()
    };
    let client = env.client_of(accounts::SAMPLESET)?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async {
        // Dropping the other end stops it.
        let _ = stopped.await;
    };
    let manager = tokio::spawn(sampleset::run(client, options, || (), stopped));
    let played = play(env).await;
    drop(stop);
    timeout(PATIENCE, manager).await??;
    played
}

async fn play(env: &Env) -> Result<()> {
    prepare(env).await?;
    let service = plan::names::runtime_service("a");
    let theirs: Service = serde_json::from_value(json!({
        "metadata": {"name": service},
        "spec": {"ports": [{"port": 80}], "selector": {"app": "web"}},
    }))?;
    let services = env.api::<Service>();
    let theirs = services.create(&PostParams::default(), &theirs).await?;
    let sets = env.api::<SampleSet>();
    let set: SampleSet = serde_json::from_value(json!({
        "apiVersion": "batch.paddlepaddle.org/v1alpha1",
        "kind": "SampleSet",
        "metadata": {"name": "a"},
        "spec": {"partitions": 1, "noSync": true, "secretRef": {"name": "volume"}},
    }))?;
    let set = sets.create(&PostParams::default(), &set).await?;
    until(&sets, |set| {
        told(set).is_some_and(|told| told.contains(&service))
    })
    .await?;
    same("the Service", services.get(&service).await?, theirs)?;
    services.delete(&service, &DeleteParams::default()).await?;
    until(&sets, |set| told(set).is_none()).await?;
    let ours = services.get(&service).await?;
    let owner = ours.owner_references().first().map(|owner| &owner.uid);
    same("the owner of the Service", owner, set.metadata.uid.as_ref())?;
    sets.delete("a", &DeleteParams::default()).await?;
    let gone = await_condition(sets, "a", |set: Option<&SampleSet>| set.is_none());
    timeout(PATIENCE, gone).await.context("the set stays")??;
    Ok(())
}

/// What a set needs: the Secret of its volume, and the driver.
async fn prepare(env: &Env) -> Result<()> {
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "volume"},
        "stringData": {
            "name": "volume", "storage": "redis",
            "bucket": "redis://192.0.2.1/1", "metaurl": "redis://192.0.2.1/0",
        },
    }))?;
    let secrets = env.api::<Secret>();
    secrets.create(&PostParams::default(), &secret).await?;
    let driver: CSIDriver = serde_json::from_value(json!({
        "metadata": {"name": plan::sampleset::volume::CSI_DRIVER}, "spec": {},
    }))?;
    let drivers: Api<CSIDriver> = Api::all(env.client.clone());
    match drivers.create(&PostParams::default(), &driver).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        made => drop(made?),
    }
    Ok(())
}

/// What is said of a name that is taken.
fn told(set: &SampleSet) -> Option<&str> {
    let mut said = set.status.iter().flat_map(|status| &status.conditions);
    let said = said.find(|said| said.reason == "NameTaken")?;
    Some(&said.message)
}

async fn until(sets: &Api<SampleSet>, holds: impl Fn(&SampleSet) -> bool) -> Result<()> {
    let holds = |set: Option<&SampleSet>| set.is_some_and(&holds);
    let found = timeout(PATIENCE, await_condition(sets.clone(), "a", holds)).await;
    ensure!(
        found.is_ok(),
        "it does not come: {:?}",
        sets.get("a").await?.status
    );
    found??;
    Ok(())
}
