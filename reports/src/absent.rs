//! What has no meaning is absent from the results, never null: JSON has no word for NaN or infinity.

use indexmap::IndexMap;
use serde::Serializer;

/// Whether an optional number is to be left out.
pub(crate) fn number(value: &Option<f64>) -> bool {
    !value.is_some_and(f64::is_finite)
}

/// Serialises a map without the entries that are not finite.
pub(crate) fn entries<S: Serializer>(map: &IndexMap<String, f64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(map.iter().filter(|(_, value)| value.is_finite()))
}

/// Whether a number that every reader expects is to be left out all the same; it reads back as [`nan`].
pub(crate) fn not_finite(value: &f64) -> bool {
    !value.is_finite()
}

/// The value of a number that is absent.
pub(crate) fn nan() -> f64 {
    f64::NAN
}
