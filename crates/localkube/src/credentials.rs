//! Who may ask over a socket, and how he knows that it is we who answer: a
//! token, and a certificate authority of our own.

use std::fs;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// What makes a client trust the server, and the server the client.
///
/// The authority and the token are kept in files, so that a kubeconfig stays
/// good; the server's certificate is made anew each time.
pub struct Credentials {
    authority: String,
    token: String,
    names: Vec<String>,
    tls: Arc<rustls::ServerConfig>,
}

/// Credentials that can't be read or made.
#[derive(Debug, thiserror::Error)]
#[error("the credentials in {}: {cause}", .dir.display())]
pub struct Unusable {
    dir: PathBuf,
    #[source]
    cause: Cause,
}

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error("{0}: {1}")]
    File(&'static str, #[source] io::Error),
    #[error("no certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("no TLS: {0}")]
    Tls(#[from] rustls::Error),
}

const AUTHORITY: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const TOKEN: &str = "token";

impl Credentials {
    /// Loads the credentials in a directory, or makes them. The server answers
    /// to loopback addresses, to `localhost`, and to the other `names` (or
    /// addresses) given.
    ///
    /// # Errors
    /// When the files can't be read or written, or hold something else.
    pub fn in_dir(dir: &Path, names: &[String]) -> Result<Credentials, Unusable> {
        load(dir, names).map_err(|cause| Unusable {
            dir: dir.to_owned(),
            cause,
        })
    }

    /// The text of a kubeconfig for a server at a URL.
    pub fn kubeconfig(&self, server: &str) -> String {
        let authority = BASE64_STANDARD.encode(&self.authority);
        let token = &self.token;
        format!(
            "apiVersion: v1
kind: Config
clusters:
- name: local
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: local
  user:
    token: {token}
contexts:
- name: local
  context:
    cluster: local
    user: local
current-context: local
"
        )
    }

    /// Whether somebody knows the token. It takes as long for a wrong one.
    pub(crate) fn is_token(&self, given: &str) -> bool {
        subtle::ConstantTimeEq::ct_eq(given.as_bytes(), self.token.as_bytes()).into()
    }

    /// Whether a host, without its port, is one that the server answers to.
    pub(crate) fn is_host(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.');
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let address = bare.unwrap_or(host).parse::<IpAddr>().ok();
        host.eq_ignore_ascii_case("localhost")
            || address.is_some_and(|address| address.is_loopback())
            || self.names.iter().any(|name| {
                name.eq_ignore_ascii_case(host)
                    || address.is_some_and(|address| name.parse() == Ok(address))
            })
    }

    pub(crate) fn tls(&self) -> Arc<rustls::ServerConfig> {
        Arc::clone(&self.tls)
    }
}

/// The secrets stay out of logs.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Credentials");
        shown.field("names", &self.names).finish_non_exhaustive()
    }
}

fn load(dir: &Path, names: &[String]) -> Result<Credentials, Cause> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| Cause::File("the directory", error))?;
    let key = kept(dir, AUTHORITY_KEY, || {
        Ok(KeyPair::generate()?.serialize_pem())
    })?;
    let key = KeyPair::from_pem(&key)?;
    let authority = kept(dir, AUTHORITY, || Ok(authority()?.self_signed(&key)?.pem()))?;
    let token = kept(dir, TOKEN, || Ok(random_token()))?;
    let tls = server_config(&Issuer::new(self::authority()?, key), names)?;
    Ok(Credentials {
        authority,
        token,
        names: names.to_vec(),
        tls,
    })
}

/// What is in a file that only its owner may read; made when it is not there.
fn kept(
    dir: &Path,
    name: &'static str,
    make: impl FnOnce() -> Result<String, Cause>,
) -> Result<String, Cause> {
    let path = dir.join(name);
    let of_file = |error: io::Error| Cause::File(name, error);
    match fs::read_to_string(&path) {
        Ok(text) => {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(of_file)?;
            Ok(text.trim_end().to_owned())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = make()?;
            write(&path, &text).map_err(of_file)?;
            Ok(text.trim_end().to_owned())
        }
        Err(error) => Err(of_file(error)),
    }
}

/// Whole or not at all: one that was cut short would be read for ever.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let draft = path.with_extension("new");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, path)
}

/// 244 random bits.
fn random_token() -> String {
    let halves = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4()];
    let bytes: Vec<u8> = halves
        .into_iter()
        .flat_map(uuid::Uuid::into_bytes)
        .collect();
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// The authority. It is the same each time, so that its certificate, made once,
/// fits what is signed later.
fn authority() -> Result<CertificateParams, Cause> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = named("localkube authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn server_config(
    issuer: &Issuer<'_, KeyPair>,
    names: &[String],
) -> Result<Arc<rustls::ServerConfig>, Cause> {
    let own = [
        "localhost".to_owned(),
        Ipv4Addr::LOCALHOST.to_string(),
        Ipv6Addr::LOCALHOST.to_string(),
    ];
    let all: Vec<String> = own.into_iter().chain(names.iter().cloned()).collect();
    let mut params = CertificateParams::new(all)?;
    params.distinguished_name = named("localkube");
    params.use_authority_key_identifier_extension = true;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok(https::config(vec![certificate.der().clone()], key)?)
}
