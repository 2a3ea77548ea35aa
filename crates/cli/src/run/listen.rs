//! Hears what the containers of a pod say, shows it, and writes it down.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};
use localcluster::node::lifecycle::runs_along;
use localcluster::node::tail::{Heard, Tail};
use tokio::sync::{mpsc, watch};

use super::screen::Said;

/// How soon is looked whether something was said.
const PAUSE: Duration = Duration::from_millis(100);
/// Of an init container that failed, so many lines are shown.
const LAST_LINES: usize = 100;

/// Exit codes of who did not fail, but was ended.
const KILLED: i32 = 128 + 9;
const TERMINATED: i32 = 128 + 15;

/// A container that is listened to.
pub(crate) struct Listener {
    pub(crate) tail: Tail,
    /// It is heard only when it fails.
    pub(crate) is_quiet: bool,
    pub(crate) speaker: usize,
    /// Where it is written down.
    pub(crate) file: PathBuf,
    /// The pod is gone.
    pub(crate) gone: watch::Receiver<bool>,
    /// None: it is only written down.
    pub(crate) to: Option<mpsc::Sender<Said>>,
}

impl Listener {
    /// Until nothing more will be said.
    pub(crate) async fn listen(mut self) -> io::Result<()> {
        let mut kept = Vec::new();
        let mut file = None;
        loop {
            // Before it is listened: then all was said.
            let is_over = self.tail.is_over() || *self.gone.borrow();
            let heard = self.tail.hear()?;
            if heard.is_empty() {
                if is_over {
                    return Ok(());
                }
                tokio::select! {
                    () = tokio::time::sleep(PAUSE) => {}
                    Ok(()) = self.gone.changed() => {}
                }
                continue;
            }
            let mut lines = Vec::new();
            for heard in heard {
                match heard {
                    Heard::Line(line) if self.is_quiet => {
                        if kept.len() == LAST_LINES {
                            kept.remove(0);
                        }
                        kept.push(line);
                    }
                    Heard::Line(line) => lines.push(line),
                    Heard::Ended(0 | KILLED | TERMINATED) => kept.clear(),
                    Heard::Ended(_) => lines.append(&mut kept),
                }
            }
            self.write(&mut file, &lines)?;
            for line in lines {
                let said = Said {
                    speaker: self.speaker,
                    line,
                };
                if let Some(to) = &self.to
                    && to.send(said).await.is_err()
                {
                    return Ok(());
                }
            }
        }
    }

    fn write(&self, file: &mut Option<BufWriter<File>>, lines: &[String]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let file = match file {
            Some(file) => file,
            None => {
                fs::create_dir_all(self.file.parent().unwrap_or(&self.file))?;
                // Pods of the same name before it have written there too.
                let opened = File::options().create(true).append(true).open(&self.file)?;
                file.insert(BufWriter::new(opened))
            }
        };
        for line in lines {
            writeln!(file, "{line}")?;
        }
        file.flush()
    }
}

/// The containers of a pod: the name under which each is shown, and whether it is heard
/// only when it fails.
pub(crate) fn containers(pod: &Pod) -> Vec<(&Container, Option<&str>, bool)> {
    let Some(spec) = &pod.spec else {
        return Vec::new();
    };
    let init = spec.init_containers.iter().flatten();
    let init = init.map(|container| {
        let name = container.name.as_str();
        (container, Some(name), !runs_along(container))
    });
    let is_main = |(n, container): (usize, &Container)| {
        let is_named = spec.containers.iter().any(|c| c.name == "paddle");
        match is_named {
            true => container.name == "paddle",
            false => n == 0,
        }
    };
    let containers = spec.containers.iter().enumerate().map(|(n, container)| {
        // The one that trains needs no name beside its pod's.
        let name = (!is_main((n, container))).then_some(container.name.as_str());
        (container, name, false)
    });
    init.chain(containers).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_is_heard_and_under_which_name() {
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "initContainers": [{"name": "wait"}, {"name": "proxy", "restartPolicy": "Always"}],
            "containers": [{"name": "extra"}, {"name": "paddle"}],
        }}))
        .unwrap();
        let found = containers(&pod);
        let found: Vec<_> = found
            .iter()
            .map(|(container, name, is_quiet)| (&*container.name, *name, *is_quiet))
            .collect();
        let want = [
            ("wait", Some("wait"), true),
            ("proxy", Some("proxy"), false),
            ("extra", Some("extra"), false),
            ("paddle", None, false),
        ];
        assert_eq!(found, want);
    }
}
