//! Which files are this node's.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use cache_api::{Listing, Order, Warmup, reason};
use juicefs::Error;
use sampler::{EnumerateError, listing_crc32};

use super::sync::is_unfinished;
use crate::paths;

/// The files of the data set, and which of them are this node's; paths from the
/// root of the data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) listing: Listing,
    /// In the order in which they are read.
    pub(super) share: Vec<PathBuf>,
    /// Whether that is all there is: everything, or everything below the paths.
    pub(super) is_whole: bool,
    /// The other files of the volume, if they were asked for.
    pub(super) others: Vec<PathBuf>,
}

/// Chooses the files of a partition. It lists every folder, so that the mount learns what a
/// sync has put in the place of what it knew, and reads no file but a list.
pub(super) fn select(root: &Path, order: &Warmup) -> Result<Selection, Error> {
    let names = order.paths.iter().map(|path| {
        let path = paths::relative(path)?;
        Ok(if path.as_os_str().is_empty() {
            ".".into()
        } else {
            path
        })
    });
    let names = names.collect::<Result<Vec<PathBuf>, Error>>()?;
    let list = order.file.as_deref().map(paths::relative).transpose()?;
    let counts = what_counts(order, list.clone())?;
    // Names are looked at after that: the mount believes for long what it knows of one,
    // unless its folder is listed.
    let is_named = list.is_some() || !names.is_empty();
    let all = match is_named || order.evict_others || counts == sampler::Order::All {
        true => enumerate(root, &sampler::Order::All, &[])?,
        false => Vec::new(),
    };
    for given in order.paths.iter().chain(&order.file) {
        paths::existing(root, given)?;
    }
    let some;
    let files = match counts {
        sampler::Order::All if names.is_empty() => &all,
        sampler::Order::All => {
            some = below(root, &names, &all)?;
            &some
        }
        _ => {
            some = enumerate(root, &counts, &names)?;
            &some
        }
    };
    let listing = Listing {
        files: files.len() as u64,
        crc32: listing_crc32(files),
    };
    let mut share = of_partition(order, files)?;
    if order.sampler.order == Order::List {
        // A list may name a file twice.
        let mut seen = HashSet::new();
        share.retain(|file| seen.insert(file.clone()));
    }
    let is_whole = order.sampler.order == Order::All && share.len() == files.len();
    // First, because it is known to be there: juicefs gives up when the first is not.
    if let Some(list) = list.filter(|list| !is_whole && !share.contains(list)) {
        share.insert(0, list);
    }
    let others = match order.evict_others {
        true => others(all, &share),
        false => Vec::new(),
    };
    Ok(Selection {
        listing,
        share,
        is_whole,
        others,
    })
}

/// Whether every file is this node's, whatever files there are: then they need not be
/// listed first.
pub(super) fn takes_everything(order: &Warmup) -> bool {
    let sampler = &order.sampler;
    let has_all_ranks = order.partition == 0 && sampler.ranks_per_partition >= sampler.replicas;
    has_all_ranks && !sampler.drop_last && sampler.order == Order::All && order.paths.is_empty()
}

fn what_counts(order: &Warmup, list: Option<PathBuf>) -> Result<sampler::Order, Error> {
    match (order.sampler.order, list) {
        (Order::All, _) => Ok(sampler::Order::All),
        (Order::Folder, _) => Ok(sampler::Order::Folder),
        (Order::Image, _) => Ok(sampler::Order::Image),
        (Order::List, Some(list)) => Ok(sampler::Order::List(list)),
        (Order::List, None) => Err(Error::new(
            reason::BAD_OPTIONS,
            "the order is list, but there is no list; name it by `file`",
        )),
    }
}

