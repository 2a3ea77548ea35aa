//! The real Paddle, asked the same: `make examples` installs it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use sampler::{Order, Sampler, enumerate};

use crate::installed::installed;
use crate::support::Data;

/// The answer to each question.
fn ask(questions: &str) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("questions");
    fs::write(&input, questions).unwrap();
    let python = installed("paddle-3.3.1/bin/python");
    let output = Command::new(&python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sampler/answer.py"))
        .stdin(File::open(input).unwrap())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{python:?}: {errors}");
    let answers = String::from_utf8(output.stdout).unwrap();
    answers.lines().map(str::to_owned).collect()
}

/// Each combination for each rank, and some that are large.
fn cases() -> Vec<(Sampler, usize, usize)> {
    let mut cases = Vec::new();
    let mut add = |files, replicas, batch_size, epoch, shuffle| {
        for drop_last in [false, true] {
            let sampler = Sampler {
                replicas,
                batch_size,
                epoch,
                shuffle,
                drop_last,
            };
            cases.extend((0..replicas).map(|rank| (sampler, files, rank)));
        }
    };
    for files in [0, 1, 2, 3, 5, 8, 10, 31, 32, 33, 100, 257] {
        for replicas in [1, 2, 3, 4, 7, 8] {
            for batch_size in [1, 2, 3, 4, 16, 300] {
                add(files, replicas, batch_size, 0, false);
                for epoch in [0, 1, 7] {
                    add(files, replicas, batch_size, epoch, true);
                }
            }
        }
    }
    add(3, 32, 1, 5, true);
    add(100, 3, 4, u32::MAX, true);
    add(65_537, 4, 64, 1_000, true);
    add(300_007, 2, 256, 2, true);
    cases
}

#[test]
fn every_index_is_that_of_the_real_sampler() {
    let cases = cases();
    let mut questions = String::new();
    for (sampler, files, rank) in &cases {
        let Sampler {
            replicas,
            batch_size,
            epoch,
            shuffle,
            drop_last,
        } = *sampler;
        let (shuffle, drop_last) = (u8::from(shuffle), u8::from(drop_last));
        writeln!(
            questions,
            "sampler {files} {replicas} {rank} {batch_size} {epoch} {shuffle} {drop_last}"
        )
        .unwrap();
    }
    let answers = ask(&questions);
    assert_eq!(answers.len(), cases.len());
    for ((sampler, files, rank), answer) in cases.iter().zip(answers) {
        let real = answer.split(' ').filter(|index| !index.is_empty());
        let real: Vec<usize> = real.map(|index| index.parse().unwrap()).collect();
        let ours = sampler.indices(*files, *rank).unwrap();
        assert!(ours == real, "{sampler:?}, {files} files, rank {rank}");
    }
}

/// Names that sort in unexpected ways, and what counts though it should not.
fn nasty() -> Data {
    Data::new()
        .files(["a/1.jpg", "a/10.jpg", "a/2.jpg", "a/x/1.jpg", "a/x/y/1.jpg"])
        .files([
            "a-b/1.jpg",
            "a-b/x/1.jpg",
            "a b/1.jpg",
            "a.b/1.jpg",
            "a0/1.jpg",
        ])
        .files([
            "A/1.JPG", "A/1.jPeG", "A/1.png", "A/1.PPM", "A/1.bmp", "A/1.pgm",
        ])
        .files([
            "A/1.tif",
            "A/1.tiff",
            "A/1.WebP",
            "A/1.gif",
            "A/1.jpg.txt",
            "A/jpg",
        ])
        .files([
            "A/.jpg",
            "A/.hidden.jpg",
            "A/x.t\u{130}f",
            "A/\u{212a}.jpg",
            "A/1.jpg~",
        ])
        .files([
            ".hidden/1.jpg",
            ".hidden/.deep/2.jpg",
            "loose.jpg",
            ".loose.png",
        ])
        .files([
            "1/1.jpg",
            "10/1.jpg",
            "2/1.jpg",
            "é/1.jpg",
            "e\u{301}/1.jpg",
        ])
        .files([
            "中/1.jpg",
            "\u{e000}/1.jpg",
            "\u{1f600}/1.jpg",
            "\u{ffff}/1.jpg",
        ])
        .files([
            "a/\u{e000}.jpg",
            "a/\u{1f600}.jpg",
            "a/\u{d7ff}.jpg",
            "a/é.jpg",
        ])
        .files([
            "a/new\nline.jpg",
            "a/back\\slash.jpg",
            "a/quote'\".jpg",
            "~/1.jpg",
        ])
        .files([
            "not/an/image.txt",
            "dir.jpg/1.jpg",
            "dir.jpg/2.txt",
            "a/dir.png/1.png",
        ])
        .bytes(b"a/\x80.jpg")
        .bytes(b"a/\xff.jpg")
        .bytes(b"a/\xc3.jpg")
        .bytes(b"a/\xe2\x82.jpg")
        .bytes(b"a/\xed\xa0\x80.jpg")
        .bytes(b"a/\xf0\x9f\x98.jpg")
        .bytes(b"\xff/1.jpg")
        .bytes(b"\x80-/1.jpg")
        .directory("empty")
        .directory("empty-below/empty")
        .link("linked", "a")
        .link("a/inner", "../A")
        .link("a/file.jpg", "../loose.jpg")
        .link("a/nowhere.jpg", "nowhere")
        .link("a/x/itself.jpg", "itself.jpg")
        .link("linked.jpg", "a-b")
}

#[test]
fn every_file_is_that_of_the_real_data_set() {
    let data = nasty();
    let cases = [
        ("folder", Order::Folder, ""),
        ("image", Order::Image, ""),
        ("folder", Order::Folder, "a"),
        ("image", Order::Image, "a"),
        ("image", Order::Image, "linked"),
        ("image", Order::Image, "A"),
    ];
    let mut questions = String::new();
    for (kind, _, top) in &cases {
        let root = data.root().join(top);
        writeln!(questions, "{kind} {}", hex(&root)).unwrap();
    }
    for ((kind, order, top), answer) in cases.into_iter().zip(ask(&questions)) {
        let paths: Vec<PathBuf> = (!top.is_empty()).then(|| top.into()).into_iter().collect();
        let ours = enumerate(&data.root(), &order, &paths).unwrap();
        let ours = ours.iter().map(|path| path.strip_prefix(top).unwrap());
        let ours: Vec<String> = ours.map(hex).collect();
        let real: Vec<&str> = answer.split(' ').collect();
        assert_eq!(ours, real, "{kind} of {top:?}");
        assert!(ours.len() > 10, "{kind} of {top:?}");
    }
}

fn hex(path: impl AsRef<Path>) -> String {
    let bytes = path.as_ref().as_os_str().as_bytes();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
