//! What this process did for jobs that no watch shows: ports that it has just given away,
//! and what it told etcd. Losing it costs a request, never correctness.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plan::paddlejob::{EtcdWrite, PortHolder};

/// By the uids of jobs.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    ports: HashMap<String, u16>,
    etcd: HashMap<String, EtcdWrite>,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives ports to a job, unless another has just got some of them.
    pub(super) fn give_ports(&self, uid: &str, port: u16) -> bool {
        let mut inner = self.lock();
        let mut others = inner.ports.iter().filter(|(other, _)| *other != uid);
        if others.any(|(_, taken)| PortHolder::meet(*taken, port)) {
            return false;
        }
        inner.ports.insert(uid.to_owned(), port);
        true
    }

    /// The ports that jobs were given, of those that need them still.
    pub(super) fn ports(&self, needs: impl Fn(&str) -> bool) -> HashMap<String, u16> {
        let mut inner = self.lock();
        inner.ports.retain(|uid, _| needs(uid));
        inner.ports.clone()
    }

    /// Notes what etcd was told.
    pub(super) fn told(&self, uid: &str, write: EtcdWrite) {
        self.lock().etcd.insert(uid.to_owned(), write);
    }

    /// What etcd was told last.
    pub(super) fn last_told(&self, uid: &str) -> Option<EtcdWrite> {
        self.lock().etcd.get(uid).cloned()
    }

    /// Forgets all jobs but these.
    pub(super) fn keep(&self, is_kept: impl Fn(&str) -> bool) {
        let mut inner = self.lock();
        inner.ports.retain(|uid, _| is_kept(uid));
        inner.etcd.retain(|uid, _| is_kept(uid));
    }
}
