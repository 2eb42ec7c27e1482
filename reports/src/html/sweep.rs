//! Over a sweep: where the answer holds, what speed costs in memory, every run.

use maud::{Markup, html};

use super::{Page, answer, figure, legend, memory};
use crate::axis;
use crate::finding::verdict;
use crate::plots::PlotError;
use crate::plots::curves::{self, Axes, Line};
use crate::plots::heat_map::{self, Cell};
use crate::quantity;
use crate::ranking::{Point, Speed};
use crate::summary::{RunSummary, short_path};

/// Lines that can be told apart in one chart.
const LINES_MAX: usize = 14;

pub(super) fn section(page: &Page<'_>) -> Result<Markup, PlotError> {
    Ok(html! {
        section {
            h2 { "Where does that hold?" }
            (along_axes(page)?)
            (memory::trade_off(page)?)
            figure {
                figcaption {
                    h3 { "What came out at every point?" }
                    p.aid { "One row a run; click a title to sort. Bold is the fastest of its point; a run without step time says why." }
                }
                (answer::runs(page))
            }
            (answer::failures(page))
        }
    })
}

/// Curves along one numeric axis, otherwise a map over the first two axes.
fn along_axes(page: &Page<'_>) -> Result<Markup, PlotError> {
    let axes = &page.summary.axes;
    if let [path] = &axes[..]
        && let Some(positions) = positions(page, path)
    {
        return curve(page, path, &positions);
    }
    match &axes[..] {
        [] => Ok(html! {}),
        [columns] => map(page, columns, None),
        [columns, rows, ..] => map(page, columns, Some(rows)),
    }
}

/// The values of an axis as (number, as written), ascending; none if one is not a number.
fn positions(page: &Page<'_>, path: &str) -> Option<Vec<(f64, String)>> {
    let written = written(page, path);
    let mut positions: Vec<_> =
        written.into_iter().map(|text| Some((axis::number(&text)?, text))).collect::<Option<_>>()?;
    positions.sort_by(|a, b| a.0.total_cmp(&b.0));
    Some(positions)
}

/// The values of an axis, each once, in the order of the file.
fn written(page: &Page<'_>, path: &str) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for value in page.points.iter().filter_map(|point| point.values.get(path)) {
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    values
}

fn curve(page: &Page<'_>, path: &str, positions: &[(f64, String)]) -> Result<Markup, PlotError> {
    let variants =
        legend(page.summary.variants.iter().map(|run| run.variant.as_str()), |name| page.variants.of(name));
    let all: Vec<_> = variants.iter().map(|(name, _)| line(page, path, name, positions)).collect();
    let count = all.len();
    let lines = leading(page.speed, all);
    let some = if lines.len() < count {
        format!(" The best {} of {count} are shown.", lines.len())
    } else {
        String::new()
    };
    let (what, better) = match page.speed {
        Speed::Steps => ("time of a step".to_owned(), "lower"),
        speed => (format!("{} per second", speed.thing()), "higher"),
    };
    let y_text = |value: f64| match page.speed {
        Speed::Steps => quantity::seconds(value),
        _ => quantity::count(value),
    };
    let question = format!("How does speed change with {}?", short_path(path));
    let aid = format!(
        "The {what} of each variant, {better} is better; a cross on the axis is a point where it does not run.{some}"
    );
    let axes = Axes { x_title: path, x: positions, y_title: &what, y_text: &y_text };
    Ok(figure(&question, &aid, &[], &curves::draw(&question, &lines, &axes, &page.variants)?))
}

/// The lines that can be told apart: those that reach farthest to the better side.
fn leading(speed: Speed, mut lines: Vec<Line>) -> Vec<Line> {
    let best = |line: &Line| {
        let values = line.points.iter().filter_map(|(_, value)| *value);
        values.map(|value| if speed == Speed::Steps { value } else { -value }).fold(f64::INFINITY, f64::min)
    };
    if lines.len() > LINES_MAX {
        lines.sort_by(|a, b| best(a).total_cmp(&best(b)));
        lines.truncate(LINES_MAX);
    }
    lines
}

fn line(page: &Page<'_>, path: &str, variant: &str, positions: &[(f64, String)]) -> Line {
    let value = |run: &RunSummary| match page.speed {
        Speed::Steps => run.step_time(),
        speed => speed.value(run),
    };
    let points = positions.iter().map(|(x, written)| {
        let point = page.points.iter().find(|point| point.values.get(path) == Some(written));
        let run = point.and_then(|point| point.runs.iter().find(|run| run.variant == variant));
        (*x, run.and_then(|run| value(run)))
    });
    Line { name: variant.to_owned(), points: points.collect() }
}

fn map(page: &Page<'_>, columns: &str, rows: Option<&String>) -> Result<Markup, PlotError> {
    let column_values = written(page, columns);
    let row_values = rows.map_or(vec![String::new()], |rows| written(page, rows));
    let cell = |row: &String, column: &String| {
        let here = page.points.iter().filter(|point| {
            point.values.get(columns) == Some(column)
                && rows.is_none_or(|rows| point.values.get(rows) == Some(row))
        });
        winner(page, here)
    };
    let cells: Vec<Vec<_>> =
        row_values.iter().map(|row| column_values.iter().map(|column| cell(row, column)).collect()).collect();
    let question = match rows {
        Some(rows) => {
            format!("Which variant is fastest over {} and {}?", short_path(columns), short_path(rows))
        }
        None => format!("Which variant is fastest over {}?", short_path(columns)),
    };
    let others = if page.summary.axes.len() > 2 { " at the best values of the other axes" } else { "" };
    let aid =
        format!("Each cell names the fastest variant{others} and its speed; the colour is the variant's.");
    let titles = (short_path(columns), rows.map_or("", |rows| short_path(rows)));
    Ok(figure(&question, &aid, &[], &heat_map::draw(&question, titles, &column_values, &row_values, &cells)?))
}

/// The fastest run of some points.
fn winner<'a>(page: &Page<'_>, points: impl Iterator<Item = &'a Point<'a>>) -> Cell {
    let mut why = "not part of the sweep".to_owned();
    let mut best: Option<(&RunSummary, f64)> = None;
    for point in points {
        match point.ranked(page.speed).first() {
            Some((run, value)) if best.is_none_or(|(_, most)| *value > most) => best = Some((run, *value)),
            Some(_) => {}
            None => why = point.runs.first().map_or(why, |run| verdict(run)),
        }
    }
    match best {
        Some((run, value)) => Cell {
            fill: Some(page.variants.of(&run.variant)),
            lines: [run.variant.clone(), page.speed.text(value)],
            hover: format!("{}: {}", run.label(), page.speed.text(value)),
        },
        None => Cell { fill: None, lines: ["nothing runs".to_owned(), String::new()], hover: why },
    }
}
