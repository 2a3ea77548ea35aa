//! Amounts of things, such as `500m` or `1Gi`, and their one right form.

use std::fmt;

use serde_json::Value;

/// An amount, in billionths, and how it likes to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    nano: i128,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Binary,
    Decimal,
    Exponent,
}

const NANO: i128 = 1_000_000_000;
/// Larger amounts are of no use to anybody: 2⁶³ of them are more than there are.
const MAX: i128 = (i64::MAX as i128) * NANO;
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
const SMALL: [(&str, i128); 3] = [("n", 1), ("u", 1_000), ("m", 1_000_000)];

pub(crate) const RULE: &str = "quantities must match the regular expression \
     '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

impl Quantity {
    /// Reads an amount; a number counts as its text.
    pub(crate) fn read(value: &Value) -> Option<Quantity> {
        match value {
            Value::String(text) => Quantity::parse(text),
            Value::Number(number) => Quantity::parse(&number.to_string()),
            _ => None,
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Quantity> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, text.get(1..)?),
            b'+' => (false, text.get(1..)?),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (digits, suffix) = rest.split_at(end.unwrap_or(rest.len()));
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        if digits.len() > 40 || part.contains('.') || (whole.is_empty() && part.is_empty()) {
            return None;
        }
        let (numerator, denominator, form) = scale(suffix)?;
        let mut amount = number(whole)?.checked_mul(NANO)?.checked_mul(numerator)?;
        if !part.is_empty() {
            let scale = 10_i128.checked_pow(u32::try_from(part.len()).ok()?)?;
            let part = number(part)?.checked_mul(NANO)?.checked_mul(numerator)?;
            // What is smaller than can be told is rounded up.
            amount = amount.checked_add(part.div_euclid(scale) + i128::from(part % scale != 0))?;
        }
        let nano = amount.div_euclid(denominator) + i128::from(amount % denominator != 0);
        let nano = nano.min(MAX);
        let nano = if negative { -nano } else { nano };
        Some(Quantity { nano, form })
    }

    pub(crate) fn is_negative(self) -> bool {
        self.nano < 0
    }

    pub(crate) fn is_whole(self) -> bool {
        self.nano % NANO == 0
    }

    /// For comparisons.
    pub(crate) fn nano(self) -> i128 {
        self.nano
    }
}

fn number(digits: &str) -> Option<i128> {
    match digits {
        "" => Some(0),
        digits => digits.parse().ok(),
    }
}

/// What a suffix multiplies by, and divides by.
fn scale(suffix: &str) -> Option<(i128, i128, Form)> {
    if suffix.is_empty() {
        return Some((1, 1, Form::Decimal));
    }
    if let Some(at) = BINARY.iter().position(|known| *known == suffix) {
        return Some((1 << (10 * (at + 1)), 1, Form::Binary));
    }
    if let Some(at) = DECIMAL.iter().position(|known| *known == suffix) {
        let power = u32::try_from(at).ok()? + 1;
        return Some((1000_i128.pow(power), 1, Form::Decimal));
    }
    if let Some((_, parts)) = SMALL.iter().find(|(known, _)| *known == suffix) {
        return Some((1, NANO / parts, Form::Decimal));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
    Some(match exponent {
        0.. => (power, 1, Form::Exponent),
        _ => (1, power, Form::Exponent),
    })
}

/// The one right form: the largest unit without a fraction.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return write!(f, "0");
        }
        let is_binary = self.form == Form::Binary
            && self.is_whole()
            && self.nano.unsigned_abs() >= 1024 * NANO.unsigned_abs();
        if is_binary {
            let mut amount = self.nano / NANO;
            let mut unit = "";
            for larger in BINARY {
                if amount % 1024 != 0 {
                    break;
                }
                (amount, unit) = (amount / 1024, larger);
            }
            return write!(f, "{amount}{unit}");
        }
        let (mut amount, mut power) = (self.nano, 0);
        while amount % 1000 == 0 && power < 9 {
            (amount, power) = (amount / 1000, power + 1);
        }
        // The units begin at billionths.
        let exponent = 3 * (power - 3);
        match (self.form, exponent) {
            (_, 0) => write!(f, "{amount}"),
            (Form::Exponent, exponent) => write!(f, "{amount}e{exponent}"),
            _ => {
                let units = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
                let unit = usize::try_from(power).ok().and_then(|at| units.get(at));
                write!(f, "{amount}{}", unit.unwrap_or(&""))
            }
        }
    }
}

