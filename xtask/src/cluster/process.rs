//! Starts and ends the cluster's processes. They outlive this command, so what is
//! known of them is a pid file, and a pid alone is never trusted: the system may
//! have given it to somebody else.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::paths::State;

/// Starts `line` in a session of its own, so that neither Ctrl-C nor the end of the
/// terminal reaches it.
pub fn start(state: &State, name: &str, line: &[String]) -> Result<()> {
    let log_path = state.log(name);
    let log =
        File::create(&log_path).with_context(|| format!("cannot create {}", log_path.display()))?;
    // `setsid` replaces itself by the program: the pid stays the same.
    let child = Command::new("setsid")
        .args(line)
        .current_dir(state.dir())
        // Volcano's scheduler puts a socket there, else into one place for all clusters.
        .env("DEBUG_SOCKET_DIR", "run")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("cannot run `setsid` (package util-linux)")?;
    let pid_path = state.pid(name);
    fs::write(&pid_path, format!("{}\n", child.id()))
        .with_context(|| format!("cannot write {}", pid_path.display()))
}

/// The recorded process of a component, if it still runs and is still that one.
pub fn running(state: &State, name: &str) -> Option<Pid> {
    let pid = fs::read_to_string(state.pid(name))
        .ok()?
        .trim()
        .parse()
        .ok()?;
    // A process that is just being replaced by another program has no arguments for
    // an instant, which on a busy machine was seen to take more than a tenth of a second.
    for _ in 0..1000 {
        if ended(pid) {
            return None;
        }
        let line = command_line(pid);
        if !line.is_empty() {
            return belongs(&line, name, state.dir()).then(|| Pid::from_raw(pid));
        }
        thread::sleep(Duration::from_millis(1));
    }
    None
}

/// The arguments that a process was started with, program first.
pub fn command_line(pid: i32) -> Vec<String> {
    let raw = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&raw);
    text.split_terminator('\0').map(str::to_owned).collect()
}

/// Whether a command line is that of the component `name` with this state.
fn belongs(line: &[String], name: &str, state: &Path) -> bool {
    // Until `setsid` has replaced itself, the program is its first argument.
    let mut args = line
        .iter()
        .map(Path::new)
        .skip_while(|arg| arg.ends_with("setsid"));
    // A node is a shell in namespaces of its own, and its name the last argument.
    let program = args.next().is_some_and(|arg| {
        arg.ends_with(name)
            || (arg.ends_with("unshare") && line.last().is_some_and(|it| it == name))
    });
    // With a slash: the state of cluster `a` is no prefix of that of `a-b`.
    let state = format!("{}/", state.display());
    program && line.iter().any(|arg| arg.contains(&state))
}

/// Whether a process is gone. One that only waits for its parent to notice counts.
fn ended(pid: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return true;
    };
    // The program's name is in parentheses and may contain anything.
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.trim_start().chars().next());
    matches!(state, None | Some('Z' | 'X'))
}

/// Ends the named components and waits until they are gone.
///
/// By SIGKILL: etcd and kube-apiserver would spend seconds on an orderly end that a
/// test cluster has no use for, and etcd's files survive it.
pub fn stop(state: &State, names: &[&str]) -> Result<()> {
    let pids: Vec<(Pid, &str)> = names
        .iter()
        .filter_map(|name| Some((running(state, name)?, *name)))
        .collect();
    // Those of a node end with it, but a moment later.
    let children: Vec<(Pid, &str)> = pids
        .iter()
        .flat_map(|(pid, name)| children(*pid).into_iter().map(move |child| (child, *name)))
        .collect();
    for (pid, name) in &pids {
        match kill(*pid, Signal::SIGKILL) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => bail!("cannot end {name}, process {pid}: {error}"),
        }
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    for (pid, name) in pids.iter().chain(&children) {
        while !ended(pid.as_raw()) {
            if Instant::now() > deadline {
                bail!("{name}, process {pid}, did not end");
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
    for name in names {
        match fs::remove_file(state.pid(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// The processes that this one started.
pub fn children(pid: Pid) -> Vec<Pid> {
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed
        .split_whitespace()
        .filter_map(|child| child.parse().ok().map(Pid::from_raw))
        .collect()
}

/// The last lines that a component wrote.
pub fn log_tail(state: &State, name: &str) -> String {
    let raw = fs::read(state.log(name)).unwrap_or_default();
    tail(&String::from_utf8_lossy(&raw), 15)
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    let last: Vec<&str> = all
        .iter()
        .rev()
        .take(lines)
        .rev()
        .map(|line| &**line)
        .collect();
    if last.is_empty() {
        "(it wrote nothing)".to_owned()
    } else {
        last.join("\n")
    }
}

/// Runs a command to its end and returns what it wrote to stdout.
pub fn output(command: &mut Command) -> Result<String> {
    let out = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    if !out.status.success() {
        let how = out.status.signal().map_or_else(
            || format!("exit code {}", out.status.code().unwrap_or_default()),
            |signal| format!("signal {signal}"),
        );
        bail!(
            "{command:?}: {how}: {}",
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::paths::Cache;

    fn line(args: &[&str]) -> Vec<String> {
        args.iter().map(|&arg| arg.to_owned()).collect()
    }

    #[test]
    fn a_reused_pid_is_not_ours() {
        let state = Path::new("/c/cluster/a");
        let data = "--data-dir=/c/cluster/a/etcd";
        assert!(belongs(&line(&["/c/bin/etcd", data]), "etcd", state));
        assert!(belongs(
            &line(&["setsid", "/c/bin/etcd", data]),
            "etcd",
            state
        ));
        let node = ["unshare", "--pid", "/c/cluster/a/node-init", "node-1"];
        assert!(belongs(&line(&node), "node-1", state));
        assert!(!belongs(&line(&node), "node-0", state));
        // Another program, another cluster, another component.
        assert!(!belongs(
            &line(&["/usr/bin/vi", "/c/cluster/a/etcd"]),
            "etcd",
            state
        ));
        assert!(!belongs(
            &line(&["/c/bin/etcd", "--data-dir=/c/cluster/a-b/etcd"]),
            "etcd",
            state
        ));
        assert!(!belongs(&line(&["/c/bin/kwok", data]), "etcd", state));
        assert!(!belongs(&[], "etcd", state));
    }

    #[test]
    fn a_foreign_process_behind_a_pid_file_survives() -> Result<()> {
        let dir = std::env::temp_dir().join(format!("xtask-pid-{}", std::process::id()));
        let state = Cache::at(&dir).cluster("a");
        fs::create_dir_all(state.file("run"))?;
        let mut other = Command::new("sleep").arg("60").spawn()?;
        fs::write(state.pid("etcd"), other.id().to_string())?;
        assert_eq!(running(&state, "etcd"), None);
        stop(&state, &["etcd"])?;
        assert!(other.try_wait()?.is_none(), "it was killed");
        assert!(!state.pid("etcd").exists());
        other.kill()?;
        // Not waited for: a zombie counts as gone.
        while !ended(other.id().try_into()?) {
            thread::sleep(Duration::from_millis(1));
        }
        other.wait()?;
        fs::remove_dir_all(&dir)?;
        Ok(())
    }

    #[test]
    fn a_tail_is_the_end() {
        assert_eq!(tail("a\nb\nc\n", 2), "b\nc");
        assert_eq!(tail("", 2), "(it wrote nothing)");
    }
}
