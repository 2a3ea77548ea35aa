//! Names of children, and which names Kubernetes takes.

use api::Role;

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
}
