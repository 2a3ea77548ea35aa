//! A volume as a Secret describes it: where its metadata and its blocks are, and the
//! keys to both.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::Redactor;
use crate::address::Address;

/// A volume. Its keys are shown to nobody, and `Debug` does not either.
#[derive(Clone, PartialEq, Eq)]
pub struct Volume {
    name: String,
    storage: String,
    bucket: Address,
    metaurl: Address,
    access_key: Option<String>,
    secret_key: Option<String>,
}

/// Why a Secret does not describe a volume.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    /// A key is not there, or empty.
    #[error("the secret has no {0:?}; it needs name, storage, bucket and metaurl")]
    Missing(&'static str),
    /// A value is no text.
    #[error("{0:?} of the secret is not text")]
    NotText(&'static str),
    /// The name can't be a volume's.
    #[error(
        "name of the secret is {0:?}; a volume has 3 to 63 letters, digits or -, the first no -"
    )]
    Name(String),
    /// The metadata's address is no URL.
    #[error("metaurl of the secret is no URL such as redis://host:6379/0")]
    Metaurl,
}

impl Volume {
    /// Reads a Secret's data. A line end behind a value, which `echo … | base64` leaves
    /// there, is none of it.
    ///
    /// # Errors
    /// When something is missing or can't be right.
    pub fn from_secret(data: &BTreeMap<String, Vec<u8>>) -> Result<Volume, BadSecret> {
        let optional = |key: &'static str| match data.get(key) {
            None => Ok(None),
            Some(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
                Err(_) => Err(BadSecret::NotText(key)),
            },
        };
        let required = |key| optional(key)?.ok_or(BadSecret::Missing(key));
        let name = required("name")?;
        if !is_name(&name) {
            return Err(BadSecret::Name(name));
        }
        let bucket = Address::parse(&required("bucket")?);
        let metaurl = required("metaurl")?;
        // Also so that nothing of a Secret can be taken for an option.
        if !metaurl
            .split_once("://")
            .is_some_and(|(scheme, _)| is_scheme(scheme))
        {
            return Err(BadSecret::Metaurl);
        }
        let user = bucket.user.clone().filter(|_| bucket.password.is_some());
        Ok(Volume {
            name,
            storage: required("storage")?,
            access_key: optional("access-key")?.or(user),
            secret_key: optional("secret-key")?.or_else(|| bucket.password.clone()),
            bucket,
            metaurl: Address::parse(&metaurl),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kind of its storage.
    pub fn storage(&self) -> &str {
        &self.storage
    }

    /// Where its blocks are, without a password.
    pub fn bucket(&self) -> &str {
        &self.bucket.url
    }

    /// Where its metadata is, without a password.
    pub fn metaurl(&self) -> &str {
        &self.metaurl.url
    }

    /// The keys, for the environment of one process: `format` reads all of them, every
    /// other command META_PASSWORD.
    pub fn keys(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let keys = [
            ("META_PASSWORD", &self.metaurl.password),
            ("ACCESS_KEY", &self.access_key),
            ("SECRET_KEY", &self.secret_key),
        ];
        keys.into_iter()
            .filter_map(|(name, key)| Some((name, key.as_deref()?)))
    }

    /// The directories of this machine that it lies in: of sqlite metadata, and of file
    /// storage.
    pub fn directories(&self) -> Vec<PathBuf> {
        let metadata = self.metaurl.url.strip_prefix("sqlite3://");
        let metadata = metadata.and_then(|file| Path::new(file).parent());
        let bucket = &self.bucket.url;
        let bucket = bucket.strip_prefix("file://").unwrap_or(bucket);
        let blocks = (self.storage == "file").then(|| Path::new(bucket));
        metadata
            .into_iter()
            .chain(blocks)
            .map(Path::to_owned)
            .collect()
    }

    /// Takes the keys out of texts.
    pub(crate) fn redactor(&self) -> Redactor {
        Redactor::new(self.keys().map(|(_, key)| key))
    }

    /// The addresses of servers that it needs, each with the key of the Secret that
    /// names it.
    pub(crate) fn servers(&self) -> impl Iterator<Item = (&'static str, &Address)> {
        let bucket = (self.storage == "redis").then_some(("bucket", &self.bucket));
        std::iter::once(("metaurl", &self.metaurl)).chain(bucket)
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Volume({:?} at {:?})", self.name, self.metaurl.url)
    }
}

/// As JuiceFS has it. The first letter is no `-`, or it could be taken for an option.
fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
    (3..=63).contains(&name.len()) && name.chars().all(fits) && !name.starts_with('-')
}

fn is_scheme(scheme: &str) -> bool {
    !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn secret(entries: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
        let all = [("name", "imagenet\n"), ("storage", "redis\n")];
        let all = all.iter().chain(entries);
        all.map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
            .collect()
    }

    fn volume(entries: &[(&str, &str)]) -> Result<Volume, BadSecret> {
        Volume::from_secret(&secret(entries))
    }

    #[test]
    fn line_ends_of_the_guide_are_no_part_of_a_value() {
        let found = volume(&[
            ("bucket", "redis://192.168.7.227:6379/1\n"),
            ("metaurl", "redis://192.168.7.227:6379/0\n"),
        ]);
        let found = found.unwrap();
        assert_eq!(found.name(), "imagenet");
        assert_eq!(found.storage(), "redis");
        assert_eq!(found.bucket(), "redis://192.168.7.227:6379/1");
        assert_eq!(found.metaurl(), "redis://192.168.7.227:6379/0");
        assert_eq!(found.keys().count(), 0);
    }

    #[test]
    fn passwords_leave_the_addresses() {
        let found = volume(&[
            ("bucket", "redis://store:S-1@h/1"),
            ("metaurl", "redis://:p%40ss@h:7000/0?x=a@b"),
        ]);
        let found = found.unwrap();
        assert_eq!(found.bucket(), "redis://store@h/1");
        assert_eq!(found.metaurl(), "redis://@h:7000/0?x=a@b");
        let keys: Vec<_> = found.keys().collect();
        let wanted = [
            ("META_PASSWORD", "p@ss"),
            ("ACCESS_KEY", "store"),
            ("SECRET_KEY", "S-1"),
        ];
        assert_eq!(keys, wanted);
        let redactor = found.redactor();
        assert_eq!(redactor.redact("p@ss, p%40ss of S-1"), "***, *** of ***");
        let shown = format!("{found:?}");
        assert!(!shown.contains("p@ss") && !shown.contains("S-1"), "{shown}");
        let servers: Vec<_> = found.servers().map(|(key, _)| key).collect();
        assert_eq!(servers, ["metaurl", "bucket"]);
    }

    #[test]
    fn given_keys_go_before_those_of_the_bucket() {
        let found = volume(&[
            ("bucket", "redis://u:old@h/1"),
            ("metaurl", "sqlite3:///data/a:b@c.db"),
            ("secret-key", "new\n"),
        ]);
        let found = found.unwrap();
        assert_eq!(found.metaurl(), "sqlite3:///data/a:b@c.db");
        assert!(found.keys().any(|key| key == ("SECRET_KEY", "new")));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let whole = [("bucket", "/b"), ("metaurl", "sqlite3:///m.db")];
        assert_eq!(volume(&whole[..1]), Err(BadSecret::Missing("metaurl")));
        let with = |key, value| volume(&[whole[0], whole[1], (key, value)]);
        assert_eq!(with("bucket", " \n"), Err(BadSecret::Missing("bucket")));
        assert_eq!(with("metaurl", "--help"), Err(BadSecret::Metaurl));
        for name in ["ab", "--x", "a b c", "a/../b"] {
            assert_eq!(with("name", name), Err(BadSecret::Name(name.to_owned())));
        }
        let mut binary = secret(&whole);
        binary.insert("storage".to_owned(), vec![0xff]);
        let found = Volume::from_secret(&binary);
        assert_eq!(found, Err(BadSecret::NotText("storage")));
    }
}
