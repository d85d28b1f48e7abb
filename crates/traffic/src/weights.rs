//! Things with weights, as they are typed.

use std::collections::BTreeMap;

/// Whether weights can be drawn by: finite, not negative, not all zero.
pub(crate) fn are_weights(mut weights: impl Iterator<Item = f64>) -> bool {
    let mut sum = 0.0;
    weights.all(|w| {
        sum += w;
        (0.0..=1e15).contains(&w)
    }) && sum > 0.0
}

/// Reads things with weights, such as `A=5,AAAA=2`; a weight is 1 where none is given.
pub(crate) fn weighted<K: Ord>(
    text: &str,
    key: impl Fn(&str) -> Result<K, String>,
) -> Result<BTreeMap<K, f64>, String> {
    let mut all = BTreeMap::new();
    for part in text.split(',') {
        let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
        let name = name.trim();
        let weight = weight.trim().parse().map_err(|_| format!("'{weight}' is not a weight"))?;
        if all.insert(key(name)?, weight).is_some() {
            return Err(format!("'{name}' is there twice"));
        }
    }
    if are_weights(all.values().copied()) {
        Ok(all)
    } else {
        Err("weights are numbers from 0 to 1e15, not all zero".into())
    }
}
