//! A comparison as Markdown, for a pull request.

use std::io::{self, Write};

use super::{Compared, Row, Setting};
use crate::quantity;

/// Writes tables in the Markdown of GitHub.
///
/// # Errors
/// Errors of `out`.
pub fn write(out: &mut impl Write, compared: &Compared) -> io::Result<()> {
    let Compared { a, b, .. } = compared;
    writeln!(out, "**{}**\n", escaped(&compared.finding))?;
    let named = [&a.name, &b.name].map(|name| escaped(name)).join(" | ");
    writeln!(out, "| | {named} | change |\n|---|---:|---:|---:|")?;
    for (depth, row) in compared.rows() {
        writeln!(out, "{}", line(row, depth))?;
    }
    match compared.settings.as_deref() {
        None => {}
        Some([]) => writeln!(out, "\nNo setting differs.")?,
        Some(settings) => {
            writeln!(out, "\n| setting | {named} |\n|---|---|---|")?;
            for Setting { path, a, b } in settings {
                let [a, b] = [a, b].map(|value| value.as_deref().map_or(quantity::NONE.to_owned(), code));
                writeln!(out, "| `{path}` | {a} | {b} |")?;
            }
        }
    }
    for note in &compared.notes {
        writeln!(out, "\n{}", escaped(&format!("Note: {note}.")))?;
    }
    let sources = [&a.source, &b.source].map(|source| code(source)).join(" and ");
    writeln!(out, "\nSimulated by foretrain: {sources}.")
}

fn line(row: &Row, depth: usize) -> String {
    let [a, b] = row.texts();
    let what = escaped(&row.what);
    match depth {
        0 => format!("| **{what}** | {a} | {b} | {} |", row.change_text()),
        _ => format!("| &emsp;{what} | {a} | {b} | {} |", row.difference_text()),
    }
}

/// Text without what Markdown or a table would take for its own.
fn escaped(text: &str) -> String {
    let special = |c: char| matches!(c, '|' | '*' | '_' | '`' | '<' | '\\' | '[' | '#');
    let mut out = String::with_capacity(text.len());
    for c in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        if special(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A value as code in a cell.
fn code(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() || c == '`' { ' ' } else { c }).collect();
    format!("`{}`", clean.replace('|', "\\|"))
}
