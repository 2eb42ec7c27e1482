//! Names of operators and tensors that are put together as a model is read.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// A name that lives as long as the program, as those of operators do. Names repeat from block to block and from model to
/// model, so that few are ever made.
pub(crate) fn name(stem: &str, ending: &str) -> &'static str {
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let text = if ending.is_empty() { stem.to_owned() } else { format!("{stem} {ending}") };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = known.get(text.as_str()) {
        return name;
    }
    let name: &'static str = Box::leak(text.into_boxed_str());
    known.insert(name);
    name
}
