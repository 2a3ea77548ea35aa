//! The pods of a set: as they are, and as they are made.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
const REVISION: &str = "controller-revision-hash";

/// A pod that belongs to a set.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Member {
    /// The uid of the set.
    pub(super) owner: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) revision: Option<String>,
    /// Whether it has ended, in whatever way.
    pub(super) has_ended: bool,
    /// Since when it is ready, if it is.
    pub(super) ready_since: Option<Timestamp>,
    pub(super) is_going: bool,
}

impl Member {
    pub(super) fn of(pod: Pod) -> Option<Member> {
        let controls =
            |owner: &&OwnerReference| owner.controller == Some(true) && owner.kind == "StatefulSet";
        let owner = pod.owner_references().iter().find(controls)?.uid.clone();
        let status = pod.status.unwrap_or_default();
        let is_running = status.phase.as_deref() == Some("Running");
        let conditions = status.conditions.into_iter().flatten();
        let mut ready = conditions.filter(|one| one.type_ == "Ready" && one.status == "True");
        let ready = ready.next().map(|one| one.last_transition_time);
        let meta = pod.metadata;
        Some(Member {
            owner,
            name: meta.name?,
            uid: meta.uid?,
            revision: meta.labels.and_then(|mut labels| labels.remove(REVISION)),
            has_ended: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            ready_since: { ready.filter(|_| is_running) }
                .map(|since| since.map_or(Timestamp::MIN, |time| time.0)),
            is_going: meta.deletion_timestamp.is_some(),
        })
    }

    /// Its number in a set.
    pub(super) fn ordinal(&self, set: &str) -> Option<i32> {
        self.name.strip_prefix(set)?.strip_prefix('-')?.parse().ok()
    }
}

/// The name of the template of a set: its hash, which pods carry as a label.
pub(super) fn revision(set: &StatefulSet) -> String {
    let template = set.spec.as_ref().map(|spec| &spec.template);
    let template = serde_json::to_vec(&template).unwrap_or_default();
    // FNV-1a: the same in every build and on every machine.
    let hash = template.iter().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    format!("{}-{hash:08x}", set.name_any())
}

/// A pod of the set, as its template says.
pub(super) fn build(set: &StatefulSet, ordinal: i32) -> Pod {
    let spec = set.spec.clone().unwrap_or_default();
    let name = format!("{}-{ordinal}", set.name_any());
    let meta = spec.template.metadata.unwrap_or_default();
    let mut labels = meta.labels.unwrap_or_default();
    labels.extend([
        (POD_NAME.to_owned(), name.clone()),
        (POD_INDEX.to_owned(), ordinal.to_string()),
        (REVISION.to_owned(), revision(set)),
    ]);
    let mut pod = spec.template.spec.unwrap_or_default();
    pod.hostname = Some(name.clone());
    pod.subdomain = spec.service_name.filter(|service| !service.is_empty());
    let mut volumes = pod.volumes.unwrap_or_default();
    for claim in claims(set, ordinal) {
        let template = template_of(&claim, &name);
        volumes.retain(|volume| volume.name != template);
        volumes.push(Volume {
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim.name_any(),
                read_only: None,
            }),
            name: template,
            ..Volume::default()
        });
    }
    pod.volumes = Some(volumes).filter(|volumes| !volumes.is_empty());
    Pod {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: set.namespace(),
            labels: Some(labels),
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: set.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(pod),
        status: None,
    }
}

/// The name of the template that a claim was made from.
fn template_of(claim: &PersistentVolumeClaim, pod: &str) -> String {
    let name = claim.name_any();
    name.strip_suffix(&format!("-{pod}"))
        .unwrap_or(&name)
        .to_owned()
}

/// The claims of a pod, which outlive it.
pub(super) fn claims(set: &StatefulSet, ordinal: i32) -> Vec<PersistentVolumeClaim> {
    let Some(spec) = &set.spec else {
        return Vec::new();
    };
    let policy = spec.persistent_volume_claim_retention_policy.as_ref();
    let goes_with_set = policy.and_then(|policy| policy.when_deleted.as_deref()) == Some("Delete");
    let templates = spec.volume_claim_templates.iter().flatten();
    let claims = templates.map(|template| {
        let mut labels = template.labels().clone();
        labels.extend(spec.selector.match_labels.clone().unwrap_or_default());
        PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(format!(
                    "{}-{}-{ordinal}",
                    template.name_any(),
                    set.name_any()
                )),
                namespace: set.namespace(),
                labels: Some(labels),
                annotations: template.metadata.annotations.clone(),
                owner_references: { set.owner_ref(&()) }
                    .filter(|_| goes_with_set)
                    .map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            spec: template.spec.clone(),
            status: None,
        }
    });
    claims.collect()
}
