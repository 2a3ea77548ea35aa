//! Jobs on the network of their nodes: whoever dies, and however many come at once, no
//! two that live have a port in common.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use api::{PaddleJob, Phase, labels};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use tokio::task::JoinSet;

use super::history::{self, Record, Shared};
use super::support::{self, Cluster, Manager, until};
use super::{PATIENCE, TURN};

/// So many ports are a job's.
const BLOCK: u16 = 20;
/// As many jobs as there are blocks, so that every new one needs those of one that is gone.
const RANGE: &str = "--port-range=35000,39000";
const JOBS: usize = 200;
/// How many jobs have their ports when the manager is killed: always amid its work.
const KILLS: [usize; 4] = [20, 60, 100, 150];
/// The lease of the manager, which is where its kubeconfig points.
const LEASE: (&str, &str) = ("default", "b2a304f2.paddlepaddle.org");

#[tokio::test]
async fn two_hundred_jobs_share_no_port_whoever_is_killed() -> Result<()> {
    let _turn = TURN.lock().await;
    let stage = Stage::set("ports").await?;
    let create = stage.create(0..JOBS);
    let kill = async {
        for jobs in KILLS {
            let manager = stage.manager(&[])?;
            stage.has_ports(jobs).await?;
            let left = JOBS.saturating_sub(stage.sight.lock().living.len());
            ensure!(left > 0, "all had their ports before the last kill");
            // By SIGKILL.
            drop(manager);
        }
        Ok(())
    };
    tokio::try_join!(create, kill)?;
    let mut manager = stage.manager(&[])?;
    stage.all_run(0..JOBS).await?;
    manager.is_well()?;
    drop(manager);

    // Half of them go while as many come, and of two managers the one at work dies.
    let half = JOBS / 2;
    let leases: Api<Lease> = Api::namespaced(stage.cluster.client.clone(), LEASE.0);
    // One that is left of an earlier run would only cost time.
    let _ = leases.delete(LEASE.1, &DeleteParams::default()).await;
    let leader = stage.manager(&["--leader-elect"])?;
    until(PATIENCE, || async {
        let lease = leases.get(LEASE.1).await?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity);
        ensure!(holder.is_some_and(|holder| !holder.is_empty()), "no leader");
        Ok(())
    })
    .await?;
    let mut standby = stage.manager(&["--leader-elect"])?;
    let kill = async {
        stage.has_ports(JOBS - half + half / 5).await?;
        drop(leader);
        Ok(())
    };
    // In this order, so that the number of jobs with ports says how far it is.
    stage.delete(0..half).await?;
    tokio::try_join!(stage.create(JOBS..JOBS + half), kill)?;
    ensure!(
        stage.sight.lock().living.len() < JOBS,
        "all had their ports before the leader died"
    );
    stage.all_run(half..JOBS + half).await?;
    standby.is_well()
}

/// Two pods of one job would meet on one port, so the second waits for another node.
#[tokio::test]
async fn a_second_worker_waits_for_a_second_node() -> Result<()> {
    let _turn = TURN.lock().await;
    let stage = Stage::set("one-node").await?;
    let nodes: Api<Node> = Api::all(stage.cluster.client.clone());
    let fake = ListParams::default().labels("type=kwok");
    let fake = nodes.list_metadata(&fake).await?;
    let names: Vec<String> = fake.iter().map(ResourceExt::name_any).collect();
    let [first, second] = names.get(..2).context("two fake nodes are needed")? else {
        unreachable!("a slice of two");
    };
    let own = stage.namespace.name.as_str();
    let admit = async |node: &str, is_ours: bool| {
        let labels = json!({"metadata": {"labels": {own: is_ours.then_some("yes")}}});
        let how = PatchParams::default();
        nodes
            .patch_metadata(node, &how, &Patch::Merge(labels))
            .await
    };
    admit(first, true).await?;
    let mut manager = stage.manager(&[])?;
    let mut job = host("pair", 2)?;
    let worker = job.spec.worker.as_mut().context("no worker")?;
    let mut template = { worker.template.as_ref() }
        .map(api::PodTemplate::to_json)
        .context("no template")?;
    if let Some(spec) = template
        .get_mut("spec")
        .and_then(|spec| spec.as_object_mut())
    {
        spec.insert("nodeSelector".to_owned(), json!({own: "yes"}));
    }
    worker.template = Some(template.into());
    let jobs = stage.jobs();
    jobs.create(&PostParams::default(), &job).await?;
    let status = async || anyhow::Ok(jobs.get("pair").await?.status.unwrap_or_default());
    until(PATIENCE, || async {
        let status = status().await?;
        let scheduled = status.conditions.iter().find(|c| c.type_ == "Scheduled");
        let scheduled = scheduled.context("no condition")?;
        let why = "1 node(s) didn't have free ports for the requested pod ports";
        ensure!(
            scheduled.reason == "Unschedulable" && scheduled.message.contains(why),
            "{scheduled:?}"
        );
        let one = status.worker.map(|worker| (worker.pending, worker.running));
        ensure!(one == Some((1, 1)), "{one:?}");
        Ok(())
    })
    .await?;
    ensure!(stage.sight.lock().running.is_empty(), "it runs with one");
    admit(second, true).await?;
    until(PATIENCE, || async {
        let status = status().await?;
        ensure!(status.phase == Some(Phase::Running), "{status:?}");
        Ok(())
    })
    .await?;
    stage.is_fine()?;
    for node in [first, second] {
        admit(node, false).await?;
    }
    manager.is_well()
}

