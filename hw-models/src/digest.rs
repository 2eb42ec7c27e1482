//! Digits that tell values apart, the same in every run.

use std::hash::{DefaultHasher, Hash, Hasher};

/// 128 bits of a value.
pub fn digest(value: &impl Hash) -> [u64; 2] {
    // Keys of `DefaultHasher::new` are fixed.
    [0_u8, 1].map(|which| {
        let mut hasher = DefaultHasher::new();
        (which, value).hash(&mut hasher);
        hasher.finish()
    })
}
