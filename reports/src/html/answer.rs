//! The answer: one sentence, the numbers of one run and a small chart, every run in a table, how to
//! get the same again.

use maud::{Markup, html};

use super::{Page, ROWS_AT_ONCE, with_code};
use crate::explained::{explained_of, facts};
use crate::plots::palette;
use crate::ranking::Speed;
use crate::summary::{RunSummary, Summary};
use crate::table::Table;
use crate::wording::unbroken;
use crate::{finding, quantity, state};

/// Rows of the table of runs.
const ROWS_MAX: usize = 500;
/// Numbers and bars of the first screen.
const NUMBERS_MAX: usize = 4;
const BARS_MAX: usize = 8;

pub(super) fn section(page: &Page<'_>) -> Markup {
    let summary = page.summary;
    html! {
        header #answer {
            p.kicker { "foretrain report" }
            h1 { (summary.name) }
            p.finding { (unbroken(&summary.finding)) }
            @let conditions = finding::conditions(summary, &page.comparison);
            @if !conditions.is_empty() { p.conditions { (unbroken(&conditions)) } }
        }
        section {
            @if let Some(run) = page.shown { div.first { (numbers(page, run)) (chart(page, run)) } }
            (promises(page))
            (rests_on(page))
            @if let Some(description) = &summary.description { p { (description) } }
            @if page.points().len() == 1 { (runs(page)) (failures(page)) }
            p.fine {
                (again(summary)) code { (summary.reproduce) } ". Seed " (summary.seed) ", scenario "
                code { (summary.scenario_digest) } ", foretrain " (summary.version) "."
            }
        }
    }
}

/// Introduces the command that gives the results again: a search that its budget ended may get
/// farther on another machine.
fn again(summary: &Summary) -> &'static str {
    match summary.search.as_ref().is_some_and(|proof| proof.left > 0) {
        true => "Again, as far as the budget of the search reaches: ",
        false => "Again, to the same bytes: ",
    }
}

/// The four numbers that matter most of a run, each with how sure it is.
fn numbers(page: &Page<'_>, run: &RunSummary) -> Markup {
    let role =
        if page.comparison.cases.len() > 1 { "One of several cases, the best there:" } else { "Best:" };
    let step = run.step_time();
    // What a step gets done is certain, so that a rate is as uncertain as the time.
    let interval = run.step_time_interval_s.zip(step);
    let of_rate = |value: f64, text: fn(f64) -> String| {
        let bounds = interval.map(|([least, most], step)| [value * step / most, value * step / least]);
        (text(value), bounds.map(|[least, most]| in_nine_of_ten(&text(least), &text(most))))
    };
    let time = step.map(|step| {
        let bounds = run.step_time_interval_s;
        let bounds =
            bounds.map(|[least, most]| in_nine_of_ten(&quantity::seconds(least), &quantity::seconds(most)));
        ("step time", (quantity::seconds(step), bounds))
    });
    let rate = match page.speed() {
        speed @ (Speed::Tokens | Speed::Samples) => {
            let text = if speed == Speed::Tokens { tokens } else { samples };
            speed.value(run).map(|value| ("throughput", of_rate(value, text)))
        }
        Speed::MicroBatches | Speed::Steps => None,
    };
    let utilisation = run.mfu.map(|mfu| ("model FLOPs utilisation", of_rate(mfu, quantity::percent)));
    let bubble = run.bubble_fraction.map(|share| ("pipeline bubble", (quantity::percent(share), None)));
    let power = run.power.as_ref().map(|power| ("power and energy", (power.in_words(), None)));
    let memory = run.worst_device().map(|device| {
        let of = device.capacity_bytes.map(|capacity| format!("of {}", quantity::bytes(capacity)));
        ("peak memory", (quantity::bytes(device.peak_bytes), of))
    });
    let all = [time, rate, utilisation, memory, bubble, power].into_iter().flatten();
    html! {
        div {
            @if page.summary.variants.len() > 1 { p.aid { (role) " " strong { (page.label(run)) } } }
            dl.headline {
                @for (name, (value, sure)) in all.take(NUMBERS_MAX) {
                    div { dt { (name) } dd { (value) @if let Some(sure) = sure { span.sure { (sure) } } } }
                }
            }
        }
    }
}

fn tokens(rate: f64) -> String {
    quantity::rate(rate, "tokens")
}

fn samples(rate: f64) -> String {
    quantity::rate(rate, "samples")
}

fn in_nine_of_ten(least: &str, most: &str) -> String {
    format!("90 %: {least} to {most}")
}

/// A bar of the first screen; without a value only what it says.
struct Bar<'a> {
    name: &'a str,
    value: Option<f64>,
    fill: String,
    text: String,
}

