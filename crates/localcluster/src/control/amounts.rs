//! What is asked for and what there is, by resource.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Amounts by resource, in thousandths.
pub(crate) type Amounts = BTreeMap<String, i128>;

/// Reads amounts. What is no amount, which the API refuses, is none.
pub(crate) fn amounts(quantities: Option<&BTreeMap<String, Quantity>>) -> Amounts {
    let quantities = quantities.into_iter().flatten();
    quantities
        .map(|(name, quantity)| {
            let amount = quantity::Quantity::parse(&quantity.0);
            (
                name.clone(),
                amount.map_or(0, quantity::Quantity::thousandths),
            )
        })
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
