//! Observing: the set of a job, its servers, and the other jobs. It reads and
//! never writes.

use std::sync::Arc;

use api::{SampleJob, SampleSet, labels};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use plan::samplejob::{self, Rival, Run, Seen};
use plan::sampleset::Child;

use super::context::Context;
use crate::cache::Owner;
use crate::{Error, identity, pods, runtime};

/// What the watches show, and what has to be asked for.
pub(super) async fn observe(context: &Context, job: &SampleJob) -> Result<Seen, Error> {
    let namespace = identity(&job.metadata.namespace);
    let set = set_of(context, job);
    let mut seen = Seen {
        rivals: rivals(context, job),
        runs: runs(context, job),
        ..Seen::default()
    };
    if let Some(set) = &set {
        let all = context.stores.pods.state();
        let name = identity(&set.metadata.name);
        seen.pods = pods::of_set(all.iter().map(|pod| &**pod), namespace, name);
        let common = &context.common;
        pods::mark_lost(&common.client, &mut seen.pods, common.clock.now()).await?;
    }
    seen.set = set;
    servers(context, job, &mut seen).await?;
    let needed = samplejob::secrets_needed(job, &seen);
    let client = &context.common.client;
    (seen.volume_secret, seen.source_secret) = runtime::secrets(client, namespace, needed).await?;
    Ok(seen)
}

/// The set that a job names, if it is there and can be read.
fn set_of(context: &Context, job: &SampleJob) -> Option<Arc<SampleSet>> {
    let name = job.spec.sample_set_ref.as_ref()?.name.as_deref()?;
    let namespace = job.metadata.namespace.as_deref()?;
    let stored = context
        .stores
        .sets
        .get(&ObjectRef::new(name).within(namespace))?;
    stored.0.as_ref().ok().cloned().map(Arc::new)
}

/// What the servers say, as long as somebody needs to know.
async fn servers(context: &Context, job: &SampleJob, seen: &mut Seen) -> Result<(), Error> {
    let uid = identity(&job.metadata.uid);
    let asked = samplejob::asks(job, seen.set.as_deref());
    let Some(set) = seen.set.as_deref().filter(|_| !asked.is_empty()) else {
        context.servers.forget(uid);
        return Ok(());
    };
    let tell = context.concerned.tell(&job.metadata);
    let servers = &context.servers;
    let answers = servers.ask(uid, &set.metadata, &seen.pods, &asked, &tell);
    if let Child::Ours(answers) = answers.await? {
        seen.answers = answers;
    }
    Ok(())
}

/// The other jobs of the same set that have not ended.
fn rivals(context: &Context, job: &SampleJob) -> Vec<Rival> {
    let others = context.stores.jobs.state();
    let others = others.iter().filter_map(|other| other.0.as_ref().ok());
    others
        .filter(|other| other.metadata.uid != job.metadata.uid)
        .filter(|other| other.metadata.namespace == job.metadata.namespace)
        .filter(|other| other.spec.sample_set_ref == job.spec.sample_set_ref)
        .filter_map(Rival::of)
        .collect()
}

/// The jobs that this one made by its schedule.
fn runs(context: &Context, job: &SampleJob) -> Vec<Run> {
    let uid = identity(&job.metadata.uid);
    let all = context.stores.jobs.state();
    let all = all.iter().filter_map(|other| other.0.as_ref().ok());
    let made = all.filter(|other| {
        let owner = Owner::of(&other.metadata, "SampleJob");
        owner.is_some_and(|owner| owner.uid == uid)
    });
    made.filter_map(run).collect()
}

fn run(job: &SampleJob) -> Option<Run> {
    let (meta, status) = (&job.metadata, job.status.as_ref());
    let due = job.annotations().get(labels::SCHEDULED_AT);
    let ended = status.and_then(|status| status.completion_time.as_ref());
    Some(Run {
        name: meta.name.clone()?,
        uid: meta.uid.clone()?,
        due: due.and_then(|due| due.parse::<Timestamp>().ok()),
        created: meta.creation_timestamp.as_ref().map(|time| time.0),
        phase: status.and_then(|status| status.phase),
        ended: ended.map(|time| time.0),
        is_going: meta.deletion_timestamp.is_some(),
    })
}
