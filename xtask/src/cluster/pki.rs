//! Certificates and kubeconfigs of one cluster. They live as long as its state.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddrV4;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use super::nodes;
use super::paths::State;

/// Client, common name and organisation: Kubernetes reads them as user and group.
/// kwok and Volcano get names of their own so that the audit log can tell them from a person.
const CLIENTS: [(&str, &str, Option<&str>); 7] = [
    ("admin", "admin", Some("system:masters")),
    ("controller-manager", "system:kube-controller-manager", None),
    ("scheduler", "system:kube-scheduler", None),
    ("kwok", "kwok", Some("system:masters")),
    ("kube-proxy", "system:kube-proxy", None),
    (
        "vc-controller-manager",
        "vc-controller-manager",
        Some("system:masters"),
    ),
    ("vc-scheduler", "vc-scheduler", Some("system:masters")),
];

/// The names under which kube-apiserver is called; 10.96.0.1 is the first address
/// of its service range.
const SERVER_NAMES: [&str; 4] = [
    "localhost",
    "10.96.0.1",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// Makes all keys and certificates for a server at this address, unless the state has them.
pub fn ensure(state: &State, server: SocketAddrV4) -> Result<()> {
    let done = state.file("pki");
    if done.exists() {
        return Ok(());
    }
    // Renamed when complete: an interrupted run leaves no half set behind.
    let dir = state.file("pki.new");
    fs::create_dir_all(&dir)?;
    write_all(&dir, server).context("cannot make certificates")?;
    fs::rename(&dir, &done)?;
    Ok(())
}

fn write_all(dir: &Path, address: SocketAddrV4) -> Result<()> {
    let mut params = params("paddle-operator-test-ca", None, &[])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    private(&dir.join("ca.key"), &ca.key().serialize_pem())?;
    fs::write(dir.join("ca.crt"), ca.pem())?;

    let sign = |name: &str, params: CertificateParams| -> Result<()> {
        let key = KeyPair::generate()?;
        fs::write(
            dir.join(format!("{name}.crt")),
            params.signed_by(&key, &ca)?.pem(),
        )?;
        private(&dir.join(format!("{name}.key")), &key.serialize_pem())
    };
    let address = address.ip().to_string();
    let names: Vec<&str> = SERVER_NAMES.into_iter().chain([&*address]).collect();
    let mut server = self::params("kube-apiserver", None, &names)?;
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    sign("apiserver", server)?;
    for (name, user, group) in clients() {
        let mut client = self::params(&user, group, &[])?;
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        sign(&name, client)?;
    }

    let accounts = KeyPair::generate()?;
    private(&dir.join("sa.key"), &accounts.serialize_pem())?;
    fs::write(dir.join("sa.pub"), accounts.public_key_pem())?;
    Ok(())
}

/// All that get a certificate. Nodes that there may be one day are among them: the cluster
/// can grow, and a key takes less than a millisecond.
fn clients() -> impl Iterator<Item = (String, String, Option<&'static str>)> {
    let fixed = CLIENTS
        .iter()
        .map(|&(name, user, group)| (name.to_owned(), user.to_owned(), group));
    let nodes = (0..nodes::MAX).map(nodes::node_name).map(|node| {
        let user = format!("system:node:{node}");
        (node, user, Some("system:nodes"))
    });
    fixed.chain(nodes)
}

fn params(name: &str, organisation: Option<&str>, alt_names: &[&str]) -> Result<CertificateParams> {
    let alt_names: Vec<String> = alt_names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(alt_names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(organisation) = organisation {
        params
            .distinguished_name
            .push(DnType::OrganizationName, organisation);
    }
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

fn private(path: &Path, text: &str) -> Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    Ok(file.write_all(text.as_bytes())?)
}

/// Writes a kubeconfig for each client, for a server at this address.
pub fn write_kubeconfigs(state: &State, server: SocketAddrV4) -> Result<()> {
    for (user, ..) in clients() {
        fs::write(state.kubeconfig(&user), kubeconfig(state, &user, server))?;
    }
    Ok(())
}

fn kubeconfig(state: &State, user: &str, server: SocketAddrV4) -> String {
    // A JSON string is a YAML string, whatever the path contains.
    let pki = |file: &str| serde_json::Value::from(state.pki(file).to_string_lossy()).to_string();
    let (ca, certificate, key) = (
        pki("ca.crt"),
        pki(&format!("{user}.crt")),
        pki(&format!("{user}.key")),
    );
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: test
  cluster:
    server: https://{server}
    certificate-authority: {ca}
users:
- name: {user}
  user:
    client-certificate: {certificate}
    client-key: {key}
contexts:
- name: test
  context:
    cluster: test
    user: {user}
current-context: test
"
    )
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::cluster::paths::Cache;

    const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 2345);

    #[test]
    fn a_kubeconfig_names_server_and_files() -> Result<()> {
        let state = Cache::at(Path::new("/odd \"dir")).cluster("a");
        let text = kubeconfig(&state, "kwok", SERVER);
        let value: serde_json::Value = serde_saphyr::from_str(&text)?;
        let at = |pointer: &str| value.pointer(pointer).and_then(|found| found.as_str());
        assert_eq!(
            at("/clusters/0/cluster/server"),
            Some("https://127.0.0.1:2345")
        );
        assert_eq!(
            at("/users/0/user/client-key"),
            Some("/odd \"dir/cluster/a/pki/kwok.key")
        );
        assert_eq!(at("/contexts/0/context/user"), Some("kwok"));
        Ok(())
    }

    #[test]
    fn keys_are_private_and_complete() -> Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = std::env::temp_dir().join(format!("xtask-pki-{}", std::process::id()));
        let state = Cache::at(&dir).cluster("a");
        fs::create_dir_all(state.dir())?;
        ensure(&state, SERVER)?;
        for name in [
            "ca",
            "apiserver",
            "admin",
            "controller-manager",
            "scheduler",
            "kwok",
            "vc-scheduler",
            "node-0",
            "sa",
        ] {
            let mode = fs::metadata(state.pki(&format!("{name}.key")))?
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        // A second call must keep what clients already trust.
        let before = fs::read(state.pki("ca.crt"))?;
        ensure(&state, SERVER)?;
        assert_eq!(before, fs::read(state.pki("ca.crt"))?);
        fs::remove_dir_all(&dir)?;
        Ok(())
    }
}
