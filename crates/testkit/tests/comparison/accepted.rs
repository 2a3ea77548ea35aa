//! What may differ, and why.

/// A difference that we live with.
#[derive(Debug)]
pub struct Accepted {
    /// Its name in `docs/en/localkube.md` and `docs/zh_CN/localkube.md`, which tell users.
    pub about: &'static str,
    /// The names of the requests; `*` at the end stands for any rest.
    pub request: &'static str,
    /// Where in the answer; `*` stands for any one step, or at the end for any rest.
    pub place: &'static str,
}

const fn accept(about: &'static str, request: &'static str, place: &'static str) -> Accepted {
    Accepted {
        about,
        request,
        place,
    }
}

pub const ALL: &[Accepted] = &[accept("x", "x", "x")];
