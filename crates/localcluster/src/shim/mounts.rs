//! The root of a container.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::pivot_root;
use rustix::fs::{CWD, FileType, StatVfsMountFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use super::record::{Mount, MountKind, Root};
use crate::rootless;

/// Devices that do no harm, and those of accelerators.
const DEVICES: [&str; 6] = ["full", "null", "random", "tty", "urandom", "zero"];
/// What of the kernel is shown to be read only.
const READ_ONLY: [&str; 5] = ["bus", "fs", "irq", "sys", "sysrq-trigger"];
/// What of the kernel is not shown.
const MASKED: [&str; 6] = ["acpi", "kcore", "keys", "sched_debug", "scsi", "timer_list"];

/// What every container has of its own.
const PRIVATE: [&str; 5] = ["dev", "proc", "run", "sys", "tmp"];

/// No devices, no other user, no programs.
const HARMLESS: MsFlags = MsFlags::MS_NOSUID
    .union(MsFlags::MS_NODEV)
    .union(MsFlags::MS_NOEXEC);

const NOTHING: Option<&Path> = None;

/// Makes the root and moves there. Nothing of what was before can be reached then.
pub(super) fn make(root: &Root) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    // What the machine mounts later on a volume shows up; nothing goes the other way.
    mount(
        NOTHING,
        "/",
        NOTHING,
        MsFlags::MS_REC | MsFlags::MS_SLAVE,
        NOTHING,
    )?;
    let own = |name: &str| root.own.join(name);
    for (name, mode) in [("root", 0o755), ("tmp", 0o1777), ("run", 0o755)] {
        fs::create_dir_all(own(name))?;
        fs::set_permissions(own(name), fs::Permissions::from_mode(mode))?;
    }
    let sources = sources(root)?;
    let new = own("root");
    image(root, &new)?;
    kernel(&new)?;
    devices(&new)?;
    std::env::set_current_dir(&new)?;
    // The old root lies on the new one for a moment, and is then taken away.
    pivot_root(".", ".")?;
    umount2(".", MntFlags::MNT_DETACH)?;
    std::env::set_current_dir("/")?;
    for (target, source) in sources {
        let mode = rustix::fs::fstat(&source)?.st_mode;
        let is_directory = FileType::from_raw_mode(mode).is_dir();
        place(&target, is_directory).map_err(|error| at(&target, &error))?;
        attach(&source, &target).map_err(|error| at(&target, &error))?;
    }
    hide(root)?;
    for mount in &root.mounts {
        if mount.kind == MountKind::ReadOnly {
            read_only(&mount.target, MsFlags::empty())
                .map_err(|error| at(&mount.target, &error))?;
        }
    }
    if root.read_only {
        read_only(Path::new("/"), MsFlags::MS_NODEV)?;
    }
    Ok(())
}

/// The image at its place.
fn image(root: &Root, new: &Path) -> io::Result<()> {
    let own = root.own.join("image");
    match copy_on_write(&root.lower, &own) {
        // For an ordinary user, what is mounted on a directory belongs to it, and an
        // overlay would not show it: so not the whole of the machine at once.
        Err(_) if !rootless::has_user(1) => piece_by_piece(&root.lower, &own, new),
        whole => attach(&whole?, new),
    }
}

fn piece_by_piece(lower: &Path, own: &Path, new: &Path) -> io::Result<()> {
    attach(&tree(new)?, new)?;
    for entry in fs::read_dir(lower)? {
        let entry = entry?;
        let (from, to, kind) = (
            entry.path(),
            new.join(entry.file_name()),
            entry.file_type()?,
        );
        if kind.is_symlink() {
            symlink(fs::read_link(&from)?, &to)?;
        } else if kind.is_dir() {
            fs::create_dir_all(&to)?;
            // What can't be read can't be shown either.
            if PRIVATE.iter().any(|name| from.ends_with(name)) || fs::read_dir(&from).is_err() {
                continue;
            }
            match copy_on_write(&from, &own.join(entry.file_name())) {
                Ok(piece) => attach(&piece, &to)?,
                Err(_) => {
                    attach(&tree(&from)?, &to)?;
                    read_only_below(&to)?;
                }
            }
        }
    }
    Ok(())
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("mount at {}: {error}", path.display()),
    )
}

