//! What holds in every scenario, whatever it is about, judged by all that the
//! watches have shown.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use api::{PaddleJob, labels};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::puppet::Start;
use crate::world::World;

/// Checks a world that a scenario has left behind.
pub(crate) fn check(world: &World, starts: &[Start]) -> Result<()> {
    attempts_never_meet(world)?;
    pods_are_woken_once(world)?;
    status_never_goes_back(world)?;
    let pods: BTreeMap<String, &Pod> = { world.pods.all.iter() }
        .filter_map(|seen| Some((seen.object.uid()?, &*seen.object)))
        .collect();
    // The wait container reads the servers only, and these never change within
    // an attempt.
    let trains = |start: &&Start| {
        start.container != plan::paddlejob::WAIT_CONTAINER
            && start.environment.contains_key("TRAINING_ROLE")
    };
    let mut worlds: BTreeMap<(String, i32), &Start> = BTreeMap::new();
    for start in starts.iter().filter(trains) {
        knows_its_own_address(start)?;
        let attempt = pods.get(&start.uid).and_then(|pod| attempt(pod));
        if let Some(attempt) = attempt {
            let first = worlds.entry(attempt).or_insert(start);
            agrees_with(start, first)?;
        }
    }
    Ok(())
}

/// The job that a pod belongs to, by uid, and the attempt that it was made for.
fn attempt(pod: &Pod) -> Option<(String, i32)> {
    let owners = pod.metadata.owner_references.as_ref()?;
    let owner = owners.iter().find(|owner| owner.kind == "PaddleJob")?;
    let attempt = pod.annotations().get(labels::ATTEMPT);
    // The Go operator did not write it down, and had no second one.
    let attempt = attempt.map_or(Some(0), |attempt| attempt.parse().ok())?;
    Some((owner.uid.clone(), attempt))
}

/// Pods of an attempt come when those of the one before are gone.
fn attempts_never_meet(world: &World) -> Result<()> {
    let mut living: BTreeMap<String, (String, i32)> = BTreeMap::new();
    for seen in &world.pods.all {
        let Some((job, number)) = attempt(&seen.object) else {
            continue;
        };
        let name = seen.object.name_any();
        if seen.deleted {
            living.remove(&name);
            continue;
        }
        for (other, (of, their)) in &living {
            ensure!(
                *of != job || *their == number,
                "{name} of attempt {number} met {other} of attempt {their}"
            );
        }
        living.insert(name, (job, number));
    }
    Ok(())
}

/// A pod that waits gets one wake-up, and no pod gets two.
fn pods_are_woken_once(world: &World) -> Result<()> {
    for seen in world.pods.all.iter().filter(|seen| seen.deleted) {
        woken_once(world, &seen.object)?;
    }
    let mut living = world.pods.now.values();
    living.try_for_each(|pod| woken_once(world, pod))
}

fn woken_once(world: &World, pod: &Pod) -> Result<()> {
    let wake_ups = world.wake_ups(&pod.uid().unwrap_or_default());
    let name = pod.name_any();
    ensure!(wake_ups <= 1, "{name} was woken {wake_ups} times");
    Ok(())
}

/// An ended job stays ended, and nothing that is counted is taken back.
fn status_never_goes_back(world: &World) -> Result<()> {
    let mut last: BTreeMap<String, &PaddleJob> = BTreeMap::new();
    for seen in &world.jobs.all {
        let job = &*seen.object;
        let (Some(uid), Some(new)) = (job.uid(), &job.status) else {
            continue;
        };
        let name = job.name_any();
        let observed = new.observed_generation.unwrap_or(0);
        let generation = job.metadata.generation.unwrap_or(0);
        ensure!(observed <= generation, "{name} observed the future");
        if let Some(old) = last.insert(uid, job).and_then(|old| old.status.as_ref()) {
            let ended = old.phase.is_some_and(api::Phase::is_terminal);
            ensure!(
                !ended || old.phase == new.phase,
                "{name} went from {:?} to {:?}",
                old.phase,
                new.phase
            );
            ensure!(
                old.attempt <= new.attempt && old.restarts <= new.restarts,
                "{name} takes back what it counted: {old:?}, {new:?}"
            );
        }
    }
    Ok(())
}

/// No paddle container ever starts with a list in which its own address is not
/// at its own place: such a list is an old one.
fn knows_its_own_address(start: &Start) -> Result<()> {
    let get = |name: &str| start.environment.get(name).map(String::as_str);
    let list = match get("TRAINING_ROLE") {
        Some("PSERVER") => get("PADDLE_PSERVERS_IP_PORT_LIST"),
        Some("HETER_TRAINER") => get("PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST"),
        _ => get("PADDLE_TRAINER_ENDPOINTS"),
    };
    let rank = start.pod.rsplit('-').next().unwrap_or_default();
    let rank: usize = rank.parse()?;
    let host = list
        .and_then(|list| list.split(',').nth(rank)?.split(':').next())
        .with_context(|| format!("a list without rank {rank}: {start:#?}"))?;
    ensure!(
        get("POD_IP") == Some(host),
        "a list with the address {host} of somebody else: {start:#?}"
    );
    Ok(())
}

/// Two pods that train together have the same peers: all of them in a
/// Collective job, the same servers in a PS job.
fn agrees_with(start: &Start, first: &Start) -> Result<()> {
    let get = |start: &Start, name: &str| start.environment.get(name).cloned();
    let servers = "PADDLE_PSERVERS_IP_PORT_LIST";
    let name = match get(first, servers) {
        Some(_) => servers,
        None => "PADDLE_TRAINER_ENDPOINTS",
    };
    ensure!(
        get(start, name) == get(first, name),
        "{} and {} have different peers: {:?}, {:?}",
        start.pod,
        first.pod,
        get(start, name),
        get(first, name)
    );
    Ok(())
}
