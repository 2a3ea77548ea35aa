//! What the tests of Paddle Operator share: builders, a puppet kubelet, and the
//! conformance scenarios.
//!
//! A scenario knows nothing but the Kubernetes API. It runs the real controller
//! against it, plays the user and the kubelets through it, and judges by what
//! the API shows. So the same scenarios hold on kube-apiserver and on an
//! embedded one.

pub mod accounts;
pub mod builders;
mod env;
pub mod go;
mod job;
mod manager;
pub mod puppet;
mod rules;
pub mod scenarios;
pub mod wait;
mod world;

pub use env::Env;
pub use job::Job;
pub use manager::Request;
pub use puppet::{Kubelet, Stage};
pub use world::{History, Seen, World};
