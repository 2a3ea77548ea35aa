//! The kubelet and the container runtime in one.
