//! List files.

use std::path::PathBuf;

use sampler::{EnumerateError, Order, enumerate};

use crate::support::Data;

fn lines(data: &Data, list: &str) -> Result<Vec<PathBuf>, EnumerateError> {
    enumerate(&data.root(), &Order::List(list.into()), &[])
}

fn refusal(text: impl AsRef<[u8]>) -> String {
    let data = Data::new().list("l.txt", text);
    lines(&data, "l.txt").unwrap_err().to_string()
}

fn paths<const N: usize>(names: [&str; N]) -> [PathBuf; N] {
    names.map(PathBuf::from)
}

#[test]
fn each_line_names_a_file() {
    let text = "train/b.jpg 0\ntrain/a.jpg 1\r\n./c.jpg 2 more\nb//d.jpg\ntrain/b.jpg 3";
    let data = Data::new().list("l.txt", text);
    let want = [
        "train/b.jpg",
        "train/a.jpg",
        "c.jpg",
        "b/d.jpg",
        "train/b.jpg",
    ];
    assert_eq!(lines(&data, "l.txt").unwrap(), paths(want));
}

#[test]
fn paths_start_at_the_list() {
    let data = Data::new().list("a/b/l.txt", "x.jpg 1\n");
    assert_eq!(lines(&data, "a/b/l.txt").unwrap(), paths(["a/b/x.jpg"]));
    assert_eq!(lines(&data, "./a/b/l.txt").unwrap(), paths(["a/b/x.jpg"]));
}

#[test]
fn blank_lines_do_not_count() {
    let data = Data::new().list("l.txt", "\na 0\n  \n\r\nb 1\n\n");
    assert_eq!(lines(&data, "l.txt").unwrap(), paths(["a", "b"]));
    let data = Data::new().list("l.txt", "");
    assert_eq!(lines(&data, "l.txt").unwrap(), paths([]));
}

#[test]
fn a_tab_ends_a_path_with_spaces() {
    let data = Data::new().list("l.txt", "a b.jpg\t0,1,0\nc.jpg 1\n");
    assert_eq!(lines(&data, "l.txt").unwrap(), paths(["a b.jpg", "c.jpg"]));
}

#[test]
fn names_are_bytes() {
    use std::os::unix::ffi::OsStrExt;
    let data = Data::new().list("l.txt", b"\xff\xfe.jpg 1\n");
    let found = lines(&data, "l.txt").unwrap();
    assert_eq!(found[0].as_os_str().as_bytes(), b"\xff\xfe.jpg");
}

#[test]
fn a_line_that_leads_out_of_the_data_is_named() {
    assert_eq!(
        refusal("a 0\n\n../b 1\n"),
        r#"line 3 of "l.txt": the path "../b" has `..` in it"#
    );
    assert_eq!(
        refusal("/etc/passwd 0\n"),
        r#"line 1 of "l.txt": the path "/etc/passwd" is absolute; it must be relative"#
    );
    assert_eq!(
        refusal("a\0b 0\n"),
        r#"line 1 of "l.txt": the path "a\0b" has a NUL byte in it"#
    );
    assert_eq!(
        refusal(". 0\n"),
        r#"line 1 of "l.txt": the path "." is a directory"#
    );
    assert_eq!(
        refusal(".stats 0\n"),
        r#"line 1 of "l.txt": the path ".stats" is JuiceFS's own, not data"#
    );
}

#[test]
fn what_is_no_list_is_refused() {
    assert_eq!(
        refusal(vec![b'x'; 3 << 20]),
        r#"the path "l.txt" has a line of more than 1 MiB, so it is not a list"#
    );
    let data = Data::new().directory("d").list("l.txt", "a 0\n");
    let refusal = |list| lines(&data, list).unwrap_err().to_string();
    assert_eq!(refusal("d"), r#"the path "d" is not a file, so not a list"#);
    assert_eq!(
        refusal("no"),
        r#""no": No such file or directory (os error 2)"#
    );
    assert_eq!(refusal("../l.txt"), r#"the path "../l.txt" has `..` in it"#);
    let both = enumerate(&data.root(), &Order::List("l.txt".into()), &paths(["a"]));
    assert_eq!(
        both.unwrap_err().to_string(),
        r#"the list "l.txt" already says which files are meant; give it or paths, not both"#
    );
}

#[test]
fn a_list_outside_of_the_data_is_not_read() {
    let data = Data::new();
    std::fs::write(data.outside().join("l.txt"), "a 0\n").unwrap();
    let data = data.link("l.txt", "../outside/l.txt");
    assert_eq!(
        lines(&data, "l.txt").unwrap_err().to_string(),
        r#"the path "l.txt" is a link that leads out of the data"#
    );
}
