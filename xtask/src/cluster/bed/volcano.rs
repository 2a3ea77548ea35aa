//! Volcano, for clusters that schedule gangs.

use std::fs;

use anyhow::{Context as _, Result};

use super::Bed;
use crate::cluster::addresses::Addresses;
use crate::cluster::components::Component;
use crate::cluster::{build, process};

const SCHEDULER: &str = include_str!("../../../testbed/volcano/scheduler.yaml");

/// Nobody's gang: when it is let in, the scheduler works.
const PROBE: &str = "apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: probe, namespace: kube-system}
spec: {minMember: 1}
";

impl Bed<'_> {
    /// Starts what does not run of it, and waits until it works.
    pub(super) fn volcano(&self, addresses: Addresses, changed: &mut Vec<String>) -> Result<()> {
        self.volcano_kinds()?;
        let outdated = self.volcano_config()?;
        let before = changed.len();
        self.ensure(Component::VolcanoControllers, addresses, false, changed)?;
        self.ensure(Component::VolcanoScheduler, addresses, outdated, changed)?;
        if changed.len() == before {
            return Ok(());
        }
        let expected = [
            Component::ApiServer,
            Component::VolcanoControllers,
            Component::VolcanoScheduler,
        ]
        .map(Component::name);
        // The scheduler makes it, and the controllers open it.
        self.wait_for("Volcano's default queue", &expected, || {
            self.field_is(
                "queue.scheduling.volcano.sh/default",
                "{.status.state}",
                "Open",
            )
        })?;
        self.apply(PROBE.to_owned())?;
        self.wait_for("Volcano to let a PodGroup in", &expected, || {
            self.field_is(
                "podgroup.scheduling.volcano.sh/probe",
                "{.status.phase}",
                "Inqueue",
            )
        })?;
        let mut delete = self.kubectl();
        delete.args(["delete", "podgroup.scheduling.volcano.sh/probe"]);
        process::output(delete.arg("--namespace=kube-system")).map(drop)
    }

    /// Both programs ask for their kinds once and then rarely: these must be served before.
    fn volcano_kinds(&self) -> Result<()> {
        let file = self.cache.bin(build::VOLCANO_CRDS_FILE);
        let manifests =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        self.apply(manifests)?;
        let mut wait = self.kubectl();
        wait.args([
            "wait",
            "--for=condition=Established",
            "--timeout=30s",
            "--filename",
        ]);
        process::output(wait.arg(file)).map(drop)
    }

    /// Writes the scheduler's configuration; says whether there was another one before.
    fn volcano_config(&self) -> Result<bool> {
        let file = self.state.volcano_scheduler();
        let found = fs::read_to_string(&file);
        if found.as_ref().is_ok_and(|found| found == SCHEDULER) {
            return Ok(false);
        }
        if let Some(dir) = file.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::write(&file, SCHEDULER)?;
        Ok(found.is_ok())
    }

    fn field_is(&self, object: &str, path: &str, wanted: &str) -> bool {
        let mut get = self.kubectl();
        get.args(["get", object, "--namespace=kube-system"]);
        process::output(get.arg(format!("--output=jsonpath={path}")))
            .is_ok_and(|found| found == wanted)
    }
}
