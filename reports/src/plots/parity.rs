//! Ours divided by theirs, one row a published figure: on the line is right.

use maud::Markup;
use plotters::prelude::*;

use super::palette::{BLUE, GRID, INK, MUTED, VERMILLION};
use super::{Anchor, PlotError, WIDTH, fitted, picture, style, text_width, write};
use crate::quantity;

const ROW: i32 = 26;
const FOOT: i32 = 26;
const NAME_MAX: i32 = 480;
/// Farther from the published figure than this is drawn as a miss.
const CLOSE: f64 = 0.05;

/// One figure: what it is, and ours over theirs.
pub(crate) struct Ratio {
    pub(crate) name: String,
    pub(crate) ratio: f64,
}

/// Draws the ratios about one, to the scale of the farthest.
pub(crate) fn draw(name: &str, ratios: &[Ratio]) -> Result<Markup, PlotError> {
    let farthest = ratios.iter().map(|ratio| (ratio.ratio - 1.0).abs()).fold(CLOSE, f64::max) * 1.1;
    let left =
        ratios.iter().map(|ratio| text_width(&ratio.name)).max().unwrap_or_default().min(NAME_MAX) + 16;
    let right = WIDTH as i32 - 90;
    let x = |ratio: f64| {
        let share = ((ratio - 1.0) / farthest + 1.0) / 2.0;
        left + (share * f64::from(right - left)).round() as i32
    };
    let foot = ratios.len() as i32 * ROW;
    picture((foot + FOOT) as u32, name, |area| {
        for ratio in [1.0 - farthest / 1.1, 1.0, 1.0 + farthest / 1.1] {
            let colour = if ratio == 1.0 { INK } else { GRID };
            area.draw(&PathElement::new(vec![(x(ratio), 0), (x(ratio), foot)], colour.stroke_width(1)))?;
            let text = if ratio == 1.0 { "as published".to_owned() } else { quantity::change(ratio - 1.0) };
            area.draw_text(&text, &style(MUTED, Anchor::Middle), (x(ratio), foot + 12))?;
        }
        for (index, ratio) in ratios.iter().enumerate() {
            let y = index as i32 * ROW + ROW / 2;
            let colour = if (ratio.ratio - 1.0).abs() > CLOSE { VERMILLION } else { BLUE };
            write(area, (left - 8, y), &fitted(&ratio.name, NAME_MAX), Anchor::End)?;
            area.draw(&PathElement::new(vec![(x(1.0), y), (x(ratio.ratio), y)], colour.stroke_width(2)))?;
            area.draw(&Circle::new((x(ratio.ratio), y), 5, colour.filled()))?;
            write(area, (right + 8, y), &quantity::change(ratio.ratio - 1.0), Anchor::Start)?;
        }
        Ok(Vec::new())
    })
}
