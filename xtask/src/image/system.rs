//! The images that every real node has: what holds pods, DNS, the CSI driver, and a few
//! that manifests of tests name. All but the first two are a small Debian.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{Archive, Image, Layer};
use crate::cluster::{Cache, PAUSE, output};

/// A version of Debian, and of its Python.
pub struct Debian {
    name: &'static str,
    pub python: &'static str,
}

/// Those that examples can be installed on.
const DEBIANS: [Debian; 2] = [
    Debian {
        name: "bookworm",
        python: "3.11",
    },
    Debian {
        name: "trixie",
        python: "3.13",
    },
];

impl Debian {
    /// That of this machine: what was installed on it must run in the images.
    pub fn here() -> Result<Self> {
        let text = fs::read_to_string("/etc/os-release")?;
        let names: Vec<&str> = DEBIANS.iter().map(|debian| debian.name).collect();
        DEBIANS
            .into_iter()
            .find(|debian| {
                let line = format!("VERSION_CODENAME={}", debian.name);
                text.lines().any(|other| other == line)
            })
            .with_context(|| {
                let names = names.join(" or ");
                format!(
                    "images for real nodes are made on Debian {names} only, see /etc/os-release"
                )
            })
    }
}

/// What runs in them: the CSI driver calls bash and mount, Paddle needs the libraries,
/// nginx brings those of its own, and busybox is for people in a shell.
const PACKAGES: &str =
    "bash,busybox,ca-certificates,libgomp1,libstdc++6,mount,nginx,python3,redis-server";

/// Where programs are. busybox comes last: for some it has lesser ones of the same name.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/busybox";

/// What the base of all images is made by.
pub const CODE: [&str; 2] = [include_str!("system.rs"), include_str!("archive.rs")];

/// Changes when anything that goes into the images does.
pub fn stamp(cache: &Cache) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    CODE.hash(&mut hasher);
    for program in ["pause", "coredns", "juicefs-csi-driver", "csi-registrar"] {
        fs::read_to_string(cache.bin(&format!("{program}.stamp")))?.hash(&mut hasher);
    }
    // It is replaced as a whole.
    let juicefs = cache.root().join("juicefs");
    fs::metadata(juicefs)?.modified()?.hash(&mut hasher);
    Ok(format!("{:016x}\n", hasher.finish()))
}

/// Makes them all.
pub fn make(cache: &Cache, work: &Path) -> Result<Archive> {
    let debian = debian(cache)?;
    let program = |target: &str, name: &str| Layer::of(work, &[(target, &cache.bin(name))]);
    // The driver mounts by this name.
    let mount = work.join("mount.juicefs");
    std::os::unix::fs::symlink("/usr/local/bin/juicefs", &mount)?;
    let driver = Layer::of(
        work,
        &[
            (
                "/usr/bin/juicefs-csi-driver",
                &cache.bin("juicefs-csi-driver"),
            ),
            ("/usr/bin/csi-registrar", &cache.bin("csi-registrar")),
            (
                "/usr/local/bin/juicefs",
                &cache.root().join("juicefs/juicefs"),
            ),
            ("/usr/bin/mount.juicefs", &mount),
        ],
    )?;
    let image = |name: &str, layers: Vec<Layer>, config: Value| Image {
        name: name.to_owned(),
        layers,
        config,
    };
    let images = vec![
        image(
            PAUSE,
            vec![program("/pause", "pause")?],
            json!({"Entrypoint": ["/pause"]}),
        ),
        image(
            "paddle-operator.test/coredns:1",
            vec![program("/coredns", "coredns")?],
            json!({"Entrypoint": ["/coredns"]}),
        ),
        image(
            "paddle-operator.test/juicefs-csi:1",
            vec![debian.clone(), driver],
            json!({"Env": [PATH]}),
        ),
        image(
            "busybox:latest",
            vec![debian.clone()],
            json!({"Env": [PATH], "Cmd": ["sh"]}),
        ),
        image(
            "redis:latest",
            vec![debian],
            json!({"Env": [PATH], "Cmd": ["redis-server", "--protected-mode", "no"]}),
        ),
    ];
    Ok(Archive {
        work: work.to_owned(),
        images,
    })
}

/// A small Debian, made once from its packages, and again when it is made otherwise.
pub fn debian(cache: &Cache) -> Result<Layer> {
    let file = cache.root().join("images").join("debian.tar");
    let stamp = cache.root().join("images").join("debian.stamp");
    let fresh = file.with_extension("new.tar");
    let mut mmdebstrap = Command::new("mmdebstrap");
    mmdebstrap
        .args(["--quiet", "--variant=essential"])
        .arg(format!("--include={PACKAGES}"))
        .args(
            ["doc", "info", "locale", "man"]
                .map(|part| format!("--dpkgopt=path-exclude=/usr/share/{part}/*")),
        )
        .arg("--customize-hook=mkdir \"$1/busybox\"")
        .arg("--customize-hook=chroot \"$1\" busybox --install -s /busybox")
        .arg(Debian::here()?.name)
        .arg(&fresh)
        .env("SOURCE_DATE_EPOCH", "0");
    let wanted = format!("{mmdebstrap:?}\n");
    if !file.exists() || !fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        output(&mut mmdebstrap)?;
        fs::rename(&fresh, &file)?;
        fs::write(&stamp, wanted)?;
    }
    Layer::tar(file)
}
