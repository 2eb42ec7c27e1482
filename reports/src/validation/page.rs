//! The page of `validate`: all sets in one table, then each with its protocol, a plot, what its errors go with, its worst
//! rows, and what was left out.

use std::io::{self, Write};

use indexmap::IndexSet;
use maud::{Markup, html};
use plotters::style::Color;

use super::terminal::{figures, first_reading, judged as figures_of};
use super::{Part, Regret, Row, SetResult, Unit, Validation, label};
use crate::html::{document, figure};
use crate::plots::PlotError;
use crate::plots::agreement::{self, Cloud};
use crate::plots::palette::{self, Categories};
use crate::plots::rows::{self, Bar, Segment};
use crate::{quantity, state};

/// Rows of a table of the worst.
const WORST: usize = 10;
/// Shares below this are not worth a word.
const SHARE_MIN: f64 = 0.02;
/// Fewer rows tell nothing by value.
const ROWS_MIN: usize = 12;

/// Writes the page.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, validation: &Validation) -> io::Result<()> {
    let page = render(validation).map_err(io::Error::other)?;
    out.write_all(page.into_string().as_bytes())
}

fn render(validation: &Validation) -> Result<Markup, PlotError> {
    let sections = validation.sets.iter().map(section).collect::<Result<Vec<_>, _>>()?;
    let errors = mean_errors(validation)?;
    let body = html! {
        main {
            p.kicker { "foretrain " (validation.version) }
            h1 { "How far predictions are from measurements" }
            p.finding { (validation.verdict()) }
            (errors)
            p.aid {
                "An error is ours over the measurement less one: above 0 we are slow. What is to be reached was set \
                 before the first run and is never the last result's. τ is the rank correlation: 1 where we put all \
                 rows in the right order. The first run is the mean error (or the median, where that is to be reached) before \
                 constants were looked for with the rows known. An interval is where nine of ten measurements should lie, \
                 by what kernels, collectives and steps of other sets were off."
            }
            (overview(validation))
            @let intervals = validation.intervals_in_words();
            @if !intervals.is_empty() {
                h2 { "Do intervals hold?" }
                p.aid {
                    "How far steps are off beyond their kernels is found on the other sets, never on the rows of the set \
                     itself. Pairs are rows of one set, model and machine: what both plans share cancels in the ratio of \
                     their times."
                }
                ul { @for line in &intervals { li { (line) } } }
            }
            @let regrets = validation.regrets_in_words();
            @if !regrets.is_empty() {
                h2 { "What does a pick by prediction cost?" }
                p.aid {
                    "Rows that do the same work are plans to pick from. Regret is the measured time of the plan that we predict \
                     to be fastest over the best measured time, less one. A plan that we give no time is not picked, but it may be \
                     the best. The rule takes most data ranks, then the largest micro-batch, then the best measured of \
                     what is left open. τ within a group tells the order of all its plans."
                }
                ul { @for line in &regrets { li { (line) } } }
            }
            p.fine { "The same again: " code { (validation.reproduce) } }
            @for section in sections { (section) }
        }
    };
    Ok(document("Validation", &validation.version, &body))
}

