//! Speed against memory: every run a point. Joined are the runs of a variant that differ in how much is trained at a time, or those
//! that no other beats in both.

use std::ops::Range;

use indexmap::IndexMap;
use maud::Markup;
use plotters::prelude::*;

use super::palette::{Categories, INK};
use super::scatter::{HEIGHT, Scale, chart};
use super::{Anchor, PlotError, fitted, picture, text_width};
use crate::quantity;

const LABEL_MAX: i32 = 280;

/// One run.
pub(crate) struct Dot {
    pub(crate) variant: String,
    pub(crate) label: String,
    pub(crate) bytes: f64,
    pub(crate) speed: f64,
    /// What it has in common with the runs of its variant that it is joined with; none: it is with none.
    pub(crate) along: Option<String>,
}

/// Draws the dots with memory to the right and speed upwards.
pub(crate) fn draw(
    name: &str,
    dots: &[Dot],
    (memory, speed): (&str, &str),
    colours: &Categories,
) -> Result<Markup, PlotError> {
    let memory = Scale {
        title: memory,
        range: around(dots.iter().map(|dot| dot.bytes)),
        labels: 8,
        text: &|bytes| quantity::bytes(bytes as u64),
    };
    let range = around(dots.iter().map(|dot| dot.speed));
    let speed = Scale { title: speed, range, labels: 6, text: &quantity::count };
    picture(HEIGHT, name, |area| {
        let mut chart = chart(area, &memory, (&speed, 76))?;
        let curves = curves(dots);
        let front = if curves.is_empty() { front(dots) } else { Vec::new() };
        let path = |dots: &[&Dot]| dots.iter().map(|dot| (dot.bytes, dot.speed)).collect::<Vec<_>>();
        chart.draw_series([PathElement::new(path(&front), INK.stroke_width(1))])?;
        for curve in &curves {
            let colour = colours.of(&curve[0].variant);
            chart.draw_series([PathElement::new(path(curve), colour.stroke_width(1))])?;
        }
        for dot in dots {
            let (at, colour) = ((dot.bytes, dot.speed), colours.of(&dot.variant));
            // Runs that another beats in both are rings.
            let is_best = front.is_empty() || front.iter().any(|best| std::ptr::eq(*best, dot));
            let style = if is_best { colour.filled() } else { colour.stroke_width(2) };
            chart.draw_series([Circle::new(at, 5, style)])?;
        }
        let mut taken: Vec<(i32, i32, i32)> = Vec::new();
        // What a curve has in common stands at its last dot.
        let last = curves.iter().filter_map(|curve| curve.last());
        let named = last.filter_map(|&dot| Some((dot, dot.along.as_ref()?)));
        for (dot, label) in named.chain(front.iter().rev().map(|&dot| (dot, &dot.label))) {
            let (x, y) = chart.backend_coord(&(dot.bytes, dot.speed));
            let label = fitted(label, LABEL_MAX);
            let (from, to) = (x - 8 - text_width(&label), x - 8);
            let clear =
                taken.iter().all(|(left, right, at)| to < *left || from > *right || (y - 10 - at).abs() > 14);
            if clear && from > 80 {
                super::write(area, (x - 4, y - 11), &label, Anchor::End)?;
                taken.push((from, to, y - 10));
            }
        }
        Ok(Vec::new())
    })
}

/// The range of some values with room for marks and labels.
fn around(values: impl Iterator<Item = f64> + Clone) -> Range<f64> {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    let room = (most - least).max(most * 0.02) * 0.12;
    (least - room).max(0.0)..most + room
}

/// The runs of each variant that are joined, by ascending memory; those of one dot are not.
fn curves(dots: &[Dot]) -> Vec<Vec<&Dot>> {
    let mut curves: IndexMap<(&str, &str), Vec<&Dot>> = IndexMap::new();
    for dot in dots {
        if let Some(along) = &dot.along {
            curves.entry((&dot.variant, along)).or_default().push(dot);
        }
    }
    let mut curves: Vec<_> = curves.into_values().filter(|curve| curve.len() > 1).collect();
    curves.iter_mut().for_each(|curve| curve.sort_by(|a, b| a.bytes.total_cmp(&b.bytes)));
    curves
}

/// The dots that no other beats in both, by ascending memory.
fn front(dots: &[Dot]) -> Vec<&Dot> {
    let mut sorted: Vec<_> = dots.iter().collect();
    sorted.sort_by(|a, b| a.bytes.total_cmp(&b.bytes).then(b.speed.total_cmp(&a.speed)));
    let mut fastest = 0.0;
    sorted.retain(|dot| {
        let better = dot.speed > fastest;
        fastest = f64::max(fastest, dot.speed);
        better
    });
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(variant: &str, along: Option<&str>, [bytes, speed]: [f64; 2]) -> Dot {
        let along = along.map(str::to_owned);
        Dot { variant: variant.to_owned(), label: String::new(), bytes, speed, along }
    }

    #[test]
    fn the_front_has_no_run_that_another_beats_in_both() {
        let runs = [[4.0, 4.0], [1.0, 1.0], [2.0, 3.0], [3.0, 2.0], [2.0, 2.5], [5.0, 4.0]];
        let dots = runs.map(|run| dot("", None, run));
        let front: Vec<_> = front(&dots).iter().map(|dot| (dot.bytes, dot.speed)).collect();
        assert_eq!(front, [(1.0, 1.0), (2.0, 3.0), (4.0, 4.0)]);
        assert!(curves(&dots).is_empty());
    }

    #[test]
    fn a_curve_joins_the_runs_of_a_variant_with_the_same_model() {
        let dots = [
            dot("keep", Some("hidden 1"), [3.0, 3.0]),
            dot("keep", Some("hidden 2"), [9.0, 1.0]),
            dot("offload", Some("hidden 1"), [1.0, 2.0]),
            dot("keep", Some("hidden 1"), [2.0, 2.0]),
        ];
        let curves = curves(&dots);
        let bytes: Vec<Vec<f64>> =
            curves.iter().map(|curve| curve.iter().map(|dot| dot.bytes).collect()).collect();
        assert_eq!(bytes, [[2.0, 3.0]]);
    }
}
