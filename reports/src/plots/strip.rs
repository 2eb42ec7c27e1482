//! Values of several runs of each row as dots on one scale, with a line at their mean.

use maud::Markup;
use plotters::prelude::*;

use super::layout::{BAR, MARGIN, Rows};
use super::palette::{GRID, INK, MUTED};
use super::{Anchor, PlotError, WIDTH, picture, style};

/// Room for a number at either end of the scale.
const NUMBER: i32 = 90;

/// One row.
pub(crate) struct Strip<'a> {
    pub(crate) name: &'a str,
    pub(crate) values: &'a [f64],
    pub(crate) fill: RGBAColor,
}

/// Draws the rows from the least to the most value of all.
pub(crate) fn draw(
    name: &str,
    strips: &[Strip<'_>],
    text: &dyn Fn(f64) -> String,
) -> Result<Markup, PlotError> {
    let values = || strips.iter().flat_map(|strip| strip.values).copied();
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let rows = Rows::of(strips.iter().map(|strip| strip.name));
    let left = rows.left() + MARGIN;
    let width = f64::from(WIDTH as i32 - NUMBER - left);
    let range = (most - least).max(f64::MIN_POSITIVE);
    let x = |value: f64| left + ((value - least) / range * width).round() as i32;
    let height = rows.height(true);
    picture(height, name, |area| {
        rows.write_names(area)?;
        for (strip, top) in strips.iter().zip(rows.tops()) {
            let middle = top + BAR / 2;
            let line = |points, colour: RGBColor| PathElement::new(points, colour.stroke_width(1));
            area.draw(&line(vec![(x(least), middle), (x(most), middle)], GRID))?;
            for value in strip.values {
                area.draw(&Circle::new((x(*value), middle), 4, strip.fill.filled()))?;
            }
            let mean = x(strip.values.iter().sum::<f64>() / strip.values.len().max(1) as f64);
            area.draw(&PathElement::new(vec![(mean, top), (mean, top + BAR)], INK.stroke_width(2)))?;
        }
        for (value, anchor) in [(least, Anchor::Start), (most, Anchor::End)] {
            area.draw_text(&text(value), &style(MUTED, anchor), (x(value), height as i32 - BAR))?;
        }
        Ok(Vec::new())
    })
}
