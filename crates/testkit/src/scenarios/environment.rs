//! What a container starts with: the exact environment and the ConfigMap.

use anyhow::{Context as _, Result, ensure};
use api::{Phase, Role};
use serde_json::json;

use super::{running, same};
use crate::builders::{JobBuilder, job};
use crate::puppet::Environment;
use crate::{Env, Job};

/// Names that the operator keeps for itself; nobody else reads them.
const PRIVATE: &str = "PADDLE_OPERATOR_";

pub(super) async fn ps_by_pod_ip(env: &Env) -> Result<()> {
    exact(env, job("a").ps(2).workers(2), false).await
}

pub(super) async fn ps_by_service(env: &Env) -> Result<()> {
    exact(env, job("a").ps(2).workers(2).service(), true).await
}

pub(super) async fn collective_by_pod_ip(env: &Env) -> Result<()> {
    exact(env, job("a").workers(2), false).await
}

pub(super) async fn collective_by_service(env: &Env) -> Result<()> {
    exact(env, job("a").workers(2).service(), true).await
}

pub(super) async fn single_by_pod_ip(env: &Env) -> Result<()> {
    exact(env, job("a").workers(1).intranet("PodIP"), false).await
}

pub(super) async fn single_by_service(env: &Env) -> Result<()> {
    exact(env, job("a").workers(1).service(), true).await
}

/// Every variable of every paddle container, and nothing else.
async fn exact(env: &Env, builder: JobBuilder, by_service: bool) -> Result<()> {
    let job = running(env, builder).await?;
    let hosts = |role: Role| -> Result<Vec<String>> {
        let prefix = format!("a-{role}-");
        let pods: Vec<String> = job.pods().to_vec();
        let pods: Vec<String> = pods
            .into_iter()
            .filter(|p| p.starts_with(&prefix))
            .collect();
        if by_service {
            let name = |pod: &String| format!("{pod}.{}", env.namespace);
            Ok(pods.iter().map(name).collect())
        } else {
            job.addresses(&pods)
        }
    };
    let (servers, workers) = (hosts(Role::Ps)?, hosts(Role::Worker)?);
    let lists = lists(&servers, &workers);
    let map = job.config_map().context("there is no ConfigMap")?;
    same("the ConfigMap", public(map), lists.clone())?;
    let each = servers
        .iter()
        .enumerate()
        .map(|(i, host)| (Role::Ps, i, host));
    let each = each.chain(
        workers
            .iter()
            .enumerate()
            .map(|(i, host)| (Role::Worker, i, host)),
    );
    for (role, rank, host) in each {
        let pod = format!("a-{role}-{rank}");
        let found = env.kubelet.environment(&pod, "paddle")?;
        let wanted = own(env, &job, role, rank, host)
            .into_iter()
            .chain(lists.clone());
        same(&pod, public(found), wanted.collect())?;
    }
    Ok(())
}

/// What all pods share.
fn lists(servers: &[String], workers: &[String]) -> Environment {
    let endpoints = |hosts: &[String]| {
        let all: Vec<String> = hosts.iter().map(|host| format!("{host}:36000")).collect();
        all.join(",")
    };
    let mut wanted = environment(&[
        ("TRAINER_PORTS_NUM", "20"),
        ("PADDLE_PORT", "36000"),
        ("PADDLE_TRAINER_ENDPOINTS", &endpoints(workers)),
        ("PADDLE_TRAINERS", &workers.join(",")),
        ("PADDLE_TRAINERS_NUM", &workers.len().to_string()),
    ]);
    if let Some(first) = servers.first() {
        wanted.extend(environment(&[
            ("PADDLE_PSERVERS_IP_PORT_LIST", &endpoints(servers)),
            ("PADDLE_WITH_GLOO", "1"),
            ("PADDLE_GLOO_RENDEZVOUS", "3"),
            ("PADDLE_GLOO_HTTP_ENDPOINT", &format!("{first}:36018")),
        ]));
    }
    wanted
}

