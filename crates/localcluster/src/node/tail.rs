//! All that a container says, for who listens on the same machine from before its first
//! start: over all of its starts, and to the last line, however soon the pod is removed.
//!
//! Who listens holds a lock on the folder of the pod. A pod that goes says that nothing
//! more will come, and waits a while until nobody holds it.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::folder::Folder;
use super::logs::{CHUNK, Entry, Follower};
use crate::shim::{EXIT, Exited, RUN, read};

/// The file that says that nothing more will be said in a pod.
const OVER: &str = "over";
/// So long a pod waits for those who listen.
const PATIENCE: Duration = Duration::from_secs(10);
/// How soon is looked whether they have gone.
const PAUSE: Duration = Duration::from_millis(20);
/// A line that does not end is cut here.
const LONGEST: usize = 64 << 10;

/// What one hears of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A line that it wrote.
    Line(String),
    /// It has ended with this code; it may be started again.
    Ended(i32),
}

/// Listens to a container.
#[derive(Debug)]
pub struct Tail {
    pod: Folder,
    container: String,
    /// The number of the next start, and what is said in the one before.
    next: usize,
    current: Option<Follower>,
    /// Lines that have not ended, of its output and its errors.
    open: [Vec<u8>; 2],
    _hold: File,
}

impl Tail {
    /// Begins to listen to a container of a pod that has a node.
    ///
    /// # Errors
    /// When the state directory can't be used, or the pod is just being removed.
    pub fn new(state: &Path, uid: &str, container: &str) -> io::Result<Tail> {
        let pod = Folder::of(state, uid);
        fs::create_dir_all(pod.path())?;
        let hold = File::open(pod.path())?;
        hold.try_lock_shared()?;
        Ok(Tail {
            pod,
            container: container.to_owned(),
            next: 0,
            current: None,
            open: Default::default(),
            _hold: hold,
        })
    }

    /// When this is true and then nothing is heard, nothing ever will be.
    pub fn is_over(&self) -> bool {
        self.pod.path().join(OVER).exists() || !self.pod.path().exists()
    }

    /// What was said since; nothing when it was silent.
    ///
    /// # Errors
    /// When its log can't be read.
    pub fn hear(&mut self) -> io::Result<Vec<Heard>> {
        let mut heard = Vec::new();
        while heard.is_empty() {
            // Before the log is read: then all is in it that ever will be.
            let has_ended = self.is_over()
                || self.start(self.next).is_some()
                || self.current.as_ref().is_some_and(Follower::has_ended);
            let Some(follower) = &mut self.current else {
                let Some((number, path)) = self.start(self.next) else {
                    break;
                };
                self.current = Some(Follower::new(&path));
                self.next = number + 1;
                continue;
            };
            let lines = follower.more(CHUNK)?;
            for line in &lines {
                self.take(line, &mut heard);
            }
            if lines.is_empty() {
                if !has_ended {
                    break;
                }
                let rest = self.open.iter_mut().map(std::mem::take);
                let rest = rest.filter(|line| !line.is_empty());
                heard.extend(rest.map(|line| Heard::Line(text(&line))));
                heard.push(Heard::Ended(self.code()));
                self.current = None;
            }
        }
        Ok(heard)
    }

    /// The first start with at least this number.
    fn start(&self, least: usize) -> Option<(usize, std::path::PathBuf)> {
        let starts = self.pod.attempts(&self.container).into_iter();
        let mut starts = starts.filter_map(|path| {
            let number = path.file_name()?.to_str()?.parse().ok()?;
            Some((number, path))
        });
        starts.find(|(number, path)| *number >= least && path.join(RUN).exists())
    }

    /// How the last start ended, in the way of shells.
    fn code(&self) -> i32 {
        let starts = self.pod.attempts(&self.container);
        let number = self.next.saturating_sub(1).to_string();
        let mut starts = starts.iter();
        let path = starts.find(|path| path.file_name().is_some_and(|name| *name == *number));
        let exited: Option<Exited> = path.and_then(|path| read(&path.join(EXIT)).ok()?);
        // Whose end nobody saw was killed.
        exited.map_or(137, |exited| exited.code)
    }

