//! A table of coloured cells over two swept axes: who wins where.

use maud::Markup;
use plotters::prelude::*;

use super::palette::{BED, MUTED, text_on};
use super::{Anchor, PlotError, WIDTH, fitted, picture, style, text_width, write};

const CELL: i32 = 44;
/// Title of the rows, values of the columns.
const HEAD: i32 = 46;
/// Title of the columns.
const FOOT: i32 = 26;
const NAME_MAX: i32 = 170;

/// One axis: its title with the unit, and a label for each value.
pub(crate) struct Heads {
    pub(crate) title: String,
    pub(crate) labels: Vec<String>,
}

/// One cell; without colour, nothing runs there.
pub(crate) struct Cell {
    pub(crate) fill: Option<RGBAColor>,
    /// Two lines: who, and by how much.
    pub(crate) lines: [String; 2],
    pub(crate) hover: String,
}

/// Draws `cells[row][column]`.
pub(crate) fn draw(
    name: &str,
    columns: &Heads,
    rows: &Heads,
    cells: &[Vec<Cell>],
) -> Result<Markup, PlotError> {
    let names = rows.labels.iter().map(|label| text_width(label));
    let left = names.max().unwrap_or_default().min(NAME_MAX) + 14;
    let count = columns.labels.len() as i32;
    let width = ((WIDTH as i32 - left) / count.max(1)).min(220);
    let at = |row: usize, column: usize| (left + column as i32 * width, HEAD + row as i32 * CELL);
    let bottom = at(rows.labels.len(), 0).1;
    picture((bottom + FOOT) as u32, name, |area| {
        let muted = |anchor| style(MUTED, anchor);
        write(area, (0, 10), &fitted(&rows.title, WIDTH as i32), Anchor::Start)?;
        let (middle, half) = (left + width * count / 2, width * count / 2);
        // A long title stands to the left of its middle rather than being cut.
        let title = fitted(&columns.title, WIDTH as i32);
        let middle = if text_width(&title) / 2 > half { text_width(&title) / 2 } else { middle };
        write(area, (middle, bottom + FOOT / 2), &title, Anchor::Middle)?;
        for (index, column) in columns.labels.iter().enumerate() {
            let (x, _) = at(0, index);
            area.draw_text(&fitted(column, width), &muted(Anchor::Middle), (x + width / 2, HEAD - 12))?;
        }
        let mut hover = Vec::new();
        for (row, name) in rows.labels.iter().enumerate() {
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
