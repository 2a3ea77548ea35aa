//! Applying: writing what the plan says. Every step may be repeated: pods are
//! created by name and deleted by uid, and what is there already is fine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::{PaddleJob, labels};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Resource, ResourceExt};
use plan::paddlejob::{Deletion, EtcdWrite, Plan, Refusal, STOP_AFTER_SECONDS, Wake};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::context::Context;
use super::wire::{IntoChild, WireConfigMap, WirePod, WirePodGroup, WireService};
use crate::cache::{Cache, Child, Owner};
use crate::common::Common;
use crate::error::{code, is_refusal};
use crate::writes::{self, failed, is_gone, only, refusal};
use crate::{Error, identity};

/// How many requests of one job are under way at once.
const PARALLEL: usize = 16;

/// How soon another block of ports is looked for when one was taken meanwhile.
const TAKEN: Duration = Duration::from_millis(50);
/// How often an etcd is looked for that is not there: no watch tells when it comes.
pub(super) const ETCD_AGAIN: Duration = Duration::from_secs(5);

/// What came of applying a plan.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// What the API server would not do.
    pub(super) refusal: Option<Refusal>,
    /// The job itself was changed: the status waits for the next pass.
    pub(super) is_over: bool,
    /// Etcd has not heard what it should: it is tried again, less and less often.
    pub(super) is_untold: bool,
    /// When another pass is due, if what was planned could not be had.
    pub(super) retry: Option<Duration>,
}

/// Writes what the plan says, in an order in which nothing starts too early:
/// names and lists before the pods that need them.
pub(super) async fn apply(
    context: &Context,
    job: &PaddleJob,
    plan: &Plan,
) -> Result<Applied, Error> {
    // Named one by one, so that a new kind of child can't be forgotten here.
    let Plan {
        removes_finalizer,
        host_port,
        begins_at,
        etcd,
        awaits_etcd,
        pod_group,
        pod_group_deleted,
        services_created,
        services_deleted,
        config_map,
        pods_created,
        pods_woken,
        pods_stopped,
        pods_deleted,
        deletes_job,
        status: _,
        is_urgent: _,
        events: _,
        wake_at: _,
    } = plan;
    let on = Target {
        context,
        job,
        namespace: identity(&job.metadata.namespace),
    };
    let over = Applied {
        is_over: true,
        ..Applied::default()
    };
    if *removes_finalizer && remove_finalizer(&context.common, &job.metadata).await? {
        return Ok(over);
    }
    if *deletes_job {
        on.delete_job().await?;
        return Ok(over);
    }
    if let Some(port) = host_port {
        let is_given = on.take_ports(*port).await?;
        return Ok(Applied {
            retry: (!is_given).then_some(TAKEN),
            ..over
        });
    }
    let uid = identity(&job.metadata.uid);
    if begins_at.is_some_and(|port| !context.ledger.give_ports(uid, port)) {
        return Ok(Applied {
            retry: Some(TAKEN),
            ..over
        });
    }
    let mut is_untold = false;
    match etcd {
        Some(write) if *awaits_etcd => {
            if let Err(message) = on.tell_etcd(write).await {
                return Ok(Applied {
                    refusal: Some(Refusal {
                        reason: "EtcdUnreachable",
                        message,
                    }),
                    retry: Some(ETCD_AGAIN),
                    ..Applied::default()
                });
            }
        }
        // Of a job that has ended, which another manager had begun.
        Some(_) if context.etcd.servers.is_empty() => {}
        // Nothing else depends on it.
        Some(write) => {
            if let Err(error) = on.tell_etcd(write).await {
                tracing::warn!(%error, ?write, "etcd does not know what a job wants it to");
                is_untold = true;
            }
        }
        None => {}
    }
    let mut refusal = None;
    if let Some(group) = pod_group {
        refusal = on.write_pod_group(group).await?;
    }
    let services = services_created
        .iter()
        .map(|service| on.create::<WireService, _>(&context.services, service));
    refusal = refusal.or(parallel(services).await?);
    if let Some(data) = config_map {
        refusal = refusal.or(on.write_config_map(data).await?);
    }
    // Woken for nothing, a pod would not be woken again.
    let woken = if refusal.is_none() {
        &**pods_woken
    } else {
        &[]
    };
    let pods = pods_created
        .iter()
        .map(|pod| on.create::<WirePod, _>(&context.pods, pod));
    let refusals = [
        refusal,
        parallel(pods).await?,
        parallel(woken.iter().map(|wake| on.wake(wake))).await?,
        parallel(pods_stopped.iter().map(|pod| on.stop(pod))).await?,
        parallel(pods_deleted.iter().map(|pod| on.delete_pod(pod))).await?,
        parallel(services_deleted.iter().map(|name| on.delete_service(name))).await?,
        on.delete_pod_group(*pod_group_deleted).await?,
    ];
    Ok(Applied {
        refusal: refusals.into_iter().flatten().next(),
        is_untold,
        ..Applied::default()
    })
}

