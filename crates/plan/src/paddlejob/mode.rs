//! How a job trains and how its pods address each other.

use api::{MAX_REPLICAS, PaddleJobSpec, Role};

/// The kind of training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Parameter servers and workers.
    Ps,
    /// Workers that talk to each other.
    Collective,
    /// One worker.
    Single,
}

impl Mode {
    /// PS when `ps` is set; else Collective when there is more than one worker; else Single.
    pub fn of(spec: &PaddleJobSpec) -> Mode {
        match (&spec.ps, &spec.worker) {
            (Some(_), _) => Mode::Ps,
            (None, Some(worker)) if worker.replicas > 1 => Mode::Collective,
            _ => Mode::Single,
        }
    }

    /// As it is printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Mode::Ps => "PS",
            Mode::Collective => "Collective",
            Mode::Single => "Single",
        }
    }
}

/// How pods address each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intranet {
    /// By the IP of the pod, known when it has been placed.
    PodIp,
    /// By the name of a headless Service, known beforehand.
    Service,
    /// By the IP of the node.
    Host,
}

impl Intranet {
    /// The original took any word it did not know for PodIP, and so do we; an
    /// event tells the user.
    pub fn of(spec: &PaddleJobSpec) -> Intranet {
        match spec.intranet.as_deref() {
            Some("Service") => Intranet::Service,
            Some("Host") => Intranet::Host,
            _ => Intranet::PodIp,
        }
    }
}

/// Every pod that the spec asks for, PS first. A spec that asks for more than
/// a job may have is refused, and no room is made for them.
pub fn wanted(spec: &PaddleJobSpec) -> impl Iterator<Item = (Role, i32)> + '_ {
    Role::ALL.into_iter().flat_map(|role| {
        let ranks = 0..replicas(spec, role).min(MAX_REPLICAS);
        ranks.map(move |rank| (role, rank))
    })
}

/// How many pods of a role the spec asks for.
pub fn replicas(spec: &PaddleJobSpec, role: Role) -> i32 {
    spec.role(role).map_or(0, |role| role.replicas.max(0))
}

/// The role whose success makes the job complete. Parameter servers and heter trainers
/// never end by themselves, so they count only where there is nothing else.
pub fn finishing_role(spec: &PaddleJobSpec) -> Role {
    let finishes = |role: &Role| spec.role(*role).is_some();
    let roles = [Role::Worker, Role::Heter].into_iter();
    { roles }.find(finishes).unwrap_or(Role::Ps)
}
