//! Shares of a whole in results: every plain number that is no amount is from 0 to 1, unless it is named here with a reason.

use std::collections::BTreeMap;

use serde_json::Value;

/// Ends of names of amounts, which have a unit.
const UNITS: [&str; 10] =
    ["_s", "_bytes", "_years", "_per_s", "_gpus", "_cores", "_w", "_j", "_tokens", "_hours"];
/// Amounts and counts that need no unit.
const AMOUNTS: [&str; 8] =
    ["schema_version", "seed", "value", "cost", "parts", "failures", "samples", "tokens"];
/// Numbers that compare two figures or convert others': any number is right.
const FIGURES: [&str; 9] = [
    "published",
    "ours",
    "relative",
    "relative_to_first",
    "relative_to_best",
    "tie_with_fastest",
    "of_best",
    "objective",
    "points",
];
/// Ratios that may be above 1: FLOPs of a model counted as products, of which Winograd's algorithm executes fewer.
const ABOVE_ONE: [&str; 1] = ["mfu"];
/// Sums of shares may differ from 1 by the rounding of each.
const ROUNDING: f64 = 1e-9;

/// Ratios in a result that are outside 0 to 1, the first of each name with its path.
pub fn outside(result: &Value) -> Vec<String> {
    let mut found = BTreeMap::new();
    collect(result, &mut Vec::new(), &mut found);
    found.into_iter().map(|(path, ratio)| format!("{path} is {ratio}")).collect()
}

fn collect<'v>(value: &'v Value, path: &mut Vec<&'v str>, found: &mut BTreeMap<String, f64>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                path.push(key);
                collect(value, path, found);
                path.pop();
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, path, found)),
        Value::Number(number) if number.is_f64() && !is_amount(path) => {
            let ratio = number.as_f64().unwrap_or(f64::NAN);
            let most =
                if path.last().is_some_and(|key| ABOVE_ONE.contains(key)) { f64::INFINITY } else { 1.0 };
            if !(-ROUNDING..=most + ROUNDING).contains(&ratio) {
                found.entry(path.join(".")).or_insert(ratio);
            }
        }
        _ => {}
    }
}

/// Whether a number is an amount: its name, or that of the map it is in, has a unit.
fn is_amount(path: &[&str]) -> bool {
    path.iter().rev().take(2).any(|key| {
        UNITS.iter().any(|unit| key.ends_with(unit)) || AMOUNTS.contains(key) || FIGURES.contains(key)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_without_unit_is_a_ratio() {
        let result = json!({ "utilisation": 1.5, "step_time_s": 7.5, "time_breakdown_s": { "compute": 3.5 }, "mfu": 1.6 });
        assert_eq!(outside(&result), ["utilisation is 1.5"]);
        assert_eq!(outside(&json!([{ "provenance": { "paper": -0.1 } }])), ["provenance.paper is -0.1"]);
    }
}
