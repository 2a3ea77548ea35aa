//! Short names for long things, the same in every version of the operator.

use serde::Serialize;

/// A fingerprint of anything that can be written as JSON, in 16 characters.
///
/// It tells changes apart; it is no defence against somebody who looks for two
/// things with the same fingerprint.
pub(crate) fn of(thing: &impl Serialize) -> String {
    let text = serde_json::to_string(thing).unwrap_or_default();
    format!("{:016x}", fnv(text.as_bytes()))
}

/// FNV-1a, which unlike the hashers of the standard library never changes.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// `text` if it is short enough, else its beginning and a fingerprint of it all.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    hashed(text, text, most)
}

/// The beginning of `shown` and a fingerprint of `text`.
pub(crate) fn hashed(shown: &str, text: &str, most: usize) -> String {
    let hash = format!("{:08x}", fnv(text.as_bytes()) as u32);
    let room = most.saturating_sub(hash.len() + 1);
    let shown = shown
        .get(..shown.floor_char_boundary(room))
        .unwrap_or_default();
    let shown = shown.trim_end_matches(['-', '.', '_']);
    format!("{shown}-{hash}")
}
