//! Sync, warmup, clear and rmr, and the figures after each.

use std::fs;

use cache_api::{Clear, Order, Rmr, Task};

use crate::support::*;

#[tokio::test]
async fn a_folder_is_copied_cached_cleared_and_removed() {
    let node = Node::start();
    let empty = node.cache(|cache| cache.total.is_some()).await;
    assert_eq!((empty.total.unwrap().bytes, empty.cached), (4096, 0));
    assert!(empty.disk.size > 0 && empty.error.is_none());

    let source = node.dir.join("source");
    let bytes = fill(&source, 60, 5000);
    fs::create_dir(node.dir.join("source2")).unwrap();
    fs::write(node.dir.join("source2/other"), "not of this source").unwrap();
    let order = node.sync_with("sync", |sync| {
        sync.source = format!("file://{}", source.display());
        sync.destination = "a b".to_owned();
    });
    node.succeeds(order).await;
    let progress = node.ended("sync").await.progress;
    assert_eq!((progress.files, progress.total_files), (60, Some(60)));
    let synced = node
        .cache(|cache| cache.total.is_some_and(|total| total.files == 60))
        .await;
    assert_eq!(synced.cached, 0, "a sync fills no cache");
    let copied = node.data().join("a b/class 1/it's 0001.jpg");
    assert_eq!(
        fs::read(copied).unwrap(),
        fs::read(source.join("class 1/it's 0001.jpg")).unwrap()
    );
    node.succeeds(job("clear-read", Task::Clear(Clear::default())))
        .await;

    let outcome = node.succeeds(job("warm", Task::Warmup(warmup(1, 0)))).await;
    assert_eq!((outcome.share, outcome.cached), (Some(bytes), Some(bytes)));
    assert_eq!(outcome.listing.unwrap().files, 60);
    let warm = node.cache(|cache| cache.cached == bytes).await;
    assert_eq!(warm.share, Some(bytes));

    let some = Clear {
        paths: vec!["a b/class 1".to_owned()],
    };
    node.succeeds(job("clear-some", Task::Clear(some))).await;
    node.cache(|cache| cache.cached > 0 && cache.cached < bytes)
        .await;
    node.succeeds(job("clear", Task::Clear(Clear::default())))
        .await;
    node.cache(|cache| cache.cached == 0).await;

    node.succeeds(job("warm-again", Task::Warmup(warmup(1, 0))))
        .await;
    let rmr = |id: &str, path: &str| {
        let paths = vec![path.to_owned()];
        job(id, Task::Rmr(Rmr { paths }))
    };
    node.succeeds(rmr("rmr-some", "a b/class 1")).await;
    let left = node.client.cache(None).await.unwrap();
    assert!(left.share.unwrap() < bytes);
    node.cache(|cache| Some(cache.cached) == left.share).await;
    node.succeeds(rmr("rmr", "a b")).await;
    assert_eq!(node.client.cache(None).await.unwrap().share, Some(0));
    // Not even in the trash.
    node.cache(|cache| {
        let total = cache.total.unwrap();
        (total.bytes, total.files) == (4096, 0)
    })
    .await;
    node.cache(|cache| cache.cached == 0).await;
}

#[tokio::test]
async fn each_partition_holds_its_files_and_drops_others() {
    let node = Node::start();
    let all = fill(node.data(), 40, 3000);
    node.succeeds(job("clear", Task::Clear(Clear::default())))
        .await;
    node.cache(|cache| cache.cached == 0).await;
    let first = node
        .succeeds(job("first", Task::Warmup(warmup(2, 0))))
        .await;
    let share = first.share.unwrap();
    assert!(share > 0 && share < all && first.cached == Some(share));
    node.cache(|cache| cache.cached == share).await;

    let mut second = warmup(2, 1);
    second.evict_others = true;
    let second = node.succeeds(job("second", Task::Warmup(second))).await;
    assert_eq!(second.listing, first.listing);
    assert_eq!(second.share, Some(all - share));
    assert_eq!(second.cached, second.share);
    node.cache(|cache| cache.cached == all - share).await;
    let again = node
        .succeeds(job("again", Task::Warmup(warmup(2, 1))))
        .await;
    assert_eq!(again.cached, again.share, "what is cached already counts");
    assert_eq!(node.client.cache(None).await.unwrap().share, again.share);

    // By another server: this one is told.
    fs::remove_dir_all(node.data().join("class 0")).unwrap();
    node.succeeds(job("recount", Task::Recount)).await;
    // Every other file, class by class: 14 files were removed.
    let of_class = |class: u64, first: u64| {
        let places = (first..13).step_by(2);
        places.map(move |place| 3000 + class + 3 * place)
    };
    let left = of_class(1, 1).chain(of_class(2, 0)).sum();
    assert_eq!(node.client.cache(None).await.unwrap().share, Some(left));
}