/// Removes the finalizer of the Go operator; others stay. False when the API
/// server takes no change of an object whose spec it would refuse today: then it
/// stays until somebody mends the object. A webhook that is down is tried again.
pub(super) async fn remove_finalizer(common: &Common, meta: &ObjectMeta) -> Result<bool, Error> {
    let others = meta.finalizers.iter().flatten();
    let others = others.filter(|name| *name != labels::GO_FINALIZER);
    let others: Vec<String> = others.cloned().collect();
    match common.set_finalizers::<PaddleJob>(meta, &others).await {
        Err(Error::Apply { source, .. }) if is_refusal(&source) && code(&source) != Some(500) => {
            Ok(false)
        }
        removed => removed.map(|()| true),
    }
}

/// Does many things at once. Of several refusals it is always the same that is
/// told, in whatever order the answers come: what changes is told again.
async fn parallel(
    tasks: impl Iterator<Item = impl Future<Output = Result<Option<Refusal>, Error>>>,
) -> Result<Option<Refusal>, Error> {
    // A stream of futures that borrow needs its items collected first.
    let tasks: Vec<_> = tasks.collect();
    let refusals: Vec<_> = stream::iter(tasks)
        .buffer_unordered(PARALLEL)
        .try_collect()
        .await?;
    let refusals = refusals.into_iter().flatten();
    Ok(refusals.min_by(|a, b| a.message.cmp(&b.message)))
}

struct Target<'a> {
    context: &'a Context,
    job: &'a PaddleJob,
    namespace: &'a str,
}

