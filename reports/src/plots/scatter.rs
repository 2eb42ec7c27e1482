//! The ground of charts of dots: two axes with titles, and a grid.

use std::ops::Range;

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::palette::{GRID, MUTED};
use super::{Anchor, Area, PlotError, WIDTH, style};

/// Height of the pictures.
pub(crate) const HEIGHT: u32 = 340;

/// An axis.
pub(crate) struct Scale<'a> {
    pub(crate) title: &'a str,
    pub(crate) range: Range<f64>,
    /// Most values that are written beside it.
    pub(crate) labels: usize,
    pub(crate) text: &'a dyn Fn(f64) -> String,
}

/// A chart to draw dots on.
pub(crate) type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Draws the axes, the values of the upright one within `width`.
pub(crate) fn chart<'a, 'b>(
    area: &'a Area<'b>,
    x: &Scale<'_>,
    (y, width): (&Scale<'_>, u32),
) -> Result<Chart<'a, 'b>, PlotError> {
    let mut chart = ChartBuilder::on(area)
        .margin_top(26)
        .margin_right(24)
        .x_label_area_size(48)
        .y_label_area_size(width)
        .build_cartesian_2d(x.range.clone(), y.range.clone())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(GRID)
        .label_style(style(MUTED, Anchor::Start))
        .x_labels(x.labels)
        .y_labels(y.labels)
        .x_label_formatter(&|value| (x.text)(*value))
        .y_label_formatter(&|value| (y.text)(*value))
        .draw()?;
    area.draw_text(y.title, &style(MUTED, Anchor::Start), (8, 10))?;
    area.draw_text(x.title, &style(MUTED, Anchor::Middle), (WIDTH as i32 / 2, HEIGHT as i32 - 10))?;
    Ok(chart)
}
