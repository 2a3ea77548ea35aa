//! Sends the same requests to localkube and to a real kube-apiserver, and compares
//! the answers. What differs must be in the list of what may, and what is in that
//! list must differ; users read it in `docs/en/localkube.md`.

mod accepted;
#[cfg(feature = "cluster")]
#[path = "../apis/mod.rs"]
mod apis;
#[cfg(feature = "cluster")]
mod compare;
#[cfg(feature = "cluster")]
mod difference;
#[cfg(feature = "cluster")]
mod request;
#[cfg(feature = "cluster")]
mod requests;
#[cfg(feature = "cluster")]
mod side;
