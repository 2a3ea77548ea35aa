//! Builds Kubernetes and what goes with it from the Go modules under `xtask/testbed`.
//! Their checksums are in `go.sum`; no release binary is downloaded.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::paths::Cache;
use super::process;

/// What the one Kubernetes binary can be; it looks at the name it is started by.
const COMPONENTS: [&str; 7] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
];

/// One Go program.
struct Program {
    name: &'static str,
    /// The directory under `xtask/testbed` with its `go.mod`.
    module: &'static str,
    package: &'static str,
    ldflags: String,
    /// How long a first build takes on two cores: nobody should think that it hangs.
    takes: &'static str,
}

/// What every cluster needs.
fn control_plane() -> [Program; 2] {
    [
        Program {
            name: "kubernetes",
            module: "kubernetes",
            package: ".",
            ldflags: kubernetes_ldflags("1", "37", "1"),
            takes: "about 11 minutes",
        },
        Program {
            name: "kwok",
            module: "kwok",
            package: "sigs.k8s.io/kwok/cmd/kwok",
            ldflags: "-s -w".to_owned(),
            takes: "about 2 minutes",
        },
    ]
}

/// What goes into the images of real nodes.
fn node_programs() -> [Program; 4] {
    let program = |name, module, package, takes| Program {
        name,
        module,
        package,
        ldflags: "-s -w".to_owned(),
        takes,
    };
    [
        program("pause", "node", "./pause", "some seconds"),
        program("csi-registrar", "node", "./registrar", "some seconds"),
        program("coredns", "coredns", ".", "about 2 minutes"),
        program(
            "juicefs-csi-driver",
            "juicefs-csi",
            "github.com/juicedata/juicefs-csi-driver/cmd",
            "about 3 minutes",
        ),
    ]
}

/// What schedules gangs.
fn volcano_programs() -> [Program; 2] {
    let program = |name, package, takes| Program {
        name,
        module: VOLCANO,
        package,
        ldflags: "-s -w".to_owned(),
        takes,
    };
    [
        program(
            "vc-scheduler",
            "volcano.sh/volcano/cmd/scheduler",
            "about 5 minutes",
        ),
        program(
            "vc-controller-manager",
            "volcano.sh/volcano/cmd/controller-manager",
            "about 2 minutes",
        ),
    ]
}

/// The directory under `xtask/testbed` that pins Volcano.
const VOLCANO: &str = "volcano";

/// The kinds that Volcano's scheduler and those of its controllers that run here wait for;
/// without one of them they never start to work. The kinds of its own jobs are a megabyte.
const VOLCANO_CRDS: [&str; 5] = [
    "bus.volcano.sh_commands",
    "nodeinfo.volcano.sh_numatopologies",
    "scheduling.volcano.sh_podgroups",
    "scheduling.volcano.sh_queues",
    "topology.volcano.sh_hypernodes",
];

/// The file among the binaries that has these.
pub const VOLCANO_CRDS_FILE: &str = "volcano-crds.yaml";

/// Kubernetes learns its version from the linker; without it clients cannot parse
/// what the server says. The date is fixed so that the same inputs give the same binary.
fn kubernetes_ldflags(major: &str, minor: &str, patch: &str) -> String {
    let mut flags = "-s -w".to_owned();
    for package in [
        "k8s.io/component-base/version",
        "k8s.io/client-go/pkg/version",
    ] {
        for (name, value) in [
            ("gitVersion", format!("v{major}.{minor}.{patch}").as_str()),
            ("gitMajor", major),
            ("gitMinor", minor),
            ("gitTreeState", "clean"),
            ("buildDate", "1970-01-01T00:00:00Z"),
        ] {
            flags.push_str(&format!(" -X {package}.{name}={value}"));
        }
    }
    flags
}

/// What a cluster may have beside its control plane.
#[derive(Clone, Copy, Debug)]
pub struct Extras {
    /// What the images of real nodes are made of.
    pub nodes: bool,
    /// Volcano's scheduler and controllers.
    pub volcano: bool,
}

/// Builds what is missing or out of date of a cluster with these.
pub fn all(cache: &Cache, extras: Extras) -> Result<()> {
    let bin = cache.bin("");
    fs::create_dir_all(&bin).with_context(|| format!("cannot create {}", bin.display()))?;
    // Two commands must not write the same binary; the second finds it ready.
    let lock = File::create(bin.join("lock"))?;
    lock.lock()?;
    for program in control_plane() {
        build(cache, &program)?;
    }
    for program in node_programs().iter().filter(|_| extras.nodes) {
        build(cache, program)?;
    }
    if extras.volcano {
        for program in volcano_programs() {
            build(cache, &program)?;
        }
        volcano_crds(cache)?;
    }
    for component in COMPONENTS {
        link(cache, component)?;
    }
    Ok(())
}

/// Where it is written what a file among the binaries was made from.
fn stamp(cache: &Cache, name: &str) -> PathBuf {
    cache.bin(&format!("{name}.stamp"))
}

fn is_current(cache: &Cache, name: &str, wanted: &str) -> bool {
    let made_from = fs::read_to_string(stamp(cache, name));
    cache.bin(name).exists() && made_from.is_ok_and(|found| found == wanted)
}

