//! `results.json`: the whole summary, for programs.

use std::io::{self, Write};

use crate::Summary;

/// Writes `summary` as indented JSON with a final line break.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, summary)?;
    writeln!(out)
}
