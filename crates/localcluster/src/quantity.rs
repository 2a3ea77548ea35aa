//! Amounts as Kubernetes writes them: `500m`, `2Gi`, `1e3`.

/// An amount, in billionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quantity(i128);

const ONE: i128 = 1_000_000_000;

impl Quantity {
    /// Reads an amount; none when it is none.
    pub(crate) fn parse(text: &str) -> Option<Quantity> {
        let end = text.find(|letter: char| !matches!(letter, '0'..='9' | '.' | '+' | '-'));
        let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
        let (number, suffix) = match suffix.strip_prefix(['e', 'E']) {
            // 1E is an exa, 1E3 a thousand.
            Some(exponent) if exponent.parse::<i32>().is_ok() => (number, Err(exponent)),
            _ => (number, Ok(suffix)),
        };
        let unit = match suffix {
            Ok(suffix) => unit(suffix)?,
            Err(exponent) => match exponent.parse::<i32>().ok()? {
                power @ 0..=18 => ONE.checked_mul(10_i128.pow(power.unsigned_abs()))?,
                power @ -9..0 => ONE / 10_i128.pow(power.unsigned_abs()),
                _ => return None,
            },
        };
        let (sign, digits) = match number.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
        if (whole.is_empty() && part.is_empty()) || !is_number(whole) || !is_number(part) {
            return None;
        }
        let read = |digits: &str| match digits {
            "" => Some(0),
            digits => digits.parse::<i128>().ok(),
        };
        let part = part.get(..part.len().min(18))?;
        let scale = 10_i128.pow(u32::try_from(part.len()).ok()?);
        let whole = read(whole)?.checked_mul(unit)?;
        let part = read(part)?.checked_mul(unit)? / scale;
        Some(Quantity(sign * whole.checked_add(part)?))
    }

    /// How often another goes into this one, rounded up.
    pub(crate) fn divided_up(self, by: Quantity) -> i128 {
        match by.0 {
            0 => 0,
            by => self.0.div_euclid(by) + i128::from(self.0.rem_euclid(by) != 0),
        }
    }
}

/// An amount in thousandths, rounded up.
pub(crate) fn thousandths(text: &str) -> Option<i128> {
    Some(Quantity::parse(text)?.divided_up(Quantity(ONE / 1_000)))
}

fn unit(suffix: &str) -> Option<i128> {
    const DECIMAL: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let power = |of: i128, list: [&str; 6]| {
        let at = list.iter().position(|unit| *unit == suffix)?;
        ONE.checked_mul(of.pow(u32::try_from(at).ok()? + 1))
    };
    match suffix {
        "" => Some(ONE),
        "m" => Some(ONE / 1_000),
        "u" => Some(ONE / 1_000_000),
        "n" => Some(1),
        _ => power(1_000, DECIMAL).or_else(|| power(1_024, BINARY)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_to_write_an_amount() {
        let nano = |text: &str| Quantity::parse(text).map(|quantity| quantity.0);
        for (text, want) in [
            ("0", Some(0)),
            ("1", Some(ONE)),
            ("500m", Some(ONE / 2)),
            ("0.5", Some(ONE / 2)),
            (".5", Some(ONE / 2)),
            ("-1", Some(-ONE)),
            ("2k", Some(2_000 * ONE)),
            ("1Ki", Some(1_024 * ONE)),
            ("1.5Gi", Some(1_536 * 1_024 * 1_024 * ONE)),
            ("1e3", Some(1_000 * ONE)),
            ("1E", Some(1_000_000_000_000_000_000 * ONE)),
            ("", None),
            ("m", None),
            ("1x", None),
            ("1.2.3", None),
            ("1-2", None),
        ] {
            assert_eq!(nano(text), want, "{text}");
        }
    }

    #[test]
    fn division_rounds_up() {
        let parse = |text| Quantity::parse(text).unwrap_or_default();
        assert_eq!(parse("100m").divided_up(parse("1")), 1);
        assert_eq!(parse("1Gi").divided_up(parse("1Mi")), 1024);
    }
}