pub(super) fn enumerate(
    root: &Path,
    order: &sampler::Order,
    tops: &[PathBuf],
) -> Result<Vec<PathBuf>, Error> {
    let mut files = sampler::enumerate(root, order, tops).map_err(|error| {
        let reason = match &error {
            EnumerateError::ListAndPaths { .. } => reason::BAD_OPTIONS,
            EnumerateError::Read { source, .. }
                if source.kind() != std::io::ErrorKind::NotFound =>
            {
                reason::VOLUME_UNREACHABLE
            }
            _ => reason::BAD_PATH,
        };
        Error::new(reason, error.to_string())
    })?;
    files.retain(|file| !is_unfinished(file));
    Ok(files)
}

fn of_partition(order: &Warmup, files: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let given = &order.sampler;
    let number = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let sampler = sampler::Sampler {
        replicas: number(given.replicas),
        batch_size: number(given.batch_size),
        epoch: given.epoch,
        shuffle: given.shuffle,
        drop_last: given.drop_last,
    };
    let ranks = number(given.ranks_per_partition);
    let indices = sampler
        .partition(files.len(), number(order.partition), ranks)
        .map_err(|error| Error::new(reason::BAD_OPTIONS, error.to_string()))?;
    let indices = indices.into_iter();
    Ok(indices
        .filter_map(|index| files.get(index).cloned())
        .collect())
}

/// Those of all files that paths name, or that lie below them; each once, by its real name.
fn below(root: &Path, names: &[PathBuf], all: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let real = |path: &Path| {
        let unread = |error| Error::new(reason::BAD_PATH, format!("{path:?}: {error}"));
        path.canonicalize().map_err(unread)
    };
    let root = real(root)?;
    let from_root = |name: &PathBuf| {
        let inside = real(&root.join(name))?;
        let inside = inside.strip_prefix(&root).map(Path::to_owned);
        inside.map_err(|_| {
            let message = format!("the path {name:?} is a link that leads out of the data");
            Error::new(reason::BAD_PATH, message)
        })
    };
    let tops = names.iter().map(from_root);
    let tops = tops.collect::<Result<Vec<PathBuf>, Error>>()?;
    let is_below = |file: &&PathBuf| tops.iter().any(|top| file.starts_with(top));
    Ok(all.iter().filter(is_below).cloned().collect())
}

