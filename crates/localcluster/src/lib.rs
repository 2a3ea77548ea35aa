//! What stands behind a Kubernetes API on one machine.
//!
//! `control` is what a control plane does beside the API: it places pods, keeps
//! StatefulSets, binds volumes, collects garbage and ends namespaces. `node` is the
//! kubelet and the container runtime in one: it runs pods as groups of processes.
//! Both talk to the API as their models do, and to nothing else of it.

pub mod control;
mod events;
pub mod node;
mod process;
pub mod rootless;
pub mod shim;
mod tools;
