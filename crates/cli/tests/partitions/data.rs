//! The files, which of them a rank reads, and which blocks they are.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use crate::installed::installed;

/// What Paddle itself gives to each rank in its first epoch.
const SAMPLER: &str = "
import hashlib, json, sys
from paddle.io import DistributedBatchSampler
files, replicas, batch = map(int, sys.argv[1:])
ranks = []
for rank in range(replicas):
    sampler = DistributedBatchSampler(range(files), batch, replicas, rank, shuffle=True)
    indices = [int(index) for batch_of_indices in sampler for index in batch_of_indices]
    sha256 = hashlib.sha256(repr(indices).encode()).hexdigest()
    ranks.append({'indices': indices, 'sha256': sha256})
json.dump(ranks, sys.stdout)
";

/// The files that a rank reads.
#[derive(Deserialize)]
pub struct Expected {
    /// In the order of reading.
    pub indices: Vec<usize>,
    /// Of these, as the reader prints it.
    pub sha256: String,
}

pub fn number_of_files() -> usize {
    let wanted = std::env::var("PADDLE_OPERATOR_TEST_FILES");
    wanted.map_or(1000, |wanted| wanted.parse().unwrap())
}

/// A folder of files. In each is its place among all, which are in order of their paths.
pub fn make(files: usize) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..files {
        let class = dir.path().join(format!("class-{:04}", n / 100));
        if n % 100 == 0 {
            fs::create_dir(&class).unwrap();
        }
        let number = u32::try_from(n).unwrap().to_be_bytes();
        fs::write(class.join(format!("{n:06}.bin")), number.repeat(64)).unwrap();
    }
    dir
}

/// Asks the real Paddle.
pub fn expected(files: usize, replicas: usize, batch: usize) -> Vec<Expected> {
    let output = Command::new(installed("paddle-3.3.1/bin/python"))
        .args(["-W", "ignore", "-c", SAMPLER])
        .args([files, replicas, batch].map(|number| number.to_string()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The slices that each file of a dumped volume consists of, in order of their paths.
pub fn slices(dump: &Value) -> Vec<Vec<u64>> {
    let mut files = Vec::new();
    collect(&dump["FSTree"], String::new(), &mut files);
    files.sort();
    files.into_iter().map(|(_, slices)| slices).collect()
}

fn collect(entry: &Value, path: String, files: &mut Vec<(String, Vec<u64>)>) {
    if entry["attr"]["type"] == "regular" {
        let chunks = entry["chunks"].as_array().into_iter().flatten();
        let slices = chunks.flat_map(|chunk| chunk["slices"].as_array().unwrap());
        let ids = slices.map(|slice| slice["id"].as_u64().unwrap());
        files.push((path.clone(), ids.collect()));
    }
    for (name, entry) in entry["entries"].as_object().into_iter().flatten() {
        collect(entry, format!("{path}/{name}"), files);
    }
}

/// The slices of which a node has blocks in its cache.
pub fn blocks(dir: &Path, node: &str) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    walk(&dir.join("nodes").join(node).join("cache"), &mut found);
    found
}

fn walk(dir: &Path, found: &mut BTreeSet<u64>) {
    // What is being evicted may be gone by now.
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), found);
            continue;
        }
        let name = entry.file_name().into_string().unwrap();
        // `<slice>_<block>_<size>`, and when it is whole.
        if let [slice, _, _] = name.split('_').collect::<Vec<_>>()[..] {
            found.insert(slice.parse().unwrap());
        }
    }
}
