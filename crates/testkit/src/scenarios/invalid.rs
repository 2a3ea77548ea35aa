//! Specs that can't work: the API refuses them, or a condition says why, and
//! nothing is made.

use anyhow::{Context as _, Result, bail, ensure};
use api::{PaddleJob, Phase};
use kube::ResourceExt;
use kube::api::{DynamicObject, PostParams};
use kube::core::ApiResource;
use kube::{Api, Error};
use serde_json::{Value, json};

use super::{running, same};
use crate::Env;
use crate::builders::{job, template};

/// A spec, and a word that the answer must hold.
fn wrong() -> Vec<(&'static str, Value, &'static str)> {
    let role = |replicas: Value| json!({"replicas": replicas, "template": template()});
    let with = |field: &str, value: Value| json!({"worker": role(json!(1)), field: value});
    let bare = |template: Value| json!({"worker": {"replicas": 1, "template": template}});
    vec![
        ("no-role", json!({}), "role"),
        ("none", json!({"worker": role(json!(0))}), "replicas"),
        ("negative", json!({"worker": role(json!(-1))}), "replicas"),
        ("too-many", json!({"worker": role(json!(2001))}), "replicas"),
        ("text", json!({"worker": role(json!("two"))}), "replicas"),
        (
            "no-servers",
            json!({"ps": role(json!(0)), "worker": role(json!(1))}),
            "replicas",
        ),
        (
            "no-template",
            json!({"worker": {"replicas": 1}}),
            "template",
        ),
        (
            "no-spec",
            bare(json!({"metadata": {"labels": {"a": "b"}}})),
            "spec",
        ),
        ("no-containers", bare(json!({"spec": {}})), "containers"),
        (
            "empty",
            bare(json!({"spec": {"containers": []}})),
            "containers",
        ),
        (
            "not-a-list",
            bare(json!({"spec": {"containers": "paddle"}})),
            "containers",
        ),
        ("gloo", with("withGloo", json!(3)), "withGloo"),
        ("backoff", with("backoffLimit", json!(-1)), "backoffLimit"),
        (
            "deadline",
            with("activeDeadlineSeconds", json!(0)),
            "activeDeadlineSeconds",
        ),
        (
            "ttl",
            with("ttlSecondsAfterFinished", json!(-1)),
            "ttlSecondsAfterFinished",
        ),
        ("with.dot", with("intranet", json!("Service")), "name"),
        ("1-digit-first", with("intranet", json!("Service")), "name"),
        (
            "a-name-of-which-no-pod-could-ever-be-called-because-it-is-so-long",
            with("intranet", json!("PodIP")),
            "name",
        ),
    ]
}

pub(super) async fn nothing_is_made(env: &Env) -> Result<()> {
    let api = raw_jobs(env);
    let (mut refused, mut stored) = (0, Vec::new());
    for (name, spec, word) in wrong() {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "batch.paddlepaddle.org/v1",
            "kind": "PaddleJob",
            "metadata": {"name": name},
            "spec": spec,
        }))?;
        match api.create(&PostParams::default(), &object).await {
            Ok(_) => stored.push((name, word)),
            Err(Error::Api(status)) if [400, 422].contains(&status.code) => {
                refused += 1;
                let message = &status.message;
                ensure!(message.contains(word), "{name}: no {word:?} in {message:?}");
            }
            Err(error) => bail!("{name}: {error}"),
        }
    }
    ensure!(refused > 0, "the CRD refuses nothing");
    for (name, word) in stored {
        let job = env.api::<PaddleJob>().get(name).await?;
        let job = env.job(&job);
        let told = job
            .has_condition("Scheduled", false, "InvalidSpec")
            .await?
            .message;
        ensure!(told.contains(word), "{name}: no {word:?} in {told:?}");
        let told = job.tells("InvalidSpec").await?;
        ensure!(told.contains(word), "{name}: no {word:?} in {told:?}");
        same(name, job.status()?.phase, Some(Phase::Pending))?;
    }
    env.let_pass().await?;
    let made = env.look(|world| {
        let pods = world.pods.all.iter().map(|seen| seen.object.name_any());
        let pods: Vec<String> = pods.filter(|name| !name.starts_with("marker-")).collect();
        (pods, world.services.all.len())
    });
    same("pods and Services", made, (Vec::new(), 0))
}

fn raw_jobs(env: &Env) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<PaddleJob>(&());
    Api::namespaced_with(env.client.clone(), &env.namespace, &resource)
}

/// A spec that was mended starts.
pub(super) async fn mended(env: &Env) -> Result<()> {
    env.kubelet.run_all();
    let job = env.create(job("a").ps(1).workers(1).gloo(7)).await?;
    job.has_condition("Scheduled", false, "InvalidSpec").await?;
    job.change(json!({"withGloo": 2})).await?;
    job.reaches(Phase::Running).await?;
    job.has_condition("Scheduled", true, "AllScheduled").await?;
    Ok(())
}

/// What runs already goes on when its spec is spoilt.
pub(super) async fn spoilt(env: &Env) -> Result<()> {
    let job = running(env, job("a").ps(1).workers(1)).await?;
    let uids = job.uids();
    job.change(json!({"withGloo": 7})).await?;
    job.has_condition("Scheduled", false, "InvalidSpec").await?;
    env.let_pass().await?;
    same("pods", job.uids(), uids)?;
    same("phase", job.status()?.phase, Some(Phase::Running))
}

/// A template that the API server does not take: its words are in a condition.
pub(super) async fn refused_pod(env: &Env) -> Result<()> {
    env.kubelet.run_all();
    let broken =
        json!([{"name": "paddle", "image": "paddle:test", "imagePullPolicy": "Sometimes"}]);
    let job = env
        .create(job("a").workers(1).pod_field("containers", broken))
        .await?;
    let told = job
        .has_condition("Scheduled", false, "Refused")
        .await?
        .message;
    ensure!(
        told.contains("a-worker-0") && told.contains("imagePullPolicy"),
        "{told}"
    );
    let template = template();
    let good = template.pointer("/spec/containers").context("containers")?;
    let mended = json!({"worker": {"template": {"spec": {"containers": good}}}});
    job.change(mended).await?;
    job.reaches(Phase::Running).await?;
    Ok(())
}