/// The mean error of each set of steps beside what is to be reached, and what others reached.
fn mean_errors(validation: &Validation) -> Result<Markup, PlotError> {
    let bars = |sets: &[&SetResult]| {
        let bar = |(set, part): (&&SetResult, &Part)| {
            let error = part.statistics.mape;
            let name =
                if part.name.is_empty() { set.name.clone() } else { format!("{}, {}", set.name, part.name) };
            let best = set.best_known.as_ref().map(|best| format!("; {best}")).unwrap_or_default();
            let note = format!("{}{best}", quantity::percent(error));
            let fill = if part.passed { palette::GREEN } else { palette::VERMILLION }.to_rgba();
            let hover = format!("{name}: {}", quantity::percent(error));
            let segments = vec![Segment { value: error, fill, label: String::new(), hover }];
            Bar { name, segments, note, limit: part.tolerance.mape, ..Bar::default() }
        };
        let parts = sets.iter().flat_map(|set| set.parts.iter().map(move |part| (set, part)));
        let is_drawn = |(_, part): &(&&SetResult, &Part)| part.statistics.rows > 0 && part.verdicts.is_none();
        parts.filter(is_drawn).map(bar).collect::<Vec<_>>()
    };
    let (kernels, steps): (Vec<_>, Vec<_>) = validation.sets.iter().partition(|set| set.is_of_kernels());
    let question = "How far off is each set in the mean?";
    let aid = "Mean of errors, either way; the line is what is to be reached, green is within it. What others reached on the same rows \
               stands behind it.";
    let [of_steps, of_kernels] = [bars(&steps), bars(&kernels)];
    let chart = |bars: &[Bar]| -> Result<Markup, PlotError> {
        if bars.is_empty() {
            Ok(html! {})
        } else {
            Ok(figure(question, aid, &[], &rows::draw(question, bars)?))
        }
    };
    let folded = chart(&of_kernels)?;
    Ok(html! {
        (chart(&of_steps)?)
        @if of_steps.is_empty() { (folded) } @else if !of_kernels.is_empty() {
            details { summary { "Kernels, collectives and copies" } (folded) }
        }
    })
}

const FIGURES: [&str; 7] = ["rows", "MAPE", "median", "p95", "worst", "bias", "τ"];

