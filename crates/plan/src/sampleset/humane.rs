//! Numbers as people read them, in the manner of the Go operator.

/// A size, such as `58 MiB`, `4.0 KiB` or `200 B`.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    let rounded = (value * 10.0).round() / 10.0;
    if unit > 0 && rounded < 10.0 {
        format!("{rounded:.1} {name}")
    } else {
        format!("{rounded:.0} {name}")
    }
}

/// A number with commas, such as `128,660`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A part of a whole, such as `12.3%`.
pub(super) fn rate(part: u64, whole: u64) -> String {
    let rate = if whole == 0 {
        0.0
    } else {
        part as f64 * 100.0 / whole as f64
    };
    format!("{rate:.1}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_tutorial() {
        for (bytes, text) in [
            (0, "0 B"),
            (9, "9 B"),
            (200, "200 B"),
            (1023, "1023 B"),
            (4096, "4.0 KiB"),
            (58 << 20, "58 MiB"),
            (4_509_715_660, "4.2 GiB"),
            (10_200, "10 KiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(size(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn counts_have_commas_and_rates_a_decimal() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(128_660), "128,660");
        assert_eq!(count(1_000_000), "1,000,000");
        assert_eq!(rate(123, 1000), "12.3%");
        assert_eq!(rate(1, 0), "0.0%");
    }
}
