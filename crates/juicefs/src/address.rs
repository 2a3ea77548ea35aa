//! Where servers of metadata and of blocks are, and the password to them.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use cache_api::reason;
use percent_encoding::percent_decode_str;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::Error;

/// How long a server may take to accept. juicefs itself would try for 72 seconds.
const CONNECT: Duration = Duration::from_secs(3);

/// The servers that juicefs knows: scheme, name, and the port of one that names none.
const SERVERS: [(&str, &str, u16); 6] = [
    ("redis", "Redis", 6379),
    ("rediss", "Redis", 6379),
    ("mysql", "MySQL", 3306),
    (POSTGRES, "PostgreSQL", 5432),
    ("etcd", "etcd", 2379),
    ("tikv", "TiKV", 2379),
];
const SENTINEL_PORT: u16 = 26379;
const POSTGRES: &str = "postgres";

/// What is kept in files: an `@` in their address is part of a path.
const FILES: [&str; 3] = ["sqlite3", "badger", "file"];

/// A metaurl or a bucket, its password apart: that goes by the environment.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// Without the password.
    pub(crate) url: String,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

/// Nobody is there.
#[derive(Debug)]
pub(crate) struct Silent {
    /// What should be there.
    pub(crate) what: &'static str,
    /// The addresses that were tried.
    pub(crate) at: String,
    /// What happened at the last of them.
    pub(crate) why: String,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({:?})", self.url)
    }
}

impl Address {
    /// Takes an address apart.
    pub(crate) fn parse(url: &str) -> Address {
        let whole = || Address {
            url: url.to_owned(),
            user: None,
            password: None,
        };
        let Some((scheme, rest)) = url.split_once("://") else {
            return whole();
        };
        if FILES.contains(&scheme) {
            return whole();
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        // Passwords of MySQL may hold an @ themselves.
        let (owner, place) = match place.rsplit_once('@') {
            Some((owner, place)) => (Some(owner), place),
            None => (None, place),
        };
        let (user, password) = match owner.and_then(|owner| owner.split_once(':')) {
            Some((user, password)) => (user, decoded(password)),
            None => (owner.unwrap_or_default(), None),
        };
        let is_postgres = scheme == POSTGRES;
        let (asked, others): (Vec<&str>, Vec<&str>) = query
            .split('&')
            .partition(|option| is_postgres && option.starts_with("password="));
        // The first of them counts, and before the one that stands before the @.
        let asked = asked.first().and_then(|asked| asked.split_once('='));
        let asked = asked.and_then(|(_, asked)| decoded(&asked.replace('+', " ")));
        let password = asked.or(password);
        if owner.is_none() && password.is_none() {
            return whole();
        }
        let mut query = others.join("&");
        if is_postgres {
            // juicefs puts META_PASSWORD before the last @ of all, so there has to be one
            // and it has to be this one.
            query = query.replace('@', "%40");
        }
        let mark = if query.is_empty() { "" } else { "?" };
        Address {
            url: format!("{scheme}://{user}@{place}{mark}{query}"),
            user: decoded(user),
            password,
        }
    }

    /// Whether somebody is there who may have the metadata. juicefs itself would
    /// try for more than a minute, and make a database of its own where there is
    /// none.
    pub(crate) async fn probe(&self) -> Result<(), Error> {
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
        self.connect().await.map_err(|Silent { at, .. }| {
            missing(format!(
                "the metadata server of the volume does not answer at {at}; see whether metaurl \
                 is right and the server runs"
            ))
        })
    }

    /// Whether one of its servers accepts, if it is at servers.
    pub(crate) async fn connect(&self) -> Result<(), Silent> {
        let Some((what, servers)) = self.servers() else {
            return Ok(());
        };
        let mut why = None;
        for server in &servers {
            why = match timeout(CONNECT, TcpStream::connect(server)).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some(format!("no answer after {} s", CONNECT.as_secs())),
            };
        }
        why.map_or(Ok(()), |why| {
            let at = servers.join(", ");
            Err(Silent { what, at, why })
        })
    }

    /// What its servers are and where they listen; `None` when it is not at servers.
    fn servers(&self) -> Option<(&'static str, Vec<String>)> {
        let (scheme, rest) = self.url.split_once("://")?;
        let known = SERVERS.iter().find(|(known, ..)| *known == scheme);
        let (_, what, mut port) = *known?;
        let rest = rest.split('?').next().unwrap_or_default();
        let hosts = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts);
        // MySQL has its address in parentheses, and sockets of this machine as well.
        let hosts = match hosts.split_once('(') {
            Some(("" | "tcp", hosts)) => hosts.split(')').next().unwrap_or_default(),
            Some(_) => return None,
            None => hosts.split('/').next().unwrap_or_default(),
        };
        let mut hosts: Vec<&str> = hosts.split(',').filter(|host| !host.is_empty()).collect();
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
        Some((what, hosts.into_iter().map(in_full).collect()))
    }
}

