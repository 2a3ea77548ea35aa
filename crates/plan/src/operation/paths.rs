//! Paths inside the data of a SampleSet. Nothing that leaves it, or that a tool
//! might take for something else, gets as far as a server.

/// Names at the root of a JuiceFS mount that are no data.
const VIRTUAL: [&str; 5] = [".accesslog", ".config", ".control", ".stats", ".trash"];

/// A path relative to the root of the data, without `.` and doubled or closing
/// slashes; or what is wrong with it, as the end of a sentence.
pub fn relative(path: &str) -> Result<String, String> {
    let wrong = |why: &str| Err(format!("is {path:?}, {why}"));
    if path.is_empty() {
        return wrong("an empty path; name a file or a folder of the data");
    }
    if path.starts_with('/') {
        return wrong("which is absolute; paths start at the root of the data, without '/'");
    }
    if path.contains(char::is_control) {
        return wrong(
            "which holds a line break or another control character; name the folder that it is in",
        );
    }
    let parts = path.split('/').filter(|part| !["", "."].contains(part));
    let parts: Vec<&str> = parts.collect();
    if parts.contains(&"..") {
        return wrong("which could leave the data; '..' is not allowed");
    }
    match parts.first() {
        None => wrong("the root of the data; name what is in it"),
        Some(first) if VIRTUAL.contains(first) => wrong("which is JuiceFS' own and no data"),
        Some(_) => Ok(parts.join("/")),
    }
}

/// All paths of a list, or what is wrong with them.
pub fn all_relative(field: &str, paths: &[String]) -> Result<Vec<String>, String> {
    let checked = paths
        .iter()
        .enumerate()
        .map(|(at, path)| relative(path).map_err(|why| format!("{field}[{at}] {why}")));
    checked.collect()
}

/// Whether `path` is an absolute path without detours.
pub(crate) fn is_plain_absolute(path: &str) -> bool {
    path.starts_with('/')
        && path
            .split('/')
            .skip(1)
            .all(|part| part != ".." && part != ".")
        && !path.contains(char::is_control)
}

/// Whether `path` is `folder` or lies below it.
pub(crate) fn lies_below(path: &str, folder: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_paths_are_tidied() {
        for (path, tidy) in [
            ("n01514859", "n01514859"),
            ("./train//a/", "train/a"),
            ("with space 'and\" quotes", "with space 'and\" quotes"),
            ("-rf", "-rf"),
            ("a..b/...", "a..b/..."),
            ("飞", "飞"),
        ] {
            assert_eq!(relative(path).as_deref(), Ok(tidy), "{path}");
        }
    }

    #[test]
    fn what_could_leave_the_data_is_refused() {
        for (path, says) in [
            ("", "empty"),
            ("/", "absolute"),
            ("/etc", "absolute"),
            ("../x", "leave"),
            ("a/../../x", "leave"),
            (".", "root"),
            ("a\0b", "control"),
            ("a\nb", "line break"),
            (".trash/x", "no data"),
        ] {
            let why = relative(path).err().unwrap_or_default();
            assert!(why.contains(says), "{path:?}: {why}");
        }
    }

    #[test]
    fn below_is_by_whole_names() {
        assert!(lies_below("/mnt/a", "/mnt"));
        assert!(lies_below("/mnt", "/mnt/"));
        assert!(!lies_below("/mnta", "/mnt"));
    }
}
