//! Steps of variants as they differ from the first, by cause.

use maud::{Markup, html};

use super::{Page, figure, picker};
use crate::compared::{Compared, Side};
use crate::plots::PlotError;
use crate::plots::waterfall::{self, LESS, MORE, TOTAL};
use crate::summary::RunSummary;

/// Part of a step from which on a difference is drawn by itself.
const SHARE_MIN: f64 = 0.001;
/// Variants that are compared with the first.
const OTHERS_MAX: usize = 12;

/// A waterfall from the first variant with a step to each other; nothing where there are not two.
pub(super) fn section(page: &Page<'_>) -> Result<Markup, PlotError> {
    let mut fits = page.focus.iter().filter(|run| run.step_time().is_some());
    let Some(first) = fits.next() else { return Ok(html! {}) };
    let others: Vec<_> = fits.take(OTHERS_MAX).collect();
    let charts = others.iter().map(|other| Ok((other.variant.clone(), chart(first, other)?)));
    let charts: Vec<(String, Markup)> = charts.collect::<Result<_, PlotError>>()?;
    if charts.is_empty() {
        return Ok(html! {});
    }
    let question = format!("What makes variants faster or slower than {}{}?", first.variant, page.place);
    let aid = "From the step of the first variant to that of another, by cause: mean over ranks.";
    let legend = [("step", TOTAL), ("less time", LESS), ("more time", MORE)];
    let shown = others.iter().position(|run| page.shown.is_some_and(|shown| std::ptr::eq(shown, **run)));
    Ok(figure(&question, aid, &legend, &picker(&charts, shown.unwrap_or_default())))
}

fn chart(first: &RunSummary, other: &RunSummary) -> Result<Markup, PlotError> {
    let side = |run: &'_ RunSummary| (run.variant.clone(), run.step_time().unwrap_or_default());
    let (a, b) = (side(first), side(other));
    let of = |run| Side { name: String::new(), source: String::new(), run, settings: None };
    let compared = Compared::of(&of(first), &of(other));
    let rows = compared.time.iter().filter_map(|row| Some((row.what.as_str(), row.difference()?)));
    let (large, small): (Vec<_>, Vec<_>) =
        rows.partition(|(_, difference)| difference.abs() >= SHARE_MIN * a.1.max(b.1));
    let rest: f64 = small.iter().map(|(_, difference)| difference).sum();
    let rest = (rest.abs() >= SHARE_MIN * a.1.max(b.1)).then_some(("others", rest));
    let differences: Vec<(&str, f64)> = large.into_iter().chain(rest).collect();
    waterfall::draw(&format!("{} to {}", a.0, b.0), [(&a.0, a.1), (&b.0, b.1)], &differences)
}