fn host(name: &str, workers: usize) -> Result<PaddleJob> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": name},
        "spec": {
            "intranet": "Host",
            "worker": {
                "replicas": workers,
                "template": {"spec": {"containers": [{"name": "paddle", "image": "paddle:test"}]}},
            },
        },
    }))?)
}

/// What the watches have shown of ports.
#[derive(Debug, Default)]
struct Sight {
    /// Names and ports of jobs that live, by uid.
    living: BTreeMap<String, (String, u16)>,
    /// Every port that anything ever said to be a job's: its annotation, its ConfigMap, its
    /// pods; by uid.
    said: BTreeMap<String, BTreeSet<(&'static str, u16)>>,
    /// Names of jobs that run.
    running: BTreeSet<String>,
    broken: Vec<String>,
}

impl Record for Sight {
    fn broken(&mut self) -> &mut Vec<String> {
        &mut self.broken
    }
}

impl Sight {
    /// One watch shows all jobs in order: who gets ports comes after who lost them.
    fn see_job(&mut self, job: PaddleJob) -> Result<()> {
        let (uid, name) = (job.uid().context("a job without uid")?, job.name_any());
        if job.status.as_ref().and_then(|status| status.phase) == Some(Phase::Running) {
            self.running.insert(name.clone());
        }
        let Some(port) = job.annotations().get(labels::HOST_PORT) else {
            return Ok(());
        };
        let port: u16 = port.parse().context("host-port")?;
        for (_, (other, taken)) in self.living.iter().filter(|(other, _)| **other != uid) {
            ensure!(
                port.abs_diff(*taken) >= BLOCK,
                "{name} got {port} while {other} has {taken}"
            );
        }
        self.say(&uid, "annotation", port);
        self.living.insert(uid, (name, port));
        Ok(())
    }

    fn miss_job(&mut self, job: PaddleJob) {
        self.living.remove(&job.uid().unwrap_or_default());
        self.running.remove(&job.name_any());
    }

    fn see_pod(&mut self, pod: Pod) -> Result<()> {
        let owner = owner(&pod)?;
        let spec = pod.spec.as_ref().context("a pod without spec")?;
        let ports = spec
            .containers
            .iter()
            .flat_map(|c| c.ports.iter().flatten());
        for port in ports {
            let port = port.host_port.context("a port that is not its node's")?;
            self.say(&owner, "pod", u16::try_from(port)?);
        }
        Ok(())
    }

    fn see_map(&mut self, map: ConfigMap) -> Result<()> {
        // Others in the namespace are the control plane's.
        let Ok(owner) = owner(&map) else {
            return Ok(());
        };
        let port = map.data.as_ref().and_then(|data| data.get("PADDLE_PORT"));
        let port = port.context("lists without PADDLE_PORT")?.parse()?;
        self.say(&owner, "ConfigMap", port);
        Ok(())
    }

    fn say(&mut self, uid: &str, what: &'static str, port: u16) {
        self.said
            .entry(uid.to_owned())
            .or_default()
            .insert((what, port));
    }

    /// Whatever told of a job told of the same port.
    fn judge(&self) -> Result<()> {
        for (uid, said) in &self.said {
            let ports: BTreeSet<u16> = said.iter().map(|(_, port)| *port).collect();
            ensure!(ports.len() == 1, "job {uid}: {said:?}");
        }
        for (uid, (name, _)) in &self.living {
            let said = self.said.get(uid).map_or(0, BTreeSet::len);
            ensure!(
                said == 3 || !self.running.contains(name),
                "{name}: annotation, pod and ConfigMap do not all have a port"
            );
        }
        Ok(())
    }
}

fn owner(child: &impl Resource) -> Result<String> {
    let owners = child.meta().owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.kind == "PaddleJob");
    Ok(owner.context("a child of nobody")?.uid.clone())
}

