//! Makes a volume, or finds that it is there.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::time::timeout;

use crate::address::Silent;
use crate::command::reason;
use crate::{Juicefs, Volume};

/// A storage that refuses its keys is tried four times, in 12 s.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a volume can't be made. No message holds a key.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// A server does not answer.
    #[error("{key} of the secret: no {what} answers at {server}: {why}")]
    Unreachable {
        /// What of the Secret names it.
        key: &'static str,
        /// What should answer.
        what: &'static str,
        /// Its address.
        server: String,
        /// What happened.
        why: String,
    },
    /// It was refused.
    #[error("juicefs format: {0}")]
    Refused(String),
    /// It takes too long.
    #[error("juicefs format has not ended after {} s: are the servers of metaurl and bucket reachable?", PATIENCE.as_secs())]
    Slow,
    /// The program can't be run.
    #[error("juicefs can't be run: {0}")]
    Run(#[from] io::Error),
}

impl Juicefs {
    /// Makes a volume. One that is there already, under the same name, stays as it is.
    ///
    /// # Errors
    /// When it can't be made, with what would help.
    pub async fn format(&self, volume: &Volume) -> Result<(), FormatError> {
        probe(volume).await?;
        let mut command = self.command();
        command
            .arg("format")
            .arg(format!("--storage={}", volume.storage()))
            .arg(format!("--bucket={}", volume.bucket()))
            .arg(volume.metaurl())
            .arg(volume.name())
            .envs(volume.keys())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let done = timeout(PATIENCE, command.output()).await;
        let done = done.map_err(|_| FormatError::Slow)??;
        match done.status.success() {
            true => Ok(()),
            false => {
                let said = reason(&String::from_utf8_lossy(&done.stderr));
                Err(FormatError::Refused(explain(
                    &volume.redactor().redact(&said),
                )))
            }
        }
    }
}

/// Asks for the servers.
async fn probe(volume: &Volume) -> Result<(), FormatError> {
    for (key, address) in volume.servers() {
        let unreachable = |Silent { what, at, why }| FormatError::Unreachable {
            key,
            what,
            server: at,
            why,
        };
        address.connect().await.map_err(unreachable)?;
    }
    Ok(())
}

/// What juicefs said, and what to do about it.
fn explain(said: &str) -> String {
    let refuses_password = ["WRONGPASS", "NOAUTH", "invalid password", "Access denied"];
    let storage = said.contains("is not configured correctly");
    let hint = if refuses_password.iter().any(|words| said.contains(words)) {
        match storage {
            true => "access-key and secret-key of the secret are refused by the storage",
            false => "the password in metaurl of the secret is wrong or missing",
        }
    } else if said.contains("cannot update volume name") {
        "metaurl of the secret is that of another volume: give its name, or another metaurl"
    } else if said.contains("is not empty") {
        "bucket of the secret holds what is not of this volume: give another bucket or name"
    } else if storage {
        "storage, bucket, access-key or secret-key of the secret is wrong"
    } else {
        return said.to_owned();
    };
    format!("{hint} ({said})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_explained() {
        let said = [
            (
                "Load metadata: WRONGPASS invalid username-password pair",
                "password in metaurl",
            ),
            (
                "Storage redis://@h/1/v/ is not configured correctly: Failed to put: WRONGPASS",
                "secret-key",
            ),
            (
                "format: update format: cannot update volume name from a to b",
                "another volume",
            ),
            (
                "Storage file:///x/ is not empty; please clean it up",
                "another bucket",
            ),
        ];
        for (said, hint) in said {
            let told = explain(said);
            assert!(told.contains(hint) && told.contains(said), "{told}");
        }
        assert_eq!(explain("Invalid meta driver: x"), "Invalid meta driver: x");
    }
}
