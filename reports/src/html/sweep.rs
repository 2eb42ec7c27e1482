//! Over a sweep: where the answer holds, what speed costs in memory, every run.

use indexmap::IndexMap;
use maud::{Markup, html};

use super::{Page, answer, figure, legend, matrix, memory};
use crate::axis;
use crate::plots::PlotError;
use crate::plots::curves::{self, Axes, Line};
use crate::plots::heat_map::{self, Cell, Heads};
use crate::quantity;
use crate::ranking::{Point, Speed};
use crate::summary::RunSummary;
use crate::winners::{Winner, Winners};

/// Positions of a curve, columns and rows of a map: more cannot be read.
const POSITIONS_MAX: usize = 200;
const COLUMNS_MAX: usize = 14;
const ROWS_MAX: usize = 40;
/// Lines that can be told apart in one chart.
const LINES_MAX: usize = 14;

pub(super) fn section(page: &Page<'_>) -> Result<Markup, PlotError> {
    Ok(html! {
        section {
            (page.heading("Where does that hold?"))
            (along_axes(page)?)
            @if page.comparison.variants().len() > 1 { (matrix::figure(page)) }
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

/// Curves along one numeric axis, a map over two or more axes of which every combination was run.
fn along_axes(page: &Page<'_>) -> Result<Markup, PlotError> {
    let mut paths: Vec<_> = page.comparison.naming.paths().collect();
    let is_case = |path: &str| page.summary.cases.iter().any(|case| case == path);
    if paths.len() > 2 {
        // Over the axes that are not drawn the best is taken, which there is among choices only.
        paths.sort_by_key(|(path, _)| !is_case(path));
    }
    match &paths[..] {
        [axis] => match positions(page, axis.0) {
            Some(positions) => curve(page, *axis, &positions),
            None => Ok(html! {}),
        },
        [_, _, others @ ..] if others.iter().any(|(path, _)| is_case(path)) => Ok(html! {}),
        [columns, rows, others @ ..] => map(page, *columns, *rows, others.is_empty()),
        [] => Ok(html! {}),
    }
}

/// The values of an axis as (number, as written), ascending; none if one is not a number.
fn positions(page: &Page<'_>, path: &str) -> Option<Vec<(f64, String)>> {
    let written = written(page, path).into_keys();
    let mut positions: Vec<_> =
        written.map(|text| Some((axis::number(text)?, text.to_owned()))).collect::<Option<_>>()?;
    positions.sort_by(|a, b| a.0.total_cmp(&b.0));
    Some(positions)
}

/// The values of an axis in the order of the file, each with its points.
fn written<'a>(page: &'a Page<'_>, path: &str) -> IndexMap<&'a str, Vec<&'a Point<'a>>> {
    let mut values: IndexMap<&str, Vec<&Point<'_>>> = IndexMap::new();
    for point in page.points() {
        if let Some(value) = point.values.get(path) {
            values.entry(value).or_default().push(point);
        }
    }
    values
}

fn curve(
    page: &Page<'_>,
    (path, name): (&str, &str),
    positions: &[(f64, String)],
) -> Result<Markup, PlotError> {
    let variants =
        legend(page.summary.variants.iter().map(|run| run.variant.as_str()), |name| page.variants.of(name));
    let points = written(page, path);
    let positions: Vec<_> =
        positions.iter().step_by(positions.len().div_ceil(POSITIONS_MAX).max(1)).cloned().collect();
    let all: Vec<_> =
        variants.iter().map(|(name, _)| line(page.speed(), &points, name, &positions)).collect();
    let count = all.len();
    let lines = leading(page.speed(), all);
    let some = if lines.len() < count {
        format!(" The {} of {count} that reach farthest are shown.", lines.len())
    } else {
        String::new()
    };
    let what = page.speed().title();
    let better = if page.speed() == Speed::Steps { "lower" } else { "higher" };
    let y_text = |value: f64| match page.speed() {
        Speed::Steps => quantity::seconds(value),
        _ => quantity::count(value),
    };
    let question = format!("How does speed change with {name}?");
    let aid = format!(
        "The {what} of each variant, {better} is better; a cross on the axis is a point where a variant does not run.{some}"
    );
    let ideal = if scales(path) && page.speed().is_of_work() { ideal(&lines) } else { Vec::new() };
    let aid = match efficiency(&ideal, &lines) {
        Some(sentence) => format!("{aid} {sentence}"),
        None => aid,
    };
    let axes = Axes { x_title: path, x: &positions, y_title: &what, y_text: &y_text, ideal };
    Ok(figure(&question, &aid, &[], &curves::draw(&question, &lines, &axes, &page.variants)?))
}

/// True if a path is a number of GPUs, or of nodes of them: twice as many might do twice as much.
fn scales(path: &str) -> bool {
    path == "parallelism.data" || (path.starts_with("machine.") && path.ends_with(".count"))
}

/// Speed in proportion to the number of GPUs, from the fastest line at the least number at which any runs.
fn ideal(lines: &[Line]) -> Vec<(f64, f64)> {
    let at = |position: usize| lines.iter().filter_map(|line| line.points.get(position)?.1).reduce(f64::max);
    let positions: Vec<f64> =
        lines.first().map_or(Vec::new(), |line| line.points.iter().map(|(x, _)| *x).collect());
    let begun = (0..positions.len()).find_map(|position| Some((position, at(position)?)));
    let Some((first, speed)) = begun.filter(|(first, _)| first + 1 < positions.len()) else {
        return Vec::new();
    };
    positions[first..].iter().map(|x| (*x, speed * x / positions[first])).collect()
}

/// `The dashes are in proportion: at 64 the fastest, buckets, reaches 84.0 % of them.`
fn efficiency(ideal: &[(f64, f64)], lines: &[Line]) -> Option<String> {
    let (at, whole) = ideal.last()?;
    let ends = lines.iter().filter_map(|line| Some((&line.name, line.points.last()?.1?)));
    let (name, speed) = ends.reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    Some(format!(
        "The dashes are speed in proportion to the count: at {at} the fastest, {name}, reaches {} of it.",
        quantity::percent(speed / whole)
    ))
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

fn line(
    speed: Speed,
    points: &IndexMap<&str, Vec<&Point<'_>>>,
    variant: &str,
    positions: &[(f64, String)],
) -> Line {
    let value = |run: &RunSummary| match speed {
        Speed::Steps => run.step_time(),
        speed => speed.value(run),
    };
    let points = positions.iter().map(|(x, written)| {
        let mut runs = points.get(written.as_str()).into_iter().flatten().flat_map(|point| &point.runs);
        (*x, runs.find(|run| run.variant == variant).and_then(|run| value(run)))
    });
    Line { name: variant.to_owned(), points: points.collect() }
}

fn map(
    page: &Page<'_>,
    (column_path, column_name): (&str, &str),
    (row_path, row_name): (&str, &str),
    all_axes: bool,
) -> Result<Markup, PlotError> {
    let Some(map) = Winners::over(&page.comparison, column_path, row_path) else { return Ok(html! {}) };
    let question = format!("Which variant is fastest over {column_name} and {row_name}?");
    let others = if all_axes { "" } else { " at the best values of the other axes" };
    let compared = page.comparison.is_of_variants;
    let below = if compared { "how many times as fast as the next" } else { "its speed" };
    let aid = format!(
        "Each cell names the fastest variant{others} and {below}; the colour is the variant's. After +, how many are as fast."
    );
    let [columns, rows] = map.axes().map(|axis| {
        let most = if axis.path == column_path { COLUMNS_MAX } else { ROWS_MAX };
        let values = axis.values.iter().take(most);
        let labels = values.map(|value| match axis.unit() {
            Some(_) => axis::parts(value).0.to_owned(),
            None => page.comparison.naming.value(&axis.path, value).into_owned(),
        });
        let unit = axis.unit().map_or(String::new(), |unit| format!(" ({unit})"));
        Heads { title: format!("{}{unit}", axis.path), labels: labels.collect() }
    });
    let rows_of_cells = map.cells.iter().zip(&map.rows.values).take(ROWS_MAX);
    let cells = rows_of_cells.map(|(winners, row)| {
        let columns = winners.iter().zip(&map.columns.values).take(COLUMNS_MAX);
        let place = |column| [(column_name, column_path, column), (row_name, row_path, row)];
        columns.map(|(winner, column)| cell(page, winner, place(column))).collect()
    });
    let cells: Vec<Vec<Cell>> = cells.collect();
    let legend = legend(map.leaders().into_iter(), |name| page.variants.of(name));
    Ok(figure(&question, &aid, &legend, &heat_map::draw(&question, &columns, &rows, &cells)?))
}

/// A cell at a place: names, paths and values of both axes.
fn cell(page: &Page<'_>, winner: &Winner, place: [(&str, &str, &String); 2]) -> Cell {
    let values =
        place.map(|(name, path, value)| format!("{name} {}", page.comparison.naming.value(path, value)));
    let place = values.join(", ");
    let Some((leader, step_time)) = winner.leader().zip(winner.step_time_s) else {
        return Cell {
            fill: None,
            lines: [winner.named(), String::new()],
            hover: format!("{place}: nothing runs"),
        };
    };
    let step = format!("{} a step", quantity::seconds(step_time));
    let lead = winner.times().zip(winner.next.as_ref()).map(|(times, next)| format!("{times} {next}"));
    let second = match &lead {
        Some(lead) => lead.clone(),
        None if page.comparison.is_of_variants => String::new(),
        None => step.clone(),
    };
    let parts = [format!("{place}: {}", winner.fastest.join(", ")), step];
    let hover = parts.into_iter().chain(lead).collect::<Vec<_>>().join(", ");
    Cell { fill: Some(page.variants.of(leader)), lines: [winner.named(), second], hover }
}
