//! A comparison on a terminal.

use std::io::{self, Write};

use super::{Compared, Row, Setting};
use crate::quantity;
use crate::terminal::{Style, clean, cut, grid};

/// Rows on a screen of causes, of kinds of memory, of figures, and of settings.
const CAUSES_MAX: usize = 5;
const KINDS_MAX: usize = 3;
const FIGURES_MAX: usize = 3;
const SETTINGS_MAX: usize = 4;
/// Characters of a setting's value.
const VALUE_MAX: usize = 36;

/// Writes what fits on one screen, or with `all` everything.
///
/// # Errors
/// Errors of `out`.
pub fn write(out: &mut impl Write, compared: &Compared, all: bool, style: Style) -> io::Result<()> {
    let most = |rows: usize| if all { usize::MAX } else { rows };
    for line in style.wrapped(&compared.finding, "") {
        writeln!(out, "{}", style.bold(&line))?;
    }
    if let Some(ratio) = compared.ratio {
        let [least, most] = ratio.interval.map(quantity::times);
        let (a, b) = (&compared.a.name, &compared.b.name);
        let text =
            format!("90 % of measurements: a step of {b} takes {least} to {most} the time of one of {a}.");
        style.wrapped(&text, "").iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    // One line is of what is hidden.
    let mut hidden = 0;
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut section = |of: &[Row], depth: usize, shown: usize| {
        let tells = |row: &&Row| row.is_known() && (all || depth == 0 || row.difference() != Some(0.0));
        let told: Vec<&Row> = of.iter().filter(tells).take(most(shown)).collect();
        hidden += of.iter().filter(|row| row.is_known()).count() - told.len();
        rows.extend(told.into_iter().map(|row| cells(row, depth)));
    };
    section(std::slice::from_ref(&compared.step), 0, 1);
    section(&compared.time, 1, CAUSES_MAX);
    section(&compared.figures, 0, FIGURES_MAX);
    section(std::slice::from_ref(&compared.peak), 0, 1);
    section(&compared.memory, 1, KINDS_MAX);
    let titles = [
        (String::new(), false),
        (compared.a.name.clone(), true),
        (compared.b.name.clone(), true),
        ("change".to_owned(), true),
    ];
    writeln!(out, "\n{}", grid(titles.to_vec(), rows))?;
    if all && !compared.communication.is_empty() {
        let titles = [
            ("exposed communication".to_owned(), false),
            (compared.a.name.clone(), true),
            (compared.b.name.clone(), true),
            ("change".to_owned(), true),
        ];
        let rows = compared.communication.iter().map(|row| cells(row, 1)).collect();
        writeln!(out, "\n{}", grid(titles.to_vec(), rows))?;
    }
    settings(out, compared.settings.as_deref(), most(SETTINGS_MAX), style)?;
    for note in &compared.notes {
        style.wrapped(&format!("note: {note}"), "  ").iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    match hidden {
        0 => Ok(()),
        1 => writeln!(out, "  one more figure: `--all`"),
        more => writeln!(out, "  {more} more figures: `--all`"),
    }
}

/// A row of the table; parts are indented and have their difference, others their relative change.
fn cells(row: &Row, depth: usize) -> Vec<String> {
    let [a, b] = row.texts();
    let change = if depth == 0 { row.change_text() } else { row.difference_text() };
    vec![format!("{}{}", "  ".repeat(depth), row.what), a, b, change]
}

/// Settings that differ, one a line.
fn settings(out: &mut impl Write, settings: Option<&[Setting]>, most: usize, style: Style) -> io::Result<()> {
    let Some(settings) = settings else { return Ok(()) };
    let heading = match settings.len() {
        0 => "no setting differs".to_owned(),
        1 => "one setting differs".to_owned(),
        many => format!("{many} settings differ"),
    };
    writeln!(out, "\n{}", style.bold(&heading))?;
    let shown = settings.iter().take(most);
    let width = shown.clone().map(|setting| setting.path.chars().count()).max().unwrap_or_default();
    for Setting { path, a, b } in shown {
        let [a, b] = [a, b].map(|value| value.as_deref().map_or(quantity::NONE.to_owned(), value_text));
        writeln!(out, "  {}", clean(&format!("{path:width$}  {a} → {b}")))?;
    }
    match settings.len().saturating_sub(most) {
        0 => Ok(()),
        more => writeln!(out, "  {more} more: `--all`"),
    }
}

/// A value of a setting, shortened.
fn value_text(value: &str) -> String {
    cut(value, VALUE_MAX)
}
