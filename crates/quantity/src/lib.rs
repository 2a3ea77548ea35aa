//! Amounts of things as Kubernetes writes them, such as `500m` or `1Gi`, and their one
//! right form.

use std::fmt;

use serde_json::Value;

/// An amount, in billionths, and how it likes to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
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

impl Quantity {
    /// Reads an amount; a number counts as its text.
    pub fn read(value: &Value) -> Option<Quantity> {
        match value {
            Value::String(text) => Quantity::parse(text),
            Value::Number(number) => Quantity::parse(&number.to_string()),
            _ => None,
        }
    }

    /// Reads an amount; none when it is none.
    pub fn parse(text: &str) -> Option<Quantity> {
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
            amount = amount.checked_add(divided_up(part, scale))?;
        }
        let nano = divided_up(amount, denominator).min(MAX);
        let nano = if negative { -nano } else { nano };
        Some(Quantity { nano, form })
    }

    /// Whether it is less than nothing.
    pub fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Whether it has no fraction.
    pub fn is_whole(self) -> bool {
        self.nano % NANO == 0
    }

    /// For comparisons.
    pub fn nano(self) -> i128 {
        self.nano
    }

    /// In thousandths, rounded up.
    pub fn thousandths(self) -> i128 {
        divided_up(self.nano, NANO / 1_000)
    }

    /// How often another goes into this one, rounded up; never, if that is nothing.
    pub fn divided_up(self, by: Quantity) -> i128 {
        match by.nano {
            0 => 0,
            by => divided_up(self.nano, by),
        }
    }

    /// Both together, written as the first likes it.
    #[must_use]
    pub fn plus(self, other: Quantity) -> Quantity {
        let nano = self.nano.saturating_add(other.nano).min(MAX);
        Quantity { nano, ..self }
    }
}

fn divided_up(amount: i128, by: i128) -> i128 {
    amount.div_euclid(by) + i128::from(amount.rem_euclid(by) != 0)
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

    #[test]
    fn division_rounds_up() {
        let read = |text| Quantity::parse(text).unwrap();
        assert_eq!(read("100m").divided_up(read("1")), 1);
        assert_eq!(read("1Gi").divided_up(read("1Mi")), 1024);
        assert_eq!(read("1").divided_up(read("0")), 0);
        assert_eq!(read("1u").thousandths(), 1);
    }

    #[test]
    fn sums_are_written_as_their_parts() {
        let sum = |one, other| {
            let read = |text| Quantity::parse(text).unwrap();
            read(one).plus(read(other)).to_string()
        };
        assert_eq!(sum("500m", "1.5"), "2");
        assert_eq!(sum("1Gi", "512Mi"), "1536Mi");
    }
}
