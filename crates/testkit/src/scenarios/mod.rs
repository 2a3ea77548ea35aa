//! The conformance scenarios of PaddleJob: what a user may rely on, on any
//! Kubernetes API. A harness runs them from [`ALL`] with [`run`].

use std::fmt::Debug;
use std::panic::AssertUnwindSafe;

use anyhow::{Result, anyhow, ensure};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::Env;

mod phases;

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
            exclusive: false,
            play: |env| $topic::$name(env).boxed(),
        },)+)*]
    };
}

/// Every scenario.
pub const ALL: &[Scenario] = scenarios! {
    phases: in_order;
};

/// Plays a scenario in a namespace of its own, and removes what it left.
///
/// # Errors
/// Says what was wrong, and how everything looked then.
pub async fn run(scenario: &Scenario, config: &kube::Config, namespace: &str) -> Result<()> {
    let env = Env::start(config, namespace, scenario.exclusive).await?;
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

/// Says what differs.
fn same<T: PartialEq + Debug>(what: &str, found: T, wanted: T) -> Result<()> {
    ensure!(
        found == wanted,
        "{what}\n  found:  {found:?}\n  wanted: {wanted:?}"
    );
    Ok(())
}
