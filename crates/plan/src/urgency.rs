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

impl Urgency {
    /// Of a status that has to be written at once when its essence changed, and now and
    /// then when only the rest of it did.
    pub(crate) fn by<Status: Default + PartialEq>(
        essence: impl Fn(&Status) -> Status,
        old: Option<&Status>,
        new: &Status,
    ) -> Urgency {
        let none = Status::default();
        let old = old.unwrap_or(&none);
        if old == new {
            Urgency::Never
        } else if essence(old) == essence(new) {
            Urgency::Eventually
        } else {
            Urgency::Now
        }
    }
}
