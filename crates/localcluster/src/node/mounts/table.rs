//! What is mounted where.

use std::io;
use std::path::Path;

/// The mounts of this process, as the kernel lists them.
pub(super) struct Table(String);

/// A mount: its number, that of the one it is mounted on, and its device.
struct Entry<'a> {
    id: &'a str,
    parent: &'a str,
    device: &'a str,
}

impl Table {
    pub(super) fn read() -> io::Result<Table> {
        Ok(Table(std::fs::read_to_string("/proc/self/mountinfo")?))
    }

    /// The device that is mounted at a path, on top of all others there.
    pub(super) fn device_at(&self, path: &Path) -> Option<&str> {
        let path = escaped(path);
        let here = self.0.lines().filter_map(|line| {
            let mut fields = line.split(' ');
            let entry = Entry {
                id: fields.next()?,
                parent: fields.next()?,
                device: fields.next()?,
            };
            (fields.nth(1)? == path).then_some(entry)
        });
        let here: Vec<Entry<'_>> = here.collect();
        let is_covered = |entry: &Entry<'_>| here.iter().any(|other| other.parent == entry.id);
        let top = here.iter().find(|entry| !is_covered(entry));
        top.map(|entry| entry.device)
    }
}

/// A path as the kernel writes it.
fn escaped(path: &Path) -> String {
    let path = path.display().to_string().replace('\\', "\\134");
    let path = path.replace(' ', "\\040").replace('\t', "\\011");
    path.replace('\n', "\\012")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_of_a_stack_counts() {
        let table = Table(
            "20 1 254:0 / / rw - ext4 /dev/vda rw\n\
             47 45 0:45 / /s\\040d/mount rw shared:2 - fuse.juicefs JuiceFS:v rw\n\
             45 20 0:42 / /s\\040d/mount rw - fuse.juicefs JuiceFS:v rw\n"
                .to_owned(),
        );
        assert_eq!(table.device_at(Path::new("/s d/mount")), Some("0:45"));
        assert_eq!(table.device_at(Path::new("/s d")), None);
    }
}