/// Everything of the machine that is mounted, taken hold of before the machine is
/// out of sight. So a link in the image can't lead a mount astray.
fn sources(root: &Root) -> io::Result<Vec<(PathBuf, OwnedFd)>> {
    let private = ["tmp", "run"].map(|name| Mount {
        source: root.own.join(name),
        target: Path::new("/").join(name),
        kind: MountKind::Writable,
    });
    let mounts = private.iter().chain(&root.mounts).enumerate();
    let sources = mounts.map(|(n, mount)| {
        let source = match mount.kind {
            MountKind::CopyOnWrite => {
                copy_on_write(&mount.source, &root.own.join(format!("files-{n}")))
            }
            MountKind::Writable | MountKind::ReadOnly => tree(&mount.source),
        };
        let source = source.map_err(|error| at(&mount.source, &error))?;
        Ok((mount.target.clone(), source))
    });
    sources.collect()
}

fn tree(source: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    Ok(open_tree(CWD, source, flags | OpenTreeFlags::AT_RECURSIVE)?)
}

/// A directory whose changes go to another.
fn copy_on_write(lower: &Path, own: &Path) -> io::Result<OwnedFd> {
    fs::create_dir_all(own.join("upper"))?;
    fs::create_dir_all(own.join("work"))?;
    // The root of the overlay has the owner and the mode of this directory.
    let mode = fs::metadata(lower)?.permissions();
    fs::set_permissions(own.join("upper"), mode)?;
    // Short names, because the kernel takes no long ones.
    std::env::set_current_dir(own)?;
    let overlay = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let escaped = lower
        .display()
        .to_string()
        .replace('\\', "\\\\")
        .replace(':', "\\:");
    fsconfig_set_string(&overlay, "lowerdir", escaped)?;
    fsconfig_set_string(&overlay, "upperdir", "upper")?;
    fsconfig_set_string(&overlay, "workdir", "work")?;
    if !rootless::has_user(1) {
        fsconfig_set_flag(&overlay, "userxattr")?;
    }
    fsconfig_create(&overlay)?;
    Ok(fsmount(
        &overlay,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::MOUNT_ATTR_NODEV,
    )?)
}

fn attach(source: &OwnedFd, target: &Path) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(move_mount(source, "", CWD, target, flags)?)
}

/// Makes sure that something can be mounted at a path.
fn place(target: &Path, is_directory: bool) -> io::Result<()> {
    if is_directory {
        return fs::create_dir_all(target);
    }
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    if !fs::symlink_metadata(target).is_ok_and(|found| found.is_file()) {
        // A link, to where nothing is.
        let _: io::Result<()> = fs::remove_file(target);
        File::create(target)?;
    }
    Ok(())
}

fn kernel(root: &Path) -> io::Result<()> {
    let (proc, sys) = (root.join("proc"), root.join("sys"));
    fs::create_dir_all(&proc)?;
    fs::create_dir_all(&sys)?;
    mount(Some("proc"), &proc, Some("proc"), HARMLESS, NOTHING)?;
    for name in READ_ONLY.map(|name| proc.join(name)) {
        if name.exists() {
            bind(&name, &name)?;
            read_only(&name, HARMLESS)?;
        }
    }
    for name in MASKED.map(|name| proc.join(name)) {
        match fs::metadata(&name) {
            Ok(found) if found.is_dir() => nothing_at(&name)?,
            Ok(_) => bind(Path::new("/dev/null"), &name)?,
            Err(_) => {}
        }
    }
    let flags = HARMLESS | MsFlags::MS_RDONLY;
    // Who is root only in a namespace of his own gets none of his own with the
    // machine's network.
    if mount(Some("sysfs"), &sys, Some("sysfs"), flags, NOTHING).is_err() {
        attach(&tree(Path::new("/sys"))?, &sys)?;
        read_only(&sys, HARMLESS)?;
    }
    Ok(())
}

