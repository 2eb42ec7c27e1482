//! Predictions beside measurements: each pair on logarithmic axes, and how their errors are distributed.

use maud::Markup;
use plotters::prelude::*;

use super::palette::{BED, BLUE, Categories, GRID, INK, MUTED, VERMILLION};
use super::{Anchor, Area, PlotError, WIDTH, picture, style, write};
use crate::validation::Unit;

pub(super) const HEIGHT: i32 = 400;
pub(super) const SPLIT: i32 = 470;
pub(super) const LEFT: i32 = 80;
pub(super) const TOP: i32 = 30;
pub(super) const FOOT: i32 = 50;
/// Errors beyond this share are counted in the last bar.
const ERROR_MAX: f64 = 0.5;
const BARS: usize = 41;

/// Pairs of one colour.
pub(crate) struct Cloud {
    pub(crate) name: String,
    /// (measured, predicted), positive.
    pub(crate) pairs: Vec<(f64, f64)>,
}

/// Draws both. The dashed lines are at `band`, the error to reach, where there is one.
pub(crate) fn draw(
    name: &str,
    clouds: &[Cloud],
    unit: Unit,
    band: Option<f64>,
    colours: &Categories,
) -> Result<Markup, PlotError> {
    picture(HEIGHT as u32, name, |area| {
        let (left, right) = area.split_horizontally(SPLIT);
        pairs(&left, clouds, unit, band, colours)?;
        errors(&right, clouds, band)?;
        Ok(Vec::new())
    })
}

/// Measured to the right, predicted upwards.
pub(super) fn pairs(
    area: &Area<'_>,
    clouds: &[Cloud],
    unit: Unit,
    band: Option<f64>,
    colours: &Categories,
) -> Result<(), PlotError> {
    let Some((least, most)) = bounds(clouds) else { return Ok(()) };
    let (ends, size) = ((LEFT, SPLIT - 20), HEIGHT - TOP - FOOT);
    let place = |value: f64| (value.max(least) / least).ln() / (most / least).ln();
    let x = |value: f64| ends.0 + (place(value) * f64::from(ends.1 - ends.0)).round() as i32;
    let y = |value: f64| TOP + size - (place(value) * f64::from(size)).round() as i32;
    for tick in ticks(least, most) {
        let label = unit.words(tick);
        area.draw(&PathElement::new(vec![(x(tick), TOP), (x(tick), TOP + size)], GRID.stroke_width(1)))?;
        area.draw(&PathElement::new(vec![(ends.0, y(tick)), (ends.1, y(tick))], GRID.stroke_width(1)))?;
        area.draw_text(&label, &style(MUTED, Anchor::Middle), (x(tick), TOP + size + 14))?;
        area.draw_text(&label, &style(MUTED, Anchor::End), (ends.0 - 6, y(tick)))?;
    }
    for (factor, colour) in [(1.0, INK)]
        .into_iter()
        .chain(band.into_iter().flat_map(|band| [(1.0 - band, MUTED), (1.0 + band, MUTED)]))
    {
        // The line of a factor, cut where it leaves the square.
        let (from, to) = (least.max(least / factor), most.min(most / factor));
        let line = vec![(x(from), y(from * factor)), (x(to), y(to * factor))];
        area.draw(&PathElement::new(line, colour.stroke_width(1)))?;
    }
    for cloud in clouds {
        let colour = colours.of(&cloud.name).mix(0.6);
        for &(measured, predicted) in &cloud.pairs {
            area.draw(&Circle::new((x(measured), y(predicted)), 3, colour.filled()))?;
        }
    }
    area.draw_text("predicted", &style(MUTED, Anchor::Start), (8, 12))?;
    let middle = i32::midpoint(ends.0, ends.1);
    area.draw_text("measured (both logarithmic)", &style(MUTED, Anchor::Middle), (middle, HEIGHT - 12))
}

/// A little below the least and above the most of all pairs; none without any.
pub(super) fn bounds(clouds: &[Cloud]) -> Option<(f64, f64)> {
    let all = || clouds.iter().flat_map(|cloud| &cloud.pairs).flat_map(|&(a, b)| [a, b]);
    let positive = || all().filter(|value| *value > 0.0 && value.is_finite());
    let least = positive().fold(f64::INFINITY, f64::min) / 1.15;
    let most = positive().fold(0.0, f64::max) * 1.15;
    (least < most).then_some((least, most))
}

/// How many rows have which error.
fn errors(area: &Area<'_>, clouds: &[Cloud], band: Option<f64>) -> Result<(), PlotError> {
    let mut counts = [0usize; BARS];
    let width = 2.0 * ERROR_MAX / (BARS - 2) as f64;
    for &(measured, predicted) in clouds.iter().flat_map(|cloud| &cloud.pairs) {
        let place = ((predicted / measured - 1.0 + ERROR_MAX) / width).floor() + 1.0;
        counts[(place.max(0.0) as usize).min(BARS - 1)] += 1;
    }
    let highest = counts.iter().copied().max().unwrap_or_default().max(1);
    let (left, right) = (40, WIDTH as i32 - SPLIT - 16);
    let size = HEIGHT - TOP - FOOT;
    let bar = f64::from(right - left) / BARS as f64;
    let edge = |index: f64| left + (index * bar).round() as i32;
    let at = |error: f64| edge((error + ERROR_MAX) / width + 1.0);
    area.draw(&Rectangle::new([(left, TOP), (right, TOP + size)], BED.filled()))?;
    for (index, &count) in counts.iter().enumerate() {
        let error = (index as f64 - 0.5) * width - ERROR_MAX;
        let within = band.is_none_or(|band| error.abs() <= band + width / 2.0);
        let top = TOP + size - (count as f64 / highest as f64 * f64::from(size)).round() as i32;
        let colour = if within { BLUE } else { VERMILLION };
        let (from, to) = (edge(index as f64), edge(index as f64 + 1.0) - 1);
        if count > 0 {
            area.draw(&Rectangle::new([(from, top.min(TOP + size - 1)), (to, TOP + size)], colour.filled()))?;
        }
    }
    for error in [-ERROR_MAX, -ERROR_MAX / 2.0, 0.0, ERROR_MAX / 2.0, ERROR_MAX] {
        let text = if error == 0.0 { "0".to_owned() } else { format!("{:+.0} %", 100.0 * error) };
        area.draw_text(&text, &style(MUTED, Anchor::Middle), (at(error), TOP + size + 14))?;
    }
    let zero = PathElement::new(vec![(at(0.0), TOP), (at(0.0), TOP + size)], INK.stroke_width(1));
    area.draw(&zero)?;
    write(area, (left - 6, TOP + 4), &highest.to_string(), Anchor::End)?;
    area.draw_text("rows", &style(MUTED, Anchor::Start), (4, 12))?;
    let middle = i32::midpoint(left, right);
    area.draw_text("error (ends: and beyond)", &style(MUTED, Anchor::Middle), (middle, HEIGHT - 12))
}

/// At most six round values between two: powers of ten, with 2 and 5 between where there are few.
pub(super) fn ticks(least: f64, most: f64) -> Vec<f64> {
    let within = |steps: &[f64]| -> Vec<f64> {
        let powers = least.log10().floor() as i32..=most.log10().ceil() as i32;
        let values = powers.flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
        values.filter(|value| (least..=most).contains(value)).collect()
    };
    let fine = within(&[1.0, 2.0, 5.0]);
    if fine.len() <= 6 { fine } else { within(&[1.0]) }
}
