//! Who does what when: one row a rank, one box a span.

use maud::Markup;
use plotters::prelude::*;

use super::palette::{BED, GRID, MUTED, of_state, text_on};
use super::{Anchor, PlotError, WIDTH, fitted, picture, style, text_width, write};
use crate::quantity;
use crate::summary::{Timeline, TimelineSpan};

const ROW: i32 = 26;
const BAR: i32 = 22;
const FOOT: i32 = 26;
const ROWS_MAX: usize = 64;
const NAME_MAX: i32 = 150;
const TICKS: usize = 8;

/// A timeline, and whether all ranks of it are drawn.
pub(crate) struct Drawn {
    pub(crate) picture: Markup,
    pub(crate) rows_shown: usize,
}

/// Draws `timeline` to the scale of `end_s`, so that several can be compared, with at most about `boxes_max` boxes.
pub(crate) fn draw(
    name: &str,
    timeline: &Timeline,
    end_s: f64,
    boxes_max: usize,
) -> Result<Drawn, PlotError> {
    let end_s = if end_s.is_finite() { end_s.max(f64::MIN_POSITIVE) } else { f64::MIN_POSITIVE };
    let step = timeline.rows.len().div_ceil(ROWS_MAX).max(1);
    let rows: Vec<_> = timeline.rows.iter().step_by(step).collect();
    let left = rows.iter().map(|row| text_width(&row.name)).max().unwrap_or_default().min(NAME_MAX) + 14;
    let scale = f64::from(WIDTH as i32 - left - 24) / end_s;
    let x = |time: f64| left + (time.clamp(0.0, end_s) * scale).round() as i32;
    let all: Vec<_> = rows.iter().map(|row| row.spans.as_slice()).collect();
    let spans = readable(&all, scale, boxes_max);
    let height = rows.len() as i32 * ROW + FOOT;
    let picture = picture(height as u32, name, |area| {
        for (index, row) in rows.iter().enumerate() {
            let top = index as i32 * ROW;
            write(area, (left - 8, top + ROW / 2), &fitted(&row.name, NAME_MAX), Anchor::End)?;
            area.draw(&Rectangle::new([(left, top + 2), (x(end_s), top + 2 + BAR)], BED.filled()))?;
        }
        for tick in ticks(end_s) {
            area.draw(&PathElement::new(
                vec![(x(tick), 0), (x(tick), height - FOOT + 4)],
                GRID.stroke_width(1),
            ))?;
            area.draw_text(&quantity::seconds(tick), &style(MUTED, Anchor::Middle), (x(tick), height - 10))?;
        }
        let mut hover = Vec::new();
        for (index, spans) in spans.iter().enumerate() {
            let top = index as i32 * ROW + 2;
            for span in spans {
                let (from, to) = (x(span.start_s), x(span.end_s));
                let to = if to - from > 3 { to - 1 } else { to.max(from + 1) };
                let fill = of_state(&span.state);
                area.draw(&Rectangle::new([(from, top), (to, top + BAR)], fill.filled()))?;
                hover.push(hover_text(span));
                if !span.label.is_empty() && text_width(&span.label) + 2 <= to - from {
                    let text = style(text_on(fill), Anchor::Middle);
                    area.draw_text(&span.label, &text, ((from + to) / 2, top + BAR / 2))?;
                }
            }
        }
        Ok(hover)
    })?;
    Ok(Drawn { picture, rows_shown: rows.len() })
}

fn hover_text(span: &TimelineSpan) -> String {
    let (from, lasts) = (quantity::seconds(span.start_s), quantity::seconds(span.end_s - span.start_s));
    let label = if span.label.is_empty() { String::new() } else { format!("{} · ", span.label) };
    format!("{label}{} · {lasts}, from {from}", span.state)
}

/// The spans as they will be drawn: neighbours too narrow to be seen are joined, coarser and coarser until there are few
/// enough.
fn readable(rows: &[&[TimelineSpan]], scale: f64, boxes_max: usize) -> Vec<Vec<TimelineSpan>> {
    let mut narrowest = 1.0;
    loop {
        let joined: Vec<_> = rows.iter().map(|spans| join(spans, narrowest / scale)).collect();
        if joined.iter().map(Vec::len).sum::<usize>() <= boxes_max || narrowest > f64::from(WIDTH) {
            return joined;
        }
        narrowest *= 1.5;
    }
}

/// Joins neighbours until each joint lasts at least `shortest_s`; it has the state that most of it was in.
fn join(spans: &[TimelineSpan], shortest_s: f64) -> Vec<TimelineSpan> {
    let mut out = Vec::new();
    let mut rest = spans;
    while let Some(first) = rest.first() {
        let enough = rest.iter().position(|span| span.end_s - first.start_s >= shortest_s);
        let (group, tail) = rest.split_at(enough.map_or(rest.len(), |last| last + 1));
        rest = tail;
        out.push(joint(group));
    }
    out
}

fn joint(group: &[TimelineSpan]) -> TimelineSpan {
    let length = |span: &TimelineSpan| span.end_s - span.start_s;
    let mut longest = &group[0];
    for span in group {
        if length(span) > length(longest) {
            longest = span;
        }
    }
    let label = if group.len() == 1 { longest.label.clone() } else { format!("{} spans", group.len()) };
    let (start_s, end_s) = (group[0].start_s, group[group.len() - 1].end_s);
    TimelineSpan { start_s, end_s, state: longest.state.clone(), label }
}

/// Round times from zero, few enough to be read.
fn ticks(end_s: f64) -> Vec<f64> {
    if end_s.is_nan() || end_s <= 0.0 {
        return vec![0.0];
    }
    let coarse = 10f64.powf((end_s / TICKS as f64).log10().ceil());
    let step =
        [0.2, 0.25, 0.5, 1.0].map(|part| part * coarse).into_iter().find(|step| end_s / step <= TICKS as f64);
    let step = step.unwrap_or(coarse);
    (0..=TICKS).map(|index| index as f64 * step).take_while(|tick| *tick <= end_s).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(count: usize) -> Vec<TimelineSpan> {
        (0..count)
            .map(|index| TimelineSpan {
                start_s: index as f64,
                end_s: index as f64 + 1.0,
                state: if index % 3 == 0 { "communication" } else { "compute" }.to_owned(),
                label: format!("op {index}"),
            })
            .collect()
    }

    #[test]
    fn joining_keeps_every_moment_and_stays_below_the_limit() {
        let spans = spans(100_000);
        let rows = readable(&[&spans, &spans], 880.0 / 100_000.0, 500);
        assert!(rows.iter().map(Vec::len).sum::<usize>() <= 500);
        for row in rows {
            assert_eq!((row[0].start_s, row[row.len() - 1].end_s), (0.0, 100_000.0));
            assert!(row.windows(2).all(|pair| pair[0].end_s == pair[1].start_s));
        }
    }

    #[test]
    fn what_can_be_seen_stays_as_it_is() {
        let spans = spans(20);
        assert_eq!(readable(&[&spans], 40.0, 2000), vec![spans]);
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(
            ticks(1.46),
            vec![0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0, 1.2000000000000002, 1.4000000000000001]
        );
        assert_eq!(ticks(0.0), vec![0.0]);
        for end in [1e-9, 0.3, 7.0, 99.0, 12_345.0] {
            assert!((3..=9).contains(&ticks(end).len()), "{end}: {:?}", ticks(end));
        }
    }
}