/// The runs beside the best as bars; of a run alone, where its time goes.
fn chart(page: &Page<'_>, run: &RunSummary) -> Markup {
    let (title, bars) = match page.focus.len() {
        0 | 1 => ("Where the step goes".to_owned(), causes(run)),
        _ => {
            let (bars, runs) = (speeds(page), page.focus.len());
            let some = match bars.len() < runs {
                true => format!(", the {} fastest of {runs}", bars.len()),
                false => String::new(),
            };
            (format!("{}{}{some}", page.speed().title(), page.place), bars)
        }
    };
    let most = bars.iter().filter_map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let style = |value: f64, fill: &str| format!("--bar:{:.1}%;--fill:{fill}", value / most * 100.0);
    html! {
        @if !bars.is_empty() {
            table.small {
                caption { (title) }
                tbody {
                    @for Bar { name, value, fill, text } in bars.iter().take(BARS_MAX) {
                        tr {
                            th scope="row" { (name) }
                            @match value {
                                Some(value) => td.bar style=(style(*value, fill)) { span { (text) } },
                                None => td { (text) },
                            }
                        }
                    }
                }
            }
        }
    }
}

fn causes(run: &RunSummary) -> Vec<Bar<'_>> {
    let whole: f64 = run.time_breakdown_s.values().sum();
    let seen = state::in_order(&run.time_breakdown_s).filter(|(_, time)| *time > 0.0);
    let of = |(name, time)| Bar {
        name,
        value: Some(time),
        fill: palette::css(palette::of_state(name)),
        text: quantity::percent(time / whole),
    };
    seen.map(of).collect()
}

/// The runs of the point, of many the fastest, in the order of the file.
fn speeds<'a>(page: &Page<'a>) -> Vec<Bar<'a>> {
    let slowness = |run: &RunSummary| match page.speed() {
        Speed::Steps => run.step_time().unwrap_or(f64::INFINITY),
        speed => speed.value(run).map_or(f64::INFINITY, |value| -value),
    };
    let mut order: Vec<usize> = (0..page.focus.len()).collect();
    order.sort_by(|a, b| slowness(page.focus[*a]).total_cmp(&slowness(page.focus[*b])));
    order.truncate(BARS_MAX);
    order.sort_unstable();
    let of = |run: &&'a RunSummary| {
        let speed = page.speed();
        let value = if speed == Speed::Steps { run.step_time() } else { speed.value(run) };
        // Why it has none is told further down.
        let why = || finding::verdict(run).split(':').next().unwrap_or_default().to_owned();
        Bar {
            name: &run.variant,
            value,
            fill: palette::css(page.variants.of(&run.variant)),
            text: speed.value(run).map_or_else(why, |value| speed.number(value)),
        }
    };
    order.into_iter().map(|place| of(&page.focus[place])).collect()
}

/// How many promises of the file hold; the list of them comes later.
fn promises(page: &Page<'_>) -> Markup {
    let all = page.summary.expectations.len();
    let held = page.summary.expectations.iter().filter(|check| check.passed).count();
    html! {
        @if all > 0 {
            p {
                @if held == all { span.good { "✓" } } @else { span.bad { "✗" } }
                " " (held) " of " (all) " expectations hold (" a href="#expectations" { "which" } ")."
            }
        }
    }
}

/// Evidence of that run's step, if there are several kinds.
fn rests_on(page: &Page<'_>) -> Markup {
    html! {
        @if let Some((run, line)) = page.shown.and_then(|run| Some((run, finding::rests_on(run)?))) {
            p { "The step of " (page.label(run)) " rests on: " (unbroken(&line)) "." }
        }
    }
}

/// Every run, sortable by each column.
pub(super) fn runs(page: &Page<'_>) -> Markup {
    let table = Table::of(&page.comparison, page.points());
    let (columns, count) = (table.columns(), page.summary.variants.len());
    html! {
        div.wide.tall[count > ROWS_AT_ONCE] {
            table.sortable.runs {
                thead { tr { @for column in &columns { th.number[column.numeric] { (column.title) } } } }
                tbody {
                    @for row in table.rows().take(ROWS_MAX) {
                        tr.failed[row.run.step_time().is_none()].leads[row.leads] {
                            @for (cell, column) in row.cells.iter().zip(&columns) {
                                td.number[column.numeric] data-sort=[cell.number] { (unbroken(&cell.text)) }
                            }
                        }
                    }
                }
            }
        }
        @if count > ROWS_MAX {
            p.aid { "The first " (ROWS_MAX) " of " (count) " runs; all are in results.csv." }
        }
    }
}

/// Explains the first failed run of each variant.
pub(super) fn failures(page: &Page<'_>) -> Markup {
    let runs = &page.summary.variants;
    html! {
        @for run in explained_of(runs) {
            @if let Some(failure) = &run.failure {
                div.failure {
                    h3 { (page.label(run)) ": " (failure.message) }
                    dl { @for (what, text) in facts(run, runs) { dt { (what) } dd { (with_code(&text)) } } }
                }
            }
        }
    }
}
