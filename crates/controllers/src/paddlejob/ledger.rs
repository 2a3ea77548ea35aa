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
    etcd: HashMap<String, Told>,
}

/// What etcd was told last of a job, and what would take away all that it knows of it.
#[derive(Debug)]
struct Told {
    last: EtcdWrite,
    removal: Option<EtcdWrite>,
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
    pub(super) fn told(&self, uid: &str, last: EtcdWrite, removal: Option<EtcdWrite>) {
        self.lock()
            .etcd
            .insert(uid.to_owned(), Told { last, removal });
    }

    /// What etcd was told last.
    pub(super) fn last_told(&self, uid: &str) -> Option<EtcdWrite> {
        self.lock().etcd.get(uid).map(|told| told.last.clone())
    }

    /// Forgets all jobs but these. Of those that it forgets it tells what has to be taken away
    /// from etcd, by their uids.
    pub(super) fn keep(&self, is_kept: impl Fn(&str) -> bool) -> Vec<(String, EtcdWrite)> {
        let mut inner = self.lock();
        inner.ports.retain(|uid, _| is_kept(uid));
        let gone = inner.etcd.extract_if(|uid, _| !is_kept(uid));
        let gone = gone.filter_map(|(uid, told)| {
            let removal = told.removal.filter(|removal| *removal != told.last);
            Some((uid, removal?))
        });
        gone.collect()
    }
}
