//! Copies from a source into a volume.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::time::Duration;

use cache_api::{Credentials, Sync, reason};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::sync::watch;

use crate::address::Address;
use crate::command::{Finished, option};
use crate::{Error, Juicefs, Redactor, Source};

/// By this name the volume is known to one command; its metaurl is in the
/// variable of that name.
const VOLUME: &str = "volume";
/// How often a sync is asked how far it is.
const INTERVAL: Duration = Duration::from_millis(500);
/// The most that is read of its figures.
const MAX_FIGURES: u64 = 1 << 20;
/// juicefs decodes its URLs.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'_')
    .remove(b'.');

/// How far a sync is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Files that were found so far and are not left out.
    pub found: u64,
    /// Files that are copied, or were there already.
    pub done: u64,
    /// Their bytes.
    pub done_bytes: u64,
}

/// What a sync has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Synced {
    /// Files in the source.
    pub found: u64,
    /// Those that the options left out.
    pub excluded: u64,
    /// Those that were there already.
    pub skipped: u64,
    /// Those that were copied.
    pub copied: u64,
    /// Bytes that were copied or there already, as juicefs rounds them.
    pub bytes: u64,
    /// Those that could not be copied.
    pub failed: u64,
}

impl Juicefs {
    /// Copies a folder into one of the volume (a relative path), and tells now and
    /// then how far it is. It goes past every mount, so that no cache is filled.
    ///
    /// # Errors
    /// When the source has no file, not all could be copied, or one of the two
    /// can't be reached.
    pub async fn sync(
        &self,
        order: &Sync,
        destination: &Path,
        credentials: &Credentials,
        progress: impl FnMut(Figures),
    ) -> Result<Synced, Error> {
        let source = Source::parse(&order.source)?;
        let metadata = Address::parse(&credentials.metaurl);
        metadata.probe().await?;
        let redactor = Redactor::of(credentials);
        let what = format!("sync of {}", redactor.redact(source.uri()));
        // Then juicefs finds something in any case: what it deletes, or the folder.
        if order.delete_dst || order.dirs {
            let look = Sync {
                delete_dst: false,
                delete_src: false,
                dirs: false,
                dry: true,
                ..order.clone()
            };
            let mut command =
                self.sync_command(&look, &source, destination, &metadata, credentials);
            command.arg("--limit=1");
            judge(&self.run(command, &redactor, |_| ()).await?, &what)?;
        }
        let command = self.sync_command(order, &source, destination, &metadata, credentials);
        let (found, address) = watch::channel(String::new());
        let run = self.run(command, &redactor, |line| {
            if let Some(address) = metrics_address(line) {
                found.send_replace(address.to_owned());
            }
        });
        let finished = tokio::select! {
            finished = run => finished?,
            never = watch_figures(address, progress) => match never {},
        };
        judge(&finished, &what)
    }

    fn sync_command(
        &self,
        order: &Sync,
        source: &Source,
        destination: &Path,
        metadata: &Address,
        credentials: &Credentials,
    ) -> Command {
        let mut command = self.subcommand("sync");
        command.args(["--metrics=127.0.0.1:0"]);
        option(&mut command, "start", order.start.as_ref());
        option(&mut command, "end", order.end.as_ref());
        // juicefs takes the first that fits.
        option(&mut command, "include", order.include.as_ref());
        option(&mut command, "exclude", order.exclude.as_ref());
        option(&mut command, "threads", number(order.threads));
        option(&mut command, "bwlimit", number(order.bwlimit));
        let switches = [
            ("--update", order.update),
            ("--force-update", order.force_update),
            ("--perms", order.perms),
            ("--dirs", order.dirs),
            ("--dry", order.dry),
            ("--delete-src", order.delete_src),
            ("--delete-dst", order.delete_dst),
            ("--no-https", order.no_https),
        ];
        let switches = switches.iter().filter(|(_, on)| *on);
        command.args(switches.map(|(switch, _)| *switch));
        command.args([source.uri(), &destination_url(destination)]);
        command.envs(source.environment(credentials));
        command.env(VOLUME, &metadata.url);
        if let Some(password) = &metadata.password {
            command.env("META_PASSWORD", password);
        }
        command
    }
}

