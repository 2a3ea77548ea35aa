//! The conformance scenarios: what a user may rely on, on any Kubernetes API. Nearly
//! all are of PaddleJob. A harness runs them from [`ALL`] with [`run`].

use std::fmt::Debug;
use std::panic::AssertUnwindSafe;

use anyhow::{Result, anyhow, ensure};
use api::Phase;
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, Config};

use crate::builders::JobBuilder;
use crate::{Env, Job};

mod cleaning;
mod deadline;
mod environment;
mod heter;
mod host;
mod invalid;
mod names;
mod phases;
mod restart;
mod scaling;
mod sets;
mod start;
mod suspend;
mod takeover;
mod template;

/// A scenario.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// What is shown, by topic: `phases::in_order`.
    pub name: &'static str,
    /// Its manager looks at all namespaces, so nothing else may run meanwhile.
    pub exclusive: bool,
    play: for<'e> fn(&'e Env) -> BoxFuture<'e, Result<()>>,
}

impl Debug for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

macro_rules! scenarios {
    ($($topic:ident: $($name:ident),+ $(,)?;)*) => {
        &[$($(Scenario {
            name: concat!(stringify!($topic), "::", stringify!($name)),
            exclusive: is_exclusive(stringify!($name)),
            play: |env| $topic::$name(env).boxed(),
        },)+)*]
    };
}

/// Every scenario.
pub const ALL: &[Scenario] = scenarios! {
    environment: ps_by_pod_ip, ps_by_service, collective_by_pod_ip, collective_by_service,
        single_by_pod_ip, single_by_service, gloo, user_variables, which_container;
    template: whole_template, wait_container;
    start: config_map_waits_for_every_address, workers_wait_for_servers,
        workers_wait_for_servers_by_service, services_come_first,
        no_old_list_for_a_recreated_pod, no_old_list_for_a_second_attempt,
        no_old_list_for_a_new_job_of_the_same_name, lists_and_names_come_back, ipv6_needs_services,
        few_writes, nothing_while_nothing_changes;
    phases: in_order, tells_why_it_failed, tells_which_container_failed, tells_what_it_waits_for,
        counts_and_references, modes, the_end_is_the_end, a_finished_worker_is_not_missed, a_finished_worker_may_go_at_once,
        running_stays, ends_before_it_was_ready, a_server_that_ends_well, only_servers,
        a_change_that_asks_for_nothing;
    cleaning: unset, always, never, on_failure, on_completion, misspelt;
    restart: deleted, deleted_by_service, deleted_at_once, deleted_before_it_ran,
        shut_down_with_its_node, evicted, lost_with_its_node, lost_with_a_removed_node,
        a_slow_end_is_waited_for, old_pods_go_first, failed, restarts_are_counted, no_second_try,
        lost_while_nobody_looked, a_new_manager, restart_policy;
    scaling: ps_workers_by_spec, ps_workers_by_scale, ps_workers_by_service, collective_by_spec,
        collective_by_scale, servers, before_it_runs, down_and_up_again;
    suspend: and_resume, from_the_start, and_scale, waits_for_the_last_pod;
    deadline: of_one_second, of_an_hour, without_the_suspended_time, ttl_of_one_second,
        ttl_of_an_hour;
    names: pod_taken, config_map_taken, service_taken, deletion_takes_everything,
        deletion_in_the_foreground, same_name_in_two_namespaces;
    takeover: ps_job, collective_job, job_with_services, half_made_job, ended_job, deleted_job,
        replaced_worker, restarted_job;
    host: ports_come_first, ports_in_lists, ports_are_given_once, ports_come_back,
        ports_of_a_copy, ports_after_a_replacement, two_pods_never_share_a_node;
    heter: stages, start_in_order, ends_with_its_workers, fails_with_one_of_them;
    sets: name_taken;
    invalid: nothing_is_made, mended, spoilt, refused_pod;
};

/// One needs a manager that looks at all namespaces, and so has to run alone.
const fn is_exclusive(name: &str) -> bool {
    matches!(name.as_bytes(), b"same_name_in_two_namespaces")
}

/// Plays a scenario in a namespace of its own, and removes what it left.
///
/// # Errors
/// Says what was wrong, and how everything looked then.
pub async fn run(
    scenario: &Scenario,
    client: &Client,
    config: &Config,
    namespace: &str,
) -> Result<()> {
    let env = Env::start(client, config, namespace, scenario.exclusive).await?;
    let played = AssertUnwindSafe((scenario.play)(&env)).catch_unwind().await;
    let played = played
        .unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(anyhow!("it panicked: {}", text.unwrap_or("in silence")))
        })
        .and_then(|()| env.check())
        .map_err(|error| anyhow!("{error:#}\n\n{}", env.describe()));
    let cleaned = env.stop().await;
    played.and(cleaned)
}

/// A job that runs, with kubelets that run whatever they get.
async fn running(env: &Env, builder: JobBuilder) -> Result<Job<'_>> {
    env.kubelet.run_all();
    let job = env.create(builder).await?;
    job.reaches(Phase::Running).await?;
    Ok(job)
}

/// Ends these pods well.
async fn finish(env: &Env, pods: &[String]) -> Result<()> {
    for pod in pods {
        env.kubelet.exit(pod, 0, "").await?;
    }
    Ok(())
}

/// Whether a container of the pod waits for something that is not there yet.
fn waits_for_config(pod: &Pod) -> bool {
    let status = pod.status.clone().unwrap_or_default();
    let inits = status.init_container_statuses.into_iter().flatten();
    let mut all = inits.chain(status.container_statuses.into_iter().flatten());
    all.any(|container| {
        let waiting = container.state.and_then(|state| state.waiting);
        waiting.and_then(|waiting| waiting.reason).as_deref() == Some("CreateContainerConfigError")
    })
}

/// Whether the pod is ready and stays.
fn ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    pod.metadata.deletion_timestamp.is_none()
        && conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Says what differs.
fn same<T: PartialEq + Debug>(what: &str, found: T, wanted: T) -> Result<()> {
    ensure!(
        found == wanted,
        "{what}\n  found:  {found:?}\n  wanted: {wanted:?}"
    );
    Ok(())
}
