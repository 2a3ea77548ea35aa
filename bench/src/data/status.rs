//! How late it is told that what is cached has changed, and what it takes to know while
//! nothing changes.

use std::time::{Duration, Instant};

use anyhow::bail;
use bench::median;
use bench::usage::Usage;
use cache_api::{Cache, Poll, Task};
use juicefs::MountPoint;

use crate::servers::Servers;

/// For so long nothing changes.
const REST: Duration = Duration::from_secs(30);
/// How long a change may take to be told before something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// Takes the folder of the images out of the cache and in again, and then looks at a server
/// whose volume has many files.
pub(crate) async fn compare(
    servers: &Servers,
    images: usize,
    files: usize,
    runs: usize,
) -> anyhow::Result<()> {
    println!("## cache status: told so long after a change");
    let mount = servers.mount();
    let at = mount.display().to_string();
    let mut late = Vec::new();
    let counter = MountPoint::new(&mount);
    let is_so = |cache: &Cache| counter.stats().is_ok_and(|now| now.cached == cache.cached);
    for _ in 0..runs {
        for change in [&["warmup", "--evict", &at][..], &["warmup", &at]] {
            servers.juicefs(change).await?;
            late.push(told(servers, is_so).await?);
        }
    }
    let most = late.iter().copied().fold(0.0, f64::max);
    println!("median {:.2} s, most {most:.2} s", median(late));

    let copies = files.div_ceil(images).saturating_sub(1);
    let original = mount.join(crate::IMAGES).display().to_string();
    for copy in 0..copies {
        let copy = mount.join(format!("copy-{copy}")).display().to_string();
        servers.juicefs(&["clone", &original, &copy]).await?;
    }
    servers.operate(Task::Recount).await?;
    let there = (images * (copies + 1)) as u64;
    let is_counted = |cache: &Cache| cache.total.is_some_and(|total| total.files == there);
    told(servers, is_counted).await?;
    println!("## the runtime server of {there} files at rest");
    let cpu = || Usage::of(std::process::id()).map(|usage| usage.cpu);
    let (before, begin) = (cpu()?, Instant::now());
    tokio::time::sleep(REST).await;
    let took = cpu()? - before;
    let percent = 100.0 * took.as_secs_f64() / begin.elapsed().as_secs_f64();
    println!("{percent:.2} % of a core, in {} s", REST.as_secs());
    Ok(())
}

/// After how many seconds it is told.
async fn told(servers: &Servers, is_so: impl Fn(&Cache) -> bool) -> anyhow::Result<f64> {
    let begin = Instant::now();
    let mut since = 0;
    while begin.elapsed() < PATIENCE {
        let wait = Duration::from_secs(5);
        let cache = servers.cache(Poll { since, wait }).await?;
        if is_so(&cache) {
            return Ok(begin.elapsed().as_secs_f64());
        }
        since = cache.revision;
    }
    bail!("a change of the cache was not told in {PATIENCE:?}")
}
