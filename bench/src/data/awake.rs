//! Keeps cores awake while it is measured.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

/// A program asks here how soon a sleeping core has to answer.
const DEVICE: &str = "/dev/cpu_dma_latency";

/// No core sleeps while this lives. Each file read through FUSE wakes another process, and to
/// wake a core of a virtual machine takes as long as the reading; but beside a training, which
/// is what the figures are about, no core has the time to fall asleep.
pub(crate) struct Awake {
    _asked: File,
}

impl Awake {
    /// Asks for it, which root may.
    pub(crate) fn ask() -> io::Result<Awake> {
        let mut asked = OpenOptions::new().write(true).open(DEVICE)?;
        // Microseconds, in the byte order of the machine. It counts until the file is closed.
        asked.write_all(&0_i32.to_ne_bytes())?;
        Ok(Awake { _asked: asked })
    }
}
