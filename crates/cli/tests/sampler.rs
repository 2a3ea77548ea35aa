//! `paddle-operator sampler`, as its users type it.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

fn command(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paddle-operator"));
    command.arg("sampler").args(arguments.split_whitespace());
    command
}

fn printed(arguments: &str) -> String {
    let output = command(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(arguments: &str) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command(arguments).output().unwrap();
    assert_eq!(status.code(), Some(1), "{arguments}");
    assert_eq!(stdout, b"", "{arguments}");
    String::from_utf8(stderr).unwrap()
}

#[test]
fn prints_an_index_per_line() {
    assert_eq!(
        printed("--files 10 --replicas 2 --rank 1 --batch-size 2 --epoch 0"),
        "2\n3\n6\n7\n9\n"
    );
    assert_eq!(
        printed("--files 10 --replicas 2 --rank 1 --batch-size 2 --drop-last"),
        "2\n3\n6\n7\n"
    );
    let shuffled = printed("--files 10 --replicas 1 --rank 0 --epoch 7 --shuffle");
    assert_eq!(shuffled.replace('\n', " "), "8 5 0 2 1 9 7 3 6 4 ");
    assert_eq!(printed("--files 0 --replicas 2 --rank 1"), "");
}

#[test]
fn says_what_can_not_be() {
    let message = refused("--files 10 --replicas 2 --rank 2");
    let want = "the rank is 2; with 2 replicas it must be from 0 to 1";
    assert!(message.contains(want), "{message}");
    let message = refused("--files 10 --replicas 0 --rank 0");
    let want = "the number of replicas is 0; it must be from 1 to 1048576";
    assert!(message.contains(want), "{message}");
}

#[test]
fn a_reader_may_stop_early() {
    let mut command = command("--files 1000000 --replicas 1 --rank 0");
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut line).unwrap();
    drop(reader);
    assert_eq!(line, "0\n");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stderr, b"");
}
