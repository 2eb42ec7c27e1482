//! Horizontal bars, one a row: name, stacked segments, what they add up to. Times, rates, memory, shares.

use maud::Markup;
use plotters::prelude::*;

use super::layout::{BAR, MARGIN, Rows};
use super::palette::{BED, INK, MUTED, text_on};
use super::{Anchor, Area, PlotError, WIDTH, fitted, picture, style, text_width, write};

const NOTE_MAX: i32 = 480;

/// One row.
#[derive(Default)]
pub(crate) struct Bar {
    pub(crate) name: String,
    /// From left to right; without any, the note stands where the bar would.
    pub(crate) segments: Vec<Segment>,
    /// What stands right of the bar.
    pub(crate) note: String,
    /// What the bar must not pass.
    pub(crate) limit: Option<f64>,
    /// From where to where the end of the bar was seen.
    pub(crate) range: Option<(f64, f64)>,
}

/// One part of a bar.
pub(crate) struct Segment {
    pub(crate) value: f64,
    pub(crate) fill: RGBAColor,
    /// What it says inside, where there is room.
    pub(crate) label: String,
    /// What it says when pointed at.
    pub(crate) hover: String,
}

impl Bar {
    fn end(&self) -> f64 {
        self.segments.iter().map(|segment| segment.value).sum()
    }

    /// The rightmost thing to draw.
    fn reach(&self) -> f64 {
        [Some(self.end()), self.limit, self.range.map(|(_, most)| most)]
            .into_iter()
            .flatten()
            .fold(0.0, f64::max)
    }
}

/// Draws the bars to one scale from zero.
pub(crate) fn draw(name: &str, bars: &[Bar]) -> Result<Markup, PlotError> {
    let notes = bars.iter().filter(|bar| !bar.segments.is_empty());
    let note = notes.map(|bar| text_width(&bar.note)).max().unwrap_or_default();
    let rows = Rows::of(bars.iter().map(|bar| bar.name.as_str()));
    let left = rows.left();
    let right = WIDTH as i32 - (note.min(NOTE_MAX) + 2 * MARGIN);
    let reach = bars.iter().map(Bar::reach).fold(f64::MIN_POSITIVE, f64::max);
    let scale = Scale { left, width: f64::from(right - left), reach };
    let tops = || rows.tops().zip(bars);
    picture(rows.height(false), name, |area| {
        rows.write_names(area)?;
        for (top, bar) in tops() {
            let middle = top + BAR / 2;
            if bar.segments.is_empty() {
                let room = WIDTH as i32 - left - MARGIN;
                area.draw_text(&fitted(&bar.note, room), &style(MUTED, Anchor::Start), (left, middle))?;
            } else {
                let note = fitted(&bar.note, NOTE_MAX);
                write(area, (scale.x(bar.reach()).max(left) + MARGIN, middle), &note, Anchor::Start)?;
            }
        }
        beds(area, tops(), &scale)?;
        let hover = segments(area, tops(), &scale)?;
        marks(area, tops(), &scale)?;
        Ok(hover)
    })
}

struct Scale {
    left: i32,
    width: f64,
    reach: f64,
}

impl Scale {
    fn x(&self, value: f64) -> i32 {
        self.left + (value / self.reach * self.width).round() as i32
    }
}

/// Where a bar has a limit, the room up to it.
fn beds<'b>(
    area: &Area<'_>,
    bars: impl Iterator<Item = (i32, &'b Bar)>,
    scale: &Scale,
) -> Result<(), PlotError> {
    for (top, bar) in bars {
        if let Some(limit) = bar.limit {
            area.draw(&Rectangle::new([(scale.left, top), (scale.x(limit), top + BAR)], BED.filled()))?;
        }
    }
    Ok(())
}

fn segments<'b>(
    area: &Area<'_>,
    bars: impl Iterator<Item = (i32, &'b Bar)>,
    scale: &Scale,
) -> Result<Vec<String>, PlotError> {
    let mut hover = Vec::new();
    for (top, bar) in bars {
        let mut sum = 0.0;
        for segment in bar.segments.iter().filter(|segment| segment.value > 0.0) {
            let (from, to) = (scale.x(sum), scale.x(sum + segment.value));
            sum += segment.value;
            // One pixel of paper between neighbours, where there is one to spare.
            let to = if to - from > 3 { to - 1 } else { to.max(from + 1) };
            area.draw(&Rectangle::new([(from, top), (to, top + BAR)], segment.fill.filled()))?;
            hover.push(segment.hover.clone());
            if text_width(&segment.label) + 6 <= to - from {
                let text = style(text_on(segment.fill), Anchor::Middle);
                area.draw_text(&segment.label, &text, ((from + to) / 2, top + BAR / 2))?;
            }
        }
    }
    Ok(hover)
}

/// Limits as upright lines, ranges as whiskers.
fn marks<'b>(
    area: &Area<'_>,
    bars: impl Iterator<Item = (i32, &'b Bar)>,
    scale: &Scale,
) -> Result<(), PlotError> {
    let line = |from, to| PathElement::new(vec![from, to], INK.stroke_width(2));
    for (top, bar) in bars {
        if let Some(limit) = bar.limit {
            let [from, to] = Rows::across(top).map(|y| (scale.x(limit), y));
            area.draw(&line(from, to))?;
        }
        if let Some((least, most)) = bar.range {
            let (from, to, middle) = (scale.x(least), scale.x(most), top + BAR / 2);
            area.draw(&line((from, middle), (to, middle)))?;
            area.draw(&line((from, middle - 4), (from, middle + 4)))?;
            area.draw(&line((to, middle - 4), (to, middle + 4)))?;
        }
    }
    Ok(())
}
