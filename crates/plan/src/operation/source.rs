//! Where data may come from.

use percent_encoding::percent_decode_str;

use super::paths::is_plain_absolute;

/// Schemes whose keys JuiceFS takes from its environment.
const BY_ENVIRONMENT: [&str; 9] = [
    "bos", "cos", "eos", "hdfs", "minio", "obs", "oss", "s3", "scw",
];

/// Schemes whose keys JuiceFS takes only in the URL, where every list of
/// processes shows them.
const BY_URL: [&str; 24] = [
    "b2", "ceph", "cifs", "etcd", "gluster", "gs", "ibmcos", "jss", "ks3", "mss", "mysql", "nfs",
    "nos", "oos", "postgres", "qingstor", "qiniu", "redis", "scs", "sftp", "space", "speedy",
    "swift", "tikv",
];

/// The same, for the rest that does not speak S3 at all or under another name.
const BY_URL_TOO: [&str; 6] = ["tos", "ufile", "upyun", "wasabi", "wasb", "webdav"];

/// A folder that data is copied from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its address, with `/` at its end.
    pub uri: String,
    /// Its path, if it is a folder of the machine.
    pub local_path: Option<String>,
}

/// The folder that a sqlite database lies in.
pub fn sqlite_folder(metaurl: &str) -> Option<String> {
    let path = metaurl.strip_prefix("sqlite3://")?;
    let path = path.split('?').next().unwrap_or_default();
    Some(match path.rsplit_once('/') {
        Some(("", _)) => "/".to_owned(),
        Some((folder, _)) => folder.to_owned(),
        // Wherever the program happens to be started.
        None => String::new(),
    })
}

/// Reads an address, or says what is wrong with it: `field` begins the sentence.
/// An address that holds a key is never repeated.
pub fn read(field: &str, uri: &str, allow_local_paths: bool) -> Result<Source, String> {
    let shape = "NAME://BUCKET[.ENDPOINT][/PREFIX]";
    let or_folder = if allow_local_paths {
        ", or file:///FOLDER for a folder of the machine"
    } else {
        ""
    };
    let Some((scheme, rest)) = uri.split_once("://") else {
        // Without a scheme it can't be told what of it is a key.
        return Err(format!(
            "{field} has no scheme; write it as {shape}{or_folder}"
        ));
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // A key may itself hold a slash: AKIA:a/b@bucket.
    let after_colon = authority.rsplit_once(':').map(|(_, port)| port);
    let odd_port = after_colon.is_some_and(|port| !port.bytes().all(|b| b.is_ascii_digit()));
    if authority.contains('@') || odd_port {
        return Err(format!(
            "{field} holds a user name or key before '@', where everybody can read it; move it to a Secret with access-key and secret-key, and name that in secretRef"
        ));
    }
    if uri.contains(char::is_control) || uri.contains(char::is_whitespace) {
        return Err(format!(
            "{field} is {uri:?}, which holds a space or a control character; write a space as %20"
        ));
    }
    if scheme == "file" {
        return local(field, uri, rest, allow_local_paths);
    }
    if BY_URL.contains(&scheme) || BY_URL_TOO.contains(&scheme) {
        return Err(format!(
            "{field} is {uri:?}: {scheme} takes its keys only in the URL, where every list of processes shows them; use its S3 endpoint (s3://BUCKET.ENDPOINT/PREFIX)"
        ));
    }
    if !BY_ENVIRONMENT.contains(&scheme) {
        let known = BY_ENVIRONMENT.join(", ");
        return Err(format!(
            "{field} is {uri:?}, and there is no scheme {scheme:?}; use one of {known}{or_folder}"
        ));
    }
    if authority.is_empty() {
        return Err(format!(
            "{field} is {uri:?}, which names no bucket; write it as {shape}{or_folder}"
        ));
    }
    Ok(Source {
        uri: folder(uri),
        local_path: None,
    })
}

fn local(field: &str, uri: &str, path: &str, allow_local_paths: bool) -> Result<Source, String> {
    if !allow_local_paths {
        return Err(format!(
            "{field} is {uri:?}, a folder of a machine, which this operator was not started to allow (--allow-local-paths)"
        ));
    }
    // As JuiceFS reads it.
    let decoded = percent_decode_str(path).decode_utf8().unwrap_or_default();
    let decoded = decoded.trim_end_matches('/');
    if decoded.is_empty() || !is_plain_absolute(decoded) {
        return Err(format!(
            "{field} is {uri:?}; the path of a folder is absolute, without '..', and not the root: file:///data/images"
        ));
    }
    Ok(Source {
        uri: folder(uri),
        local_path: Some(decoded.to_owned()),
    })
}

/// Without the slash, `imagenet` would also copy `imagenet2`.
fn folder(uri: &str) -> String {
    format!("{}/", uri.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(uri: &str, local: bool) -> String {
        read("spec.source.uri", uri, local)
            .err()
            .unwrap_or_default()
    }

    #[test]
    fn a_source_is_a_folder() {
        for (uri, folder) in [
            (
                "bos://b.hkg.bcebos.com/imagenet/demo",
                "bos://b.hkg.bcebos.com/imagenet/demo/",
            ),
            ("s3://bucket/", "s3://bucket/"),
            (
                "minio://127.0.0.1:9000/bucket/prefix",
                "minio://127.0.0.1:9000/bucket/prefix/",
            ),
        ] {
            let source = read("uri", uri, false);
            assert_eq!(source.map(|source| source.uri).as_deref(), Ok(folder));
        }
    }

    #[test]
    fn what_can_not_work_is_refused_with_what_can() {
        for (uri, says) in [
            ("imagenet/demo", "no scheme"),
            ("ks3://bucket/x", "S3 endpoint"),
            ("wasabi://bucket/x", "S3 endpoint"),
            ("gopher://bucket/x", "no scheme \"gopher\""),
            ("s3:///x", "no bucket"),
            ("s3://bucket/a b", "space"),
            ("file:///data", "--allow-local-paths"),
        ] {
            assert!(
                refused(uri, false).contains(says),
                "{}",
                refused(uri, false)
            );
        }
        for uri in [
            "file://data",
            "file:///",
            "file://",
            "file:///a/../b",
            "file:///a/%2e%2E/b",
            "file:///%2F",
            "file:///a%0Ab",
            "file:///a%ff",
        ] {
            assert!(refused(uri, true).contains("absolute"), "{uri}");
        }
    }

    #[test]
    fn a_key_in_the_address_is_refused_and_not_repeated() {
        for uri in [
            "s3://AKIA:sesame@bucket/x",
            "ks3://AKIA:sesame@bucket/x",
            "AKIA:sesame@b",
            "s3://AKIA:open/sesame@bucket/x",
        ] {
            let why = refused(uri, true);
            assert!(!why.is_empty() && !why.contains("sesame"), "{why}");
        }
    }

    #[test]
    fn local_folders_are_found() {
        for (uri, folder, path) in [
            (
                "file:///data/images",
                "file:///data/images/",
                "/data/images",
            ),
            ("file:///my%20data//", "file:///my%20data/", "/my data"),
        ] {
            let want = Source {
                uri: folder.to_owned(),
                local_path: Some(path.to_owned()),
            };
            assert_eq!(read("uri", uri, true), Ok(want));
        }
        assert_eq!(
            sqlite_folder("sqlite3:///d/meta.db?x=1").as_deref(),
            Some("/d")
        );
        assert_eq!(sqlite_folder("sqlite3://meta.db").as_deref(), Some(""));
        assert_eq!(sqlite_folder("redis://h/0"), None);
    }
}
