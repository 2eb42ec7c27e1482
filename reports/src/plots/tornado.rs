//! A tornado: of each row, what a step takes with a faster and with a slower part, about the step
//! as it is.

use maud::Markup;
use plotters::prelude::*;

use super::layout::{BAR, MARGIN, Rows};
use super::palette::{GREEN, INK, MUTED, VERMILLION};
use super::{Anchor, PlotError, WIDTH, picture, style, write};
use crate::quantity;

/// Room for a time beside a bar.
const TIME: i32 = 70;

/// Colour of the faster part.
pub(crate) const FASTER: RGBAColor = RGBAColor(GREEN.0, GREEN.1, GREEN.2, 1.0);
/// Colour of the slower part.
pub(crate) const SLOWER: RGBAColor = RGBAColor(VERMILLION.0, VERMILLION.1, VERMILLION.2, 1.0);

/// One row.
pub(crate) struct Bar {
    pub(crate) name: String,
    /// Time with the faster part. `None`: there is none.
    pub(crate) faster: Option<f64>,
    /// Time with the slower part.
    pub(crate) slower: Option<f64>,
}

/// Draws the bars about `base`.
pub(crate) fn draw(name: &str, base: f64, bars: &[Bar]) -> Result<Markup, PlotError> {
    let times = || bars.iter().flat_map(|bar| [bar.faster, bar.slower]).flatten().chain([base]);
    let (least, most) = times().fold((f64::MAX, 0.0_f64), |(least, most), t| (least.min(t), most.max(t)));
    let rows = Rows::of(bars.iter().map(|bar| bar.name.as_str()));
    let left = rows.left() + TIME;
    let width = f64::from(WIDTH as i32 - TIME - left);
    let range = (most - least).max(f64::MIN_POSITIVE);
    let x = |time: f64| left + ((time - least) / range * width).round() as i32;
    let foot = rows.tops().last().map_or(0, |top| Rows::across(top)[1]);
    picture(rows.height(true), name, |area| {
        let mut hover = Vec::new();
        rows.write_names(area)?;
        let tops: Vec<i32> = rows.tops().collect();
        for (bar, top) in bars.iter().zip(&tops) {
            let middle = top + BAR / 2;
            let time = |time: f64, at, anchor| {
                area.draw_text(&quantity::seconds(time), &style(MUTED, anchor), (at, middle))
            };
            if let Some(faster) = bar.faster {
                time(faster, x(faster.min(base)) - MARGIN, Anchor::End)?;
            }
            if let Some(slower) = bar.slower {
                time(slower, x(slower.max(base)) + MARGIN, Anchor::Start)?;
            }
        }
        area.draw(&PathElement::new(vec![(x(base), 0), (x(base), foot)], INK.stroke_width(2)))?;
        write(area, (x(base), foot + BAR / 2 + 2), &quantity::seconds(base), Anchor::Middle)?;
        for (bar, top) in bars.iter().zip(&tops) {
            for (time, fill, what) in
                [(bar.faster, FASTER, "twice as fast"), (bar.slower, SLOWER, "half as fast")]
            {
                let Some(time) = time else { continue };
                let (from, to) = (x(time.min(base)), x(time.max(base)));
                area.draw(&Rectangle::new([(from, *top), (to.max(from + 1), top + BAR)], fill.filled()))?;
                let change = quantity::change(time / base - 1.0);
                hover.push(format!("{} {what}: {} ({change})", bar.name, quantity::seconds(time)));
            }
        }
        Ok(hover)
    })
}
