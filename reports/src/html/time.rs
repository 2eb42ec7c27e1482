//! How fast, where the time goes, and what one step looks like.

use indexmap::IndexMap;
use maud::{Markup, html};
use plotters::style::RGBAColor;

use super::{Page, drives, figure, first, legend, picker, timeline as zoomed, traffic, waterfall};
use crate::finding::verdict;
use crate::plots::palette::of_state;
use crate::plots::rows::{self, Bar, Segment};
use crate::plots::{PlotError, timeline};
use crate::quantity;
use crate::ranking::Speed;
use crate::state;
use crate::summary::{PowerUse, RankTime, RunSummary};

/// Timelines on one page, and boxes on all of them together: beyond, browsers get slow.
const TIMELINES_MAX: usize = 12;
const BOXES_MAX: usize = 12_000;
/// Boxes of one timeline.
const TIMELINE_BOXES_MAX: usize = 2_000;
/// Share of a bar that is a pixel of it.
const SHARE_SEEN: f64 = 0.001;
/// Ranks of the chart by rank.
const RANKS_MAX: usize = 32;

/// Time per step and throughput of every variant.
pub(super) fn speed(page: &Page<'_>) -> Result<Markup, PlotError> {
    if page.shown.is_none() {
        return Ok(html! {});
    }
    let bars = |value: &dyn Fn(&RunSummary) -> Option<f64>, text: &dyn Fn(f64) -> String| {
        page.focus.iter().map(|run| one_value(page, run, value(run), text)).collect::<Vec<_>>()
    };
    let question = format!("How long does a step take{}?", page.place);
    let any = |known: fn(&RunSummary) -> bool| page.focus.iter().any(|&run| known(run));
    let whiskers = if any(|run| run.step_time_spread.is_some()) {
        " The whisker goes from the shortest to the longest over the seeds."
    } else if any(|run| run.step_time_interval_s.is_some()) {
        " In nine of ten cases a measurement should lie within the whisker, by what the models were off on measurements that \
         nothing was fitted to."
    } else {
        ""
    };
    let aid =
        format!("Time of one step of each variant; shorter is better where all do the same work.{whiskers}");
    let times = rows::draw(&question, &bars(&RunSummary::step_time, &quantity::seconds))?;
    let throughput = match page.speed() {
        Speed::Tokens | Speed::Samples => {
            let question = format!("How many {} per second{}?", page.speed().thing(), page.place);
            let plot = rows::draw(
                &question,
                &bars(&|run| page.speed().value(run), &|value| page.speed().text(value)),
            )?;
            figure(&question, "What a second of training gets done; longer is better.", &[], &plot)
        }
        Speed::MicroBatches | Speed::Steps => html! {},
    };
    Ok(html! {
        section {
            (page.heading("How fast is it?"))
            (figure(&question, &aid, &[], &times))
            (throughput)
            (further(page))
        }
    })
}

/// Numbers of the run that is looked at closely which the first screen may have no room for.
fn further(page: &Page<'_>) -> Markup {
    let Some(run) = page.shown else { return html! {} };
    let numbers = [
        ("samples", run.samples_per_s.map(|rate| quantity::rate(rate, "samples"))),
        ("pipeline bubble", run.bubble_fraction.map(quantity::percent)),
        ("power and energy", run.power.as_ref().map(PowerUse::in_words)),
    ];
    html! {
        dl.parameters {
            @for (name, value) in numbers {
                @if let Some(value) = value { div { dt { (name) ", " (page.label(run)) } dd { (value) } } }
            }
        }
    }
}

fn one_value(page: &Page<'_>, run: &RunSummary, value: Option<f64>, text: &dyn Fn(f64) -> String) -> Bar {
    let fill = page.variants.of(&run.variant);
    let segment = |value| Segment {
        value,
        fill,
        label: String::new(),
        hover: format!("{}: {}", page.label(run), text(value)),
    };
    let spread = run.step_time_spread.map(|spread| (spread.min_s, spread.max_s));
    let interval = run.step_time_interval_s.map(|[least, most]| (least, most));
    Bar {
        name: run.variant.clone(),
        segments: value.map(segment).into_iter().collect(),
        note: value.map_or_else(|| verdict(run), text),
        limit: None,
        range: spread.or(interval).filter(|_| value == run.step_time()),
    }
}

