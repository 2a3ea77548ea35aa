//! What a SampleSet's cache runtime servers show and ask for.

use std::fmt;

use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, KeyPair};

use crate::SERVER_NAME;

/// The key, certificate and token that the servers of one SampleSet share. They
/// are made once and kept in a Secret; `Debug` shows none of them.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate in PEM, signed by its own key. It is pinned by clients.
    pub certificate: String,
    /// The private key in PEM.
    pub key: String,
    /// What a client must know to be let in.
    pub token: String,
}

impl Identity {
    /// Makes a new one.
    ///
    /// # Errors
    /// When the machine has no random numbers to give.
    pub fn generate() -> Result<Identity, rcgen::Error> {
        let mut params = CertificateParams::new(vec![SERVER_NAME.to_owned()])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Ok(Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            token: token(),
        })
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(hidden)")
    }
}

/// 244 random bits.
fn token() -> String {
    let half = || uuid::Uuid::new_v4().simple();
    format!("{}{}", half(), half())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_alike_and_none_is_shown() {
        let (one, other) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        assert_ne!(one.token, other.token);
        assert_ne!(one.key, other.key);
        assert_eq!(one.token.len(), 64);
        let shown = format!("{one:?}");
        assert!(!shown.contains(&one.token) && !shown.contains("PRIVATE"));
    }
}
