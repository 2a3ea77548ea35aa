//! CRC-32 as zip, gzip and Ethernet have it.

use std::array;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::LazyLock;

/// The polynomial, its bits reversed.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// What each value of a byte does to the remainder.
static TABLE: LazyLock<[u32; 256]> = LazyLock::new(|| {
    let mut byte = 0;
    array::from_fn(|_| {
        let remainder = (0..8).fold(byte, |rest: u32, _| {
            (rest >> 1) ^ ((rest & 1).wrapping_neg() & POLYNOMIAL)
        });
        byte += 1;
        remainder
    })
});

/// The CRC-32 of a listing: of the bytes of each path, each followed by a NUL, which no path
/// has. Equal for two servers that saw the same files in the same order.
#[must_use]
pub fn listing_crc32(paths: &[PathBuf]) -> u32 {
    let mut crc = Crc32::new();
    for path in paths {
        crc.update(path.as_os_str().as_bytes());
        crc.update(b"\0");
    }
    crc.finish()
}

/// A checksum that grows.
pub(crate) struct Crc32 {
    rest: u32,
    table: &'static [u32; 256],
}

impl Crc32 {
    pub(crate) fn new() -> Crc32 {
        Crc32 {
            rest: u32::MAX,
            table: &TABLE,
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let [low, ..] = self.rest.to_le_bytes();
            let change = self.table.get(usize::from(low ^ byte));
            self.rest = (self.rest >> 8) ^ change.copied().unwrap_or_default();
        }
    }

    pub(crate) fn finish(&self) -> u32 {
        !self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value that every catalogue of CRCs gives.
    #[test]
    fn the_check_value() {
        let mut crc = Crc32::new();
        crc.update(b"12345");
        crc.update(b"6789");
        assert_eq!(crc.finish(), 0xcbf4_3926);
    }

    #[test]
    fn a_listing_is_its_paths_in_their_order() {
        let crc = |paths: &[&str]| {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            listing_crc32(&paths)
        };
        assert_eq!(crc(&[]), 0);
        assert_eq!(crc(&["a", "b"]), crc(&["a", "b"]));
        assert_ne!(crc(&["a", "b"]), crc(&["b", "a"]));
        assert_ne!(crc(&["a", "b"]), crc(&["ab"]), "names end somewhere");
    }
}