/// The step by cause: of every variant, of every rank of one run, along the critical path, and the
/// use of resources.
pub(super) fn causes(page: &Page<'_>) -> Result<Markup, PlotError> {
    let Some(shown) = page.shown.filter(|run| !run.time_breakdown_s.is_empty()) else { return Ok(html! {}) };
    let by_variant: Vec<_> = page
        .focus
        .iter()
        .map(|run| breakdown(&run.variant, &run.time_breakdown_s, || verdict(run)))
        .collect();
    let (whose, aid) = match (&shown.replay, &shown.program) {
        (Some(_), _) => {
            ("does the busiest stream", "Mean over the measured steps; the parts add up to the step.")
        }
        (None, Some(_)) => (
            "does the GPU",
            "Mean over the later half of the simulated iterations; the parts add up to the step.",
        ),
        (None, None) => (
            "do the ranks",
            "Mean over ranks of what each did at every moment; the parts add up to the step.",
        ),
    };
    let question = format!("What {whose} spend a step on{}?", page.place);
    let variants = figure(&question, aid, &states_of(&page.focus), &rows::draw(&question, &by_variant)?);
    Ok(html! {
        section {
            (page.heading("Where does the time go?"))
            (variants)
            (waterfall::section(page)?)
            (by_rank(page, shown)?)
            (critical_path(page)?)
            (traffic::communication(page)?)
            (drives::arrays(page))
            (traffic::links(page)?)
            (traffic::resources(page, shown)?)
        }
    })
}

/// The legend of the breakdowns of `runs`, without what is too short to be seen in any.
fn states_of<'a>(runs: &[&'a RunSummary]) -> Vec<(&'a str, RGBAColor)> {
    states(runs.iter().map(|run| &run.time_breakdown_s))
}

/// The legend of some breakdowns.
pub(super) fn states<'a>(
    breakdowns: impl Iterator<Item = &'a IndexMap<String, f64>>,
) -> Vec<(&'a str, RGBAColor)> {
    let seen = breakdowns.flat_map(|times| {
        let least = times.values().sum::<f64>() * SHARE_SEEN;
        times.iter().filter(move |(_, time)| **time >= least).map(|(word, _)| word.as_str())
    });
    state::sorted(legend(seen, of_state), |(name, _)| *name)
}

fn by_rank(page: &Page<'_>, best: &RunSummary) -> Result<Markup, PlotError> {
    if best.ranks.len() < 2 {
        return Ok(html! {});
    }
    let ranks: Vec<&RankTime> = best.ranks.iter().step_by(best.ranks.len().div_ceil(RANKS_MAX)).collect();
    let bars: Vec<_> =
        ranks.iter().map(|rank| breakdown(&rank.name, &rank.time_breakdown_s, String::new)).collect();
    let question = format!("Which rank waits, in {}?", page.label(best));
    let slowest =
        best.slowest_rank.as_ref().map(|rank| format!(" The slowest is {}.", rank.name)).unwrap_or_default();
    let shown = if ranks.len() < best.ranks.len() {
        format!(" {} of {} ranks.", ranks.len(), best.ranks.len())
    } else {
        String::new()
    };
    let aid = format!(
        "The same for each rank of this run; a long grey part is a rank with too little to do.{slowest}{shown}"
    );
    Ok(figure(&question, &aid, &states_of(&[best]), &rows::draw(&question, &bars)?))
}

fn critical_path(page: &Page<'_>) -> Result<Markup, PlotError> {
    let runs: Vec<_> = page.focus.iter().filter(|run| !run.critical_path_s.is_empty()).collect();
    if runs.is_empty() {
        return Ok(html! {});
    }
    let words = runs.iter().flat_map(|run| run.critical_path_s.keys().map(String::as_str));
    let states = state::sorted(legend(words, of_state), |(name, _)| *name);
    let bars: Vec<_> =
        runs.iter().map(|run| breakdown(&run.variant, &run.critical_path_s, String::new)).collect();
    let question = "What would have to be faster for the step to be faster?";
    let aid = "The chain of operations, each of which waited for the one before, from the first of a step to its last, by cause.";
    Ok(figure(question, aid, &states, &rows::draw(question, &bars)?))
}

