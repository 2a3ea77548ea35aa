//! Counting requests in the audit log of the API server.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::Context;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client};
use serde::Deserialize;

/// How the manager calls itself.
const AGENT: &str = "paddle-operator/";

/// The audit log.
#[derive(Debug)]
pub struct AuditLog(PathBuf);

/// A place in it.
#[derive(Clone, Copy, Debug)]
pub struct Mark(u64);

/// How many requests there were.
#[derive(Clone, Copy, Debug, Default)]
pub struct Requests {
    /// To stay the leader.
    pub leases: usize,
    /// Watches that ended, as they all do after some minutes.
    pub watches: usize,
    /// All the others.
    pub others: usize,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    verb: String,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    user: User,
    #[serde(default)]
    object_ref: Option<ObjectRef>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct User {
    username: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ObjectRef {
    resource: String,
    name: String,
}

impl Entry {
    fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    fn resource(&self) -> &str {
        self.object_ref
            .as_ref()
            .map_or("", |object| &object.resource)
    }
}

impl AuditLog {
    /// The one in this file.
    pub fn new(path: &Path) -> AuditLog {
        AuditLog(path.to_owned())
    }

    /// Where the log ends now.
    ///
    /// # Errors
    /// When there is none.
    pub fn mark(&self) -> anyhow::Result<Mark> {
        let size = std::fs::metadata(&self.0)
            .with_context(|| self.0.display().to_string())?
            .len();
        Ok(Mark(size))
    }

    /// Writes of the manager since the mark, leases aside.
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn writes_since(&self, mark: Mark) -> anyhow::Result<usize> {
        Ok(self
            .entries(mark)?
            .iter()
            .filter(|entry| entry.is_write())
            .count())
    }

    /// Writes to objects whose name begins so. Events are named after what they
    /// are about; a create has its name in the body, but pods, ConfigMaps and
    /// events say it in the log as well.
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn writes_about_since(&self, mark: Mark, name: &str) -> anyhow::Result<usize> {
        let about = |entry: &&Entry| {
            entry
                .object_ref
                .as_ref()
                .is_some_and(|object| object.name.starts_with(name))
        };
        Ok(self
            .entries(mark)?
            .iter()
            .filter(|entry| entry.is_write())
            .filter(about)
            .count())
    }

    /// Requests of the manager since the mark, watches and leases aside.
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn requests_since(&self, mark: Mark) -> anyhow::Result<usize> {
        Ok(self
            .entries(mark)?
            .iter()
            .filter(|entry| entry.verb != "watch")
            .count())
    }

    /// Requests since the mark, by the name of who made them.
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn requests_by_user_since(&self, mark: Mark) -> anyhow::Result<BTreeMap<String, Requests>> {
        let mut by_user = BTreeMap::<String, Requests>::new();
        for entry in self.all_entries(mark)? {
            let resource = entry.resource().to_owned();
            let requests = by_user.entry(entry.user.username).or_default();
            match (&*entry.verb, &*resource) {
                (_, "leases") => requests.leases += 1,
                ("watch", _) => requests.watches += 1,
                _ => requests.others += 1,
            }
        }
        Ok(by_user)
    }

    /// Returns when everything that was answered before is in the log: the log
    /// is written in order, so a request of our own that is in it comes last.
    ///
    /// # Errors
    /// When the API does not answer, or the log does not grow.
    pub async fn settle(&self, client: &Client) -> anyhow::Result<()> {
        let mark = self.mark()?;
        let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let probe: ConfigMap = serde_json::from_value(serde_json::json!({
            "metadata": {"generateName": "settle-"},
        }))?;
        let made = api.create(&PostParams::default(), &probe).await?;
        let name = made.metadata.name.unwrap_or_default();
        api.delete(&name, &Default::default()).await?;
        let deleted = |entry: &Entry| {
            entry.verb == "delete"
                && entry
                    .object_ref
                    .as_ref()
                    .is_some_and(|object| object.name == name)
        };
        for _ in 0..200 {
            if self.all_entries(mark)?.iter().any(deleted) {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        anyhow::bail!("the audit log {} does not grow", self.0.display())
    }

    fn entries(&self, mark: Mark) -> anyhow::Result<Vec<Entry>> {
        let mut entries = self.all_entries(mark)?;
        entries.retain(|entry| entry.user_agent.starts_with(AGENT) && entry.resource() != "leases");
        Ok(entries)
    }

    fn all_entries(&self, mark: Mark) -> anyhow::Result<Vec<Entry>> {
        let mut file = File::open(&self.0)?;
        file.seek(SeekFrom::Start(mark.0))?;
        let mut entries = Vec::new();
        for line in BufReader::new(file).lines() {
            // The last line may be half written, and the first may have been at the mark.
            entries.extend(serde_json::from_str::<Entry>(&line?).ok());
        }
        Ok(entries)
    }
}
