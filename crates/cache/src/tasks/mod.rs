//! What the jobs do.

use std::path::{Path, PathBuf};

use cache_api::{Clear, Outcome, Progress, Rmr, Task, reason};
use juicefs::{Error, Juicefs, MountPoint, Targets};

use crate::figures::Figures;
use crate::jobs::Turn;
use crate::paths;

mod kept;
mod share;
mod sync;
mod warmup;

pub(crate) use kept::SHARE_FILE;
pub(crate) use sync::sweep;

/// What every job needs.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) juicefs: Juicefs,
    pub(crate) mount: MountPoint,
    pub(crate) state_dir: PathBuf,
    pub(crate) figures: Figures,
}

impl Context {
    pub(crate) fn root(&self) -> &Path {
        self.mount.root()
    }

    fn unreadable(&self, error: &std::io::Error) -> Error {
        let at = self.root().display();
        let message = format!("the volume at {at} can't be read: {error}");
        Error::new(reason::VOLUME_UNREACHABLE, message)
    }

    /// Counts the data; false if that can't be done now.
    pub(crate) async fn count(&self) -> bool {
        self.figures.count(&self.juicefs, self.root()).await
    }

    /// Does a job to its end. Whoever drops this ends it.
    pub(crate) async fn run(
        &self,
        turn: &Turn,
        progress: impl Fn(Progress),
    ) -> Result<Outcome, Error> {
        match &turn.task {
            Task::Sync(order) => {
                let missing = || Error::new(reason::CREDENTIALS_MISSING, "a sync without keys");
                let credentials = turn.credentials.as_ref().ok_or_else(missing)?;
                self.sync(order, credentials, progress).await
            }
            Task::Warmup(order) => self.warmup(order, progress).await,
            Task::Clear(order) => self.clear(order).await,
            Task::Rmr(order) => self.rmr(order, turn.is_repeated).await,
            Task::Recount => {
                self.recount().await;
                Ok(Outcome::default())
            }
        }
    }

    async fn clear(&self, order: &Clear) -> Result<Outcome, Error> {
        let targets = match order.paths.as_slice() {
            [] => vec![self.root().to_owned()],
            paths => self.existing(paths).await?,
        };
        // A link that leads nowhere has nothing cached, and juicefs would fail.
        self.evict(targets, |path| path.exists()).await?;
        Ok(Outcome::default())
    }

    /// Blocks of a file that is gone would stay cached: they go first. What is gone
    /// already was removed by an earlier life, if there was one.
    async fn rmr(&self, order: &Rmr, is_repeated: bool) -> Result<Outcome, Error> {
        let is_root =
            |path: &String| paths::relative(path).is_ok_and(|path| path.as_os_str().is_empty());
        if order.paths.is_empty() || order.paths.iter().any(is_root) {
            let message =
                "rmr: a path is empty, or the data as a whole; name what is to be removed";
            return Err(Error::new(reason::BAD_PATH, message));
        }
        let (root, given) = (self.root().to_owned(), order.paths.clone());
        let targets = blocking(move || {
            let found = given.iter().map(|path| paths::find(&root, path));
            let found = found.collect::<Result<Vec<Option<PathBuf>>, Error>>()?;
            match found.iter().zip(&given).find(|(found, _)| found.is_none()) {
                Some((_, path)) if !is_repeated => Err(paths::missing(&root, path)),
                _ => Ok(found.into_iter().flatten().collect::<Vec<PathBuf>>()),
            }
        });
        let targets = targets.await??;
        let removed = match targets.is_empty() {
            true => Ok(()),
            false => {
                // juicefs follows a link, but what it leads to stays.
                self.evict(targets.clone(), |path| !path.is_symlink())
                    .await?;
                self.juicefs.rmr(&targets).await
            }
        };
        // Some of it may be gone even if not all is.
        self.recount().await;
        removed.map(|()| Outcome::default())
    }

    /// Drops what is cached of those paths that it concerns.
    async fn evict(
        &self,
        mut paths: Vec<PathBuf>,
        concerns: fn(&Path) -> bool,
    ) -> Result<(), Error> {
        let paths = blocking(move || {
            paths.retain(|path| concerns(path));
            paths
        });
        match paths.await?.as_slice() {
            [] => Ok(()),
            paths => self.juicefs.evict(Targets::Paths(paths)).await,
        }
    }

    /// Where paths are on this machine.
    async fn existing(&self, given: &[String]) -> Result<Vec<PathBuf>, Error> {
        let (root, given) = (self.root().to_owned(), given.to_owned());
        let find = move || {
            let existing = |path: &String| paths::existing(&root, path);
            given.iter().map(existing).collect()
        };
        blocking(find).await?
    }
}

/// Work that blocks, away from those who answer.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let ended = |_| Error::new(reason::COMMAND_FAILED, "the server is ending");
    tokio::task::spawn_blocking(work).await.map_err(ended)
}
