//! Directories. How Paddle orders them is compared with itself in `paddle.rs`.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use sampler::{Order, enumerate, listing_crc32};

use crate::support::Data;

fn found(data: &Data, order: Order, paths: &[&str]) -> Vec<String> {
    let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    let found = enumerate(&data.root(), &order, &paths).unwrap();
    let names = found.iter().map(|path| path.to_str().unwrap().to_owned());
    names.collect()
}

fn refusal(data: &Data, order: Order, path: impl AsRef<Path>) -> String {
    let paths = [path.as_ref().to_owned()];
    let refused = enumerate(&data.root(), &order, &paths).unwrap_err();
    let message = refused.to_string();
    message.replace(
        fs::canonicalize(data.root()).unwrap().to_str().unwrap(),
        "ROOT",
    )
}

#[test]
fn all_are_sorted_by_the_bytes_of_their_path() {
    let data = Data::new().files(["b", "a/x", "a-b", "a/.hidden", "A", "a/y/z", "é", "z"]);
    let want = ["A", "a-b", "a/.hidden", "a/x", "a/y/z", "b", "z", "é"];
    assert_eq!(found(&data, Order::All, &[]), want);
}

#[test]
fn all_are_regular_files_only() {
    let data = Data::new().files(["a/1", "b"]).directory("empty");
    let _socket = UnixListener::bind(data.root().join("socket")).unwrap();
    let data = data
        .link("file-link", "b")
        .link("folder-link", "a")
        .link("a/loop", "..")
        .link("nowhere", "c");
    assert_eq!(found(&data, Order::All, &[]), ["a/1", "b"]);
}

#[test]
fn what_juicefs_shows_at_the_root_is_no_data() {
    let data = Data::new().files([
        ".accesslog",
        ".config",
        ".stats",
        ".control",
        ".trash/2026-11-15-22/1-2-x.jpg",
        ".kept/x.jpg",
        "a/.config",
        "a/.trash/y.jpg",
    ]);
    let want = [".kept/x.jpg", "a/.config", "a/.trash/y.jpg"];
    assert_eq!(found(&data, Order::All, &[]), want);
    let want = [".kept/x.jpg", "a/.trash/y.jpg"];
    assert_eq!(found(&data, Order::Folder, &[]), want);
    assert_eq!(found(&data, Order::Image, &[]), want);
    assert_eq!(
        refusal(&data, Order::All, ".trash/2026-11-15-22"),
        r#"the path ".trash/2026-11-15-22" is JuiceFS's own, not data"#
    );
    let data = data.link("way-in", ".trash");
    assert_eq!(found(&data, Order::Image, &[]), want);
}

#[test]
fn paths_of_all_are_taken_once() {
    let data = Data::new()
        .files(["a/1", "a/2", "b/3", "c"])
        .link("again", "a");
    assert_eq!(found(&data, Order::All, &["c", "a"]), ["a/1", "a/2", "c"]);
    let twice = ["a/2", "./a/", "a", "again"];
    assert_eq!(found(&data, Order::All, &twice), ["a/1", "a/2"]);
    assert_eq!(found(&data, Order::All, &["."]).len(), 4);
}

#[test]
fn paths_of_folder_and_image_are_data_sets() {
    let data = Data::new().files([
        "train/a/x/1.png",
        "train/a-b/2.png",
        "train/loose.png",
        "test/c/3.png",
    ]);
    assert_eq!(
        found(&data, Order::Folder, &["train", "test"]),
        ["train/a/x/1.png", "train/a-b/2.png", "test/c/3.png"]
    );
    assert_eq!(
        found(&data, Order::Image, &["train"]),
        ["train/loose.png", "train/a-b/2.png", "train/a/x/1.png"]
    );
}

#[test]
fn a_path_that_may_lead_out_of_the_data_is_refused() {
    let data = Data::new().file("a/1.jpg").link("out", "../outside");
    for order in [Order::All, Order::Folder, Order::Image] {
        let refusal = |path: &str| refusal(&data, order.clone(), path);
        assert_eq!(refusal("a/../b"), r#"the path "a/../b" has `..` in it"#);
        assert_eq!(
            refusal("/a"),
            r#"the path "/a" is absolute; it must be relative"#
        );
        assert_eq!(refusal("a\0"), r#"the path "a\0" has a NUL byte in it"#);
        assert_eq!(refusal(""), r#"the path "" is empty"#);
        assert_eq!(
            refusal("out"),
            r#"the path "out" is a link that leads out of the data"#
        );
        assert_eq!(
            refusal("no\n\"such"),
            r#""no\n\"such": No such file or directory (os error 2)"#
        );
    }
    assert_eq!(
        refusal(&data, Order::Image, "a/1.jpg"),
        r#""ROOT/a/1.jpg": Not a directory (os error 20)"#
    );
}

#[test]
fn links_are_followed_inside_the_data_only() {
    let data = Data::new().files(["real/x/1.jpg", "a/2.jpg"]);
    fs::write(data.outside().join("secret.jpg"), "").unwrap();
    let outside = data.outside();
    let data = data
        .link("a/link", "../real")
        .link("class", "real")
        .link("a/out", "../../outside")
        .link("a/out-too", &outside)
        .link("a/through", "out")
        .link("a/out.jpg", outside.join("secret.jpg"))
        .link("a/nowhere.jpg", "nowhere");
    let want = [
        "a/2.jpg",
        "a/nowhere.jpg",
        "a/out.jpg",
        "a/link/x/1.jpg",
        "class/x/1.jpg",
        "real/x/1.jpg",
    ];
    assert_eq!(found(&data, Order::Folder, &[]), want);
    assert_eq!(found(&data, Order::Image, &[]), want);
}

#[test]
fn links_that_go_round_are_named() {
    let data = Data::new().file("a/1.jpg").link("a/up", "..");
    assert_eq!(
        enumerate(&data.root(), &Order::Image, &[])
            .unwrap_err()
            .to_string(),
        "the link \"a/up\" leads to a directory that it is in; \
         Paddle would find the same files there again and again"
    );
    let data = Data::new()
        .files(["a/1.jpg", "b/2.jpg"])
        .link("a/b", "../b")
        .link("b/a", "../a");
    let refused = enumerate(&data.root(), &Order::Folder, &[]).unwrap_err();
    assert!(refused.to_string().contains("again and again"), "{refused}");
}

#[test]
fn the_root_itself_may_be_a_link() {
    let data = Data::new().file("a/1.jpg").link("self", "a");
    let root = data.root().join("self");
    assert_eq!(
        enumerate(&root, &Order::Image, &[]).unwrap(),
        [PathBuf::from("1.jpg")]
    );
    let missing = enumerate(Path::new("/no/such"), &Order::All, &[]);
    assert_eq!(
        missing.unwrap_err().to_string(),
        r#""/no/such": No such file or directory (os error 2)"#
    );
}

#[test]
fn deep_directories_are_read() {
    let deep = "d/".repeat(1_000);
    let data = Data::new().directory(&deep).file(format!("{deep}1.jpg"));
    assert_eq!(found(&data, Order::Image, &[]).len(), 1);
}

#[test]
fn the_same_files_have_the_same_checksum() {
    let listing = || {
        let data = Data::new().files(["b/2.jpg", "a/1.jpg"]);
        enumerate(&data.root(), &Order::Folder, &[]).unwrap()
    };
    assert_eq!(listing_crc32(&listing()), listing_crc32(&listing()));
    assert_ne!(listing_crc32(&listing()), listing_crc32(&[]));
}
