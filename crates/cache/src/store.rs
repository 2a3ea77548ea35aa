//! Jobs on disk: a file each, without keys.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cache_api::{JobState, Progress, Task};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A job as it is on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Its place in the order of arrival.
    pub(crate) arrived: u64,
    pub(crate) id: String,
    pub(crate) owner: String,
    pub(crate) task: Task,
    #[serde(flatten)]
    pub(crate) state: JobState,
    #[serde(default)]
    pub(crate) progress: Progress,
}

/// The directory of the jobs.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    dir: PathBuf,
}

impl Store {
    /// Opens or makes the directory, and reads what is there, in order of arrival.
    pub(crate) fn open(dir: PathBuf) -> io::Result<(Store, Vec<Record>)> {
        make_private(&dir)?;
        let mut records = Vec::new();
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            match read::<Record>(&path) {
                Ok(record) => records.push(record),
                // Whoever asked for it asks again.
                Err(error) => tracing::warn!(path = %path.display(), %error, "no job, left alone"),
            }
        }
        records.sort_by_key(|record| record.arrived);
        Ok((Store { dir }, records))
    }

    /// What was noted of a job survives when this returns.
    pub(crate) fn secure(&self, id: &str) -> io::Result<()> {
        File::open(self.path(id))?.sync_all()?;
        File::open(&self.dir)?.sync_all()
    }

    /// Writes down how far a job is. A machine that loses its power may lose that: a
    /// sync has just filled its disk, and to wait for all of it would take seconds.
    pub(crate) fn note(&self, record: &Record) -> io::Result<()> {
        write(&self.path(&record.id), record)
    }

    /// Forgets a job.
    pub(crate) fn remove(&self, id: &str) -> io::Result<()> {
        remove(&self.path(id))
    }

    /// Ids are checked before: they name no other directory.
    fn path(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }
}

/// Removes a file, if there is one.
pub(crate) fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes a directory that only its owner may enter.
pub(crate) fn make_private(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
}

/// Reads what [`write`] wrote.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    serde_json::from_slice(&fs::read(path)?).map_err(io::Error::from)
}

/// Writes a file, whole or not at all.
pub(crate) fn write(path: &Path, content: &impl Serialize) -> io::Result<()> {
    let draft = path.with_extension("new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)?;
    file.write_all(&serde_json::to_vec(content)?)?;
    drop(file);
    fs::rename(&draft, path)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use cache_api::{Clear, Failure, Outcome};

    use super::*;

    fn record(id: &str, arrived: u64, state: JobState) -> Record {
        Record {
            arrived,
            id: id.to_owned(),
            owner: "uid".to_owned(),
            task: Task::Clear(Clear::default()),
            state,
            progress: Progress::default(),
        }
    }

    #[test]
    fn what_was_written_is_read_again_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jobs");
        let (store, found) = Store::open(path.clone()).unwrap();
        assert_eq!(found, []);
        let failure = Failure {
            reason: "BadPath".to_owned(),
            message: "no".to_owned(),
        };
        let records = [
            record("z", 1, JobState::Succeeded(Outcome::default())),
            record("a.b", 2, JobState::Failed(failure)),
            record("m", 3, JobState::Queued),
        ];
        for record in records.iter().rev() {
            store.note(record).unwrap();
            store.secure(&record.id).unwrap();
        }
        fs::write(path.join("torn.json"), "{").unwrap();
        fs::write(path.join("draft.new"), "{").unwrap();
        assert_eq!(Store::open(path.clone()).unwrap().1, records);
        store.remove("a.b").unwrap();
        store.remove("a.b").unwrap();
        assert_eq!(Store::open(path).unwrap().1.len(), 2);
    }
}
