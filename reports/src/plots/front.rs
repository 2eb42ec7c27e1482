//! The front of a search by two objectives: every plan a dot, of which none beats another in both.

use maud::Markup;
use plotters::prelude::*;

use super::palette::{BLUE, INK};
use super::scatter::{HEIGHT, Scale, chart};
use super::{Anchor, PlotError, fitted, picture, write};

const LABEL_MAX: i32 = 420;
/// Room beside the data, over their range.
const MARGIN: f64 = 0.12;

/// A plan: its values by both objectives, and its settings.
pub(crate) struct Dot {
    pub(crate) at: (f64, f64),
    pub(crate) label: String,
}

/// An objective: its title, and how its values are written.
pub(crate) struct Objective<'a> {
    pub(crate) title: &'a str,
    pub(crate) text: &'a dyn Fn(f64) -> String,
}

/// Draws dots with the first objective to the right and the second upwards.
pub(crate) fn draw(
    name: &str,
    dots: &[Dot],
    x: &Objective<'_>,
    y: &Objective<'_>,
) -> Result<Markup, PlotError> {
    let mut sorted: Vec<&Dot> = dots.iter().collect();
    sorted.sort_by(|one, other| one.at.0.total_cmp(&other.at.0));
    let [across, up] = [range(dots.iter().map(|dot| dot.at.0)), range(dots.iter().map(|dot| dot.at.1))];
    let x = Scale { title: x.title, range: across, labels: 7, text: x.text };
    let y = Scale { title: y.title, range: up, labels: 6, text: y.text };
    picture(HEIGHT, name, |area| {
        let mut chart = chart(area, &x, (&y, 92))?;
        chart.draw_series([PathElement::new(
            sorted.iter().map(|dot| dot.at).collect::<Vec<_>>(),
            INK.stroke_width(1),
        )])?;
        chart.draw_series(sorted.iter().map(|dot| Circle::new(dot.at, 5, BLUE.filled())))?;
        // Ends are told, off the line; the table below has the others.
        let ends = [(sorted.first(), Anchor::Start, (8, -11)), (sorted.last(), Anchor::End, (-8, 13))];
        for (dot, anchor, beside) in ends {
            let Some(dot) = dot else { continue };
            let (left, top) = chart.backend_coord(&dot.at);
            write(area, (left + beside.0, top + beside.1), &fitted(&dot.label, LABEL_MAX), anchor)?;
        }
        Ok(Vec::new())
    })
}

/// The range of values with room on both sides.
fn range(values: impl Iterator<Item = f64> + Clone) -> std::ops::Range<f64> {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    let room = ((most - least) * MARGIN).max(most.abs() * 1e-3).max(f64::MIN_POSITIVE);
    (least - room)..(most + room)
}
