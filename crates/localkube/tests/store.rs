//! The store keeps what it acknowledged and tells every change once.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use localkube::{Change, Error, EventKind, Key, Scope, Store};
use serde_json::{Value, json};
use support::File;

/// Opens the store, once the one before has let go of the file.
async fn open(file: &File) -> Store {
    loop {
        match Store::open(&file.0) {
            Ok(store) => return store,
            Err(error) => assert!(error.to_string().contains("open"), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn key(namespace: &str, name: &str) -> Key {
    Key {
        resource: "configmaps".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn everywhere() -> Scope {
    Scope {
        resource: "configmaps".to_owned(),
        namespace: None,
    }
}

async fn put(store: &Store, key: &Key, object: Value) -> u64 {
    let put = move |_: Option<&Value>| Ok::<_, Error>(Change::Put(object));
    let written = store.write(key.clone(), put).await.unwrap().unwrap();
    version(&written)
}

async fn delete(store: &Store, key: &Key) {
    let delete = |old: Option<&Value>| {
        Ok::<_, Error>(old.map_or(Change::Keep, |old| Change::Delete(old.clone())))
    };
    store.write(key.clone(), delete).await.unwrap();
}

fn version(object: &Value) -> u64 {
    let version = object.pointer("/metadata/resourceVersion").unwrap();
    version.as_str().unwrap().parse().unwrap()
}

fn named(name: &str, data: u64) -> Value {
    json!({"metadata": {"name": name}, "data": data})
}

#[tokio::test]
async fn what_was_acknowledged_is_there_again() {
    let file = File::new("reopen");
    let store = open(&file).await;
    put(&store, &key("a", "one"), named("one", 1)).await;
    put(&store, &key("a", "gone"), named("gone", 1)).await;
    delete(&store, &key("a", "gone")).await;
    let last = put(&store, &key("b", "two"), named("two", 2)).await;
    drop(store);
    let store = open(&file).await;
    assert_eq!(store.revision(), last);
    let (found, revision) = store.list(&everywhere(), None, usize::MAX);
    let names: Vec<_> = found.iter().map(|(key, _)| &*key.name).collect();
    assert_eq!((names, revision), (vec!["one", "two"], last));
    assert!(put(&store, &key("a", "three"), named("three", 3)).await > last);
}

#[tokio::test]
async fn lists_have_a_scope_and_pages() {
    let file = File::new("pages");
    let store = open(&file).await;
    for (namespace, name) in [("a", "1"), ("a", "2"), ("b", "1"), ("c", "1")] {
        put(&store, &key(namespace, name), named(name, 0)).await;
    }
    let other = Key {
        resource: "pods".to_owned(),
        ..key("a", "1")
    };
    put(&store, &other, named("1", 0)).await;
    let one = Scope {
        namespace: Some("a".to_owned()),
        ..everywhere()
    };
    assert_eq!(store.list(&one, None, usize::MAX).0.len(), 2);
    let (first, _) = store.list(&everywhere(), None, 3);
    let (rest, _) = store.list(&everywhere(), first.last().map(|(key, _)| key), 3);
    let keys = first.iter().chain(&rest).map(|(key, _)| key.clone());
    let wanted = [("a", "1"), ("a", "2"), ("b", "1"), ("c", "1")];
    assert_eq!(
        keys.collect::<Vec<_>>(),
        wanted.map(|(namespace, name)| key(namespace, name))
    );
}

/// A decision is taken on what is there, and nobody writes in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn counting_together() {
    let file = File::new("count");
    let store = open(&file).await;
    let count = |old: Option<&Value>| {
        let old = old.and_then(|old| old.get("data")?.as_u64()).unwrap_or(0);
        Ok::<_, Error>(Change::Put(named("n", old + 1)))
    };
    let writers = (0..16).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            for _ in 0..25 {
                store.write(key("a", "n"), count).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    assert_eq!(store.get(&key("a", "n")).unwrap()["data"], 400);
}

/// Four watches from various revisions see every change after theirs, in order,
/// and what they add up to is what is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_watch_misses_or_doubles_an_event() {
    let file = File::new("watch");
    let store = open(&file).await;
    let last = put(&store, &key("a", "first"), named("first", 0)).await;
    let writers = (0..16).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for round in 0..63 {
                let name = format!("{writer}-{}", round % 5);
                if round % 7 == 6 {
                    delete(&store, &key("a", &name)).await;
                } else {
                    put(&store, &key("a", &name), named(&name, round)).await;
                }
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let watchers = (0..4).map(|_| {
        let store = store.clone();
        let mut watch = store.watch(everywhere(), last).unwrap();
        tokio::spawn(async move {
            let (mut seen, mut objects) = (last, BTreeMap::new());
            loop {
                for event in watch.next().await.unwrap() {
                    assert_eq!(event.revision, seen + 1);
                    assert_eq!(version(&event.object), event.revision);
                    seen = event.revision;
                    let before = match event.kind {
                        EventKind::Deleted => objects.remove(&event.key),
                        _ => objects.insert(event.key.clone(), event.object.clone()),
                    };
                    assert_eq!(event.before, before, "{:?}", event.key);
                    assert_eq!(event.kind == EventKind::Added, before.is_none());
                    if event.key.name == "end" {
                        return objects;
                    }
                }
            }
        })
    });
    let watchers: Vec<_> = watchers.collect();
    for writer in writers {
        writer.await.unwrap();
    }
    put(&store, &key("a", "end"), named("end", 0)).await;
    delete(&store, &key("a", "first")).await;
    let (found, _) = store.list(&everywhere(), None, usize::MAX);
    for watcher in watchers {
        let seen = watcher.await.unwrap();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), found);
    }
}

#[tokio::test]
async fn a_watch_replays_what_is_kept_and_says_when_it_is_not() {
    let file = File::new("gone");
    let store = open(&file).await;
    let first = put(&store, &key("a", "x"), named("x", 0)).await;
    for round in 0..50 {
        put(&store, &key("a", "x"), named("x", round)).await;
    }
    let mut watch = store.watch(everywhere(), first).unwrap();
    assert_eq!(watch.next().await.unwrap().len(), 50);
    assert_eq!(watch.revision(), store.revision());
    let future = store.watch(everywhere(), store.revision() + 1);
    assert!(matches!(future, Err(Error::Gone { .. })));
    // What was before a restart is not kept.
    let last = store.revision();
    drop((store, watch));
    let store = open(&file).await;
    let gone = store.watch(everywhere(), first).unwrap_err();
    assert!(matches!(gone, Error::Gone { asked, oldest } if asked == first && oldest == last));
    assert!(store.watch(everywhere(), last).is_ok());
}

#[tokio::test]
async fn a_refusal_changes_nothing() {
    #[derive(Debug)]
    struct Refused;
    impl From<Error> for Refused {
        fn from(_: Error) -> Refused {
            Refused
        }
    }
    let file = File::new("refused");
    let store = open(&file).await;
    let before = store.revision();
    let refuse = |_: Option<&Value>| Err::<Change, _>(Refused);
    assert!(store.write(key("a", "x"), refuse).await.is_err());
    assert_eq!(store.revision(), before);
    assert!(store.get(&key("a", "x")).is_none());
}
