//! What one memory held over time, stacked by kind, below the line of its capacity.

use maud::Markup;
use plotters::prelude::*;

use super::palette::{Categories, GRID, INK, MUTED};
use super::{Anchor, PlotError, WIDTH, picture, style};
use crate::quantity;
use crate::summary::MemoryCurve;

const HEIGHT: u32 = 250;
/// More moments than this cannot be told apart.
const MOMENTS_MAX: usize = 1_500;

/// Draws `curve` from zero to `end_s`.
pub(crate) fn draw(
    name: &str,
    curve: &MemoryCurve,
    end_s: f64,
    colours: &Categories,
) -> Result<Markup, PlotError> {
    let moments = moments(curve, end_s);
    let highest = moments.iter().map(|(_, bytes)| bytes.iter().sum::<f64>()).fold(0.0, f64::max);
    let top = (curve.capacity_bytes.unwrap_or_default() as f64).max(highest).max(1.0) * 1.1;
    let end_s = end_s.max(f64::MIN_POSITIVE);
    picture(HEIGHT, name, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_top(6)
            .margin_right(20)
            .x_label_area_size(26)
            .y_label_area_size(76)
            .build_cartesian_2d(0.0..end_s, 0.0..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style(style(MUTED, Anchor::Start))
            .x_labels(9)
            .y_labels(5)
            .x_label_formatter(&|time| quantity::seconds(*time))
            .y_label_formatter(&|bytes| quantity::bytes(*bytes as u64))
            .draw()?;
        for upto in (0..curve.kinds.len()).rev() {
            let stacked = |bytes: &[f64]| bytes[..=upto].iter().sum::<f64>();
            let line: Vec<_> = moments.iter().map(|(time, bytes)| (*time, stacked(bytes))).collect();
            chart.draw_series(
                [AreaSeries::new(staircase(&line, end_s), 0.0, colours.of(&curve.kinds[upto]))]
                    .into_iter()
                    .flatten(),
            )?;
        }
        if let Some(capacity) = curve.capacity_bytes {
            let capacity = capacity as f64;
            chart.draw_series([PathElement::new(
                vec![(0.0, capacity), (end_s, capacity)],
                INK.stroke_width(2),
            )])?;
            let label = format!("{} capacity", quantity::bytes(capacity as u64));
            let (_, y) = chart.backend_coord(&(0.0, capacity));
            area.draw_text(&label, &style(INK, Anchor::End), (WIDTH as i32 - 24, y - 9))?;
        }
        Ok(Vec::new())
    })
}

/// The curve as (time, bytes by kind), thinned by keeping of each stretch the moment with the most bytes, so that no peak
/// is lost.
fn moments(curve: &MemoryCurve, end_s: f64) -> Vec<(f64, Vec<f64>)> {
    let stretch = curve.points.len().div_ceil(MOMENTS_MAX).max(1);
    let inside: Vec<_> = curve.points.iter().filter(|point| point.at_s <= end_s).collect();
    let fullest = |points: &[&crate::summary::MemoryPoint]| {
        let point = points
            .iter()
            .max_by_key(|point| point.bytes.iter().map(|bytes| u128::from(*bytes)).sum::<u128>())?;
        let bytes =
            (0..curve.kinds.len()).map(|kind| point.bytes.get(kind).map_or(0.0, |bytes| *bytes as f64));
        Some((points[0].at_s, bytes.collect()))
    };
    inside.chunks(stretch).filter_map(fullest).collect()
}

/// A line that holds each value until the next, to the end.
fn staircase(line: &[(f64, f64)], end_s: f64) -> Vec<(f64, f64)> {
    let mut out = Vec::with_capacity(line.len() * 2 + 1);
    for (index, (time, value)) in line.iter().enumerate() {
        out.push((*time, *value));
        out.push((line.get(index + 1).map_or(end_s, |(next, _)| *next), *value));
    }
    out
}
