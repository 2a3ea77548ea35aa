//! Asks both APIs, and judges.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, Node, ServiceAccount};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use super::accepted::{self, Accepted};
use super::apis::{self, Embedded};
use super::difference::{self, Difference};
use super::requests;
use super::side::Side;

#[tokio::test]
async fn the_embedded_api_answers_like_a_real_one() -> Result<()> {
    let real = apis::real().await?;
    let real = real.with_context(|| format!("{} names no cluster", apis::VARIABLE))?;
    let embedded = Embedded::start().await?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let namespace = format!("comparison-{seconds:x}");
    let mut real = side("real", real, &namespace).await?;
    let mut embedded = side("embedded", embedded.config.clone(), &namespace).await?;
    let requests = requests::all();
    let names: BTreeSet<&str> = requests.iter().map(|request| request.name).collect();
    ensure!(names.len() == requests.len(), "two requests have one name");
    let mut differences = Vec::new();
    for request in &requests {
        let (real, embedded) = tokio::join!(real.ask(request), embedded.ask(request));
        let told = |answer: Result<Value>| {
            let answer = answer.unwrap_or_else(|error| json!({"failed": format!("{error:#}")}));
            difference::normal(&answer)
        };
        let (real, embedded) = (told(real), told(embedded));
        differences.extend(difference::between(request.name, &real, &embedded));
    }
    judge(requests.len(), &differences)
}

async fn side(name: &'static str, config: Config, namespace: &str) -> Result<Side> {
    let client = Client::try_from(config)?;
    apis::install_crds(&client).await?;
    let meta = |name: &str| ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    let params = PostParams::default();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let made = Namespace {
        metadata: meta(namespace),
        ..Namespace::default()
    };
    namespaces.create(&params, &made).await?;
    // The one that pods run as is made by the control plane, some time later.
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let account = ServiceAccount {
        metadata: meta("default"),
        ..ServiceAccount::default()
    };
    match accounts.create(&params, &account).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        made => drop(made?),
    }
    // A control plane writes on every node, at times of its own.
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": format!("node-of-{namespace}")}, "spec": {"unschedulable": true},
    }))?;
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.create(&params, &node).await?;
    Ok(Side::new(name, client, namespace))
}

#[expect(clippy::print_stdout, reason = "people read the list")]
fn judge(asked: usize, differences: &[Difference]) -> Result<()> {
    println!("{asked} requests; accepted differences:");
    let mut unused = Vec::new();
    for one in accepted::ALL {
        for request in one.requests {
            let asked = differences.iter().filter(|other| is_asked(request, other));
            let count = asked.filter(|other| is_there(one, other)).count();
            println!("  {:17} {request}: {count}", one.about);
            if count == 0 {
                unused.push(format!("{request}, anywhere of {:?}", one.places));
            }
        }
        for place in one.places {
            let mut all = differences
                .iter()
                .filter(|other| leads_to(place, &other.place));
            if !all.any(|other| one.requests.iter().any(|request| is_asked(request, other))) {
                unused.push(format!("{place}, by any of {:?}", one.requests));
            }
        }
    }
    let is_known = |difference: &&Difference| {
        { accepted::ALL.iter() }.any(|one| {
            let mut requests = one.requests.iter();
            requests.any(|request| is_asked(request, difference)) && is_there(one, difference)
        })
    };
    let new: Vec<_> = differences.iter().filter(|one| !is_known(one)).collect();
    for difference in &new {
        println!("{}", told(difference));
    }
    ensure!(new.is_empty(), "{} new differences, see above", new.len());
    ensure!(unused.is_empty(), "no longer different: {unused:#?}");
    Ok(())
}

fn told(difference: &Difference) -> String {
    let text = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), Value::to_string);
    let (real, embedded) = (text(&difference.real), text(&difference.embedded));
    format!(
        "{} at {}\n  real:     {real}\n  embedded: {embedded}",
        difference.request, difference.place,
    )
}

fn is_asked(request: &str, difference: &Difference) -> bool {
    match request.strip_suffix('*') {
        Some(start) => difference.request.starts_with(start),
        None => difference.request == request,
    }
}

fn is_there(accepted: &Accepted, difference: &Difference) -> bool {
    { accepted.places.iter() }.any(|place| leads_to(place, &difference.place))
}

/// Whether a place is one that a pattern means.
fn leads_to(pattern: &str, place: &str) -> bool {
    match (pattern.split_once('/'), place.split_once('/')) {
        (None, _) if pattern == "**" => true,
        (None, None) => pattern == "*" || pattern == place,
        (Some((step, pattern)), Some((found, place))) => {
            (step == "*" || step == found) && leads_to(pattern, place)
        }
        _ => false,
    }
}