fn others(mut all: Vec<PathBuf>, share: &[PathBuf]) -> Vec<PathBuf> {
    let own: HashSet<&PathBuf> = share.iter().collect();
    all.retain(|file| !own.contains(file));
    all
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use cache_api::Sampler;

    use super::*;

    /// Data of ten images in two folders, a list of three of them, and rubbish.
    fn data() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..10 {
            let folder = dir.path().join(format!("c{}", n % 2));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(format!("{n}.jpg")), "x").unwrap();
        }
        std::fs::write(
            dir.path().join("list.txt"),
            "c0/0.jpg 0\nc1/1.jpg 1\nc0/0.jpg 0\n",
        )
        .unwrap();
        std::fs::write(dir.path().join("c0/.jfs.9.jpg.tmp.123"), "x").unwrap();
        dir
    }

    fn order(partitions: u32, partition: u32) -> Warmup {
        Warmup {
            partition,
            sampler: Sampler {
                ranks_per_partition: 1,
                replicas: partitions,
                batch_size: 1,
                ..Sampler::default()
            },
            ..Warmup::default()
        }
    }

    #[test]
    fn partitions_share_all_files_and_see_the_same_list() {
        let dir = data();
        let parts = [0, 1, 2].map(|part| select(dir.path(), &order(3, part)).unwrap());
        let mut all: Vec<_> = parts.iter().flat_map(|part| part.share.clone()).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 11, "what is not whole does not count");
        for part in &parts {
            assert_eq!(part.listing, parts[0].listing);
            assert!(!part.is_whole && part.others.is_empty());
        }
    }

    #[test]
    fn one_partition_has_it_whole() {
        let dir = data();
        assert!(select(dir.path(), &order(1, 0)).unwrap().is_whole);
        let mut some = order(1, 0);
        some.paths = vec!["c0".to_owned()];
        let selection = select(dir.path(), &some).unwrap();
        assert!(selection.is_whole && selection.share.len() == 5);
        std::os::unix::fs::symlink("c0", dir.path().join("link")).unwrap();
        some.paths = vec!["link/".to_owned(), "c0/0.jpg".to_owned()];
        assert_eq!(select(dir.path(), &some).unwrap(), selection, "each once");
        some.evict_others = true;
        let selection = select(dir.path(), &some).unwrap();
        assert_eq!((selection.share.len(), selection.others.len()), (5, 6));
    }

    #[test]
    fn everything_is_taken_by_who_has_all_ranks_and_leaves_nothing_out() {
        assert!(takes_everything(&order(1, 0)));
        let mut spare = order(1, 0);
        spare.sampler.ranks_per_partition = 8;
        assert!(takes_everything(&spare));
        let changes: [fn(&mut Warmup); 5] = [
            |order| order.partition = 1,
            |order| order.sampler.replicas = 9,
            |order| order.sampler.drop_last = true,
            |order| order.sampler.order = Order::Image,
            |order| order.paths = vec!["c0".to_owned()],
        ];
        for change in changes {
            let mut other = spare.clone();
            change(&mut other);
            assert!(!takes_everything(&other), "{other:?}");
        }
    }

    #[test]
    fn a_list_is_everywhere_and_its_files_once() {
        let dir = data();
        let mut listed = order(1, 0);
        listed.file = Some("list.txt".to_owned());
        listed.sampler.order = Order::List;
        let selection = select(dir.path(), &listed).unwrap();
        assert_eq!(
            selection.share,
            ["list.txt", "c0/0.jpg", "c1/1.jpg"].map(PathBuf::from)
        );
        assert_eq!(selection.listing.files, 3);
        assert!(!selection.is_whole);
    }

    #[test]
    fn others_are_what_is_left() {
        let dir = data();
        let mut first = order(2, 0);
        first.evict_others = true;
        let selection = select(dir.path(), &first).unwrap();
        assert_eq!(selection.share.len() + selection.others.len(), 11);
        assert!(
            selection
                .share
                .iter()
                .all(|file| !selection.others.contains(file))
        );
    }

    #[test]
    fn bad_options_are_told() {
        let dir = data();
        let mut list = order(1, 0);
        list.sampler.order = Order::List;
        let mut both = list.clone();
        both.file = Some("list.txt".to_owned());
        both.paths = vec!["c0".to_owned()];
        let mut missing = order(1, 0);
        missing.paths = vec!["nope".to_owned()];
        let mut outside = order(1, 0);
        outside.paths = vec!["../x".to_owned()];
        let mut link = order(1, 0);
        link.paths = vec!["out".to_owned()];
        std::os::unix::fs::symlink("/", dir.path().join("out")).unwrap();
        let cases = [
            (order(0, 0), reason::BAD_OPTIONS),
            (list, reason::BAD_OPTIONS),
            (both, reason::BAD_OPTIONS),
            (missing, reason::BAD_PATH),
            (outside, reason::BAD_PATH),
            (link, reason::BAD_PATH),
        ];
        for (order, want) in cases {
            let error = select(dir.path(), &order).unwrap_err();
            assert_eq!(error.reason, want, "{error}");
        }
    }

    #[test]
    fn what_is_not_there_is_named_beside_what_is() {
        let dir = data();
        let mut listed = order(1, 0);
        listed.sampler.order = Order::List;
        for (file, says) in [
            ("train.txt", "the data has c0, c1, list.txt;"),
            (
                "c1/list/a.txt",
                "\"c1\" has 1.jpg, 3.jpg, 5.jpg, 7.jpg, 9.jpg;",
            ),
        ] {
            listed.file = Some(file.to_owned());
            let error = select(dir.path(), &listed).unwrap_err();
            assert_eq!(error.reason, reason::BAD_PATH);
            let says = format!("the path {file:?} is not there, {says}");
            assert!(error.message.starts_with(&says), "{error}");
        }
    }
}
