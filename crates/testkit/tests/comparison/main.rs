//! Sends the same requests to localkube and to a real kube-apiserver, and compares
//! the answers. What differs must be in the list of what may, and what is in that
//! list must differ; users read it in `docs/en/localkube.md`.

mod accepted;
#[cfg(feature = "comparison")]
#[path = "../apis/mod.rs"]
mod apis;
#[cfg(feature = "comparison")]
mod compare;
#[cfg(feature = "comparison")]
mod difference;
#[cfg(feature = "comparison")]
mod request;
#[cfg(feature = "comparison")]
mod requests;
#[cfg(feature = "comparison")]
mod side;

use std::collections::BTreeSet;

/// Users are told what differs: by the same names in both languages.
#[test]
fn the_documentation_names_every_difference() {
    let accepted: BTreeSet<&str> = accepted::ALL.iter().map(|one| one.about).collect();
    for text in [
        include_str!("../../../../docs/en/localkube.md"),
        include_str!("../../../../docs/zh_CN/localkube.md"),
    ] {
        let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
        let told: BTreeSet<&str> = rows
            .filter_map(|row| Some(row.split_once('`')?.0))
            .collect();
        assert_eq!(told, accepted);
    }
}
