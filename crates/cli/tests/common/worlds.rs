//! An elastic job whose workers tell a folder that they share what they do.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::installed::cache;

/// How long anything of it may take: two cores train several models.
const PATIENCE: Duration = Duration::from_secs(300);

/// Waits for what no watch tells.
pub async fn until(mut is: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !is().await {
        assert!(begin.elapsed() < PATIENCE, "it takes too long");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// All that follows a word in a log.
pub fn value(log: &str, word: &str) -> Vec<String> {
    let words = log.split_whitespace();
    let found = words.filter_map(|text| text.strip_prefix(word));
    found.map(str::to_owned).collect()
}

/// What a pod runs: the example, which goes on for as many epochs as a file says when it is
/// started, and tells another file what it says. No log of a container is as long as a job.
const PROGRAM: &str = r#"
import os, sys
sys.path.insert(0, "/workspace")
os.environ["EPOCHS"] = open("/shared/epochs").read()
import train_fleet
say = train_fleet.say
def tell(line):
    say(line)
    with open("/shared/told", "a") as told:
        told.write(line + "\n")
train_fleet.say = tell
train_fleet.main()
"#;

/// More than any test waits for.
const ENDLESS: u32 = 100_000;

/// The storage that the workers of a job share.
pub struct Shared(TempDir);

impl Shared {
    pub fn new() -> Shared {
        // All else that nodes of a test cluster write is their own.
        let shared = Shared(tempfile::tempdir_in(cache()).unwrap());
        fs::write(shared.0.path().join("train.py"), PROGRAM).unwrap();
        shared.end_after(ENDLESS);
        shared
    }

    /// What starts from now on ends after so many epochs.
    pub fn end_after(&self, epochs: u32) {
        fs::write(self.0.path().join("epochs"), epochs.to_string()).unwrap();
    }

    /// What the workers have said, one world after the other.
    pub fn worlds(&self) -> Vec<World> {
        let told = fs::read_to_string(self.0.path().join("told")).unwrap_or_default();
        let mut worlds: Vec<World> = Vec::new();
        for line in told.lines() {
            let number = |word: &str| value(line, word).first().map(|it| it.parse().unwrap());
            if line.starts_with("rank=0 ") {
                worlds.push(World {
                    size: value(line, "world_size=")[0].parse().unwrap(),
                    ..World::default()
                });
            }
            let Some(world) = worlds.last_mut() else {
                continue;
            };
            // One that was quicker than rank 0 speaks of a world to come.
            if line.starts_with("continues ") && world.epochs.is_empty() {
                world.continues = number("epoch=");
            } else if let (Some(epoch), Some(loss)) =
                (number("epoch="), value(line, "loss=").first())
            {
                world.epochs.push(epoch);
                world.losses.push(loss.parse().unwrap());
            }
        }
        worlds
    }

    /// Waits until a world of this size, which is the last one, has done a few epochs.
    pub async fn trains(&self, size: u32) -> World {
        let mut last = Vec::new();
        until(async || {
            last = self.worlds();
            let world = last.last().filter(|world| world.size == size);
            world.is_some_and(|world| world.done() >= world.continues.unwrap_or(0) + 5)
        })
        .await;
        last.pop().unwrap()
    }
}

/// Workers that train together, until one comes or goes.
#[derive(Debug, Default)]
pub struct World {
    pub size: u32,
    /// The epoch of the checkpoint that they went on from.
    pub continues: Option<u32>,
    pub epochs: Vec<u32>,
    pub losses: Vec<f64>,
}

impl World {
    pub fn done(&self) -> u32 {
        self.epochs.iter().copied().max().unwrap_or(0)
    }

    pub fn loss(&self) -> f64 {
        let count = u32::try_from(self.losses.len()).unwrap();
        self.losses.iter().sum::<f64>() / f64::from(count)
    }
}

/// The job of the guide, with less to learn.
pub fn elastic(name: &str, workers: [u32; 3], shared: &Shared) -> Value {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let file = Path::new(root).join("deploy/elastic/resnet.yaml");
    let mut job: Value = serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    job["metadata"]["name"] = json!(name);
    let [replicas, requests, limits] = workers;
    let worker = &mut job["spec"]["worker"];
    worker["replicas"] = json!(replicas);
    worker["requests"] = json!(requests);
    worker["limits"] = json!(limits);
    let pod = &mut worker["template"]["spec"];
    let container = &mut pod["containers"][0];
    container["args"] = json!(["-m", "paddle.distributed.launch", "/shared/train.py"]);
    let variables = [
        ("CHECKPOINT", "/shared"),
        // Two and three workers have whole batches.
        ("IMAGES", "192"),
        ("BATCH_SIZE", "48"),
        ("PADDLE_ELASTIC_TIMEOUT", "15"),
    ];
    container["env"] = json!(variables.map(|(name, value)| json!({"name": name, "value": value})));
    container["volumeMounts"] = json!([{"name": "shared", "mountPath": "/shared"}]);
    pod["volumes"] = json!([{"name": "shared", "hostPath": {"path": shared.0.path()}}]);
    job
}

/// The worlds that got to an epoch, which must follow each other: each goes on from the
/// checkpoint of the one before, and what is learnt is not lost.
pub fn learn_on(worlds: Vec<World>) {
    let worlds: Vec<World> = { worlds.into_iter() }
        .filter(|world| !world.losses.is_empty())
        .collect();
    for pair in worlds.windows(2) {
        let [before, after] = pair else { continue };
        let checkpoint = after.continues.unwrap();
        // The epoch that was interrupted is done again.
        assert!(
            [0, 1].contains(&(before.done() - checkpoint)),
            "{worlds:#?}"
        );
        assert_eq!(after.epochs[0], checkpoint + 1, "{worlds:#?}");
        assert!(after.loss() < before.loss(), "{worlds:#?}");
    }
}
