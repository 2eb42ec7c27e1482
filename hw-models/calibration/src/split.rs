//! Which rows of a measured table are fitted, and which judge the fit.
//!
//! The rule looks at the inputs of a row alone, so that it cannot be bent by a result, and the same shape falls on the
//! same side in every table that has the same columns: FNV-1a (Fowler, Noll and Vo), 64 bits, of the input columns as
//! the table writes them, joined by `|`. A remainder of 0 by four puts the row into the test quarter.

/// Hash of a row: of its input columns as one text.
pub fn hash<S: AsRef<str>>(inputs: &[S]) -> u64 {
    fnv1a_64(&inputs.iter().map(AsRef::as_ref).collect::<Vec<_>>().join("|"))
}

/// Whether a row of this hash is in the test quarter, which nothing is fitted on.
pub const fn judges(hash: u64) -> bool {
    hash.is_multiple_of(4)
}

/// FNV-1a of the bytes of a text, 64 bits.
fn fnv1a_64(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
