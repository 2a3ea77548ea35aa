//! How soon a status is written.

/// How soon a status has to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Nothing changed.
    Never,
    /// Counts, figures or words: now and then.
    Eventually,
    /// A step on the way that the next one may overtake: in a moment.
    Soon,
    /// The phase, a condition, or something that others wait for.
    Now,
}
