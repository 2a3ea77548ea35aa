//! Names of children, and which names Kubernetes takes.

use api::Role;
use api::labels::NODE_PREFIX;

use crate::fingerprint;

/// Labels, host names and Services end at 63 characters.
pub const MAX_LABEL: usize = 63;

/// The name of the pod (and of its Service) with `rank` in `role`.
pub fn pod(job: &str, role: Role, rank: i32) -> String {
    format!("{job}-{role}-{rank}")
}

/// The rank in a pod's name, if the name is one that [`pod`] gives.
pub fn rank(job: &str, role: Role, pod: &str) -> Option<i32> {
    let digits = pod.strip_prefix(job)?.strip_prefix('-')?;
    let digits = digits.strip_prefix(role.as_str())?.strip_prefix('-')?;
    let canonical = !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    if canonical { digits.parse().ok() } else { None }
}

/// Whether a host name or a label of a domain name may be `name` (RFC 1123).
pub fn is_dns_label(name: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    bytes.len() <= MAX_LABEL
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

/// Whether a Service may be called `name` (RFC 1035: it begins with a letter).
pub fn is_service_name(name: &str) -> bool {
    is_dns_label(name) && name.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
}

/// The first eight characters of a uid: enough to tell objects apart that had
/// the same name.
pub fn short_uid(uid: &str) -> &str {
    uid.get(..8).unwrap_or(uid)
}

/// The longest name of a StatefulSet whose pods can be labelled with its
/// revisions, which add 11 characters.
const MAX_STATEFUL_SET: usize = MAX_LABEL - 11;

/// The StatefulSet of the runtime servers of a SampleSet.
pub fn runtime(set: &str) -> String {
    const SUFFIX: &str = "-runtime";
    let room = MAX_STATEFUL_SET - SUFFIX.len();
    // Its pods and its Service are domain names.
    let base = if is_service_name(set) && set.len() <= room {
        set.to_owned()
    } else {
        let shown = set.replace('.', "-");
        let starts = shown.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
        let shown = if starts { shown } else { format!("s-{shown}") };
        fingerprint::hashed(&shown, set, room)
    };
    format!("{base}{SUFFIX}")
}

/// The pod of the runtime server of a partition; also the value of the label of
/// its node.
pub fn runtime_pod(set: &str, partition: i32) -> String {
    format!("{}-{partition}", runtime(set))
}

/// The Service of the runtime servers of a SampleSet.
pub fn runtime_service(set: &str) -> String {
    format!("{}-service", runtime(set))
}

/// The Secret with the key, certificate and token of the runtime servers.
pub fn server_secret(set: &str) -> String {
    format!("{}-server", runtime(set))
}

/// The Secret of the volume of a SampleSet that names none.
pub fn volume_secret(set: &str) -> String {
    fingerprint::cut(&format!("{set}-volume"), 253)
}

/// The PersistentVolume of a SampleSet, and its handle: namespaces have no dot,
/// so that no two sets share one. CSI ends at 128 characters.
pub fn volume(namespace: &str, set: &str) -> String {
    fingerprint::cut(&format!("{namespace}.{set}"), 128)
}

/// The PersistentVolumeClaim of a SampleSet.
pub fn claim(set: &str) -> String {
    set.to_owned()
}

/// The value of labels that name a SampleSet or SampleJob.
pub fn label_value(name: &str) -> String {
    fingerprint::cut(name, MAX_LABEL)
}

/// The label of nodes that hold a partition.
pub fn node_label(namespace: &str, set: &str) -> String {
    let (domain, prefix) = NODE_PREFIX.split_once('/').unwrap_or_default();
    let room = MAX_LABEL - prefix.len();
    let name = fingerprint::cut(&format!("{namespace}.{set}"), room);
    format!("{domain}/{prefix}{name}")
}

/// The SampleJob that a schedule makes for a minute since 1970.
pub fn run(schedule: &str, minute: i64) -> String {
    let suffix = format!("-{minute}");
    let base = fingerprint::cut(schedule, 253_usize.saturating_sub(suffix.len()));
    format!("{base}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_reads_what_pod_writes() {
        for number in [0, 1, 10, 1999] {
            assert_eq!(
                rank("a", Role::Worker, &pod("a", Role::Worker, number)),
                Some(number)
            );
        }
    }

    #[test]
    fn rank_takes_no_other_name() {
        for name in [
            "a-worker-",
            "a-worker-01",
            "a-worker-1x",
            "a-ps-1",
            "b-worker-1",
            "a-worker--1",
        ] {
            assert_eq!(rank("a", Role::Worker, name), None, "{name}");
        }
    }

    #[test]
    fn services_begin_with_a_letter() {
        assert!(is_service_name("a-worker-0"));
        assert!(!is_service_name("1a"));
        assert!(!is_service_name("a.b"));
        assert!(!is_service_name(&"a".repeat(64)));
        assert!(is_dns_label("1a"));
    }

    #[test]
    fn names_of_sets_keep_to_their_limits() {
        assert_eq!(runtime_pod("imagenet", 0), "imagenet-runtime-0");
        assert_eq!(runtime_service("imagenet"), "imagenet-runtime-service");
        assert_eq!(
            node_label("paddle-system", "imagenet"),
            "paddlepaddle.org/juicefs-paddle-system.imagenet"
        );
        let dotted = "data.v2";
        let digit = "1data";
        let long = "a".repeat(253);
        for set in [dotted, digit, &long] {
            assert!(is_service_name(&runtime_service(set)), "{set}");
            assert!(runtime(set).len() <= MAX_STATEFUL_SET, "{set}");
            assert!(is_dns_label(&runtime_pod(set, 1999)), "{set}");
            let label = node_label(&"n".repeat(63), set);
            let (_, name) = label.split_once('/').unwrap_or_default();
            assert!(name.len() <= MAX_LABEL && !name.ends_with('-'), "{label}");
            assert!(volume("default", set).len() <= 128);
            assert!(run(set, 29_373_300).len() <= 253);
        }
        assert_ne!(runtime("data.v2"), runtime("data-v2"));
    }
}
