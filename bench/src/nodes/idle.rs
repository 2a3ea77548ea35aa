//! What the managers take while nothing changes.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use bench::audit::AuditLog;
use bench::usage::Usage;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;

use crate::namespace::{NAME, Namespace, process_of};

/// Watches the managers for some time, and prints what they took.
pub(crate) async fn measure(
    namespace: &Namespace,
    audit: &AuditLog,
    rest: Duration,
) -> anyhow::Result<()> {
    audit.settle(&namespace.client).await?;
    let managers = managers(namespace).await?;
    let mark = audit.mark()?;
    let usage = || {
        managers
            .values()
            .map(|pid| Usage::of(*pid))
            .collect::<Result<Vec<_>, _>>()
    };
    let before = usage()?;
    // The length of the rest is what is measured here, not a wait for something.
    tokio::time::sleep(rest).await;
    let after = usage()?;
    audit.settle(&namespace.client).await?;
    let requests = audit.requests_by_user_since(mark)?;

    let minutes = rest.as_secs_f64() / 60.0;
    println!(
        "{:<22}{:>10}{:>14}{:>44}",
        "account", "memory", "CPU per min", "requests per min: leases, watches, others"
    );
    for ((account, before), after) in managers.keys().zip(before).zip(after) {
        let user = format!("system:serviceaccount:{NAME}:{account}");
        let requests = requests.get(&user).copied().unwrap_or_default();
        let rate = |count: usize| count as f64 / minutes;
        let memory = after.resident as f64 / f64::from(1 << 20);
        let cpu = (after.cpu - before.cpu).as_secs_f64() * 1000.0 / minutes;
        let (leases, watches) = (rate(requests.leases), rate(requests.watches));
        let others = rate(requests.others);
        println!(
            "{account:<22}{memory:>6.1} MiB{cpu:>11.0} ms{leases:>26.1}{watches:>9.1}{others:>9.1}"
        );
    }
    println!();
    Ok(())
}

/// The processes of the managers, by their service accounts.
async fn managers(namespace: &Namespace) -> anyhow::Result<BTreeMap<String, u32>> {
    let pods = namespace.api::<Pod>().list(&ListParams::default()).await?;
    let managers = pods.items.iter().filter(|pod| {
        let label = pod.labels().get("control-plane");
        label.is_some_and(|label| label.ends_with("-manager"))
    });
    let process = |pod: &Pod| {
        let account = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.service_account_name.clone());
        anyhow::Ok((account.context("no account")?, process_of(pod)?))
    };
    managers.map(process).collect()
}