/// What one pod has for itself.
fn own(env: &Env, job: &Job<'_>, role: Role, rank: usize, host: &str) -> Environment {
    let training = if role == Role::Ps {
        "PSERVER"
    } else {
        "TRAINER"
    };
    let uid = job.uid.get(..8).unwrap_or_default();
    environment(&[
        ("POD_IP", host),
        ("PADDLE_TRAINER_ID", &rank.to_string()),
        ("TRAINING_ROLE", training),
        ("PADDLE_TRAINING_ROLE", training),
        ("PADDLE_CURRENT_ENDPOINT", &format!("{host}:36000")),
        ("PADDLE_JOB_ID", &format!("{uid}-{}-a", env.namespace)),
    ])
}

fn environment(pairs: &[(&str, &str)]) -> Environment {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

pub(super) fn public(mut environment: Environment) -> Environment {
    environment.retain(|name, _| !name.starts_with(PRIVATE));
    environment
}

/// withGloo unset, 0, 1 and 2; without servers it means nothing.
pub(super) async fn gloo(env: &Env) -> Result<()> {
    env.kubelet.run_all();
    let ps = |name: &str| job(name).ps(1).workers(1);
    let cases = [
        (ps("unset"), Some("1")),
        (ps("zero").gloo(0), None),
        (ps("one").gloo(1), Some("1")),
        (ps("two").gloo(2), Some("2")),
        (job("collective").workers(2).gloo(2), None),
    ];
    for (builder, wanted) in cases {
        let job = env.create(builder).await?;
        job.reaches(Phase::Running).await?;
        let found = env.kubelet.environment(&job.worker(0), "paddle")?;
        let gloo = [
            "PADDLE_WITH_GLOO",
            "PADDLE_GLOO_RENDEZVOUS",
            "PADDLE_GLOO_HTTP_ENDPOINT",
        ]
        .map(|name| found.get(name).cloned());
        let wanted = match wanted {
            None => [None, None, None],
            Some(gloo) => {
                let ip = job.addresses(&[job.ps(0)])?.concat();
                let endpoint = format!("{ip}:36018");
                [Some(gloo.to_owned()), Some("3".to_owned()), Some(endpoint)]
            }
        };
        same(&format!("gloo of job {}", job.name), gloo, wanted)?;
    }
    Ok(())
}

/// A variable that the user set is his, wherever it would have come from.
pub(super) async fn user_variables(env: &Env) -> Result<()> {
    let mine = [
        ("FIRST", "first"),
        ("PADDLE_JOB_ID", "mine"),
        ("PADDLE_TRAINER_ID", "0"),
        ("PADDLE_PORT", "1234"),
        ("PADDLE_TRAINERS_NUM", "7"),
        ("PADDLE_CURRENT_ENDPOINT", "$(POD_IP):1234"),
    ];
    let builder = mine
        .iter()
        .fold(job("a").workers(1), |builder, (name, value)| {
            builder.env(name, value)
        });
    let job = running(env, builder).await?;
    let found = env.kubelet.environment(&job.worker(0), "paddle")?;
    for (name, value) in mine {
        same(name, found.get(name).map(String::as_str), Some(value))?;
    }
    // The rest is there as ever.
    let ip = job.addresses(job.pods())?.concat();
    let endpoints = found.get("PADDLE_TRAINER_ENDPOINTS").cloned();
    same("endpoints", endpoints, Some(format!("{ip}:36000")))
}

/// The container named `paddle` trains, wherever it stands; else the first.
pub(super) async fn which_container(env: &Env) -> Result<()> {
    env.kubelet.run_all();
    for (name, containers, trains, other) in [
        ("named", ["sidecar", "paddle"], "paddle", "sidecar"),
        ("first", ["main", "sidecar"], "main", "sidecar"),
    ] {
        let containers = containers.map(|name| json!({"name": name, "image": "i"}));
        let builder = job(name)
            .workers(1)
            .pod_field("containers", json!(containers));
        let job = env.create(builder).await?;
        job.reaches(Phase::Running).await?;
        let trains = env.kubelet.environment(&job.worker(0), trains)?;
        ensure!(
            trains.contains_key("PADDLE_TRAINER_ENDPOINTS"),
            "{name}: {trains:?}"
        );
        let other = env.kubelet.environment(&job.worker(0), other)?;
        ensure!(other.is_empty(), "{name}: the sidecar got {other:?}");
    }
    Ok(())
}
