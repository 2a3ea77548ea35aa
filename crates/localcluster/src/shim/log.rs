//! Logs on disk, in the form in which kubelets find them: a line has the time, the
//! stream, whether it is whole, and the text.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use jiff::Timestamp;

/// A file is put aside when it is longer, as kubelets do it.
const LONGEST: u64 = 10 << 20;
/// So many files that were put aside are kept.
const KEPT: u32 = 4;
/// Longer lines are cut into parts.
const LONGEST_LINE: u64 = 16 << 10;

/// Where a line comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stream {
    Out,
    Err,
}

/// The log of a container.
#[derive(Clone, Debug)]
pub(super) struct Log(Arc<Mutex<Writer>>);

#[derive(Debug)]
struct Writer {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Log {
    pub(super) fn open(path: &Path) -> io::Result<Log> {
        let file = open(path)?;
        let length = file.metadata()?.len();
        let path = path.to_owned();
        Ok(Log(Arc::new(Mutex::new(Writer { path, file, length }))))
    }

    /// Writes down all that comes, until it ends.
    pub(super) fn copy(&self, from: impl Read + Send + 'static, stream: Stream) -> JoinHandle<()> {
        let log = self.clone();
        thread::spawn(move || {
            let mut from = BufReader::new(from);
            let mut line = Vec::new();
            loop {
                line.clear();
                match from
                    .by_ref()
                    .take(LONGEST_LINE)
                    .read_until(b'\n', &mut line)
                {
                    Ok(0) | Err(_) => return,
                    // A full disk must not stop the training: the lines are lost.
                    Ok(_) => drop(log.write(stream, &line)),
                }
            }
        })
    }

    fn write(&self, stream: Stream, line: &[u8]) -> io::Result<()> {
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = match stream {
            Stream::Out => "stdout",
            Stream::Err => "stderr",
        };
        let (part, text) = match line.strip_suffix(b"\n") {
            Some(text) => ("F", text),
            None => ("P", line),
        };
        let mut whole = format!("{:.9} {stream} {part} ", Timestamp::now()).into_bytes();
        whole.extend_from_slice(text);
        whole.push(b'\n');
        writer.write(&whole)
    }
}

impl Writer {
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
