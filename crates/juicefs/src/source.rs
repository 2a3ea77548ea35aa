//! Where data comes from.

use cache_api::{Credentials, reason};

use crate::Error;

/// A folder to copy from: a URI without keys that ends in `/`. Without that,
/// `imagenet` would be `imagenet2` as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    uri: String,
    keys: Option<(&'static str, &'static str)>,
}

/// Schemes that take their keys by the environment, and the variables.
const KEYED: [(&str, &str, &str); 8] = [
    ("s3", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    ("minio", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY"),
    ("bos", "BDCLOUD_ACCESS_KEY", "BDCLOUD_SECRET_KEY"),
    (
        "oss",
        "ALICLOUD_ACCESS_KEY_ID",
        "ALICLOUD_ACCESS_KEY_SECRET",
    ),
    ("cos", "COS_SECRETID", "COS_SECRETKEY"),
    ("obs", "HWCLOUD_ACCESS_KEY", "HWCLOUD_SECRET_KEY"),
    ("eos", "EOS_ACCESS_KEY", "EOS_SECRET_KEY"),
    ("scw", "SCW_ACCESS_KEY", "SCW_SECRET_KEY"),
];
/// Schemes that need none, or other variables.
const OTHERS: [&str; 4] = ["file", "hdfs", "gs", "wasb"];
const HADOOP_USER: &str = "HADOOP_USER_NAME";

impl Source {
    /// Reads a URI.
    ///
    /// # Errors
    /// When it holds keys, or juicefs could take them nowhere else, or it is not
    /// a URI.
    pub fn parse(uri: &str) -> Result<Source, Error> {
        let bad = |message: String| Err(Error::new(reason::BAD_SOURCE, message));
        let uri = uri.trim();
        let Some((scheme, rest)) = uri.split_once("://") else {
            return bad(format!(
                "the source {:?} is no URI; s3://bucket.endpoint/folder would be one",
                shown(uri)
            ));
        };
        let authority = rest.split('/').next().unwrap_or_default();
        // A secret key with a `/` in it ends what looks like the authority: then its
        // beginning is no port.
        let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
        let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
        if authority.contains('@') || (!is_port && rest.contains('@')) {
            return bad(
                "the source has keys in its URI; put them into the Secret of \
                        source.secretRef"
                    .to_owned(),
            );
        }
        if uri.chars().any(char::is_control) {
            return bad(format!("the source {uri:?} has control characters in it"));
        }
        let keyed = KEYED.iter().find(|(known, ..)| *known == scheme);
        if keyed.is_none() && !OTHERS.contains(&scheme) {
            let known: Vec<&str> = KEYED.iter().map(|(known, ..)| *known).collect();
            return bad(format!(
                "a source of scheme {scheme:?} can't be used: juicefs does not know it, or takes \
                 its keys only in the URI; use its S3 endpoint (s3://), or one of {}, {}",
                known.join(", "),
                OTHERS.join(", ")
            ));
        }
        if authority.is_empty() && (scheme != "file" || !rest.starts_with('/')) {
            return bad(format!("the source {uri:?} names no place behind ://"));
        }
        if scheme == "file" && !authority.is_empty() {
            return bad(format!(
                "the source {uri:?} is no file on this machine; file:///folder would be one"
            ));
        }
        let end = if uri.ends_with('/') { "" } else { "/" };
        Ok(Source {
            uri: format!("{uri}{end}"),
            keys: keyed.map(|(_, access, secret)| (*access, *secret)),
        })
    }

    /// The URI, with its `/` at the end.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The variables that hold the keys.
    pub(crate) fn environment<'a>(
        &self,
        credentials: &'a Credentials,
    ) -> Vec<(&'static str, &'a str)> {
        let access = credentials.access_key.as_deref();
        let secret = credentials.secret_key.as_deref();
        let pairs = match self.keys {
            Some((access_name, secret_name)) => [(access_name, access), (secret_name, secret)],
            None => [(HADOOP_USER, access), ("", None)],
        };
        let given = pairs
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        given.collect()
    }
}

/// What may be shown of something that is not even a URI.
fn shown(text: &str) -> String {
    text.rsplit_once('@')
        .map_or(text, |(_, behind)| behind)
        .chars()
        .take(100)
        .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_folder_ends_in_a_slash() {
        for uri in ["s3://b.host/p", "s3://b.host/p/", " s3://b.host/p "] {
            assert_eq!(Source::parse(uri).unwrap().uri(), "s3://b.host/p/");
        }
        let at = "minio://127.0.0.1:9000/b/a@b/";
        assert_eq!(Source::parse(at).unwrap().uri(), at);
        assert_eq!(Source::parse("file:///a b").unwrap().uri(), "file:///a b/");
    }

    #[test]
    fn what_can_not_be_a_source_is_told() {
        let cases = [
            ("", "no URI"),
            ("AK:SK@bucket", "no URI"),
            ("imagenet", "no URI"),
            ("foo://bucket/", "S3 endpoint"),
            ("ks3://bucket/", "S3 endpoint"),
            ("s3://AK:SK@bucket/", "source.secretRef"),
            ("s3://AK:SK/x+y@bucket/", "source.secretRef"),
            ("s3:///x", "names no place"),
            ("file://host/x", "no file on this machine"),
            ("s3://b/\nx", "control characters"),
        ];
        for (uri, want) in cases {
            let error = Source::parse(uri).unwrap_err();
            assert_eq!(error.reason, reason::BAD_SOURCE);
            assert!(error.message.contains(want), "{uri}: {error}");
            assert!(!error.message.contains("SK"), "{error}");
        }
    }

    #[test]
    fn keys_go_where_the_scheme_looks_for_them() {
        let credentials = Credentials {
            access_key: Some("a".to_owned()),
            secret_key: Some("s".to_owned()),
            ..Credentials::default()
        };
        let of = |uri: &str| Source::parse(uri).unwrap().environment(&credentials);
        assert_eq!(
            of("bos://b.bj.bcebos.com/x"),
            [("BDCLOUD_ACCESS_KEY", "a"), ("BDCLOUD_SECRET_KEY", "s")]
        );
        assert_eq!(of("hdfs://h:1/x"), [("HADOOP_USER_NAME", "a")]);
    }
}
