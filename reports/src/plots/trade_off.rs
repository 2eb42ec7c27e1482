//! Speed against memory: every run a point, joined are those that no other beats in both.

use maud::Markup;
use plotters::prelude::*;

use super::palette::{Categories, GRID, INK, MUTED};
use super::{Anchor, PlotError, WIDTH, fitted, picture, style, text_width};
use crate::quantity;

const HEIGHT: u32 = 340;
const LABEL_MAX: i32 = 280;

/// One run.
pub(crate) struct Dot {
    pub(crate) variant: String,
    pub(crate) label: String,
    pub(crate) bytes: f64,
    pub(crate) speed: f64,
}

/// Draws the dots with memory to the right and speed upwards.
pub(crate) fn draw(
    name: &str,
    dots: &[Dot],
    (memory, speed): (&str, &str),
    colours: &Categories,
) -> Result<Markup, PlotError> {
    let widest = dots.iter().map(|dot| dot.bytes).fold(1.0, f64::max);
    let fastest = dots.iter().map(|dot| dot.speed).fold(f64::MIN_POSITIVE, f64::max);
    picture(HEIGHT, name, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_top(26)
            .margin_right(24)
            .x_label_area_size(48)
            .y_label_area_size(76)
            .build_cartesian_2d(0.0..widest * 1.08, 0.0..fastest * 1.12)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style(style(MUTED, Anchor::Start))
            .x_labels(8)
            .y_labels(6)
            .x_label_formatter(&|bytes| quantity::bytes(*bytes as u64))
            .y_label_formatter(&|value| quantity::count(*value))
            .draw()?;
        area.draw_text(speed, &style(MUTED, Anchor::Start), (8, 10))?;
        area.draw_text(memory, &style(MUTED, Anchor::Middle), (WIDTH as i32 / 2, HEIGHT as i32 - 10))?;
        let front = front(dots);
        let line = front.iter().map(|dot| (dot.bytes, dot.speed)).collect::<Vec<_>>();
        chart.draw_series([PathElement::new(line, INK.stroke_width(1))])?;
        for dot in dots {
            chart.draw_series([Circle::new((dot.bytes, dot.speed), 5, colours.of(&dot.variant).filled())])?;
        }
        let mut taken: Vec<(i32, i32, i32)> = Vec::new();
        for dot in front.iter().rev() {
            let (x, y) = chart.backend_coord(&(dot.bytes, dot.speed));
            let label = fitted(&dot.label, LABEL_MAX);
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

    #[test]
    fn the_front_has_no_run_that_another_beats_in_both() {
        let dot = |bytes, speed| Dot { variant: String::new(), label: String::new(), bytes, speed };
        let dots = [dot(4.0, 4.0), dot(1.0, 1.0), dot(2.0, 3.0), dot(3.0, 2.0), dot(2.0, 2.5), dot(5.0, 4.0)];
        let front: Vec<_> = front(&dots).iter().map(|dot| (dot.bytes, dot.speed)).collect();
        assert_eq!(front, [(1.0, 1.0), (2.0, 3.0), (4.0, 4.0)]);
    }
}