/// What a sync has done, or why it is none.
fn judge(finished: &Finished, what: &str) -> Result<Synced, Error> {
    match finished.log.find(last_line) {
        Some(Synced { found: 0, .. }) if finished.success => Err(Error::new(
            reason::EMPTY_SOURCE,
            format!("{what}: no file found; see whether the folder is there and has files"),
        )),
        Some(synced) if finished.success && synced.failed == 0 => Ok(synced),
        Some(synced) if synced.failed > 0 => Err(Error::new(
            reason::INCOMPLETE,
            format!(
                "{what}: {} of {} files could not be copied; the first trouble: {}",
                synced.failed,
                synced.found,
                finished.log.complaint().unwrap_or("not told")
            ),
        )),
        _ => Err(finished.log.error(what)),
    }
}

fn number(number: Option<u32>) -> Option<String> {
    number.map(|number| number.to_string())
}

/// Ends in `/`, as the source does.
fn destination_url(destination: &Path) -> String {
    let bytes = destination.as_os_str().as_encoded_bytes();
    let path = percent_encode(bytes, IN_PATH).to_string();
    match path.as_str() {
        "" => format!("jfs://{VOLUME}/"),
        path => format!("jfs://{VOLUME}/{path}/"),
    }
}

/// Where a sync tells how far it is.
fn metrics_address(line: &str) -> Option<&str> {
    let (_, address) = line.split_once("metrics listening on \"")?;
    address.split('"').next()
}