fn build(cache: &Cache, program: &Program) -> Result<()> {
    let module = testbed().join(program.module);
    let wanted = fingerprint(program, &module)?;
    if is_current(cache, program.name, &wanted) {
        return Ok(());
    }
    eprintln!(
        "building {} from Go modules ({} the first time)",
        program.name, program.takes
    );
    let started = Instant::now();
    // Under another name first: the target may be running, or half written after a crash.
    let fresh = cache.bin(&format!("{}.new", program.name));
    let status = Command::new("go")
        .args(["build", "-trimpath", "-ldflags", &program.ldflags, "-o"])
        .arg(&fresh)
        .arg(program.package)
        .current_dir(&module)
        .env("CGO_ENABLED", "0")
        .status()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => anyhow::anyhow!(
                "`go` is not on the PATH: install Go 1.26 or newer (1.21 or newer can fetch it \
                 by itself), or run `make setup`"
            ),
            _ => anyhow::Error::new(error).context("cannot run `go`"),
        })?;
    if !status.success() {
        bail!(
            "`go build` of {} in {} failed: {status}",
            program.name,
            module.display()
        );
    }
    fs::rename(&fresh, cache.bin(program.name))?;
    fs::write(stamp(cache, program.name), wanted)?;
    eprintln!("built {} in {:.0?}", program.name, started.elapsed());
    Ok(())
}

/// Takes the manifests out of the module, which may not be there any more when the cluster
/// starts: its directory belongs to Go.
fn volcano_crds(cache: &Cache) -> Result<()> {
    let pins = testbed().join(VOLCANO);
    let mut hasher = DefaultHasher::new();
    (VOLCANO_CRDS, fs::read(pins.join("go.mod"))?).hash(&mut hasher);
    let wanted = format!("{:016x}\n", hasher.finish());
    if is_current(cache, VOLCANO_CRDS_FILE, &wanted) {
        return Ok(());
    }
    // Also checks it against go.sum.
    let mut download = Command::new("go");
    download.args(["mod", "download", "-json", "volcano.sh/volcano"]);
    let about: Value = serde_json::from_str(&process::output(download.current_dir(pins))?)?;
    let module = about.get("Dir").and_then(Value::as_str);
    let module = Path::new(module.context("go does not say where Volcano's module is")?);
    let manifests = VOLCANO_CRDS.map(|name| {
        let file = module.join(format!("config/crd/volcano/bases/{name}.yaml"));
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
    });
    let manifests: Vec<String> = manifests.into_iter().collect::<Result<_>>()?;
    fs::write(cache.bin(VOLCANO_CRDS_FILE), manifests.join("---\n"))?;
    Ok(fs::write(stamp(cache, VOLCANO_CRDS_FILE), wanted)?)
}

/// Changes when anything that goes into the binary does.
fn fingerprint(program: &Program, module: &Path) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    (program.package, &program.ldflags).hash(&mut hasher);
    let mut files = files(module)?;
    if program.package.starts_with("./") {
        files.extend(self::files(&module.join(program.package))?);
    }
    files.retain(|file| {
        let name = file
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        name.ends_with(".go") || name == "go.mod" || name == "go.sum"
    });
    files.sort();
    for file in files {
        (file.file_name(), fs::read(&file)?).hash(&mut hasher);
    }
    Ok(format!("{:016x}\n", hasher.finish()))
}

fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    Ok(paths.collect::<io::Result<_>>()?)
}

/// In the place of what is there: `xtask/setup.sh` may have built an older kubectl.
fn link(cache: &Cache, component: &str) -> Result<()> {
    let (link, fresh) = (cache.bin(component), cache.bin("link.new"));
    fs::remove_file(&fresh).ok();
    std::os::unix::fs::symlink("kubernetes", &fresh)
        .and_then(|()| fs::rename(&fresh, &link))
        .with_context(|| format!("cannot create {}", link.display()))
}

/// The test bed's own files in the source tree.
fn testbed() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/testbed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_version_packages_are_told() {
        let flags = kubernetes_ldflags("1", "37", "1");
        assert!(flags.contains(" -X k8s.io/component-base/version.gitVersion=v1.37.1 "));
        assert!(flags.contains(" -X k8s.io/client-go/pkg/version.gitMinor=37 "));
    }

    #[test]
    fn a_changed_flag_or_file_changes_the_stamp() -> Result<()> {
        let module = std::env::temp_dir().join(format!("xtask-stamp-{}", std::process::id()));
        fs::create_dir_all(&module)?;
        fs::write(module.join("go.mod"), "module a")?;
        let [mut program, _] = control_plane();
        let first = fingerprint(&program, &module)?;
        fs::write(module.join("notes.txt"), "not an input")?;
        assert_eq!(first, fingerprint(&program, &module)?);

        fs::write(module.join("go.mod"), "module b")?;
        let second = fingerprint(&program, &module)?;
        assert_ne!(first, second);

        program.ldflags.push_str(" -X a=b");
        assert_ne!(second, fingerprint(&program, &module)?);
        fs::remove_dir_all(&module)?;
        Ok(())
    }
}
