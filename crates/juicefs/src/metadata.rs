//! Where the metadata of a volume is.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use cache_api::reason;
use percent_encoding::percent_decode_str;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::Error;

/// How long a metadata server may take to accept. juicefs itself would try for 72
/// seconds.
const CONNECT: Duration = Duration::from_secs(3);

/// A metaurl, its password apart: that goes by the environment.
#[derive(Clone, PartialEq, Eq)]
pub struct Metadata {
    /// The address without the password.
    pub url: String,
    /// What was between `:` and `@`.
    pub password: Option<String>,
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Metadata");
        shown.field("url", &self.url).finish_non_exhaustive()
    }
}

/// The port of a server that is not named, by scheme. Others keep their metadata
/// in files.
const PORTS: [(&str, u16); 6] = [
    ("redis", 6379),
    ("rediss", 6379),
    ("mysql", 3306),
    ("postgres", 5432),
    ("etcd", 2379),
    ("tikv", 2379),
];
const SENTINEL_PORT: u16 = 26379;

impl Metadata {
    /// Takes a metaurl apart.
    pub fn parse(metaurl: &str) -> Metadata {
        let whole = || Metadata {
            url: metaurl.to_owned(),
            password: None,
        };
        let Some((scheme, rest)) = metaurl.split_once("://") else {
            return whole();
        };
        if !PORTS.iter().any(|(known, _)| *known == scheme) {
            return whole();
        }
        let (before_query, query) = match rest.split_once('?') {
            Some((before, query)) => (before, format!("?{query}")),
            None => (rest, String::new()),
        };
        let Some((userinfo, host)) = before_query.rsplit_once('@') else {
            return whole();
        };
        let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
        let user = if user.is_empty() {
            String::new()
        } else {
            format!("{user}@")
        };
        let password = percent_decode_str(password).decode_utf8_lossy();
        Metadata {
            url: format!("{scheme}://{user}{host}{query}"),
            password: Some(password.into_owned()).filter(|password| !password.is_empty()),
        }
    }

    /// Whether somebody is there who may have the metadata. juicefs itself would
    /// try for more than a minute, and make a database of its own where there is
    /// none.
    ///
    /// # Errors
    /// When nobody is there.
    pub async fn probe(&self) -> Result<(), Error> {
        let missing = |what: String| Error::new(reason::VOLUME_UNREACHABLE, what);
        if let Some(path) = self.url.strip_prefix("sqlite3://") {
            let path = path.split('?').next().unwrap_or_default();
            if !Path::new(path).is_file() {
                let what = format!(
                    "the metadata of the volume is not there: {path} is no file on this node"
                );
                return Err(missing(what));
            }
        }
        let servers = self.servers();
        for server in &servers {
            if let Ok(Ok(_)) = timeout(CONNECT, TcpStream::connect(server)).await {
                return Ok(());
            }
        }
        match servers.as_slice() {
            [] => Ok(()),
            _ => Err(missing(format!(
                "the metadata server of the volume does not answer at {}; see whether metaurl \
                 is right and the server runs",
                servers.join(", ")
            ))),
        }
    }

    /// Where its servers listen; none when the metadata is not at servers.
    fn servers(&self) -> Vec<String> {
        let Some((scheme, rest)) = self.url.split_once("://") else {
            return Vec::new();
        };
        let Some((_, port)) = PORTS.iter().find(|(known, _)| *known == scheme) else {
            return Vec::new();
        };
        let hosts = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts);
        // MySQL has its address in parentheses, and sockets of this machine as well.
        let hosts = match hosts.split_once('(') {
            Some(("" | "tcp", hosts)) => hosts.split(')').next().unwrap_or_default(),
            Some(_) => return Vec::new(),
            None => hosts.split(['/', '?']).next().unwrap_or_default(),
        };
        let mut hosts: Vec<&str> = hosts.split(',').filter(|host| !host.is_empty()).collect();
        let mut port = *port;
        if scheme.starts_with("redis") && hosts.len() > 1 {
            // The first is the name of a master that sentinels know, unless it has a port.
            if hosts.first().is_some_and(|host| !has_port(host)) {
                hosts.remove(0);
                port = SENTINEL_PORT;
            }
            let last = hosts.last().and_then(|host| host.rsplit_once(':'));
            port = last.and_then(|(_, port)| port.parse().ok()).unwrap_or(port);
        }
        let in_full = |host: &str| match has_port(host) {
            true => host.to_owned(),
            false => format!("{host}:{port}"),
        };
        hosts.into_iter().map(in_full).collect()
    }
}

fn has_port(host: &str) -> bool {
    let behind_address = host.rsplit_once(']').map_or(host, |(_, port)| port);
    behind_address.contains(':')
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_taken_out() {
        let cases = [
            ("redis://:p%40w@h:6379/1", "redis://h:6379/1", Some("p@w")),
            ("redis://u:p@h/1", "redis://u@h/1", Some("p")),
            ("redis://h/1", "redis://h/1", None),
            ("redis://u@h/1", "redis://u@h/1", None),
            (
                "mysql://u:p@w@(h:3306)/db",
                "mysql://u@(h:3306)/db",
                Some("p@w"),
            ),
            (
                "postgres://u:p@h/db?sslmode=disable&x=a@b",
                "postgres://u@h/db?sslmode=disable&x=a@b",
                Some("p"),
            ),
            ("sqlite3:///a:b@c/meta.db", "sqlite3:///a:b@c/meta.db", None),
        ];
        for (metaurl, url, password) in cases {
            let found = Metadata::parse(metaurl);
            assert_eq!(found.url, url);
            assert_eq!(found.password.as_deref(), password);
            assert!(!format!("{found:?}").contains("p@w"));
        }
    }

    #[test]
    fn servers_are_where_juicefs_looks_for_them() {
        let cases: [(&str, &[&str]); 9] = [
            ("redis://h/1", &["h:6379"]),
            ("redis://u@h:7/1", &["h:7"]),
            ("redis://[::1]:7/1", &["[::1]:7"]),
            ("redis://master,a,b:27/1", &["a:27", "b:27"]),
            ("mysql://u@(h:3)/db", &["h:3"]),
            ("mysql://u@unix(/run/m.sock)/db", &[]),
            ("postgres://u@h/db", &["h:5432"]),
            ("tikv://a:1,b:2/p", &["a:1", "b:2"]),
            ("sqlite3:///x.db", &[]),
        ];
        for (url, want) in cases {
            assert_eq!(Metadata::parse(url).servers(), want, "{url}");
        }
    }

    #[tokio::test]
    async fn nobody_there_is_told_at_once() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://:secret@{}/0", listener.local_addr().unwrap());
        assert_eq!(Metadata::parse(&url).probe().await, Ok(()));
        drop(listener);
        let error = Metadata::parse(&url).probe().await.unwrap_err();
        assert_eq!(error.reason, reason::VOLUME_UNREACHABLE);
        assert!(!error.message.contains("secret"), "{error}");
    }

    #[tokio::test]
    async fn a_database_that_is_missing_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("meta.db");
        let metadata = Metadata::parse(&format!("sqlite3://{}", path.display()));
        let error = metadata.probe().await.unwrap_err();
        assert_eq!(error.reason, reason::VOLUME_UNREACHABLE);
        assert!(!path.exists());
    }
}