async fn watch_figures(
    mut address: watch::Receiver<String>,
    mut progress: impl FnMut(Figures),
) -> Infallible {
    let mut last = Figures::default();
    loop {
        let found = address.wait_for(|address| !address.is_empty()).await;
        let Ok(address) = found.map(|address| address.clone()) else {
            return std::future::pending().await;
        };
        // It may be about to end.
        if let Ok(text) = fetch(&address).await {
            let figures = figures(&text);
            if figures != last {
                progress(figures);
                last = figures;
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// By the oldest HTTP: the answer comes in one piece and ends the connection.
async fn fetch(address: &str) -> io::Result<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
        let mut text = String::new();
        stream.take(MAX_FIGURES).read_to_string(&mut text).await?;
        Ok(text)
    };
    tokio::time::timeout(INTERVAL, exchange).await?
}

fn figures(text: &str) -> Figures {
    let figure = |name: &str| -> u64 {
        let line = text.lines().find(|line| {
            let rest = line.strip_prefix("juicefs_sync_");
            rest.and_then(|rest| rest.strip_prefix(name))
                .is_some_and(|rest| rest.starts_with(['{', ' ']))
        });
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
            .map_or(0, whole)
    };
    Figures {
        found: figure("scanned").saturating_sub(figure("excluded")),
        done: figure("copied") + figure("skipped"),
        done_bytes: figure("copied_bytes") + figure("skipped_bytes"),
    }
}

/// Prometheus writes numbers as `1.9439288e+07`. What does not fit is cut off at the ends.
pub(crate) fn whole(number: f64) -> u64 {
    number.round() as u64
}

/// `Found: 300, excluded: 0 (0 B), skipped: 0 (0 B), copied: 300 (4.31 MiB), extra: 0 (0 B),
/// failed: 0`
fn last_line(line: &str) -> Option<Synced> {
    let line = line.strip_prefix("Found: ")?;
    let mut synced = Synced {
        found: line.split(',').next()?.trim().parse().ok()?,
        ..Synced::default()
    };
    for part in line.split(", ").skip(1) {
        let (name, value) = part.split_once(": ")?;
        let (count, size) = value.split_once(" (").unwrap_or((value, ""));
        let count = count.trim().parse().ok()?;
        let bytes = crate::cached::bytes(size.trim_end_matches(')')).unwrap_or_default();
        match name {
            "excluded" => synced.excluded = count,
            "skipped" => synced.skipped = count,
            "copied" => synced.copied = count,
            "failed" => synced.failed = count,
            _ => continue,
        }
        if matches!(name, "skipped" | "copied") {
            synced.bytes += bytes;
        }
    }
    Some(synced)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_last_line_is_understood() {
        let line = "Found: 302, excluded: 1 (9 B), skipped: 1 (1.00 KiB), copied: 299 (4.00 MiB), extra: 8 (0 B), failed: 1";
        let want = Synced {
            found: 302,
            excluded: 1,
            skipped: 1,
            copied: 299,
            bytes: (4 << 20) + 1024,
            failed: 1,
        };
        assert_eq!(last_line(line), Some(want));
        let dry =
            "Found: 2, excluded: 0 (0 B), skipped: 0 (0 B), copied: 2 (195.04 MiB), extra: 0 (0 B)";
        assert_eq!(last_line(dry).unwrap().copied, 2);
        assert_eq!(last_line("flush session 0:"), None);
    }

    #[test]
    fn figures_are_read_from_metrics() {
        let text = "HTTP/1.0 200 OK\r\n\r\n\
            juicefs_sync_copied{cmd=\"sync\",pid=\"1\"} 367\n\
            juicefs_sync_copied_bytes{cmd=\"sync\",pid=\"1\"} 1.9439288e+07\n\
            juicefs_sync_excluded{cmd=\"sync\",pid=\"1\"} 1\n\
            juicefs_sync_scanned{cmd=\"sync\",pid=\"1\"} 1300\n\
            juicefs_sync_skipped{cmd=\"sync\",pid=\"1\"} 3\n\
            juicefs_sync_skipped_bytes{cmd=\"sync\",pid=\"1\"} 2\n";
        let want = Figures {
            found: 1299,
            done: 370,
            done_bytes: 19_439_290,
        };
        assert_eq!(figures(text), want);
        assert_eq!(figures(""), Figures::default());
    }

    #[test]
    fn destinations_are_what_they_say() {
        let cases = [
            ("", "jfs://volume/"),
            ("a/b", "jfs://volume/a/b/"),
            ("a b%20?#", "jfs://volume/a%20b%2520%3F%23/"),
        ];
        for (path, want) in cases {
            assert_eq!(destination_url(Path::new(path)), want);
        }
    }

    #[test]
    fn no_key_is_among_the_arguments() {
        let credentials = Credentials {
            access_key: Some("AK-1".to_owned()),
            secret_key: Some("SK-2".to_owned()),
            metaurl: "redis://:PW-3@h/0".to_owned(),
        };
        let order = Sync {
            source: "s3://b.h/p".to_owned(),
            threads: Some(7),
            dirs: true,
            exclude: Some("*.tmp".to_owned()),
            ..Sync::default()
        };
        let source = Source::parse(&order.source).unwrap();
        let metadata = Address::parse(&credentials.metaurl);
        let command = Juicefs::new("juicefs").sync_command(
            &order,
            &source,
            Path::new("d"),
            &metadata,
            &credentials,
        );
        let command = command.as_std();
        let arguments: Vec<_> = command
            .get_args()
            .map(|arg| arg.to_string_lossy())
            .collect();
        assert_eq!(
            arguments,
            [
                "--no-agent",
                "sync",
                "--metrics=127.0.0.1:0",
                "--exclude=*.tmp",
                "--threads=7",
                "--dirs",
                "s3://b.h/p/",
                "jfs://volume/d/"
            ]
        );
        let everywhere = ["HOME", "PATH"];
        let environment: BTreeMap<_, _> = command
            .get_envs()
            .filter(|(name, _)| !everywhere.iter().any(|known| name == known))
            .map(|(name, value)| (name.to_string_lossy(), value.unwrap().to_string_lossy()))
            .collect();
        let want = [
            ("AWS_ACCESS_KEY_ID", "AK-1"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
            ("AWS_SECRET_ACCESS_KEY", "SK-2"),
            ("META_PASSWORD", "PW-3"),
            ("volume", "redis://@h/0"),
        ];
        assert_eq!(
            environment,
            want.map(|(name, value)| (name.into(), value.into())).into()
        );
    }
}