/// Mounts a directory or a file a second time.
pub(crate) fn bind(source: &Path, target: &Path) -> io::Result<()> {
    Ok(mount(
        Some(source),
        target,
        NOTHING,
        MsFlags::MS_BIND,
        NOTHING,
    )?)
}

/// Makes what is mounted at a path read-only there.
pub(crate) fn read_only(target: &Path, flags: MsFlags) -> io::Result<()> {
    // An ordinary user may not take away what the machine forbids there.
    let now = rustix::fs::statvfs(target)?.f_flag;
    let kept = [
        (StatVfsMountFlags::NODEV, MsFlags::MS_NODEV),
        (StatVfsMountFlags::NOEXEC, MsFlags::MS_NOEXEC),
        (StatVfsMountFlags::NOSUID, MsFlags::MS_NOSUID),
        (StatVfsMountFlags::NOATIME, MsFlags::MS_NOATIME),
        (StatVfsMountFlags::NODIRATIME, MsFlags::MS_NODIRATIME),
        (StatVfsMountFlags::RELATIME, MsFlags::MS_RELATIME),
    ];
    let kept = kept.into_iter().filter(|(flag, _)| now.contains(*flag));
    let flags = kept.fold(flags, |flags, (_, kept)| flags | kept);
    let flags = flags | MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    Ok(mount(NOTHING, target, NOTHING, flags, NOTHING)?)
}

/// With all that is mounted below.
fn read_only_below(target: &Path) -> io::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    for place in places
        .map(Path::new)
        .filter(|place| place.starts_with(target))
    {
        read_only(place, MsFlags::empty())?;
    }
    Ok(())
}

fn nothing_at(target: &Path) -> io::Result<()> {
    let flags = HARMLESS | MsFlags::MS_RDONLY;
    Ok(mount(
        Some("tmpfs"),
        target,
        Some("tmpfs"),
        flags,
        Some("mode=000"),
    )?)
}

fn devices(root: &Path) -> io::Result<()> {
    let dev = root.join("dev");
    fs::create_dir_all(&dev)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    mount(
        Some("tmpfs"),
        &dev,
        Some("tmpfs"),
        flags,
        Some("mode=755,size=64k"),
    )?;
    let accelerators = fs::read_dir("/dev")?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("nvidia"));
    for name in accelerators.chain(DEVICES.map(str::to_owned)) {
        let source = Path::new("/dev").join(&name);
        place(&dev.join(&name), source.is_dir())?;
        bind(&source, &dev.join(&name))?;
    }
    for name in ["pts", "shm", "mqueue"] {
        fs::create_dir(dev.join(name))?;
    }
    let terminals = "newinstance,ptmxmode=0666,mode=0620";
    mount(
        Some("devpts"),
        &dev.join("pts"),
        Some("devpts"),
        flags,
        Some(terminals),
    )?;
    mount(
        Some("tmpfs"),
        &dev.join("shm"),
        Some("tmpfs"),
        HARMLESS,
        Some("mode=1777"),
    )?;
    mount(
        Some("mqueue"),
        &dev.join("mqueue"),
        Some("mqueue"),
        HARMLESS,
        NOTHING,
    )?;
    for (name, target) in [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        symlink(target, dev.join(name))?;
    }
    Ok(())
}

/// Hides directories of the machine, in the image and in whatever else shows them.
fn hide(root: &Root) -> io::Result<()> {
    let image = (root.lower.as_path(), Path::new("/"));
    let mounts = root.mounts.iter();
    let shown = mounts.map(|mount| (mount.source.as_path(), mount.target.as_path()));
    for (source, target) in std::iter::once(image).chain(shown) {
        for hidden in &root.hidden {
            let Ok(rest) = hidden.strip_prefix(source) else {
                continue;
            };
            let is_below = rest
                .components()
                .all(|part| matches!(part, Component::Normal(_)));
            let there = target.join(rest);
            if is_below && rest != Path::new("") && there.is_dir() {
                nothing_at(&there)?;
            }
        }
    }
    Ok(())
}