fn has_port(host: &str) -> bool {
    let behind_address = host.rsplit_once(']').map_or(host, |(_, port)| port);
    behind_address.contains(':')
}

fn decoded(text: &str) -> Option<String> {
    let text = percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_taken_out() {
        let cases = [
            ("redis://:p%40w@h:6379/1", "redis://@h:6379/1", Some("p@w")),
            ("redis://u:p@h/1", "redis://u@h/1", Some("p")),
            ("redis://h/1", "redis://h/1", None),
            ("redis://u@h/1", "redis://u@h/1", None),
            ("redis://:p@h/0?x=a@b", "redis://@h/0?x=a@b", Some("p")),
            (
                "mysql://u:p@w@(h:3306)/db",
                "mysql://u@(h:3306)/db",
                Some("p@w"),
            ),
            ("sqlite3:///a:b@c/meta.db", "sqlite3:///a:b@c/meta.db", None),
            ("file:///a:b@c/", "file:///a:b@c/", None),
            ("/a:b@c", "/a:b@c", None),
        ];
        for (given, url, password) in cases {
            let found = Address::parse(given);
            assert_eq!(found.url, url);
            assert_eq!(found.password.as_deref(), password);
            assert!(!format!("{found:?}").contains("p@w"));
        }
    }

    /// As juicefs 1.4.2 really reads them.
    #[test]
    fn the_password_of_postgres_may_be_an_option() {
        let cases = [
            (
                "postgres://u:p@h/db?sslmode=disable&x=a@b",
                "postgres://u@h/db?sslmode=disable&x=a%40b",
                Some("p"),
            ),
            (
                "postgres://u@h/db?password=p%2Bw+x&sslmode=disable",
                "postgres://u@h/db?sslmode=disable",
                Some("p+w x"),
            ),
            (
                "postgres://h/db?user=u&password=p",
                "postgres://@h/db?user=u",
                Some("p"),
            ),
            (
                "postgres://u:old@h/db?password=p&password=q",
                "postgres://u@h/db",
                Some("p"),
            ),
            ("postgres://h/db?user=u", "postgres://h/db?user=u", None),
        ];
        for (given, url, password) in cases {
            let found = Address::parse(given);
            assert_eq!(found.url, url);
            assert_eq!(found.password.as_deref(), password);
        }
    }

    #[test]
    fn servers_are_where_juicefs_looks_for_them() {
        let cases: [(&str, &[&str]); 11] = [
            ("redis://h/1", &["h:6379"]),
            ("redis://u@h:7/1", &["h:7"]),
            ("redis://:p@h/1?x=a@b", &["h:6379"]),
            ("redis://[::1]:7/1", &["[::1]:7"]),
            ("redis://master,a,b:27/1", &["a:27", "b:27"]),
            ("mysql://u@(h:3)/db", &["h:3"]),
            ("mysql://u@unix(/run/m.sock)/db", &[]),
            ("postgres://u@h/db", &["h:5432"]),
            ("postgres://u@/db?host=h", &[]),
            ("tikv://a:1,b:2/p", &["a:1", "b:2"]),
            ("sqlite3:///x.db", &[]),
        ];
        for (url, want) in cases {
            let found = Address::parse(url).servers();
            let found = found.map(|(_, servers)| servers).unwrap_or_default();
            assert_eq!(found, want, "{url}");
        }
    }

    #[tokio::test]
    async fn nobody_there_is_told_at_once() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://:secret@{}/0", listener.local_addr().unwrap());
        assert_eq!(Address::parse(&url).probe().await, Ok(()));
        drop(listener);
        let error = Address::parse(&url).probe().await.unwrap_err();
        assert_eq!(error.reason, reason::VOLUME_UNREACHABLE);
        assert!(!error.message.contains("secret"), "{error}");
        let silent = Address::parse(&url).connect().await.unwrap_err();
        assert_eq!(silent.what, "Redis");
        assert!(!silent.why.is_empty());
    }

    #[tokio::test]
    async fn a_database_that_is_missing_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("meta.db");
        let metadata = Address::parse(&format!("sqlite3://{}", path.display()));
        let error = metadata.probe().await.unwrap_err();
        assert_eq!(error.reason, reason::VOLUME_UNREACHABLE);
        assert!(!path.exists());
    }
}
