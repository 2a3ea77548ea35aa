//! One of the two APIs, and what it answers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::request::Request;

/// Longer than anything takes that happens at all.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

pub struct Side {
    pub name: &'static str,
    client: Client,
    kept: BTreeMap<&'static str, String>,
}

impl Side {
    pub fn new(name: &'static str, client: Client, namespace: &str) -> Side {
        Side {
            name,
            client,
            kept: BTreeMap::from([("ns", namespace.to_owned())]),
        }
    }

    /// Asks, and keeps what later requests need.
    pub async fn ask(&mut self, request: &Request) -> Result<Value> {
        let start = Instant::now();
        let answer = loop {
            let answer = self.send(request).await;
            let answer = answer.with_context(|| format!("{}: {}", self.name, request.name))?;
            match &request.until {
                Some((code, place, value))
                    if answer.pointer("/code") != Some(&json!(code))
                        || answer.pointer(place) != Some(value) =>
                {
                    if start.elapsed() > PATIENCE {
                        bail!("{}: {} in vain: {answer}", self.name, request.name);
                    }
                }
                _ => break answer,
            }
            tokio::time::sleep(PAUSE).await;
        };
        for (name, place) in &request.keeps {
            let value = answer.pointer(place).and_then(Value::as_str);
            let value = value.with_context(|| {
                format!("{}: {}: no {place} in {answer}", self.name, request.name)
            })?;
            self.kept.insert(name, value.to_owned());
        }
        Ok(answer)
    }

    async fn send(&self, request: &Request) -> Result<Value> {
        let sent = http::Request::builder()
            .method(request.method)
            .uri(self.filled_in(&request.path))
            .header("accept", request.accept)
            .header("content-type", request.content_type)
            .body(Body::from(self.filled_in(&request.body).into_bytes()))?;
        let answer = tokio::time::timeout(PATIENCE, self.client.send(sent)).await??;
        let code = answer.status().as_u16();
        let warnings: Vec<String> = { answer.headers().get_all("warning").iter() }
            .map(|warning| String::from_utf8_lossy(warning.as_bytes()).into_owned())
            .collect();
        let body =
            tokio::time::timeout(PATIENCE, read(answer.into_body(), request.lines)).await??;
        Ok(json!({"code": code, "warnings": warnings, "body": parsed(&body, request.lines)}))
    }

    fn filled_in(&self, text: &str) -> String {
        // The longest first, since one name may begin with another.
        let mut kept: Vec<_> = self.kept.iter().collect();
        kept.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        kept.into_iter()
            .fold(text.to_owned(), |text, (name, value)| {
                text.replace(&format!("${name}"), value)
            })
    }
}

/// Reads a body, to its end or so many lines of it.
async fn read(mut body: Body, lines: Option<usize>) -> Result<String> {
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            text.extend_from_slice(&data);
        }
        let count = text.iter().filter(|byte| **byte == b'\n').count();
        if lines.is_some_and(|lines| count >= lines) {
            break;
        }
    }
    Ok(String::from_utf8(text)?)
}

fn parsed(body: &str, lines: Option<usize>) -> Value {
    let parse = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| json!(text));
    match lines {
        Some(count) => body.lines().take(count).map(parse).collect(),
        None => parse(body),
    }
}
