//! Reading logs.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use crate::shim::{EXIT, LOG, LOGS_ASIDE, STARTED, Started, read as read_record};

/// How soon is looked whether a log that is followed has grown.
const PAUSE: Duration = Duration::from_millis(100);
/// A follower is given so much at a time.
pub(super) const CHUNK: u64 = 256 << 10;

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
        let entry = Entry::parse(line)?;
        if let Some(since) = since
            && entry.time.parse().is_ok_and(|time: Timestamp| time < since)
        {
            return None;
        }
        let mut shown = Vec::new();
        if self.timestamps {
            shown.extend_from_slice(entry.time.as_bytes());
            shown.push(b' ');
        }
        shown.extend_from_slice(entry.text);
        if entry.is_whole {
            shown.push(b'\n');
        }
        Some(shown)
    }
}

/// A line of a log, or a part of one.
pub(super) struct Entry<'l> {
    time: &'l str,
    pub(super) is_error: bool,
    /// It ends its line.
    pub(super) is_whole: bool,
    pub(super) text: &'l [u8],
}

impl Entry<'_> {
    pub(super) fn parse(line: &[u8]) -> Option<Entry<'_>> {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        Some(Entry {
            time: std::str::from_utf8(parts.next()?).ok()?,
            is_error: parts.next()? == b"stderr",
            is_whole: parts.next()? == b"F",
            text: parts.next()?,
        })
    }
}

/// The log of a start of a container, from its beginning.
pub(super) fn read(
    attempt: &Path,
    wanted: Wanted,
) -> io::Result<impl Stream<Item = io::Result<Vec<u8>>> + Send + use<>> {
    let since = wanted.since();
    let mut follower = Follower::new(attempt);
    let mut lines = Vec::new();
    // Each time one file, so that who writes fast does not keep us here.
    for _ in 0..=LOGS_ASIDE {
        lines.extend(follower.more(u64::MAX)?);
    }
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
fn take_lines(file: &File, limit: u64, lines: &mut Vec<Vec<u8>>) -> io::Result<u64> {
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

/// Goes on reading a log while it grows and is put aside.
#[derive(Debug)]
pub(super) struct Follower {
    attempt: PathBuf,
    /// Open, so that it can be read to its end whatever becomes of its name.
    file: Option<(File, u64)>,
}

impl Follower {
    /// From the oldest line that is still there.
    pub(super) fn new(attempt: &Path) -> Follower {
        Follower {
            attempt: attempt.to_owned(),
            file: None,
        }
    }

    /// Nothing is written any more.
    pub(super) fn has_ended(&self) -> bool {
        let started: Option<Started> = read_record(&self.attempt.join(STARTED)).ok().flatten();
        let has_shim = started.is_none_or(|started| started.shim.open().is_some());
        self.attempt.join(EXIT).exists() || !self.attempt.exists() || !has_shim
    }

    /// What has come since, if anything.
    pub(super) fn more(&mut self, limit: u64) -> io::Result<Vec<Vec<u8>>> {
        let mut lines = Vec::new();
        loop {
            let Some((file, at)) = &mut self.file else {
                match files(&self.attempt)?.pop() {
                    Some(oldest) => self.file = Some((oldest, 0)),
                    None => return Ok(lines),
                }
                continue;
            };
            // Before it is read: then all is in it that ever will be.
            let newer = newer_than(file, &self.attempt)?;
            file.seek(SeekFrom::Start(*at))?;
            *at += take_lines(file, limit, &mut lines)?;
            match newer {
                Some(newer) if lines.is_empty() => self.file = Some((newer, 0)),
                _ => return Ok(lines),
            }
        }
    }

    /// Waits for more; none when there is no more.
    async fn next(&mut self) -> io::Result<Option<Vec<Vec<u8>>>> {
        loop {
            let is_over = self.has_ended();
            let lines = self.more(CHUNK)?;
            if !lines.is_empty() {
                return Ok(Some(lines));
            }
            if is_over {
                return Ok(None);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The files of a log, the newest first.
fn files(attempt: &Path) -> io::Result<Vec<File>> {
    let log = attempt.join(LOG);
    let aside = (1..=LOGS_ASIDE).map(|n| log.with_extension(n.to_string()));
    let mut files: Vec<File> = Vec::new();
    for path in [log.clone()].into_iter().chain(aside) {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        files.push(file);
    }
    let mut numbers = files.iter().map(number).collect::<io::Result<Vec<_>>>()?;
    numbers.sort_unstable();
    numbers.dedup();
    // One that was put aside meanwhile was met again under its new name.
    match numbers.len() == files.len() {
        true => Ok(files),
        false => self::files(attempt),
    }
}

/// The file that was begun when this one was put aside, or the oldest that is left.
fn newer_than(file: &File, attempt: &Path) -> io::Result<Option<File>> {
    let own = number(file)?;
    let mut newer = None;
    for found in files(attempt)? {
        if number(&found)? == own {
            break;
        }
        newer = Some(found);
    }
    Ok(newer)
}

fn number(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.ino())
}
