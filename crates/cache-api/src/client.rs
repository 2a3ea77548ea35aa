//! Asks a cache runtime server. Every request has a connection of its own: most
//! are long polls, which would keep one to themselves anyway.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::{Cache, Job, MAX_WAIT_SECONDS, NewJob, Refusal, SERVER_NAME};

/// How long a server may take to shake hands.
const CONNECT: Duration = Duration::from_secs(3);
/// How long it may take to answer, beyond the time that it was asked to wait.
const ANSWER: Duration = Duration::from_secs(10);
/// The longest answer that is read.
const MAX_ANSWER: usize = 8 << 20;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// One cache runtime server, as one who knows its token sees it.
#[derive(Clone)]
pub struct Client {
    address: SocketAddr,
    tls: TlsConnector,
    authorization: HeaderValue,
}

/// Waits for a change: the answer comes as soon as the revision is not `since`
/// any more, or after `wait` (at most a minute) with what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// The revision that is known already.
    pub since: u64,
    /// How long to wait for another one.
    pub wait: Duration,
}

/// Why there is no answer, or not the one that was hoped for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody there, or somebody else, or the connection broke: it may well work
    /// the next time.
    #[error("the cache runtime server {address} can't be reached: {cause}")]
    Unreachable {
        /// Where it was looked for.
        address: SocketAddr,
        /// What happened.
        cause: String,
    },
    /// The server does not do what it was asked for.
    #[error("the cache runtime server {address} refuses: {message}")]
    Refused {
        /// The server.
        address: SocketAddr,
        /// The status code of its answer.
        status: u16,
        /// Its words.
        message: String,
    },
    /// The certificate or the token of the set can't be used.
    #[error("{0}")]
    Unusable(&'static str),
}

impl Error {
    /// Whether the server does not know the job.
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Error::Refused { status: 404, .. })
    }
}

