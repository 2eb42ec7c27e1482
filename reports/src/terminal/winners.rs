//! Map of winners: a row for each value of one axis, a column for each of the other.

use std::io::{self, Write};

use super::{COLUMNS_MAX, ROWS_MAX, Style, WIDTH_MAX, clean, grid, widest};
use crate::ranking::Comparison;
use crate::winners::{Winner, Winners};

/// Writes the map with as many columns as fit on a line; leads stand below the names.
pub(super) fn map(
    out: &mut impl Write,
    comparison: &Comparison<'_>,
    map: Option<&Winners>,
    style: Style,
) -> io::Result<()> {
    let Some(map) = map else { return Ok(()) };
    let name = |wanted: &str| {
        comparison
            .naming
            .paths()
            .find(|(path, _)| *path == wanted)
            .map_or(wanted.to_owned(), |(_, name)| name.to_owned())
    };
    let [columns, rows] = map.axes().map(|axis| name(&axis.path));
    let heading = format!("fastest at each {rows} (down) and {columns} (across), and its lead over the next");
    writeln!(out, "\n{}", style.bold(&clean(&heading)))?;
    let with = |most: usize| {
        let titles = map.columns.values.iter().take(most).map(|value| (value.clone(), false));
        let titles = [(rows.clone(), false)].into_iter().chain(titles).collect();
        grid(titles, lines(map, most))
    };
    let most = map.columns.values.len().min(COLUMNS_MAX);
    let fitting = (1..=most).rev().map(with).find(|table| widest(table) <= WIDTH_MAX);
    writeln!(out, "{}", fitting.unwrap_or_else(|| with(1)))?;
    writeln!(out, "  + counts others that are as fast; the whole map is in results.json")
}

/// Two lines for each row of the map: names, and leads below them.
fn lines(map: &Winners, columns: usize) -> Vec<Vec<String>> {
    let line = |head: &str, winners: &[Winner], cell: fn(&Winner) -> String| {
        [head.to_owned()].into_iter().chain(winners.iter().take(columns).map(cell)).collect()
    };
    let two = |(value, winners): (&String, &Vec<Winner>)| {
        [line(value, winners, Winner::named), line("", winners, |winner| winner.times().unwrap_or_default())]
    };
    map.rows.values.iter().zip(&map.cells).take(ROWS_MAX / 2).flat_map(two).collect()
}
