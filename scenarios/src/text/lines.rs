//! Records as lines of JSON: a heading, then a line for each.

use serde::de::DeserializeOwned;

/// A line that is none of those expected.
#[derive(Debug)]
pub struct WrongLine {
    /// Which; the heading is the first.
    pub line: usize,
    /// Why.
    pub error: serde_json::Error,
}

/// The heading and the records after it, each with its line. A last line without an end was being written when its writer was
/// killed, and is left out.
///
/// # Errors
/// A line that is none.
pub fn read_lines<Heading: DeserializeOwned, Record: DeserializeOwned>(
    text: &str,
) -> Result<(Heading, Vec<(usize, Record)>), WrongLine> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let (first, others) = whole.split_once('\n').unwrap_or((whole, ""));
    let heading = serde_json::from_str(first).map_err(|error| WrongLine { line: 1, error })?;
    let records = (2..).zip(others.lines()).map(|(line, text)| match serde_json::from_str(text) {
        Ok(record) => Ok((line, record)),
        Err(error) => Err(WrongLine { line, error }),
    });
    Ok((heading, records.collect::<Result<_, _>>()?))
}