    fn take(&mut self, line: &[u8], heard: &mut Vec<Heard>) {
        let Some(entry) = Entry::parse(line) else {
            return;
        };
        let [output, errors] = &mut self.open;
        let open = if entry.is_error { errors } else { output };
        open.extend_from_slice(entry.text);
        if entry.is_whole || open.len() >= LONGEST {
            heard.push(Heard::Line(text(open)));
            open.clear();
        }
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        // Of a pod that had gone before, only the folder made above is there.
        let _: io::Result<()> = fs::remove_dir(self.pod.path());
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Says that nothing more will be said in a pod.
pub(super) fn end(pod: &Folder) {
    let over = pod.path().join(OVER);
    if !over.exists()
        && let Err(error) = fs::write(over, "")
    {
        tracing::debug!(pod = %pod.path().display(), %error, "the end of its logs");
    }
}

/// Until everybody has heard all that was said in a pod, but not for ever. From then on
/// and until the answer is dropped, nobody can begin to listen.
pub(super) async fn all_heard(pod: &Folder) -> Option<File> {
    end(pod);
    let hold = File::open(pod.path()).ok()?;
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        match hold.try_lock() {
            Ok(()) => return Some(hold),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(PAUSE).await,
            Err(TryLockError::Error(error)) => {
                tracing::debug!(pod = %pod.path().display(), %error, "who listens");
                return None;
            }
        }
    }
    None
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use std::io::Write;
    use std::path::PathBuf;

    use super::*;
    use crate::shim::LOG;

    /// The log of a start, written as the shim does it.
    struct Start(PathBuf);

    impl Start {
        fn of(state: &Path, number: usize) -> Start {
            let path = Folder::of(state, "u").path().join("containers/c");
            let path = path.join(number.to_string());
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join(RUN), "").unwrap();
            Start(path)
        }

        fn write(&self, stream: &str, part: &str, text: &str) {
            let log = self.0.join(LOG);
            let mut log = File::options().create(true).append(true).open(log).unwrap();
            writeln!(log, "2026-01-01T00:00:00Z {stream} {part} {text}").unwrap();
        }

        fn put_aside(&self) {
            let log = self.0.join(LOG);
            for n in (1..4).rev() {
                let aside = |n: u32| log.with_extension(n.to_string());
                let _ = fs::rename(aside(n), aside(n + 1));
            }
            fs::rename(&log, log.with_extension("1")).unwrap();
        }

        fn exit(&self, code: i32) {
            let exited = serde_json::json!({"code": code, "at": "2026-01-01T00:00:00Z"});
            fs::write(self.0.join(EXIT), exited.to_string()).unwrap();
        }
    }

    fn line(text: &str) -> Heard {
        Heard::Line(text.to_owned())
    }

    fn all(tail: &mut Tail) -> Vec<Heard> {
        let mut all = Vec::new();
        loop {
            let heard = tail.hear().unwrap();
            if heard.is_empty() {
                return all;
            }
            all.extend(heard);
        }
    }

    #[test]
    fn hears_every_start_and_how_it_ended() {
        let state = tempfile::tempdir().unwrap();
        let mut tail = Tail::new(state.path(), "u", "c").unwrap();
        assert_eq!(all(&mut tail), []);
        let first = Start::of(state.path(), 0);
        first.write("stdout", "F", "a b");
        assert_eq!(all(&mut tail), [line("a b")]);
        first.write("stdout", "P", "half");
        first.exit(3);
        let second = Start::of(state.path(), 1);
        second.write("stdout", "F", "again");
        assert!(!tail.is_over());
        assert_eq!(
            all(&mut tail),
            [line("half"), Heard::Ended(3), line("again")]
        );
        second.exit(0);
        end(&Folder::of(state.path(), "u"));
        assert!(tail.is_over());
        assert_eq!(all(&mut tail), [Heard::Ended(0)]);
        assert_eq!(all(&mut tail), []);
    }

    #[test]
    fn parts_of_a_line_are_joined_by_stream() {
        let state = tempfile::tempdir().unwrap();
        let mut tail = Tail::new(state.path(), "u", "c").unwrap();
        let start = Start::of(state.path(), 0);
        start.write("stdout", "P", "one ");
        start.write("stderr", "F", "error");
        start.write("stdout", "F", "line");
        assert_eq!(all(&mut tail), [line("error"), line("one line")]);
    }

    #[test]
    fn no_line_is_lost_or_doubled_when_files_are_put_aside() {
        let state = tempfile::tempdir().unwrap();
        let mut tail = Tail::new(state.path(), "u", "c").unwrap();
        let start = Start::of(state.path(), 0);
        let (mut said, mut heard) = (Vec::new(), Vec::new());
        for n in 0..200 {
            start.write("stdout", "F", &n.to_string());
            said.push(line(&n.to_string()));
            if n % 3 == 0 {
                start.put_aside();
            }
            // Up to three files behind.
            if n % 8 == 0 {
                heard.extend(all(&mut tail));
            }
        }
        heard.extend(all(&mut tail));
        assert_eq!(heard, said);
    }

    #[tokio::test]
    async fn a_pod_waits_until_its_last_words_were_heard() {
        let state = tempfile::tempdir().unwrap();
        let folder = Folder::of(state.path(), "u");
        let mut tail = Tail::new(state.path(), "u", "c").unwrap();
        let start = Start::of(state.path(), 0);
        let pod = folder.clone();
        let removal = tokio::spawn(async move {
            let heard = all_heard(&pod).await;
            assert!(heard.is_some(), "it has waited for too long");
            pod.remove().unwrap();
        });
        start.write("stdout", "F", "bye");
        start.exit(0);
        while !tail.is_over() {
            tokio::task::yield_now().await;
        }
        assert_eq!(all(&mut tail), [line("bye"), Heard::Ended(0)]);
        assert!(folder.path().exists());
        drop(tail);
        removal.await.unwrap();
        assert!(!folder.path().exists());
    }

    #[test]
    fn a_pod_that_had_gone_is_not_made_again() {
        let state = tempfile::tempdir().unwrap();
        drop(Tail::new(state.path(), "u", "c").unwrap());
        assert!(!Folder::of(state.path(), "u").path().exists());
    }
}
