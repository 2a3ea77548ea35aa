//! The children as they are created.

use api::{Cache, CacheLevel, Csi, JuiceFsMountOptions, MediumType};
use plan::sampleset::{runtime, volume};

use crate::support::*;

#[test]
fn the_children_of_the_tutorial() {
    let set = set("imagenet");
    insta::assert_yaml_snapshot!(
        "volume",
        volume::persistent_volume(&set, "imagenet", &settings())
    );
    insta::assert_yaml_snapshot!("claim", volume::claim(&set));
    insta::assert_yaml_snapshot!("service", runtime::service(&set));
    insta::assert_yaml_snapshot!(
        "stateful-set",
        runtime::stateful_set(&set, &settings(), &[], None, 1)
    );
}

#[test]
fn a_volume_with_every_option() {
    let set = set("imagenet").edit(|spec| {
        spec.csi = Some(Csi {
            driver: None,
            juicefs_mount_options: Some(JuiceFsMountOptions {
                metrics: Some("127.0.0.1:9567".to_owned()),
                attr_cache: Some(1),
                enable_xattr: Some(true),
                writeback: Some(false),
                cache_dir: Some("/mnt/ignored".to_owned()),
                cache_size: Some(1),
                free_space_ratio: Some("0.2".to_owned()),
                sub_dir: Some("data".to_owned()),
                ..JuiceFsMountOptions::default()
            }),
        });
        let level = |medium_type, path: Option<&str>, cache_size| CacheLevel {
            medium_type,
            path: path.map(str::to_owned),
            cache_size,
        };
        spec.cache = Some(Cache {
            levels: vec![
                level(Some(MediumType::Mem), None, Some(1024)),
                level(Some(MediumType::Ssd), Some("/mnt/a:/mnt/b/"), Some(10240)),
                level(Some(MediumType::Hdd), None, Some(1)),
            ],
        });
    });
    insta::assert_yaml_snapshot!(
        "volume-every-option",
        volume::persistent_volume(&set, "imagenet", &settings())
    );
}

#[test]
fn a_local_volume_is_mounted_at_its_own_path_once() {
    let set = set("imagenet");
    let secret = volume::local_secret(&set, "/state/volumes/");
    insta::assert_yaml_snapshot!("local-secret", secret);
    let paths = ["/state/volumes/x/blocks", "/state/volumes/x"].map(str::to_owned);
    let children = runtime::stateful_set(&set, &settings(), &paths, Some("/home/me/images"), 1);
    let mounts = children
        .pointer("/spec/template/spec/containers/0/volumeMounts")
        .unwrap();
    let paths = mounts
        .as_array()
        .unwrap()
        .iter()
        .map(|mount| mount["mountPath"].as_str().unwrap());
    let paths: Vec<&str> = paths.collect();
    assert_eq!(
        paths[4..],
        [
            "/var/lib/juicefs/paddle-system.imagenet",
            "/home/me/images",
            "/state/volumes/x"
        ]
    );
}