/// What a test plays on.
struct Stage {
    // Before the namespace: what follows it must not see it go.
    _watches: JoinSet<()>,
    sight: Shared<Sight>,
    log: PathBuf,
    namespace: support::Namespace,
    cluster: Cluster,
}

impl Stage {
    async fn set(name: &str) -> Result<Stage> {
        let cluster = Cluster::with_kinds().await?;
        let namespace = cluster.namespace(&format!("chaos-{name}")).await?;
        let (mut watches, sight) = (JoinSet::new(), Shared::<Sight>::default());
        let (client, home): (&Client, &str) = (&cluster.client, &namespace.name);
        let begun = [
            history::follow(
                &mut watches,
                client,
                home,
                &sight,
                Sight::see_job,
                Sight::miss_job,
            ),
            history::follow(
                &mut watches,
                client,
                home,
                &sight,
                Sight::see_pod,
                |_, _| {},
            ),
            history::follow(
                &mut watches,
                client,
                home,
                &sight,
                Sight::see_map,
                |_, _| {},
            ),
        ];
        for begun in begun {
            begun.await?;
        }
        Ok(Stage {
            _watches: watches,
            sight,
            log: support::log_file(&format!("chaos-{name}"))?,
            namespace,
            cluster,
        })
    }

    fn jobs(&self) -> Api<PaddleJob> {
        Api::namespaced(self.cluster.client.clone(), &self.namespace.name)
    }

    fn manager(&self, more: &[&str]) -> Result<Manager> {
        let arguments = [
            "--controllers=paddlejob",
            "--health-probe-bind-address=0",
            "--initImage=paddle-operator:test",
            RANGE,
        ];
        let arguments = arguments.iter().chain(more).map(|word| (*word).to_owned());
        let home = format!("--namespace={}", self.namespace.name);
        let arguments = arguments.chain([home]);
        Manager::start_with(&self.cluster.kubeconfig, arguments, &self.log)
    }

    /// Creates jobs, all at once.
    async fn create(&self, jobs: Range<usize>) -> Result<()> {
        let api = self.jobs();
        let creations = stream::iter(jobs).map(|index| {
            let api = &api;
            async move {
                let job = host(&format!("job-{index}"), 1)?;
                api.create(&PostParams::default(), &job).await?;
                anyhow::Ok(())
            }
        });
        creations.buffer_unordered(JOBS).try_collect().await
    }

    /// Deletes jobs, all at once, and waits until the watch has shown it.
    async fn delete(&self, jobs: Range<usize>) -> Result<()> {
        let left = JOBS.saturating_sub(jobs.len());
        let (api, how) = (self.jobs(), DeleteParams::background());
        let deletions = stream::iter(jobs).map(|index| {
            let (api, how) = (&api, &how);
            async move { api.delete(&format!("job-{index}"), how).await.map(drop) }
        });
        let (): () = deletions.buffer_unordered(JOBS).try_collect().await?;
        until(PATIENCE, || async {
            let living = self.sight.lock().living.len();
            ensure!(living == left, "{living} jobs live, not {left}");
            Ok(())
        })
        .await
    }

    /// Waits until so many jobs that live have ports, and looks closely: who is to be
    /// killed then must not get much further.
    async fn has_ports(&self, jobs: usize) -> Result<()> {
        let start = Instant::now();
        loop {
            let (living, broken) = {
                let sight = self.sight.lock();
                (sight.living.len(), sight.broken.join("\n"))
            };
            ensure!(broken.is_empty(), "{broken}");
            if living >= jobs {
                return Ok(());
            }
            ensure!(
                start.elapsed() < PATIENCE,
                "{living} jobs have ports after {} s, not {jobs}; see {}",
                PATIENCE.as_secs(),
                self.log.display()
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until exactly these jobs are there and run.
    async fn all_run(&self, jobs: Range<usize>) -> Result<()> {
        let wanted: BTreeSet<String> = jobs.map(|index| format!("job-{index}")).collect();
        let run = until(PATIENCE, || async {
            // What is broken once is not mended by waiting.
            if !self.sight.lock().broken.is_empty() {
                return Ok(());
            }
            self.sight.lock().judge()?;
            let sight = self.sight.lock();
            let missing = wanted.difference(&sight.running).count();
            ensure!(
                missing == 0,
                "{missing} jobs do not run; see {}",
                self.log.display()
            );
            ensure!(sight.running == wanted, "jobs run that were deleted");
            Ok(())
        });
        run.await?;
        self.is_fine()
    }

    fn is_fine(&self) -> Result<()> {
        let sight = self.sight.lock();
        ensure!(sight.broken.is_empty(), "{}", sight.broken.join("\n"));
        sight.judge()
    }
}
