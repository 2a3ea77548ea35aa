//! Amounts of resources.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Amounts by resource, in thousandths.
pub(crate) type Amounts = BTreeMap<String, i128>;

/// Reads amounts. What is no amount, which the API refuses, is none.
pub(crate) fn amounts(quantities: Option<&BTreeMap<String, Quantity>>) -> Amounts {
    let quantities = quantities.into_iter().flatten();
    quantities
        .map(|(name, quantity)| (name.clone(), thousandths(&quantity.0).unwrap_or(0)))
        .collect()
}

/// Adds amounts to others.
pub(crate) fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *to.entry(name.clone()).or_default() += amount;
    }
}

/// What is needed for either: the larger of each.
pub(crate) fn either(one: &Amounts, other: &Amounts) -> Amounts {
    let mut most = one.clone();
    for (name, amount) in other {
        let entry = most.entry(name.clone()).or_default();
        *entry = (*entry).max(*amount);
    }
    most
}

/// An amount in thousandths, rounded up.
pub(crate) fn thousandths(text: &str) -> Option<i128> {
    const SUFFIXES: [(&str, f64); 15] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("Ei", 1_152_921_504_606_846_976.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
    ];
    let suffix = SUFFIXES
        .iter()
        .find_map(|(suffix, factor)| text.strip_suffix(suffix).map(|number| (number, *factor)));
    let (number, factor) = suffix.unwrap_or((text, 1.0));
    let number: f64 = number
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())?;
    // Beyond 9 TB it is not exact to the byte, which nobody counts there.
    #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
    let amount = (number * factor * 1e3).ceil() as i128;
    Some(amount)
}

#[cfg(test)]
mod tests {
    use super::thousandths;

    #[test]
    fn amounts_are_read() {
        for (text, wanted) in [
            ("1", Some(1_000)),
            ("100m", Some(100)),
            ("0.5", Some(500)),
            ("1.5Gi", Some(1_610_612_736_000)),
            ("2k", Some(2_000_000)),
            ("1e3", Some(1_000_000)),
            ("1E", Some(1_000_000_000_000_000_000_000)),
            ("1u", Some(1)),
            ("64Mi", Some(67_108_864_000)),
            ("", None),
            ("much", None),
            ("infM", None),
        ] {
            assert_eq!(thousandths(text), wanted, "{text}");
        }
    }
}