pub(super) fn breakdown(name: &str, times: &IndexMap<String, f64>, otherwise: impl Fn() -> String) -> Bar {
    let total: f64 = times.values().filter(|time| time.is_finite()).sum();
    let segment = |(state, time): (&str, f64)| {
        let share = quantity::percent(time / total);
        let hover = format!("{name}: {state} {}, {share}", quantity::seconds(time));
        Segment { value: time, fill: of_state(state), label: share, hover }
    };
    let segments: Vec<_> =
        state::in_order(times).filter(|(_, time)| time.is_finite() && *time > 0.0).map(segment).collect();
    let note = if segments.is_empty() { otherwise() } else { quantity::seconds(total) };
    Bar { name: name.to_owned(), segments, note, ..Bar::default() }
}

/// The timeline of one step, of the run the reader picks.
pub(super) fn one_step(page: &Page<'_>) -> Result<Markup, PlotError> {
    let drawn = |run: &&RunSummary| run.timeline.is_some();
    let here: Vec<&RunSummary> = page.focus.iter().copied().filter(drawn).take(TIMELINES_MAX).collect();
    let (runs, place) = match here.is_empty() {
        false => (here, page.place.as_str()),
        true => (page.summary.variants.iter().filter(drawn).take(TIMELINES_MAX).collect(), ""),
    };
    let name = |run: &RunSummary| if place.is_empty() { page.label(run) } else { run.variant.clone() };
    let Some(end_s) =
        runs.iter().filter_map(|run| run.timeline.as_ref()).map(|timeline| timeline.end_s).reduce(f64::max)
    else {
        return Ok(
            html! { @if let Some(sentence) = not_drawn(page) { section { (page.heading("One step")) p { (sentence) } } } },
        );
    };
    let boxes_max = (BOXES_MAX / runs.len()).min(TIMELINE_BOXES_MAX);
    let mut charts = Vec::new();
    let mut words: Vec<&str> = Vec::new();
    let mut thinned = false;
    for run in &runs {
        let Some(timeline) = &run.timeline else { continue };
        let drawn = timeline::draw(&format!("One step of {}", name(run)), timeline, end_s, boxes_max)?;
        thinned |= drawn.rows_shown < timeline.rows.len();
        words.extend(timeline.rows.iter().flat_map(|row| &row.spans).map(|span| span.state.as_str()));
        charts.push((name(run), drawn.picture));
    }
    let names = kinds_by_colour(&state::sorted(legend(words.into_iter(), of_state), |(name, _)| *name));
    let states: Vec<_> = names.iter().map(|(name, colour)| (name.as_str(), *colour)).collect();
    let question = format!("What does one step look like{place}?");
    let row =
        if runs.iter().any(|run| run.replay.is_some() || run.program.is_some()) { "lane" } else { "rank" };
    let some = if thinned { " Some of the ranks are shown." } else { "" };
    let aid = format!(
        "One row a {row}, time from left to right, all runs to the same scale; point at a box to see what it is. What is empty is idle.{some}"
    );
    let shown = first(page, &runs);
    let named: Vec<_> = runs.iter().map(|run| (name(run), *run)).collect();
    let pictures = html! { div.drawn { (picker(&charts, shown)) (zoomed::zoomable(&named, shown)) } };
    Ok(html! {
        section {
            (page.heading("One step"))
            (figure(&question, &aid, &states, &pictures))
            @if let Some(sentence) = not_drawn(page) { p { (sentence) } }
        }
    })
}

/// Which runs are too long to be drawn.
fn not_drawn(page: &Page<'_>) -> Option<String> {
    let reason = page.focus.iter().find_map(|run| run.not_drawn.as_ref())?;
    let runs = page.focus.iter().filter(|run| run.not_drawn.is_some());
    let names: Vec<_> = runs.map(|run| run.variant.as_str()).collect();
    Some(format!("Not drawn: {} ({reason}).", names.join(", ")))
}

/// Kinds of a state that share a colour share an entry of the legend: `compute: backward, backward input`.
fn kinds_by_colour(states: &[(&str, RGBAColor)]) -> Vec<(String, RGBAColor)> {
    let mut entries: Vec<(String, RGBAColor)> = Vec::new();
    for (name, colour) in states {
        let same = entries
            .iter_mut()
            .find(|(known, fill)| fill == colour && state::word(known) == state::word(name));
        match (same, state::kind(name)) {
            (Some((known, _)), Some(kind)) => *known += &format!(", {kind}"),
            _ => entries.push(((*name).to_owned(), *colour)),
        }
    }
    entries
}
