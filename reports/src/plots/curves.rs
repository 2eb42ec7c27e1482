//! One line a variant along a swept number.

use maud::Markup;
use plotters::coord::types::RangedCoordf64;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::palette::{Categories, GRID, MUTED};
use super::{Anchor, PlotError, WIDTH, labels, picture, style, text_width};

const HEIGHT: i32 = 380;
const LEFT: u32 = 76;
const FOOT: u32 = 48;

/// One variant: (position on the axis, value), or no value where it does not run.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, Option<f64>)>,
}

/// The two axes in words.
pub(crate) struct Axes<'a> {
    pub(crate) x_title: &'a str,
    /// The positions with their names.
    pub(crate) x: &'a [(f64, String)],
    pub(crate) y_title: &'a str,
    pub(crate) y_text: &'a dyn Fn(f64) -> String,
    /// Values that lines are held against, by position; none where there are no points.
    pub(crate) ideal: Vec<(f64, f64)>,
}

/// Length of a dash of the ideal line, and of the space behind it.
const DASH: (u32, u32) = (6, 4);

/// Draws the lines from zero upwards. The axis is logarithmic where its values spread over more than eightfold.
pub(crate) fn draw(
    name: &str,
    lines: &[Line],
    axes: &Axes<'_>,
    colours: &Categories,
) -> Result<Markup, PlotError> {
    let least = axes.x.iter().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
    let most = axes.x.iter().map(|(x, _)| *x).fold(f64::NEG_INFINITY, f64::max);
    let logarithmic = least > 0.0 && most / least > 8.0;
    let place = |x: f64| if logarithmic { x.log2() } else { x };
    let pad = (place(most) - place(least)).max(1e-9) * 0.03;
    let highest =
        lines.iter().flat_map(|line| &line.points).filter_map(|(_, y)| *y).fold(f64::MIN_POSITIVE, f64::max);
    let highest = axes.ideal.iter().map(|(_, y)| *y).fold(highest, f64::max);
    let margin = lines
        .iter()
        .map(|line| text_width(&line.label(axes)))
        .max()
        .unwrap_or_default()
        .min(labels::WIDTH_MAX)
        + 24;
    picture(HEIGHT as u32, name, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_top(26)
            .margin_right(margin as u32)
            .x_label_area_size(FOOT)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(place(least) - pad..place(most) + pad, 0.0..highest * 1.06)?;
        grid(&mut chart, axes)?;
        area.draw_text(axes.y_title, &style(MUTED, Anchor::Start), (8, 10))?;
        foot(area, &chart, axes, &place)?;
        let kind = if logarithmic { " (logarithmic)" } else { "" };
        let title = format!("{}{kind}", axes.x_title);
        let middle = (LEFT as i32 + WIDTH as i32 - margin) / 2;
        area.draw_text(&title, &style(MUTED, Anchor::Middle), (middle, HEIGHT - 10))?;
        let mut ends = Vec::new();
        if let Some((x, y)) = axes.ideal.last() {
            let ideal: Vec<_> = axes.ideal.iter().map(|(x, y)| (place(*x), *y)).collect();
            let dashes = DashedPathElement::new(ideal, DASH.0, DASH.1, MUTED.stroke_width(2));
            chart.draw_series([dashes])?;
            ends.push((chart.backend_coord(&(place(*x), *y)).1, "ideal".to_owned(), MUTED.to_rgba()));
        }
        for line in lines {
            let colour = colours.of(&line.name);
            let placed: Vec<_> = line.points.iter().map(|(x, y)| (place(*x), *y)).collect();
            for run in placed.chunk_by(|a, b| a.1.is_some() && b.1.is_some()) {
                let run: Vec<_> = run.iter().filter_map(|(x, y)| Some((*x, (*y)?))).collect();
                chart.draw_series(run.iter().map(|point| Circle::new(*point, 4, colour.filled())))?;
                chart.draw_series([PathElement::new(run, colour.stroke_width(2))])?;
            }
            let missing = placed.iter().filter(|(_, y)| y.is_none()).map(|(x, _)| (*x, 0.0));
            chart.draw_series(missing.map(|at| Cross::new(at, 5, colour.stroke_width(2))))?;
            let end = line.end().map_or((place(most), 0.0), |(x, y)| (place(x), y));
            ends.push((chart.backend_coord(&end).1, line.label(axes), colour));
        }
        labels::at_ends(area, ends, (WIDTH as i32 - margin + 4, HEIGHT - FOOT as i32 - 4))?;
        Ok(Vec::new())
    })
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

impl Line {
    /// Its last point with a value.
    fn end(&self) -> Option<(f64, f64)> {
        self.points.iter().rev().find_map(|(x, y)| Some((*x, (*y)?)))
    }

    /// Its name, and where it ends if that is before the end of the axis.
    fn label(&self, axes: &Axes<'_>) -> String {
        let Some((end, _)) = self.end() else { return format!("{}, nowhere", self.name) };
        match axes.x.iter().rposition(|(x, _)| *x == end) {
            Some(end) if end + 1 < axes.x.len() => format!("{}, up to {}", self.name, axes.x[end].1),
            _ => self.name.clone(),
        }
    }
}

/// Horizontal lines with their values.
fn grid(chart: &mut Chart<'_, '_>, axes: &Axes<'_>) -> Result<(), PlotError> {
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(TRANSPARENT)
        .label_style(style(MUTED, Anchor::Start))
        .y_labels(9)
        .y_label_formatter(&|y| (axes.y_text)(*y))
        .draw()
}

/// The swept values where they are; those too close to be read are left out.
fn foot(
    area: &super::Area<'_>,
    chart: &Chart<'_, '_>,
    axes: &Axes<'_>,
    place: &dyn Fn(f64) -> f64,
) -> Result<(), PlotError> {
    let mut free_from = i32::MIN;
    for (x, text) in axes.x {
        let (at, _) = chart.backend_coord(&(place(*x), 0.0));
        let half = text_width(text) / 2;
        if at - half > free_from {
            area.draw_text(text, &style(MUTED, Anchor::Middle), (at, HEIGHT - FOOT as i32 + 14))?;
            free_from = at + half + 6;
        }
    }
    Ok(())
}
