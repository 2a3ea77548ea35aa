//! Builds Kubernetes and kwok from the Go modules under `xtask/testbed`.
//! Their checksums are in `go.sum`; no release binary is downloaded.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use super::paths::Cache;

/// What the one Kubernetes binary can be; it looks at the name it is started by.
const COMPONENTS: [&str; 5] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
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

fn programs() -> [Program; 2] {
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

/// Builds what is missing or out of date.
pub fn all(cache: &Cache) -> Result<()> {
    let bin = cache.bin("");
    fs::create_dir_all(&bin).with_context(|| format!("cannot create {}", bin.display()))?;
    // Two commands must not write the same binary; the second finds it ready.
    let lock = File::create(bin.join("lock"))?;
    lock.lock()?;
    for program in programs() {
        build(cache, &program)?;
    }
    for component in COMPONENTS {
        link(cache, component)?;
    }
    Ok(())
}

fn build(cache: &Cache, program: &Program) -> Result<()> {
    let module = testbed().join(program.module);
    let target = cache.bin(program.name);
    let stamp = cache.bin(&format!("{}.stamp", program.name));
    let wanted = fingerprint(program, &module)?;
    if target.exists() && fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
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
    fs::rename(&fresh, &target)?;
    fs::write(&stamp, wanted)?;
    eprintln!("built {} in {:.0?}", program.name, started.elapsed());
    Ok(())
}

/// Changes when anything that goes into the binary does.
fn fingerprint(program: &Program, module: &Path) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    (program.package, &program.ldflags).hash(&mut hasher);
    let mut files: Vec<PathBuf> = fs::read_dir(module)
        .with_context(|| format!("cannot read {}", module.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<_>>()?;
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

fn link(cache: &Cache, component: &str) -> Result<()> {
    let link = cache.bin(component);
    match std::os::unix::fs::symlink("kubernetes", &link) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.with_context(|| format!("cannot create {}", link.display())),
    }
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
        let [mut program, _] = programs();
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
