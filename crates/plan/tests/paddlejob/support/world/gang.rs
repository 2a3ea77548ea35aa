//! Volcano: it lets groups in, now or later.

use api::{PaddleJob, PodGroupStatus};
use plan::paddlejob::{PodGroupView, Refusal};
use serde_json::Value;

use super::World;
use super::manager::taken;
use crate::support::kubelet::Pod;
use crate::support::watch::Entry;

impl World {
    fn put_pod_group(&mut self, entry: Entry<PodGroupView>) {
        self.manager.pod_groups.put(&self.name, entry.clone());
        self.pod_group = Some(entry);
    }

    pub(super) fn write_pod_group(&mut self, job: &PaddleJob, object: &Value) -> Option<Refusal> {
        let owner = job.metadata.uid.clone().unwrap();
        let old = self.pod_group.clone();
        if old.as_ref().is_some_and(|old| old.owner != owner) {
            return Some(taken(&self.name));
        }
        let meta = serde_json::from_value(object["metadata"].clone()).unwrap();
        let spec = serde_json::from_value(object["spec"].clone()).unwrap();
        let status = old.as_ref().map(|old| PodGroupStatus {
            phase: old.view.phase.clone(),
            ..PodGroupStatus::default()
        });
        let entry = Entry {
            revision: self.tick(),
            uid: old.map_or_else(|| self.new_uid(), |old| old.uid),
            owner,
            view: PodGroupView::of(&meta, &spec, status.as_ref()),
        };
        self.put_pod_group(entry.clone());
        self.manager.pod_groups.note_written(&self.name, entry);
        None
    }

    pub(super) fn remove_pod_group(&mut self) {
        if let Some(gone) = self.pod_group.take() {
            self.tick();
            self.manager.pod_groups.gone(&self.name, &gone.uid);
        }
    }

    /// Volcano finds room for the group.
    pub fn admit(&mut self) {
        let Some(mut entry) = self.pod_group.clone() else {
            return;
        };
        if entry.view.phase.as_deref() != Some("Inqueue") {
            self.note("Volcano lets the group in");
            entry.view.phase = Some("Inqueue".to_owned());
            entry.revision = self.tick();
            self.put_pod_group(entry);
        }
    }

    /// Volcano takes the room away from a group, as after all its pods were deleted.
    pub fn hold_back(&mut self) {
        let Some(mut entry) = self.pod_group.clone() else {
            return;
        };
        if entry.view.phase.as_deref() == Some("Inqueue") {
            self.note("Volcano holds the group back");
            entry.view.phase = Some("Pending".to_owned());
            entry.revision = self.tick();
            self.put_pod_group(entry);
        }
    }

    /// Whether a pod may get a node: with Volcano, only one whose group was let in.
    pub(super) fn has_room(&self, pod: &Pod) -> bool {
        let group = self.pod_group.as_ref();
        let group = group.filter(|group| group.owner == pod.owner);
        let is_in = group.is_some_and(|group| group.view.phase.as_deref() == Some("Inqueue"));
        !self.habits.volcano || is_in
    }
}