#[tokio::test]
async fn a_list_says_what_is_cached_and_is_cached_itself() {
    let node = Node::start();
    fill(node.data(), 6, 1000);
    fs::create_dir(node.data().join("c")).unwrap();
    let names = ["c/a.jpg", "c/b.jpg"];
    for name in names {
        fs::write(node.data().join(name), vec![7; 2000]).unwrap();
    }
    let text = "c/a.jpg 0\nc/b.jpg 1\nc/missing.jpg 1\n";
    fs::write(node.data().join("list.txt"), text).unwrap();
    let mut order = warmup(1, 0);
    order.file = Some("list.txt".to_owned());
    order.sampler.order = Order::List;
    let outcome = node.succeeds(job("list", Task::Warmup(order))).await;
    assert_eq!(outcome.listing.unwrap().files, 3);
    assert_eq!(outcome.share, Some(4000 + text.len() as u64));
    assert_eq!(outcome.cached, outcome.share);
}

#[tokio::test]
async fn nothing_selected_is_a_failure_and_an_empty_volume_is_not() {
    let node = Node::start();
    for (id, order) in [("empty", warmup(2, 1)), ("all-of-it", warmup(1, 0))] {
        let outcome = node.succeeds(job(id, Task::Warmup(order))).await;
        assert_eq!((outcome.share, outcome.cached), (Some(0), Some(0)));
    }
    fs::write(node.data().join("notes.txt"), "no image").unwrap();
    let mut order = warmup(1, 0);
    order.sampler.order = Order::Image;
    let failure = node.fails(job("images", Task::Warmup(order))).await;
    assert_eq!(failure.reason, "NothingSelected");
    assert!(
        failure.message.contains("sampler.order"),
        "{}",
        failure.message
    );
}

#[tokio::test]
async fn jobs_wait_for_one_another() {
    let node = Node::start();
    fill(node.data(), 10, 100);
    let ids: Vec<String> = (0..5).map(|n| format!("job-{n}")).collect();
    for id in &ids {
        let task = Task::Warmup(warmup(1, 0));
        node.client.post(&job(id, task)).await.unwrap();
    }
    let last = node.ended(&ids[4]).await;
    let jobs = node.client.jobs().await.unwrap();
    assert_eq!(
        jobs.iter().map(|job| &job.id).collect::<Vec<_>>(),
        ids.iter().collect::<Vec<_>>()
    );
    assert!(jobs.iter().all(|job| job.state.has_ended()));
    assert!(jobs.iter().map(|job| job.revision).is_sorted());
    assert_eq!(node.client.cancel(&last.id).await.unwrap(), Some(last));
    assert_eq!(node.client.cancel("other").await.unwrap(), None);
}

#[tokio::test]
async fn a_link_is_removed_and_what_it_leads_to_stays_cached() {
    let node = Node::start();
    let bytes = fill(node.data(), 6, 1000);
    for (link, to) in [("inside", "class 0"), ("nowhere", "/nowhere/at/all")] {
        std::os::unix::fs::symlink(to, node.data().join(link)).unwrap();
    }
    node.succeeds(job("warm", Task::Warmup(warmup(1, 0)))).await;
    node.cache(|cache| cache.cached == bytes).await;
    let paths = vec!["nowhere".to_owned()];
    node.succeeds(job("clear", Task::Clear(Clear { paths })))
        .await;
    let paths = vec!["inside".to_owned(), "nowhere".to_owned()];
    node.succeeds(job("rmr", Task::Rmr(Rmr { paths }))).await;
    for link in ["inside", "nowhere"] {
        assert!(!node.data().join(link).is_symlink(), "{link}");
    }
    assert!(node.data().join("class 0").is_dir());
    node.succeeds(job("again", Task::Warmup(warmup(1, 0))))
        .await;
    assert_eq!(node.client.cache(None).await.unwrap().cached, bytes);
}

#[tokio::test]
async fn what_another_server_left_half_copied_is_swept() {
    let node = Node::start();
    let source = node.dir.join("source");
    fill(&source, 6, 1000);
    let folder = node.data().join("to/class 0");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(".jfs.0.jpg.tmp.6750886140752414928"), "half").unwrap();
    let order = node.sync_with("sync", |sync| {
        sync.source = format!("file://{}", source.display());
        sync.destination = "to".to_owned();
    });
    node.succeeds(order).await;
    node.cache(|cache| cache.total.is_some_and(|total| total.files == 6))
        .await;
}

#[tokio::test]
async fn odd_names_are_removed_and_nothing_beside_them() {
    let node = Node::start();
    let names = [
        "with space",
        "quote'\"s",
        "line\nbreak",
        "-rf",
        "$(touch x)",
    ];
    for name in names {
        fs::create_dir(node.data().join(name)).unwrap();
        fs::write(node.data().join(name).join("f"), "x").unwrap();
    }
    fs::write(node.data().join("kept"), "x").unwrap();
    for (n, name) in names.iter().enumerate() {
        let paths = vec![(*name).to_owned()];
        node.succeeds(job(&format!("rmr-{n}"), Task::Rmr(Rmr { paths })))
            .await;
        assert!(!node.data().join(name).exists(), "{name:?}");
    }
    assert!(node.data().join("kept").exists());
}