/// Where amounts are in a pod.
const OF_PODS: [&str; 11] = [
    "containers.*.resources.*.*",
    "initContainers.*.resources.*.*",
    "ephemeralContainers.*.resources.*.*",
    "containers.*.env.*.valueFrom.resourceFieldRef.divisor",
    "initContainers.*.env.*.valueFrom.resourceFieldRef.divisor",
    "overhead.*",
    "resources.*.*",
    "volumes.*.emptyDir.sizeLimit",
    "volumes.*.ephemeral.volumeClaimTemplate.spec.resources.*.*",
    "volumes.*.downwardAPI.items.*.resourceFieldRef.divisor",
    "volumes.*.projected.sources.*.downwardAPI.items.*.resourceFieldRef.divisor",
];

/// Where amounts are in objects of a kind: within, and then these.
fn places(kind: &str) -> (&'static str, &'static [&'static str]) {
    match kind {
        "Pod" => ("/spec", &OF_PODS),
        "StatefulSet" => ("/spec/template/spec", &OF_PODS),
        "PersistentVolume" => ("/spec", &["capacity.*"]),
        "PersistentVolumeClaim" => ("", &["spec.resources.*.*", "status.capacity.*"]),
        "Node" => ("/status", &["capacity.*", "allocatable.*"]),
        _ => ("", &[]),
    }
}

/// Puts the amounts in an object of a built-in kind into their right form.
///
/// # Errors
/// When one is none.
pub(crate) fn normalise(kind: &str, object: &mut Value) -> Result<(), &'static str> {
    let (within, places) = places(kind);
    if let Some(within) = object.pointer_mut(within) {
        for place in places {
            visit(within, place)?;
        }
    }
    if kind == "StatefulSet"
        && let Some(claims) = object.pointer_mut("/spec/volumeClaimTemplates")
    {
        visit(claims, "*.spec.resources.*.*")?;
    }
    Ok(())
}

/// A star stands for every item of a list, and for every entry of a map.
fn visit(value: &mut Value, place: &str) -> Result<(), &'static str> {
    if place.is_empty() {
        if value.is_string() || value.is_number() {
            let quantity = Quantity::read(value).ok_or(RULE)?;
            *value = quantity.to_string().into();
        }
        return Ok(());
    }
    let (step, rest) = place.split_once('.').unwrap_or((place, ""));
    match (step, value) {
        ("*", Value::Array(items)) => items.iter_mut().try_for_each(|item| visit(item, rest)),
        ("*", Value::Object(map)) => map.values_mut().try_for_each(|item| visit(item, rest)),
        (step, value) => value
            .get_mut(step)
            .map_or(Ok(()), |value| visit(value, rest)),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_one_form() {
        // As the real API server writes them.
        for (text, wanted) in [
            ("0", "0"),
            ("1", "1"),
            ("1000m", "1"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.", "1"),
            ("+1", "1"),
            ("-1", "-1"),
            ("1024000", "1024k"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("1000Ki", "1000Ki"),
            ("1e3", "1e3"),
            ("1E", "1E"),
            ("1e-3", "1e-3"),
            ("100n", "100n"),
            ("0.1n", "1n"),
            ("1500m", "1500m"),
            ("2.5G", "2500M"),
        ] {
            let read = Quantity::parse(text).unwrap();
            assert_eq!(read.to_string(), wanted, "{text}");
            let again = Quantity::parse(wanted).unwrap();
            assert_eq!(again.to_string(), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_no_amount() {
        for text in [
            "", "-", ".", "abc", "1 Gi", "1gi", "1.2.3", "1Foo", "e3", "1e999",
        ] {
            assert!(Quantity::parse(text).is_none(), "{text}");
        }
    }
}
