//! A table of coloured cells over two swept axes: who wins where.

use maud::Markup;
use plotters::prelude::*;

use super::palette::{BED, MUTED, text_on};
use super::{Anchor, PlotError, WIDTH, fitted, picture, style, text_width};

const CELL: i32 = 44;
const HEAD: i32 = 44;
const NAME_MAX: i32 = 170;

/// One cell; without colour, nothing runs there.
pub(crate) struct Cell {
    pub(crate) fill: Option<RGBAColor>,
    /// Two lines: who, and how fast.
    pub(crate) lines: [String; 2],
    pub(crate) hover: String,
}

/// Draws `cells[row][column]`.
pub(crate) fn draw(
    name: &str,
    titles: (&str, &str),
    columns: &[String],
    rows: &[String],
    cells: &[Vec<Cell>],
) -> Result<Markup, PlotError> {
    let names = rows.iter().map(String::as_str).chain([titles.1]);
    let left = names.map(text_width).max().unwrap_or_default().min(NAME_MAX) + 14;
    let width = ((WIDTH as i32 - left) / columns.len().max(1) as i32).min(220);
    let at = |row: usize, column: usize| (left + column as i32 * width, HEAD + row as i32 * CELL);
    picture((HEAD + rows.len() as i32 * CELL + 4) as u32, name, |area| {
        let muted = |anchor| style(MUTED, anchor);
        let middle = left + width * columns.len() as i32 / 2;
        area.draw_text(titles.0, &muted(Anchor::Middle), (middle, 10))?;
        area.draw_text(&fitted(titles.1, NAME_MAX), &muted(Anchor::End), (left - 8, HEAD - 14))?;
        for (index, column) in columns.iter().enumerate() {
            let (x, _) = at(0, index);
            area.draw_text(&fitted(column, width), &muted(Anchor::Middle), (x + width / 2, HEAD - 14))?;
        }
        let mut hover = Vec::new();
        for (row, name) in rows.iter().enumerate() {
            let (_, y) = at(row, 0);
            area.draw_text(&fitted(name, NAME_MAX), &muted(Anchor::End), (left - 8, y + CELL / 2))?;
            for (column, cell) in cells[row].iter().enumerate() {
                let (x, y) = at(row, column);
                let fill = cell.fill.unwrap_or(BED.to_rgba());
                area.draw(&Rectangle::new([(x, y), (x + width - 2, y + CELL - 2)], fill.filled()))?;
                hover.push(cell.hover.clone());
                let colour = cell.fill.map_or(MUTED, text_on);
                for (line, text) in cell.lines.iter().enumerate() {
                    let y = y + CELL / 2 - 8 + line as i32 * 16;
                    let text = fitted(text, width - 8);
                    area.draw_text(&text, &style(colour, Anchor::Middle), (x + width / 2, y))?;
                }
            }
        }
        Ok(hover)
    })
}
