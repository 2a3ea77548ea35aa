//! Reading logs.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use crate::shim::{EXIT, LOG};

/// How soon is looked whether a log that is followed has grown.
const PAUSE: Duration = Duration::from_millis(100);
/// So many files of a log are put aside by the shim.
const ASIDE: u32 = 4;
/// A follower is given so much at a time.
const CHUNK: u64 = 256 << 10;

/// What of a log is wanted; the names are a kubelet's.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Wanted {
    pub(super) follow: bool,
    pub(super) previous: bool,
    timestamps: bool,
    tail_lines: Option<usize>,
    limit_bytes: Option<usize>,
    since_seconds: Option<i64>,
    since_time: Option<Timestamp>,
}

impl Wanted {
    fn since(&self) -> Option<Timestamp> {
        let seconds = self.since_seconds.map(SignedDuration::from_secs);
        let ago = seconds.and_then(|seconds| Timestamp::now().checked_sub(seconds).ok());
        ago.or(self.since_time)
    }

    /// A line as it is shown, unless it is older than wanted.
    fn show(&self, line: &[u8], since: Option<Timestamp>) -> Option<Vec<u8>> {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let time = std::str::from_utf8(parts.next()?).ok()?;
        let (_, part, text) = (parts.next()?, parts.next()?, parts.next()?);
        if let Some(since) = since
            && time.parse::<Timestamp>().is_ok_and(|time| time < since)
        {
            return None;
        }
        let mut shown = Vec::new();
        if self.timestamps {
            shown.extend_from_slice(time.as_bytes());
            shown.push(b' ');
        }
        shown.extend_from_slice(text);
        if part == b"F" {
            shown.push(b'\n');
        }
        Some(shown)
    }
}

/// The log of a start of a container, from its beginning.
pub(super) fn read(
    attempt: &Path,
    wanted: Wanted,
) -> io::Result<impl Stream<Item = io::Result<Vec<u8>>> + Send + use<>> {
    let since = wanted.since();
    let mut lines = Vec::new();
    let log = attempt.join(LOG);
    for n in (1..=ASIDE).rev() {
        match File::open(log.with_extension(n.to_string())) {
            Ok(file) => drop(take_lines(file, u64::MAX, &mut lines)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let mut follower = Follower::new(log, attempt.join(EXIT));
    let rest = follower.more(u64::MAX)?;
    lines.extend(rest);
    let mut shown: Vec<Vec<u8>> = lines
        .iter()
        .filter_map(|line| wanted.show(line, since))
        .collect();
    if let Some(tail) = wanted.tail_lines {
        shown.drain(..shown.len().saturating_sub(tail));
    }
    let follows = wanted.follow;
    let limit = wanted.limit_bytes;
    let grown = stream::try_unfold(follower, |mut follower| async move {
        Ok::<_, io::Error>(follower.next().await?.map(|lines| (lines, follower)))
    });
    let grown = grown.map_ok(move |lines| {
        let shown = lines.iter().filter_map(|line| wanted.show(line, None));
        shown.flatten().collect::<Vec<u8>>()
    });
    let grown = match follows {
        true => grown.left_stream(),
        false => stream::empty().right_stream(),
    };
    let all = stream::iter([Ok(shown.concat())]).chain(grown);
    Ok(all.scan(limit, |left, bytes| {
        let bytes = bytes.map(|mut bytes| {
            if let Some(left) = left {
                bytes.truncate(*left);
                *left -= bytes.len();
            }
            bytes
        });
        let is_over = matches!((&bytes, &left), (Ok(bytes), Some(0)) if bytes.is_empty());
        std::future::ready((!is_over).then_some(bytes))
    }))
}

/// Reads whole lines from where a file is.
fn take_lines(file: File, limit: u64, lines: &mut Vec<Vec<u8>>) -> io::Result<u64> {
    let mut reader = BufReader::new(file.take(limit));
    let mut read = 0;
    loop {
        let mut line = Vec::new();
        let length = reader.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Ok(read);
        }
        read += u64::try_from(length).unwrap_or_default();
        lines.push(line);
    }
}

/// Goes on reading a log while it grows.
struct Follower {
    log: PathBuf,
    /// Nothing follows once this is there.
    exit: PathBuf,
    file: Option<(File, u64)>,
}

impl Follower {
    fn new(log: PathBuf, exit: PathBuf) -> Follower {
        Follower {
            log,
            exit,
            file: None,
        }
    }

    /// What has come since, if anything.
    fn more(&mut self, limit: u64) -> io::Result<Vec<Vec<u8>>> {
        let mut lines = Vec::new();
        if self.file.is_none() {
            match File::open(&self.log) {
                Ok(file) => self.file = Some((file, 0)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(lines),
                Err(error) => return Err(error),
            }
        }
        if let Some((file, at)) = &mut self.file {
            let mut again = file.try_clone()?;
            again.seek(SeekFrom::Start(*at))?;
            *at += take_lines(again, limit, &mut lines)?;
            // One that was put aside does not grow any more.
            if lines.is_empty() && !is_at(file, &self.log) {
                self.file = None;
            }
        }
        Ok(lines)
    }

    /// Waits for more; none when there is no more.
    async fn next(&mut self) -> io::Result<Option<Vec<Vec<u8>>>> {
        loop {
            let is_over = self.exit.exists();
            let was_at = self.file.is_some();
            let lines = self.more(CHUNK)?;
            if !lines.is_empty() {
                return Ok(Some(lines));
            }
            if is_over && (self.file.is_some() || !was_at) {
                return Ok(None);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let (open, there) = (file.metadata(), std::fs::metadata(path));
    match (open, there) {
        (Ok(open), Ok(there)) => open.ino() == there.ino(),
        _ => false,
    }
}
