//! Applying: writing what the plan says. Every step may be repeated: pods are
//! created by name and deleted by uid, and what is there already is fine.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{PaddleJob, labels};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Resource, ResourceExt};
use plan::paddlejob::{Deletion, Plan, Refusal, STOP_AFTER_SECONDS, Wake};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::context::Context;
use super::wire::{IntoChild, WireConfigMap, WirePod, WireService};
use crate::cache::{Cache, Child, Owner};
use crate::common::Common;
use crate::error::{code, is_refusal};
use crate::writes::{self, failed, is_gone, only, refusal};
use crate::{Error, identity};

/// How many requests of one job are under way at once.
const PARALLEL: usize = 16;

/// What came of applying a plan.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// What the API server would not do.
    pub(super) refusal: Option<Refusal>,
    /// The job itself was changed: the status waits for the next pass.
    pub(super) is_over: bool,
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
        refusal: None,
        is_over: true,
    };
    if *removes_finalizer && remove_finalizer(&context.common, &job.metadata).await? {
        return Ok(over);
    }
    if *deletes_job {
        on.delete_job().await?;
        return Ok(over);
    }
    let services = services_created
        .iter()
        .map(|service| on.create::<WireService, _>(&context.services, service));
    let mut refusal = parallel(services).await?;
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
    ];
    Ok(Applied {
        refusal: refusals.into_iter().flatten().next(),
        is_over: false,
    })
}

/// Removes the finalizer of the Go operator; others stay. False when the API
/// server takes no change of an object whose spec it would refuse today: then it
/// stays until somebody mends the object.
pub(super) async fn remove_finalizer(common: &Common, meta: &ObjectMeta) -> Result<bool, Error> {
    let others = meta.finalizers.iter().flatten();
    let others = others.filter(|name| *name != labels::GO_FINALIZER);
    let others: Vec<String> = others.cloned().collect();
    match common.set_finalizers::<PaddleJob>(meta, &others).await {
        Err(Error::Apply { source, .. }) if is_refusal(&source) => Ok(false),
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