impl Client {
    /// Somebody who trusts the certificate (in PEM) and no other.
    ///
    /// # Errors
    /// When certificate or token are none.
    pub fn new(address: SocketAddr, certificate: &str, token: &str) -> Result<Client, Error> {
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())
            .map_err(|_| Error::Unusable("the certificate is not one in PEM"))?;
        let mut trusted = rustls::RootCertStore::empty();
        trusted
            .add(certificate)
            .map_err(|_| Error::Unusable("the certificate is not valid"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| Error::Unusable("no TLS"))?
            .with_root_certificates(trusted)
            .with_no_client_auth();
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.trim()))
            .map_err(|_| Error::Unusable("the token has characters that no header may have"))?;
        authorization.set_sensitive(true);
        Ok(Client {
            address,
            tls: TlsConnector::from(Arc::new(config)),
            authorization,
        })
    }

    /// Starts a job, or gives it its credentials again. The same job posted again
    /// is harmless.
    ///
    /// # Errors
    /// See [`Error`]; another job under the same id is refused with 409.
    pub async fn post(&self, job: &NewJob) -> Result<Job, Error> {
        let request = self.request(Method::POST, "/v1/jobs", Some(job))?;
        self.ask(request, ANSWER).await
    }

    /// How far a job is.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::is_not_found`] tells that the server does not know
    /// the job.
    pub async fn job(&self, id: &str, poll: Option<Poll>) -> Result<Job, Error> {
        self.poll(&format!("/v1/jobs/{id}"), poll).await
    }

    /// All jobs that the server knows, in order of arrival.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn jobs(&self) -> Result<Vec<Job>, Error> {
        self.poll("/v1/jobs", None).await
    }

    /// Cancels a job that has not ended; it ends within seconds. The answer is the
    /// job, or none when the server does not know it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn cancel(&self, id: &str) -> Result<Option<Job>, Error> {
        let request = self.request(Method::DELETE, &format!("/v1/jobs/{id}"), None::<&()>)?;
        match self.answer(request, ANSWER).await {
            Ok((_, body)) => Ok(Some(self.read(&body)?)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// How much there is, and how much of it is cached.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn cache(&self, poll: Option<Poll>) -> Result<Cache, Error> {
        self.poll("/v1/cache", poll).await
    }

    async fn poll<T: DeserializeOwned>(&self, path: &str, poll: Option<Poll>) -> Result<T, Error> {
        let wait = poll.map_or(0, |poll| poll.wait.as_secs().min(MAX_WAIT_SECONDS));
        let path = match poll {
            Some(Poll { since, .. }) => format!("{path}?since={since}&wait={wait}"),
            None => path.to_owned(),
        };
        let request = self.request(Method::GET, &path, None::<&()>)?;
        self.ask(request, ANSWER + Duration::from_secs(wait)).await
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Request<Full<Bytes>>, Error> {
        let body = body.map(serde_json::to_vec).transpose();
        let body = body.map_err(|_| Error::Unusable("the job can't be written as JSON"))?;
        Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, SERVER_NAME)
            .header(AUTHORIZATION, self.authorization.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body.unwrap_or_default()))
            .map_err(|_| Error::Unusable("the id of the job has characters that no id may have"))
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        request: Request<Full<Bytes>>,
        patience: Duration,
    ) -> Result<T, Error> {
        let (_, body) = self.answer(request, patience).await?;
        self.read(&body)
    }

    /// What the server answers when it does what it was asked for.
    async fn answer(
        &self,
        request: Request<Full<Bytes>>,
        patience: Duration,
    ) -> Result<(StatusCode, Bytes), Error> {
        let exchange = async {
            let response = self.send(request).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER).collect();
            Ok::<_, Cause>((status, body.await?.to_bytes()))
        };
        let (status, body) = match tokio::time::timeout(patience, exchange).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(cause)) => return Err(self.unreachable(&cause)),
            Err(_) => return Err(self.unreachable(&"no answer in time")),
        };
        if status.is_success() {
            return Ok((status, body));
        }
        let refusal = serde_json::from_slice::<Refusal>(&body);
        Err(Error::Refused {
            address: self.address,
            status: status.as_u16(),
            message: refusal.map_or_else(|_| status.to_string(), |refusal| refusal.message),
        })
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Cause> {
        let connect = async {
            let stream = TcpStream::connect(self.address).await?;
            stream.set_nodelay(true)?;
            let name = ServerName::try_from(SERVER_NAME).map_err(std::io::Error::other)?;
            self.tls.connect(name, stream).await
        };
        let stream = tokio::time::timeout(CONNECT, connect)
            .await
            .map_err(|_| "no connection in time")??;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the sender, or when the answer has been read.
        tokio::spawn(connection);
        Ok(sender.send_request(request).await?)
    }

    fn read<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, Error> {
        serde_json::from_slice(body)
            .map_err(|error| self.unreachable(&format!("its answer is not understood: {error}")))
    }

    fn unreachable(&self, cause: &dyn fmt::Display) -> Error {
        Error::Unreachable {
            address: self.address,
            cause: cause.to_string(),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Client");
        shown
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::Identity;

    #[test]
    fn the_token_is_not_shown() {
        let identity = Identity::generate().unwrap();
        let address = ([127, 0, 0, 1], 1).into();
        let client = Client::new(address, &identity.certificate, &identity.token).unwrap();
        assert!(!format!("{client:?}").contains(&identity.token));
    }

    #[test]
    fn a_bad_certificate_or_token_is_told() {
        let identity = Identity::generate().unwrap();
        let address = ([127, 0, 0, 1], 1).into();
        for (certificate, token) in [("", "t"), (&*identity.certificate, "a\nb")] {
            let error = Client::new(address, certificate, token).unwrap_err();
            assert!(matches!(error, Error::Unusable(_)), "{error}");
        }
    }

    #[tokio::test]
    async fn nobody_there_is_unreachable() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let identity = Identity::generate().unwrap();
        let client = Client::new(address, &identity.certificate, &identity.token).unwrap();
        let error = client.jobs().await.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    }
}
