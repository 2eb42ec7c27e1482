//! How well a law fits: predictions beside measurements, and what is left over.

use maud::Markup;
use plotters::prelude::*;

use super::agreement::{Cloud, FOOT, HEIGHT, LEFT, SPLIT, TOP, bounds, pairs, ticks};
use super::palette::{BED, Categories, GRID, INK, MUTED};
use super::{Anchor, Area, PlotError, WIDTH, picture, style};
use crate::validation::Unit;

/// The scale of what is left over ends no nearer than here.
const NEAREST: f64 = 0.05;

/// Draws both; pairs are of times (s).
pub(crate) fn draw(name: &str, clouds: &[Cloud], colours: &Categories) -> Result<Markup, PlotError> {
    picture(HEIGHT as u32, name, |area| {
        let (left, right) = area.split_horizontally(SPLIT);
        pairs(&left, clouds, Unit::Seconds, None, colours)?;
        left_over(&right, clouds, colours)?;
        Ok(Vec::new())
    })
}

/// Measured to the right, the relative error upwards.
fn left_over(area: &Area<'_>, clouds: &[Cloud], colours: &Categories) -> Result<(), PlotError> {
    let Some((least, most)) = bounds(clouds) else { return Ok(()) };
    let error = |&(measured, predicted): &(f64, f64)| predicted / measured - 1.0;
    let errors = clouds.iter().flat_map(|cloud| &cloud.pairs).map(error);
    let reach = errors.map(f64::abs).filter(|error| error.is_finite()).fold(NEAREST, f64::max) * 1.1;
    let (ends, size) = ((LEFT, WIDTH as i32 - SPLIT - 16), HEIGHT - TOP - FOOT);
    let x = |value: f64| {
        ends.0 + ((value / least).ln() / (most / least).ln() * f64::from(ends.1 - ends.0)).round() as i32
    };
    let y = |error: f64| TOP + ((1.0 - error / reach) / 2.0 * f64::from(size)).round() as i32;
    area.draw(&Rectangle::new([(ends.0, TOP), (ends.1, TOP + size)], BED.filled()))?;
    for tick in ticks(least, most) {
        area.draw(&PathElement::new(vec![(x(tick), TOP), (x(tick), TOP + size)], GRID.stroke_width(1)))?;
        area.draw_text(
            &Unit::Seconds.words(tick),
            &style(MUTED, Anchor::Middle),
            (x(tick), TOP + size + 14),
        )?;
    }
    for share in [-1.0, -0.5, 0.0, 0.5, 1.0] {
        let error = share * reach / 1.1;
        let colour = if share == 0.0 { INK } else { GRID };
        area.draw(&PathElement::new(vec![(ends.0, y(error)), (ends.1, y(error))], colour.stroke_width(1)))?;
        let text = if share == 0.0 { "0".to_owned() } else { format!("{:+.1} %", 100.0 * error) };
        area.draw_text(&text, &style(MUTED, Anchor::End), (ends.0 - 6, y(error)))?;
    }
    for cloud in clouds {
        let colour = colours.of(&cloud.name);
        for pair in cloud.pairs.iter().filter(|pair| error(pair).is_finite()) {
            area.draw(&Circle::new((x(pair.0), y(error(pair))), 4, colour.filled()))?;
        }
    }
    area.draw_text("error of the law", &style(MUTED, Anchor::Start), (4, 12))?;
    let middle = i32::midpoint(ends.0, ends.1);
    area.draw_text("measured (logarithmic)", &style(MUTED, Anchor::Middle), (middle, HEIGHT - 12))
}
