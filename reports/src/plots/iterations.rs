//! Times of the iterations of a program, one line a variant: tracing, capturing and compiling
//! stand out.

use maud::Markup;
use plotters::prelude::*;

use super::palette::{Categories, GRID, MUTED};
use super::{Anchor, PlotError, WIDTH, labels, picture, style, text_width};
use crate::quantity;

const HEIGHT: u32 = 340;
const LEFT: u32 = 76;
const FOOT: u32 = 48;
/// Iterations whose times are dots, too.
const DOTS_MAX: usize = 64;
/// Ratio of the longest to the shortest time from which on the axis is logarithmic.
const LOGARITHMIC_FROM: f64 = 4.0;

/// Times of the iterations of a variant, the first one first.
pub(crate) struct Line<'a> {
    pub(crate) name: &'a str,
    pub(crate) times_s: &'a [f64],
}

/// Draws the lines: iterations to the right, times upwards.
pub(crate) fn draw(name: &str, lines: &[Line<'_>], colours: &Categories) -> Result<Markup, PlotError> {
    let count = lines.iter().map(|line| line.times_s.len()).max().unwrap_or_default();
    let (ticks, logarithmic) = heights(lines);
    let place = |time: f64| if logarithmic { time.log10() } else { time };
    let bottom = if logarithmic { ticks.first().map_or(0.0, |tick| place(*tick)) } else { 0.0 };
    let top = ticks.last().map_or(1.0, |tick| place(*tick)).max(bottom + f64::MIN_POSITIVE);
    let margin = lines.iter().map(|line| text_width(line.name)).max().unwrap_or_default();
    let margin = margin.min(labels::WIDTH_MAX) + 24;
    picture(HEIGHT, name, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_top(26)
            .margin_right(margin as u32)
            .x_label_area_size(FOOT)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(0.5..count as f64 + 0.5, bottom..top)?;
        for tick in &ticks {
            let ends = [0.5, count as f64 + 0.5].map(|x| (x, place(*tick)));
            chart.draw_series([PathElement::new(ends.to_vec(), GRID.stroke_width(1))])?;
            let (x, y) = chart.backend_coord(&ends[0]);
            area.draw_text(&quantity::seconds(*tick), &style(MUTED, Anchor::End), (x - 8, y))?;
        }
        for number in numbers(count) {
            let (x, y) = chart.backend_coord(&(number as f64, bottom));
            area.draw_text(&number.to_string(), &style(MUTED, Anchor::Middle), (x, y + 14))?;
        }
        let kind = if logarithmic { " (logarithmic)" } else { "" };
        area.draw_text(&format!("time of an iteration{kind}"), &style(MUTED, Anchor::Start), (8, 10))?;
        let middle = (LEFT as i32 + WIDTH as i32 - margin) / 2;
        area.draw_text("iteration", &style(MUTED, Anchor::Middle), (middle, HEIGHT as i32 - 10))?;
        let mut ends = Vec::new();
        for line in lines {
            let colour = colours.of(line.name);
            let at = |(number, time): (f64, &f64)| (number, place(*time));
            let points: Vec<(f64, f64)> = (1..).map(f64::from).zip(line.times_s).map(at).collect();
            if count <= DOTS_MAX {
                chart.draw_series(points.iter().map(|point| Circle::new(*point, 2, colour.filled())))?;
            }
            let Some(end) = points.last().copied() else { continue };
            chart.draw_series([PathElement::new(points, colour.stroke_width(2))])?;
            ends.push((chart.backend_coord(&end).1, line.name.to_owned(), colour));
        }
        labels::at_ends(area, ends, (WIDTH as i32 - margin + 4, (HEIGHT - FOOT) as i32 - 4))?;
        Ok(Vec::new())
    })
}

/// Heights of the grid, the first and the last around all times; true if they are logarithmic.
fn heights(lines: &[Line<'_>]) -> (Vec<f64>, bool) {
    let times = || lines.iter().flat_map(|line| line.times_s).copied().filter(|time| *time > 0.0);
    let (least, most) = (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max));
    if !(least.is_finite() && most.is_finite() && most > 0.0) {
        return (Vec::new(), false);
    }
    if most < least * LOGARITHMIC_FROM {
        let step = round_step(most / 5.0);
        let steps = (most / step).ceil() as u32;
        return ((0..=steps).map(|at| f64::from(at) * step).collect(), false);
    }
    let decades = least.log10().floor() as i32..=most.log10().ceil() as i32;
    let parts: &[f64] = if decades.clone().count() > 5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let all: Vec<f64> =
        decades.flat_map(|decade| parts.iter().map(move |part| part * 10f64.powi(decade))).collect();
    let first = all.iter().rposition(|height| *height <= least).unwrap_or_default();
    let last = all.iter().position(|height| *height >= most).unwrap_or(all.len() - 1);
    (all[first..=last].to_vec(), true)
}

/// The least of 1, 2 and 5 times a power of ten that is not below `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powi(least.log10().floor() as i32);
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|part| part * power).find(|step| *step >= least).unwrap_or(power)
}

/// The first iteration, and round ones after it.
fn numbers(count: usize) -> Vec<usize> {
    let step = round_step((count as f64 / 8.0).max(1.0)) as usize;
    let round = (1..=count / step).map(|at| at * step).filter(|number| *number > 1);
    [1].into_iter().filter(|first| *first <= count).chain(round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(times_s: &[f64]) -> Line<'_> {
        Line { name: "eager", times_s }
    }

    #[test]
    fn the_grid_encloses_all_times() {
        let (even, logarithmic) = heights(&[line(&[0.091, 0.117, 0.092])]);
        assert!(!logarithmic && even[0] == 0.0, "{even:?}");
        assert!(even.last().is_some_and(|most| (0.117..0.2).contains(most)), "{even:?}");
        let (spikes, logarithmic) = heights(&[line(&[11.3, 0.091]), line(&[0.117, 0.097])]);
        assert!(logarithmic, "{spikes:?}");
        assert_eq!([spikes[0], spikes[spikes.len() - 1]].map(quantity::seconds), ["50.0 ms", "20.0 s"]);
        assert_eq!(heights(&[line(&[])]), (vec![], false));
        assert_eq!(heights(&[line(&[0.0, f64::NAN])]), (vec![], false));
    }

    #[test]
    fn iterations_are_counted_from_one() {
        assert_eq!(numbers(6), [1, 2, 3, 4, 5, 6]);
        assert_eq!(numbers(40), [1, 5, 10, 15, 20, 25, 30, 35, 40]);
        assert_eq!(numbers(1), [1]);
        assert!(numbers(0).is_empty());
    }
}