fn overview(validation: &Validation) -> Markup {
    let intervals = validation.parts().any(|(_, part)| part.intervals.is_some());
    let link = |set: &SetResult| html! { a href=(format!("#{}", set.name)) { (set.name) } };
    html! {
        div.wide {
            table.judged {
                thead { tr {
                    th { "set" } th { "verdict" }
                    @for title in FIGURES { th.number { (title) } }
                    th.number { "first run" }
                    @if intervals { th { "90 % intervals" } }
                    th { "to reach" }
                } }
                tbody {
                    @for set in &validation.sets {
                        @let named = set.parts.iter().any(|part| !part.name.is_empty());
                        @if named { tr { td colspan=(FIGURES.len() + 4 + usize::from(intervals)) { (link(set)) } } }
                        @for part in &set.parts {
                            tr {
                                td.part[named] { @if named { (part.name) } @else { (link(set)) } }
                                (judged(part, intervals))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn judged(part: &Part, intervals: bool) -> Markup {
    html! {
        td { @if part.passed { span.good { "within" } } @else { span.bad { "beyond" } } }
        @for text in figures_of(part) { td.number { (text) } }
        td.number { (first_reading(part)) }
        @if intervals { td { (part.intervals.map_or(quantity::NONE.to_owned(), |intervals| intervals.in_words())) } }
        td { (part.tolerance.in_words()) }
    }
}

fn section(set: &SetResult) -> Result<Markup, PlotError> {
    let colours = Categories::others(set.parts.iter().map(|part| part.name.as_str()));
    let drawn = units(set).into_iter().filter(|unit| *unit != Unit::Verdict);
    let plots = drawn.map(|unit| agreement_of(set, unit, &colours));
    let plots = plots.collect::<Result<Vec<_>, _>>()?;
    let legend: Vec<_> = colours.iter().filter(|(name, _)| !name.is_empty()).collect();
    let aid = "Left: each row, the black line is equality. Right: how many rows have which error. The grey lines, and the \
               colour of the bars, tell the error to reach.";
    Ok(html! {
        section id=(set.name) {
            h2 { (set.title) }
            p { (set.protocol) }
            @if let Some(known) = &set.best_known { p.fine { "Best known: " (known) } }
            @for source in &set.sources { p.fine { "Data: " (source) } }
            @for plot in &plots { (figure("How close are predictions to measurements?", aid, &legend, plot)) }
            @if let Some(regret) = &set.regret { (groups(regret)) }
            @for part in &set.parts { (details(part)) }
        }
    })
}

/// What the rows of a set are in, each once.
fn units(set: &SetResult) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for row in set.parts.iter().flat_map(|part| &part.rows) {
        if !units.contains(&row.unit) {
            units.push(row.unit);
        }
    }
    if units.is_empty() { vec![Unit::default()] } else { units }
}

/// Predictions beside measurements of the rows in one unit.
fn agreement_of(set: &SetResult, unit: Unit, colours: &Categories) -> Result<Markup, PlotError> {
    let parts = set.parts.iter().filter(|part| part.rows.iter().all(|row| row.unit == unit));
    let limits = parts.clone().filter_map(|part| part.tolerance.mape.or(part.tolerance.median));
    let name = format!("Predictions of {} beside measurements ({})", set.name, unit.name());
    agreement::draw(&name, &parts.map(cloud).collect::<Vec<_>>(), unit, limits.reduce(f64::min), colours)
}

fn cloud(part: &Part) -> Cloud {
    let pairs = part.rows.iter().map(|row| (row.measured, row.predicted)).collect();
    Cloud { name: part.name.clone(), pairs }
}

/// Every group of plans, the one in which the pick costs most first.
fn groups(regret: &Regret) -> Markup {
    let share = |value: Option<f64>| value.map_or(quantity::NONE.to_owned(), quantity::percent);
    let ruled = regret.groups.iter().any(|group| group.most_data_ranks.is_some());
    html! {
        @if let Some(summary) = regret.in_words() {
            h3 { "Picks by prediction" }
            p {
                "Picking the plan that we predict to be fastest, instead of the one that was measured fastest, costs " (summary) "."
            }
            details {
                summary { "Each group of plans" }
                div.wide { table {
                    thead { tr {
                        th.number { "regret" } th.number { "best of 3" } @if ruled { th.number { "rule" } }
                        th.number { "τ" } th.number { "plans" } th { "work" } th { "picked" } th { "best" }
                    } }
                    tbody { @for group in &regret.groups { tr {
                        td.number { (quantity::percent(group.regret)) }
                        td.number { (quantity::percent(group.best_of_three)) }
                        @if ruled { td.number { (share(group.most_data_ranks)) } }
                        td.number { (group.kendall_tau.map_or(quantity::NONE.to_owned(), |tau| format!("{tau:.2}"))) }
                        td.number { (group.plans) }
                        td { (label(&group.work)) }
                        @let [picked, best] = group.picked_and_best();
                        td title=(group.picked.place) { (picked) }
                        td title=(group.best.place) { @if group.regret > 0.0 { (best) } @else { "the same" } }
                    } } }
                } }
            }
        }
    }
}

fn details(part: &Part) -> Markup {
    let worst = part.worst(WORST);
    let made_of = worst.iter().any(|row| !row.shares.is_empty());
    let rests_on = worst.iter().any(|row| row.evidence.is_some());
    // Told once, below the table; the rows name them by letter.
    let reasons: IndexSet<&str> = worst.iter().filter_map(|row| row.explanation.as_deref()).collect();
    html! {
        @if !part.name.is_empty() { h3 { (part.name) } }
        @if let Some(verdicts) = part.verdicts { p { (verdicts.in_words()) "." } }
        @if let Some(speedups) = part.speedups { p { (speedups.in_words(&part.tolerance)) "." } }
        @if !worst.is_empty() {
            details open[part.name.is_empty()] {
                summary { @if part.verdicts.is_some() { "The wrong verdicts" } @else { "The rows that are farthest off" } }
                div.wide { table {
                    thead { tr {
                        th.number { "error" } th.number { "measured" } th.number { "ours" } th { "row" }
                        @if made_of { th { "what ours is made of" } }
                        @if rests_on { th { "memory" } }
                        @if !reasons.is_empty() { th { "likely reason" } }
                    } }
                    tbody { @for row in &worst { (far_off(row, (made_of, rests_on), &reasons)) } }
                } }
                @if !reasons.is_empty() { ol type="A" { @for reason in &reasons { li { (reason) } } } }
            }
        }
        @if part.rows.len() >= ROWS_MIN { (by_share(part)) (by_input(part)) }
        @if !part.left_out.is_empty() { (left_out(part)) }
    }
}

fn far_off(row: &Row, (made_of, rests_on): (bool, bool), reasons: &IndexSet<&str>) -> Markup {
    let shares = state::in_order(&row.shares).filter(|(_, share)| *share >= SHARE_MIN);
    let shares: Vec<String> =
        shares.map(|(cause, share)| format!("{cause} {}", quantity::percent(share))).collect();
    let reason = row.explanation.as_deref().and_then(|reason| reasons.get_index_of(reason));
    html! {
        tr {
            td.number { (row.off()) }
            td.number { (row.unit.words(row.measured)) }
            td.number { (row.unit.words(row.predicted)) }
            td title=(row.place) { (row.label()) }
            @if made_of { td { (shares.join(", ")) } }
            @if rests_on { td { (row.evidence.as_deref().unwrap_or_default()) } }
            @if !reasons.is_empty() { td { (reason.map_or("not known".to_owned(), letter)) } }
        }
    }
}

/// The name of an item of a list that counts in letters; the worst rows have fewer reasons than there are letters.
fn letter(index: usize) -> String {
    char::from(b'A' + index as u8).to_string()
}

/// Which causes are large where predictions are too fast, and where they are too slow.
fn by_share(part: &Part) -> Markup {
    let shares = part.by_share();
    let told = || {
        shares
            .iter()
            .filter(|share| [share.all, share.fastest, share.slowest].iter().any(|s| *s >= SHARE_MIN))
    };
    html! {
        @if told().count() > 1 {
            details {
                summary { "Which causes go with errors" }
                p.aid {
                    "Mean share of a cause in our time: in all rows, in the tenth where we are farthest too fast, and in the \
                     tenth where we are farthest too slow. τ is the rank correlation of share and error: a cause with a τ far \
                     from 0 is likely to be timed wrongly, or stands for what is not modelled beside it."
                }
                div.wide { table {
                    thead { tr { th { "cause" } th.number { "all" } th.number { "too fast" } th.number { "too slow" } th.number { "τ" } } }
                    tbody { @for share in told() { tr {
                        td { (share.cause) }
                        @for value in [share.all, share.fastest, share.slowest] { td.number { (quantity::percent(value)) } }
                        td.number { (share.kendall_tau.map_or(quantity::NONE.to_owned(), |tau| format!("{tau:+.2}"))) }
                    } } }
                } }
            }
        }
    }
}

fn by_input(part: &Part) -> Markup {
    let values = part.by_input();
    html! {
        @if !values.is_empty() {
            details {
                summary { "Errors by input" }
                div.wide { table {
                    thead { tr { th { "input" } th { "value" } @for title in FIGURES { th.number { (title) } } } }
                    tbody { @for (index, one) in values.iter().enumerate() { tr {
                        td { @if index == 0 || values[index - 1].column != one.column { (one.column) } }
                        td { (one.value) }
                        @for text in figures(&one.statistics) { td.number { (text) } }
                    } } }
                } }
            }
        }
    }
}

fn left_out(part: &Part) -> Markup {
    html! {
        details {
            summary { (part.left_out.len()) @if part.left_out.len() == 1 { " row" } @else { " rows" } " that were not judged" }
            div.wide { table {
                thead { tr { th.number { "rows" } th { "reason" } th { "for example" } } }
                tbody { @for (reason, count, first) in part.reasons() { tr {
                    td.number { (count) } td { (reason) } td title=(first.place) { (first.label()) }
                } } }
            } }
        }
    }
}
