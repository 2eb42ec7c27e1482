//! Edges as text: a source and a destination a line, and the type of the edge where there are
//! several; separated by commas, tabs, semicolons or spaces.

use std::io::{BufRead, Read};

use super::count::Counter;
use super::{Fault, MOST_FAULTS, MOST_NODES, unreadable};

/// Bytes of a line: an edge takes far fewer.
const LONGEST_LINE: u64 = 4096;

/// Reads all lines. A header and lines of comments, with `#` or `%`, are passed over.
pub(super) fn read(input: &mut impl BufRead, counter: &mut Counter) -> Result<(), Vec<Fault>> {
    let mut line = Vec::new();
    let mut faults = Vec::new();
    let mut columns = None;
    let mut number: u64 = 0;
    loop {
        line.clear();
        let read = input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        if let Err(error) = read {
            faults.push(unreadable(&error));
            return Err(faults);
        }
        if line.is_empty() {
            return if faults.is_empty() { Ok(()) } else { Err(faults) };
        }
        number += 1;
        let place = || format!("line {number}");
        if number == 1 {
            if line.starts_with(&[0xff, 0xfe]) || line.starts_with(&[0xfe, 0xff]) {
                return Err(vec![Fault::new(
                    place(),
                    "is UTF-16",
                    "convert it with `iconv -f UTF-16 -t UTF-8`",
                )]);
            }
            if line.starts_with(&[0xef, 0xbb, 0xbf]) {
                line.drain(..3);
            }
        }
        if line.len() as u64 == LONGEST_LINE && line.last() != Some(&b'\n') {
            let fault = format!("has more than {LONGEST_LINE} bytes");
            faults.push(Fault::new(place(), fault, "give a list of edges, one a line"));
            return Err(faults);
        }
        let text = line.trim_ascii();
        if text.is_empty() || text.starts_with(b"#") || text.starts_with(b"%") {
            continue;
        }
        let fields: Fields<'_> = Fields::of(text);
        let header =
            columns.is_none() && number_of(fields.first).is_none() && number_of(fields.second).is_none();
        if header && counter.is_empty() && is_text(text) {
            columns = Some(fields.count);
            continue;
        }
        let expected = *columns.get_or_insert(fields.count);
        if let Err(fault) = edge(&fields, expected, counter) {
            faults.push(Fault { place: place(), ..fault });
            if faults.len() == MOST_FAULTS {
                return Err(faults);
            }
        }
    }
}

/// Fields of a line.
struct Fields<'a> {
    first: &'a [u8],
    second: &'a [u8],
    third: Option<&'a [u8]>,
    count: usize,
}

impl<'a> Fields<'a> {
    fn of(text: &'a [u8]) -> Self {
        let separates = |byte: &u8| matches!(byte, b',' | b'\t' | b';' | b' ');
        let mut fields = text.split(separates).filter(|field| !field.is_empty());
        let first = fields.next().unwrap_or_default();
        let second = fields.next().unwrap_or_default();
        let third = fields.next();
        let given = [!first.is_empty(), !second.is_empty(), third.is_some()];
        let count = given.iter().filter(|given| **given).count() + fields.count();
        Self { first, second, third, count }
    }
}

/// Counts the edge of a line.
fn edge(fields: &Fields<'_>, columns: usize, counter: &mut Counter) -> Result<(), Fault> {
    let fault = |fault: String, remedy: &str| Err(Fault::new("", fault, remedy));
    if fields.count != columns {
        return fault(
            format!("has {} columns, those before {columns}", fields.count),
            "give all lines as many; a last line that was cut is deleted with `sed '$d'`",
        );
    }
    if !(2..=3).contains(&columns) {
        return fault(
            format!("has {columns} columns"),
            "give source and destination, and a type if there are several",
        );
    }
    let [source, destination] = [fields.first, fields.second].map(node);
    let (source, destination) = (source?, destination?);
    match fields.third {
        Some(name) if is_text(name) => counter.typed(source, destination, name),
        Some(_) => fault("has a type that is not UTF-8".to_owned(), "convert it with `iconv -t UTF-8`"),
        None => counter.edge(source, destination),
    }
}

fn node(field: &[u8]) -> Result<u32, Fault> {
    let shown = String::from_utf8_lossy(&field[..field.len().min(24)]).into_owned();
    match number_of(field) {
        Some(node) if node < i128::from(MOST_NODES) && node >= 0 => Ok(node as u32),
        Some(node) if node < 0 => {
            Err(Fault::new("", format!("has the negative node {shown}"), "number nodes from 0"))
        }
        Some(_) => {
            let fault = format!("has node {shown}, of at most {MOST_NODES}");
            Err(Fault::new("", fault, "number nodes from 0, without gaps"))
        }
        None => {
            let shown: String = shown.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
            Err(Fault::new("", format!("has `{shown}` for a node"), "number nodes from 0"))
        }
    }
}

/// A whole number of any length; beyond what is told apart it is just large.
fn number_of(field: &[u8]) -> Option<i128> {
    let (negative, digits) = match field {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let append =
        |number: i128, digit: &u8| number.saturating_mul(10).saturating_add(i128::from(digit - b'0'));
    let number = digits.iter().fold(0, append);
    Some(if negative { -number } else { number })
}

/// True if bytes can be the name of a type or of a column.
fn is_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| !text.chars().any(|c| c.is_control() && c != '\t'))
}
