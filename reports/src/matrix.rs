//! Speed of every variant at every point, as one grid: the answer of a sweep at a glance.

use crate::finding::failed_briefly;
use crate::ranking::{Comparison, Point, tied};
use crate::summary::RunSummary;

/// A grid with its titles, for the terminal and the page.
pub(crate) struct Matrix<'a> {
    /// Lines of the head, each with a text for every column, those of the names first.
    pub(crate) head: Vec<Vec<String>>,
    pub(crate) rows: Vec<Row<'a>>,
    /// Whether every variant and every point is in it.
    pub(crate) complete: bool,
}

/// One variant, or one point.
pub(crate) struct Row<'a> {
    pub(crate) names: Vec<String>,
    pub(crate) cells: Vec<Cell<'a>>,
}

/// One run, or nothing where the experiment has none.
#[derive(Clone)]
pub(crate) struct Cell<'a> {
    pub(crate) run: Option<&'a RunSummary>,
    /// Its speed, or why it has none in a word or two.
    pub(crate) text: String,
    /// Its speed as a share of the fastest at its point, 0 to 1.
    pub(crate) share: Option<f64>,
}

/// What stands one below the other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Down {
    Variants,
    Points,
}

impl<'a> Matrix<'a> {
    /// The grid with at most so many rows and columns of cells: the first points, and of the variants the fastest, in the
    /// order of the file.
    pub(crate) fn of(comparison: &Comparison<'a>, down: Down, rows_max: usize, columns_max: usize) -> Self {
        let (points_max, variants_max) = match down {
            Down::Variants => (columns_max, rows_max),
            Down::Points => (rows_max, columns_max),
        };
        let points = &comparison.points[..comparison.points.len().min(points_max)];
        let all = comparison.variants();
        let columns: Vec<_> = points.iter().map(|point| cells(comparison, point, &all)).collect();
        let shown = fastest(&columns, all.len(), variants_max);
        let complete = points.len() == comparison.points.len() && shown.len() == all.len();
        let value = |point: &Point<'_>, path: &str| {
            let written = point.values.get(path).map_or("", String::as_str);
            comparison.naming.value(path, written).into_owned()
        };
        let paths = comparison.naming.paths();
        let mut head: Vec<Vec<String>> = Vec::new();
        let mut rows: Vec<Row<'_>> = Vec::new();
        match down {
            Down::Variants => {
                for (path, name) in paths {
                    let values = points.iter().map(|point| value(point, path));
                    head.push([name.to_owned()].into_iter().chain(values).collect());
                }
                rows.extend(shown.iter().map(|index| Row {
                    names: vec![all[*index].to_owned()],
                    cells: columns.iter().map(|column| column[*index].clone()).collect(),
                }));
            }
            Down::Points => {
                let names = paths.map(|(_, name)| name.to_owned());
                head.push(names.chain(shown.iter().map(|index| all[*index].to_owned())).collect());
                rows.extend(points.iter().zip(&columns).map(|(point, column)| Row {
                    names: comparison.naming.paths().map(|(path, _)| value(point, path)).collect(),
                    cells: shown.iter().map(|index| column[*index].clone()).collect(),
                }));
            }
        }
        Matrix { head, rows, complete }
    }
}

/// The runs of one point in the order of `variants`.
fn cells<'a>(comparison: &Comparison<'a>, point: &Point<'a>, variants: &[&str]) -> Vec<Cell<'a>> {
    let fastest = point.ranked(comparison.speed).first().map(|(_, value)| *value);
    let cell = |variant: &&str| {
        let run = point.runs.iter().copied().find(|run| run.variant == *variant);
        let value = run.and_then(|run| comparison.speed.value(run));
        let text = match (run, value) {
            (_, Some(value)) => comparison.speed.number(value),
            (Some(run), None) => failed_briefly(run).to_owned(),
            (None, None) => String::new(),
        };
        Cell { run, text, share: value.zip(fastest).map(|(value, fastest)| value / fastest) }
    };
    variants.iter().map(cell).collect()
}

/// The variants that come closest to the fastest somewhere, as places in the order of the file.
fn fastest(columns: &[Vec<Cell<'_>>], variants: usize, most: usize) -> Vec<usize> {
    let best = |index: usize| columns.iter().filter_map(|column| column[index].share).fold(0.0, f64::max);
    let mut places: Vec<usize> = (0..variants).collect();
    places.sort_by(|a, b| best(*b).total_cmp(&best(*a)));
    places.truncate(most);
    places.sort_unstable();
    places
}

impl Cell<'_> {
    /// Whether nothing at its point is faster.
    pub(crate) fn leads(&self) -> bool {
        self.share.is_some_and(|share| tied(1.0, share))
    }
}
