//! What the guides show of a cluster, on real nodes: `make test-nodes` starts these, with the
//! JuiceFS CSI driver, and gives them the images of the operator and of the examples. A Redis
//! and a source of S3 run beside the nodes.
//!
//! The chapters are of one story on one cluster, in this order. All but the first also work
//! alone, and again. On a cluster that stays:
//!
//! ```shell
//! cargo xtask image examples
//! cargo xtask cluster up --nodes 3 --volcano
//! cargo xtask cluster load "$(cargo xtask image --debug)"
//! export PADDLE_OPERATOR_TEST_CLUSTER=default
//! export PADDLE_OPERATOR_TEST_KUBECONFIG="$(cargo xtask cluster kubeconfig)"
//! export PADDLE_OPERATOR_TEST_AUDIT_LOG="$(cargo xtask cluster audit-log)"
//! cargo test --package testkit --features nodes --test nodes -- data
//! ```

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod bed;
mod data;
mod faults;
mod install;
mod pages;
mod training;
mod uninstall;
mod upgrade;

#[path = "../../../cli/tests/common/guide.rs"]
mod guide;
#[path = "../../../cli/tests/common/installed.rs"]
mod installed;
#[path = "../../../cli/tests/data/guides/markdown.rs"]
mod markdown;
#[path = "../../../cli/tests/common/printed.rs"]
mod printed;
#[path = "../../../cli/tests/common/servers.rs"]
#[expect(dead_code, reason = "what other tests need")]
mod servers;
#[path = "../../../cli/tests/common/shell.rs"]
#[expect(dead_code, reason = "what other tests need")]
mod shell;
#[path = "../../../cli/tests/common/wait.rs"]
mod wait;
#[path = "../../../cli/tests/common/worlds.rs"]
mod worlds;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::sync::{Arc, LazyLock};

use libtest_mimic::{Arguments, Trial};
use testkit::accounts::PADDLEJOB;
use tokio::runtime::Runtime;

use bed::Bed;

/// A chapter, on a runtime and a cluster that all share.
type Chapter = fn(&Runtime, &Bed);

/// One by one: they share the nodes, and the last removes what all need.
const CHAPTERS: [(&str, Chapter); 19] = [
    ("install::as_shown", |on, bed| {
        on.block_on(install::as_shown(bed))
    }),
    ("training::wide_and_deep", |on, bed| {
        on.block_on(training::wide_and_deep(bed));
    }),
    ("training::resnet", |on, bed| {
        on.block_on(training::resnet(bed))
    }),
    ("training::gang", |on, bed| on.block_on(training::gang(bed))),
    ("training::elastic", |on, bed| {
        on.block_on(training::elastic(bed));
    }),
    ("data::as_shown", |on, bed| on.block_on(data::as_shown(bed))),
    ("data::partitions", |on, bed| {
        on.block_on(data::workers_are_where_their_partitions_are(bed));
    }),
    ("data::operations", |on, bed| {
        on.block_on(data::operations_come_and_go(bed));
    }),
    ("data::claim", |on, bed| {
        on.block_on(data::a_claim_comes_back(bed));
    }),
    ("faults::drain", |on, bed| on.block_on(faults::drain(bed))),
    ("faults::kubelet_and_driver", |on, bed| {
        on.block_on(faults::kubelet_and_driver(bed));
    }),
    ("faults::dead_node", |on, bed| {
        on.block_on(faults::dead_node(bed));
    }),
    ("faults::no_api", |on, bed| on.block_on(faults::no_api(bed))),
    ("upgrade::from_go", |on, bed| {
        on.block_on(upgrade::from_go(bed));
    }),
    ("uninstall::without_manager", |on, bed| {
        on.block_on(uninstall::without_manager(bed));
    }),
    ("uninstall::with_jobs", |on, bed| {
        on.block_on(uninstall::with_jobs(bed));
    }),
    ("uninstall::in_order", |on, bed| {
        on.block_on(uninstall::in_order(bed));
    }),
    ("upgrade::by_helm", |on, bed| {
        on.block_on(upgrade::by_helm(bed));
    }),
    ("install::restricted", |on, bed| {
        on.block_on(install::restricted(bed));
    }),
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let stage = Arc::new(LazyLock::new(|| {
        let runtime = Runtime::new().unwrap();
        let bed = runtime.block_on(Bed::start());
        (runtime, bed)
    }));
    let trial = |(name, chapter): (&str, Chapter)| {
        let stage = Arc::clone(&stage);
        Trial::test(name, move || {
            let (runtime, bed) = &**stage;
            let played = catch_unwind(AssertUnwindSafe(|| chapter(runtime, bed)));
            played.unwrap_or_else(|panic| {
                bed.describe();
                resume_unwind(panic)
            });
            Ok(())
        })
    };
    let trials = CHAPTERS.into_iter().map(trial).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !conclusion.has_failed() && conclusion.num_passed == CHAPTERS.len() as u64 {
        judge_roles(&stage.1);
    }
    conclusion.exit_code()
}

/// The managers may do nothing that they never do.
fn judge_roles(bed: &Bed) {
    let mut unused = bed.unused();
    // What the manager of PaddleJobs needs beside these is shown by the scenarios.
    let of_jobs = unused.entry(PADDLEJOB.to_owned()).or_default();
    of_jobs.retain(|deed| deed.contains("leases") || deed.contains("podgroups"));
    unused.retain(|_, deeds| !deeds.is_empty());
    assert!(unused.is_empty(), "allowed and not used: {unused:#?}");
}
