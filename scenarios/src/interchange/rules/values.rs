//! Values of settings as words, and back.

use serde_json::Value as Json;

use crate::schema::same_meaning;

/// True for values that mean the same: `1`, `1.0` and `100 %`; maps and lists part by part.
pub(in crate::interchange) fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Object(first), Json::Object(second)) => {
            first.len() == second.len()
                && first.iter().all(|(key, a)| second.get(key).is_some_and(|b| same(a, b)))
        }
        (Json::Array(first), Json::Array(second)) => {
            first.len() == second.len() && first.iter().zip(second).all(|(a, b)| same(a, b))
        }
        _ => a == b || plain(a).zip(plain(b)).is_some_and(|(a, b)| same_meaning(&a, &b)),
    }
}

/// True for equal words and equal numbers (`0` and `0.0`).
pub(super) fn same_word(a: &str, b: &str) -> bool {
    let equal = |a: f64, b: f64| a.total_cmp(&b).is_eq();
    a == b || a.parse().ok().zip(b.parse().ok()).is_some_and(|(a, b)| equal(a, b))
}

/// A scalar as a word.
pub(in crate::interchange) fn plain(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        Json::Bool(value) => Some(value.to_string()),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

/// A word as the scalar that it looks like.
pub(in crate::interchange) fn scalar(word: &str) -> Json {
    let integer = word.parse::<i64>().map(Json::from).ok();
    let float = || word.parse::<f64>().ok().filter(|number| number.is_finite()).map(Json::from);
    integer.or_else(float).unwrap_or_else(|| Json::from(word))
}
