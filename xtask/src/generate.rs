//! `cargo xtask generate`: the files in the repository that are made from the
//! types, or from manifests. They are committed, because users apply them straight
//! from it; a test fails when one of them is stale.
#![expect(
    clippy::print_stderr,
    reason = "a command for developers: what was done goes to stderr"
)]

mod crds;
mod manifests;
mod reference;
mod schema;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::repository;

/// `cargo xtask generate`: writes the files that are made from the types.
#[derive(Args, Debug)]
pub struct GenerateArgs {
    /// Write nothing; fail if a file is stale
    #[arg(long)]
    check: bool,
}

/// A file, and what should stand in it.
struct Output {
    /// Path from the root of the repository.
    path: &'static str,
    text: String,
}

/// Does what the command line asks for.
pub fn run(args: &GenerateArgs) -> Result<()> {
    let root = repository();
    let stale = stale(root, outputs()?);
    if args.check {
        if !stale.is_empty() {
            bail!("{}", complaint(&stale));
        }
        return Ok(());
    }
    for Output { path, text } in stale {
        let file = root.join(path);
        if let Some(directory) = file.parent() {
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot create {}", directory.display()))?;
        }
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        eprintln!("wrote {path}");
    }
    Ok(())
}

fn outputs() -> Result<Vec<Output>> {
    let crds = crds::v1()?;
    let text = crds::yaml(&crds)?;
    Ok(vec![
        Output {
            path: "deploy/v1/crd.yaml",
            text: text.clone(),
        },
        // Charts can't reach beyond their folder.
        Output {
            path: "charts/paddle-operator/files/crd.yaml",
            text,
        },
        Output {
            path: "deploy/v1beta1/crd.yaml",
            text: crds::yaml(&crds.iter().map(crds::v1beta1).collect::<Vec<_>>())?,
        },
        Output {
            path: "deploy/v1beta1/operator.yaml",
            text: manifests::v1beta1_operator(),
        },
        Output {
            path: "charts/paddle-operator/files/roles.yaml",
            text: manifests::rules()?,
        },
        Output {
            path: "docs/en/api_doc.md",
            text: reference::markdown(&crds),
        },
    ])
}

/// Those of `outputs` that are missing below `root` or differ.
fn stale(root: &Path, outputs: Vec<Output>) -> Vec<Output> {
    let current = |output: &Output| {
        fs::read_to_string(root.join(output.path)).is_ok_and(|text| text == output.text)
    };
    outputs
        .into_iter()
        .filter(|output| !current(output))
        .collect()
}

fn complaint(stale: &[Output]) -> String {
    let paths: Vec<_> = stale.iter().map(|output| output.path).collect();
    format!("stale: {}; run `cargo xtask generate`", paths.join(", "))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_committed_files_are_what_the_types_say() {
        let stale = stale(repository(), outputs().unwrap());
        assert!(stale.is_empty(), "{}", complaint(&stale));
    }

    #[test]
    fn a_missing_and_a_changed_file_are_named() {
        let elsewhere = Path::new("/nonexistent");
        let all = stale(elsewhere, outputs().unwrap());
        assert_eq!(
            complaint(&all),
            "stale: deploy/v1/crd.yaml, charts/paddle-operator/files/crd.yaml, \
             deploy/v1beta1/crd.yaml, deploy/v1beta1/operator.yaml, \
             charts/paddle-operator/files/roles.yaml, docs/en/api_doc.md; \
             run `cargo xtask generate`"
        );
        let changed = Output {
            path: "LICENSE",
            text: "something else".to_owned(),
        };
        assert_eq!(
            complaint(&stale(repository(), vec![changed])),
            "stale: LICENSE; run `cargo xtask generate`"
        );
    }
}