impl Target<'_> {
    fn api<K>(&self) -> kube::Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        self.context.common.api(self.namespace)
    }

    fn owns<K: Resource>(&self, object: &K) -> bool {
        Owner::of(object.meta(), "PaddleJob")
            .is_some_and(|owner| Some(owner.uid) == self.job.metadata.uid)
    }

    /// Creates an object. One of ours that is there already is fine; one of
    /// somebody else is neither adopted nor deleted.
    async fn create<K, V>(&self, cache: &Cache<V>, object: &Value) -> Result<Option<Refusal>, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + IntoChild<V>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let kind = K::kind(&());
        let name = object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let fail = |source| failed("create", kind.clone(), name, source);
        let request = Request::new(K::url_path(&(), Some(self.namespace)))
            .create(&PostParams::default(), object.to_string().into_bytes())
            .map_err(|error| fail(kube::Error::BuildRequest(error)))?;
        let made: K = match self.context.common.client.request(request).await {
            Ok(made) => made,
            Err(error) if code(&error) == Some(409) => {
                // It may be gone by now; then the next pass makes it.
                let Some(found) = self.api::<K>().get_opt(name).await.map_err(fail)? else {
                    return Err(fail(error));
                };
                if !self.owns(&found) {
                    return Ok(Some(taken(&kind, self.namespace, name)));
                }
                self.claim(found, object).await.map_err(fail)?
            }
            Err(error) => return self.refusal(Err(fail(error))),
        };
        note(cache, made);
        Ok(None)
    }

    /// What the API server will not do is for the user to know.
    fn refusal(&self, written: Result<(), Error>) -> Result<Option<Refusal>, Error> {
        let namespace = self.namespace;
        let refused = refusal(written, |action, kind, name, words| {
            format!("the API server refuses to {action} {kind} {namespace}/{name}: {words}")
        });
        let because = |message| Refusal {
            reason: "Refused",
            message,
        };
        Ok(refused?.map(because))
    }

    /// Services of the Go operator have no labels, and would never be seen. The
    /// labels of a pod that is ours are its own, whatever attempt it is of.
    async fn claim<K>(&self, found: K, wanted: &Value) -> Result<K, kube::Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let wanted = wanted.pointer("/metadata/labels");
        let mut set = wanted.and_then(Value::as_object).into_iter().flatten();
        if set.all(|(key, value)| found.labels().get(key).map(String::as_str) == value.as_str()) {
            return Ok(found);
        }
        let patch = json!({"metadata": {"labels": wanted}});
        self.api::<K>()
            .patch(
                &found.name_any(),
                &PatchParams::default(),
                &Patch::Merge(patch),
            )
            .await
    }

    async fn write_config_map(
        &self,
        data: &BTreeMap<String, String>,
    ) -> Result<Option<Refusal>, Error> {
        let cache = &self.context.config_maps;
        let name = identity(&self.job.metadata.name);
        if self.known(cache, name).is_none() {
            let object = plan::paddlejob::config_map(self.job, data);
            let refusal = self.create::<WireConfigMap, _>(cache, &object).await?;
            if refusal.is_some() {
                return Ok(refusal);
            }
        }
        // One that was there before we knew of it may say something else.
        let Some(old) = self.known(cache, name).filter(|old| old.view.data != *data) else {
            return Ok(None);
        };
        let removed = old.view.data.keys().filter(|key| !data.contains_key(*key));
        let removed = removed.map(|key| (key.clone(), Value::Null));
        let written = data
            .iter()
            .map(|(key, value)| (key.clone(), value.clone().into()));
        let patch = json!({"metadata": {"uid": old.uid}, "data": removed.chain(written).collect::<Value>()});
        let patched = self
            .api::<WireConfigMap>()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        match patched {
            Ok(map) => note(cache, map),
            Err(error) => return self.refusal(Err(failed("patch", "ConfigMap", name, error))),
        }
        Ok(None)
    }

    /// Gives a block of ports to the job; false when it was given to another meanwhile.
    async fn take_ports(&self, port: u16) -> Result<bool, Error> {
        let meta = &self.job.metadata;
        if !self.context.ledger.give_ports(identity(&meta.uid), port) {
            return Ok(false);
        }
        let patch = json!({"metadata": {
            "resourceVersion": meta.resource_version,
            "annotations": {labels::HOST_PORT: port.to_string()},
        }});
        let (jobs, name) = (self.api::<PaddleJob>(), identity(&meta.name));
        writes::patch(&jobs, "give ports to", "PaddleJob", name, &patch).await?;
        Ok(true)
    }

    async fn tell_etcd(&self, write: &EtcdWrite) -> Result<(), String> {
        let Context {
            common,
            etcd,
            ledger,
            ..
        } = self.context;
        etcd.write(&common.client, write).await?;
        let removal = plan::paddlejob::remove_keys(self.job);
        ledger.told(identity(&self.job.metadata.uid), write.clone(), removal);
        Ok(())
    }

    async fn write_pod_group(&self, group: &Value) -> Result<Option<Refusal>, Error> {
        let cache = &self.context.pod_groups;
        let name = identity(&self.job.metadata.name);
        let Some(old) = self.known(cache, name) else {
            return match self.create::<WirePodGroup, _>(cache, group).await {
                Err(Error::Apply { source, .. }) if is_gone(&source) => Ok(Some(Refusal {
                    reason: "NoVolcano",
                    message: "the API server knows no PodGroups: install Volcano, or start the manager without --scheduling=volcano".to_owned(),
                })),
                created => created,
            };
        };
        let mut spec = group.get("spec").cloned().unwrap_or_default();
        if let Some(amounts) = spec.get_mut("minResources").and_then(Value::as_object_mut) {
            for resource in old.view.min_resources.keys() {
                amounts.entry(resource).or_insert(Value::Null);
            }
        }
        let annotations = group.pointer("/metadata/annotations");
        let patch = json!({"metadata": {"uid": old.uid, "annotations": annotations}, "spec": spec});
        let groups = self.api::<WirePodGroup>();
        let patched = groups
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        match patched {
            Ok(group) => note(cache, group),
            Err(error) if is_gone(&error) => {}
            Err(error) => return self.refusal(Err(failed("patch", "PodGroup", name, error))),
        }
        Ok(None)
    }

    async fn delete_pod_group(&self, goes: bool) -> Result<Option<Refusal>, Error> {
        let name = identity(&self.job.metadata.name);
        let known = self.known(&self.context.pod_groups, name);
        let Some(known) = known.filter(|_| goes) else {
            return Ok(None);
        };
        let (groups, how) = (self.api::<WirePodGroup>(), DeleteParams::default());
        self.refusal(writes::delete(&groups, "PodGroup", name, &known.uid, how).await)
    }

    /// A child of the job as far as we know.
    fn known<V>(&self, cache: &Cache<V>, name: &str) -> Option<Arc<Child<V>>> {
        let known = cache.of(identity(&self.job.metadata.uid));
        let mut known = known.seen.into_iter().chain(known.unseen);
        known.find(|child| child.name == name)
    }

    async fn wake(&self, wake: &Wake) -> Result<Option<Refusal>, Error> {
        let patch =
            json!({"metadata": {"uid": wake.uid, "annotations": {labels::WOKEN: wake.key}}});
        self.patch_pod("wake", &wake.name, patch).await
    }

    async fn stop(&self, pod: &Deletion) -> Result<Option<Refusal>, Error> {
        let patch = json!({
            "metadata": {"uid": pod.uid},
            "spec": {"activeDeadlineSeconds": STOP_AFTER_SECONDS},
        });
        self.patch_pod("stop", &pod.name, patch).await
    }

    async fn patch_pod(
        &self,
        action: &'static str,
        name: &str,
        patch: Value,
    ) -> Result<Option<Refusal>, Error> {
        match self
            .api::<WirePod>()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
        {
            Ok(pod) => note(&self.context.pods, pod),
            Err(error) if is_gone(&error) => {}
            Err(error) => return self.refusal(Err(failed(action, "Pod", name, error))),
        }
        Ok(None)
    }

    async fn delete_pod(&self, pod: &Deletion) -> Result<Option<Refusal>, Error> {
        let resource_version = if pod.unless_scheduled {
            let known = self.context.pods.of(identity(&self.job.metadata.uid));
            let known = known.seen.iter().find(|child| child.uid == pod.uid);
            let Some(known) = known.filter(|child| !child.view.is_scheduled()) else {
                // It got a node, or is gone: the next pass is on its way.
                return Ok(None);
            };
            Some(known.version.clone())
        } else {
            None
        };
        let params = DeleteParams {
            grace_period_seconds: pod.force.then_some(0),
            preconditions: Some(Preconditions {
                resource_version,
                ..only(&pod.uid)
            }),
            ..DeleteParams::default()
        };
        match self.api::<WirePod>().delete(&pod.name, &params).await {
            Ok(answer) => answer
                .left()
                .into_iter()
                .for_each(|pod| note(&self.context.pods, pod)),
            Err(error) if is_gone(&error) => {}
            Err(error) => return self.refusal(Err(failed("delete", "Pod", &pod.name, error))),
        }
        Ok(None)
    }

    async fn delete_service(&self, name: &str) -> Result<Option<Refusal>, Error> {
        let Some(known) = self.known(&self.context.services, name) else {
            return Ok(None);
        };
        let (services, how) = (self.api::<WireService>(), DeleteParams::default());
        self.refusal(writes::delete(&services, "Service", name, &known.uid, how).await)
    }

    async fn delete_job(&self) -> Result<(), Error> {
        let meta = &self.job.metadata;
        let (name, uid) = (identity(&meta.name), identity(&meta.uid));
        let (jobs, how) = (self.api::<PaddleJob>(), DeleteParams::background());
        writes::delete(&jobs, "PaddleJob", name, uid, how).await
    }
}

fn note<K: IntoChild<V>, V>(cache: &Cache<V>, written: K) {
    if let Some(child) = written.into_child() {
        cache.note_written(child);
    }
}

fn taken(kind: &str, namespace: &str, name: &str) -> Refusal {
    Refusal {
        reason: "NameTaken",
        message: format!(
            "{kind} {namespace}/{name} belongs to somebody else; delete it, or give the job another name"
        ),
    }
}
