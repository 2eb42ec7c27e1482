//! A waterfall: from one total to another by differences, each where the one before ended.

use maud::Markup;
use plotters::prelude::*;

use super::layout::{BAR, MARGIN, Rows};
use super::palette::{BLUE, GREEN, GRID, VERMILLION};
use super::{Anchor, PlotError, WIDTH, picture, write};
use crate::quantity;

/// Room for a number beside a bar.
const NUMBER: i32 = 90;

/// Colour of the totals, of what is saved and of what is added.
pub(crate) const TOTAL: RGBAColor = RGBAColor(BLUE.0, BLUE.1, BLUE.2, 1.0);
pub(crate) const LESS: RGBAColor = RGBAColor(GREEN.0, GREEN.1, GREEN.2, 1.0);
pub(crate) const MORE: RGBAColor = RGBAColor(VERMILLION.0, VERMILLION.1, VERMILLION.2, 1.0);

/// A bar from a time to another (s).
struct Bar<'a> {
    name: &'a str,
    from: f64,
    to: f64,
    fill: RGBAColor,
    note: String,
}

/// Draws the way from a total to another over differences (s), which add up to theirs.
pub(crate) fn draw(
    name: &str,
    [before, after]: [(&str, f64); 2],
    differences: &[(&str, f64)],
) -> Result<Markup, PlotError> {
    let bars = bars([before, after], differences);
    let most = bars.iter().flat_map(|bar| [bar.from, bar.to]).fold(f64::MIN_POSITIVE, f64::max);
    let rows = Rows::of(bars.iter().map(|bar| bar.name));
    let left = rows.left();
    let width = f64::from(WIDTH as i32 - NUMBER - left);
    let x = |time: f64| left + (time / most * width).round() as i32;
    picture(rows.height(false), name, |area| {
        rows.write_names(area)?;
        let tops: Vec<i32> = rows.tops().collect();
        for (bar, top) in bars.iter().zip(&tops) {
            let middle = top + BAR / 2;
            write(area, (x(bar.from.max(bar.to)) + MARGIN, middle), &bar.note, Anchor::Start)?;
        }
        // Each begins where the one before ended.
        for ((bar, top), next) in bars.iter().zip(&tops).zip(tops.iter().skip(1)) {
            let line = vec![(x(bar.to), top + BAR), (x(bar.to), *next)];
            area.draw(&PathElement::new(line, GRID.stroke_width(1)))?;
        }
        for (bar, top) in bars.iter().zip(&tops) {
            let (from, to) = (x(bar.from.min(bar.to)), x(bar.from.max(bar.to)));
            area.draw(&Rectangle::new([(from, *top), (to.max(from + 1), top + BAR)], bar.fill.filled()))?;
        }
        Ok(bars.iter().map(|bar| format!("{}: {}", bar.name, bar.note)).collect())
    })
}

fn bars<'a>([before, after]: [(&'a str, f64); 2], differences: &[(&'a str, f64)]) -> Vec<Bar<'a>> {
    let total = |(name, time): (&'a str, f64)| Bar {
        name,
        from: 0.0,
        to: time,
        fill: TOTAL,
        note: quantity::seconds(time),
    };
    let mut bars = vec![total(before)];
    let mut at = before.1;
    for &(name, difference) in differences {
        let (fill, sign) = if difference > 0.0 { (MORE, "+") } else { (LESS, "-") };
        let note = format!("{sign}{}", quantity::seconds(difference.abs()));
        bars.push(Bar { name, from: at, to: at + difference, fill, note });
        at += difference;
    }
    bars.push(total(after));
    bars
}
