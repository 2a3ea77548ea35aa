//! Logs on disk, in the form in which kubelets find them: a line has the time, the
//! stream, whether it is whole, and the text.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, poll};

/// A file is put aside when it is longer, as kubelets do it.
const LONGEST: u64 = 10 << 20;
/// So many files that were put aside are kept.
pub const KEPT: u32 = 4;
/// Longer lines are cut into parts.
const LONGEST_LINE: usize = 16 << 10;

/// Where lines come from.
struct Source<R> {
    name: &'static str,
    from: Option<R>,
    /// What has come of a line.
    begun: Vec<u8>,
}

/// Writes down all that comes from both, until both end. One after the other: there
/// can be no second thread here.
pub(super) fn copy(path: &Path, out: impl Read + AsFd, err: impl Read + AsFd) -> io::Result<()> {
    // Without a place for them, lines are lost; the program goes on.
    let mut log = Log::open(path).ok();
    let mut out = Source::new("stdout", out);
    let mut err = Source::new("stderr", err);
    while out.from.is_some() || err.from.is_some() {
        let (out_is_due, err_is_due) = due(out.from.as_ref(), err.from.as_ref())?;
        if out_is_due {
            out.take(log.as_mut());
        }
        if err_is_due {
            err.take(log.as_mut());
        }
    }
    Ok(())
}

/// Waits until something can be read, and says where.
fn due(out: Option<&impl AsFd>, err: Option<&impl AsFd>) -> io::Result<(bool, bool)> {
    let mut fds: Vec<PollFd<'_>> = Vec::new();
    fds.extend(out.map(|out| PollFd::new(out, PollFlags::IN)));
    fds.extend(err.map(|err| PollFd::new(err, PollFlags::IN)));
    match poll(&mut fds, None) {
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => return Ok((false, false)),
        Err(error) => return Err(error.into()),
    }
    let mut due = fds.iter().map(|fd| !fd.revents().is_empty());
    let out = out.is_some() && due.next() == Some(true);
    Ok((out, err.is_some() && due.next() == Some(true)))
}

impl<R: Read> Source<R> {
    fn new(name: &'static str, from: R) -> Source<R> {
        Source {
            name,
            from: Some(from),
            begun: Vec::new(),
        }
    }

    /// Takes what there is. A full disk must not stop the training: lines are lost then.
    fn take(&mut self, mut log: Option<&mut Log>) {
        let mut buffer = [0; LONGEST_LINE];
        let read = self.from.as_mut().map(|from| from.read(&mut buffer));
        let Some(Ok(length @ 1..)) = read else {
            self.from = None;
            if !self.begun.is_empty() {
                write(&mut log, self.name, "P", &self.begun);
            }
            return;
        };
        self.begun
            .extend_from_slice(buffer.get(..length).unwrap_or_default());
        while let Some((part, end)) = cut(&self.begun) {
            let rest = self.begun.split_off(end);
            let text = self.begun.strip_suffix(b"\n").unwrap_or(&self.begun);
            write(&mut log, self.name, part, text);
            self.begun = rest;
        }
    }
}

fn write(log: &mut Option<&mut Log>, stream: &str, part: &str, text: &[u8]) {
    if let Some(log) = log {
        let _: io::Result<()> = log.line(stream, part, text);
    }
}

/// Where a line ends that can be written now, and whether it is whole.
fn cut(begun: &[u8]) -> Option<(&'static str, usize)> {
    match begun.iter().position(|byte| *byte == b'\n') {
        Some(end) if end < LONGEST_LINE => Some(("F", end + 1)),
        _ if begun.len() >= LONGEST_LINE => Some(("P", LONGEST_LINE)),
        _ => None,
    }
}

/// The log of a container.
#[derive(Debug)]
struct Log {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Log {
    fn open(path: &Path) -> io::Result<Log> {
        let file = open(path)?;
        let length = file.metadata()?.len();
        let path = path.to_owned();
        Ok(Log { path, file, length })
    }

    fn line(&mut self, stream: &str, part: &str, text: &[u8]) -> io::Result<()> {
        let mut whole = format!("{:.9} {stream} {part} ", Timestamp::now()).into_bytes();
        whole.extend_from_slice(text);
        whole.push(b'\n');
        self.write(&whole)
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if self.length > 0 && self.length.saturating_add(length) > LONGEST {
            self.put_aside()?;
        }
        self.file.write_all(line)?;
        self.length = self.length.saturating_add(length);
        Ok(())
    }

    fn put_aside(&mut self) -> io::Result<()> {
        let aside = |n: u32| match n {
            0 => self.path.clone(),
            n => self.path.with_extension(n.to_string()),
        };
        for n in (0..KEPT).rev() {
            match std::fs::rename(aside(n), aside(n + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.file = open(&self.path)?;
        self.length = 0;
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn written(out: &[u8]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = Log::open(&path).unwrap();
        let mut source = Source::new("stdout", out);
        while source.from.is_some() {
            source.take(Some(&mut log));
        }
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text
            .lines()
            .map(|line| line.split_once(' ').unwrap().1.to_owned());
        lines.collect()
    }

    #[test]
    fn lines_are_whole_or_parts() {
        assert_eq!(
            written(b"a\n\nb c\n"),
            ["stdout F a", "stdout F ", "stdout F b c"]
        );
        assert_eq!(written(b"no end"), ["stdout P no end"]);
        let long = [vec![b'x'; LONGEST_LINE + 1], vec![b'\n']].concat();
        let [part, rest] = written(&long).try_into().unwrap();
        assert_eq!(part.len(), "stdout P ".len() + LONGEST_LINE);
        assert_eq!(rest, "stdout F x");
    }

    #[test]
    fn long_logs_are_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = Log::open(&path).unwrap();
        let line = vec![b'x'; 1 << 20];
        for _ in 0..100 {
            log.line("stdout", "F", &line).unwrap();
        }
        let mut names: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["log", "log.1", "log.2", "log.3", "log.4"]);
    }
}
