//! What the guides to installing and uninstalling have one type.

use std::fs;

use crate::bed::{Bed, repository};
use crate::markdown::{Block, blocks};

/// The commands of a section, block by block.
pub fn commands<const BLOCKS: usize>(page: &str, section: &str) -> [Vec<String>; BLOCKS] {
    let text = fs::read_to_string(repository().join("docs/en").join(page)).unwrap();
    let heading = format!("\n## {section}\n");
    let (_, text) = text.split_once(&heading).unwrap();
    let text = text.split("\n## ").next().unwrap();
    let commands = blocks(text).into_iter().map(|block| match block {
        Block::Commands(typed) => typed.into_iter().map(|typed| typed.command).collect(),
        other => panic!("{page}, {section}: {other:?}"),
    });
    let commands: Vec<Vec<String>> = commands.collect();
    <[_; BLOCKS]>::try_from(commands).unwrap()
}

/// Types them.
pub fn follow(bed: &Bed, commands: &[String]) {
    for command in commands {
        bed.shell.run(command);
    }
}
