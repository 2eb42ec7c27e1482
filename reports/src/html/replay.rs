//! Recorded steps that were replayed: each run beside the recording, lanes, steps as forecasts.

use maud::{Markup, html};

use super::lanes::chart;
use super::{Page, figure, sortable};
use crate::plots::PlotError;
use crate::quantity;
use crate::summary::{Forecast, ReplayedTrace, RunSummary, StepTime};

pub(super) fn section(page: &Page<'_>) -> Result<Markup, PlotError> {
    let Some((shown, replay)) = page.shown.and_then(|run| Some((run, run.replay.as_ref()?))) else {
        return Ok(html! {});
    };
    let lanes = lanes(page, shown, replay)?;
    let unchanged = page.focus.iter().filter_map(|run| run.replay.as_ref()).find(|it| it.what_if.is_empty());
    Ok(html! {
        section {
            (page.heading("What was replayed?"))
            p { (replay.title()) "." }
            (runs(page))
            @if let Some(unchanged) = unchanged { (steps(unchanged)) }
            (lanes)
            (found(replay))
        }
    })
}

fn runs(page: &Page<'_>) -> Markup {
    let row = |run: &&RunSummary| {
        let (replay, step) = (run.replay.as_ref()?, run.step_time()?);
        let step = StepTime { recorded_s: replay.recorded_step_s, replayed_s: step };
        let [recorded, replayed, change] = step.words();
        Some(html! {
            tr {
                td { (run.variant) }
                td { (replay.what_if_words()) }
                td.number data-sort=[step.recorded_s] { (recorded) }
                td.number data-sort=(step.replayed_s) { (replayed) }
                td.number data-sort=[step.change()] { (change) }
                td.number data-sort=(replay.host_share) { (quantity::percent(replay.host_share)) }
            }
        })
    };
    let rows: Vec<Markup> = page.focus.iter().filter_map(row).collect();
    let titles = ["variant", "what if", ">recorded", ">replayed", ">difference", ">recorded host time"];
    let question = format!("What would change{}?", page.place);
    figure(&question, ReplayedTrace::HOST_SHARE, &[], &sortable(&titles, &rows))
}

fn steps(replay: &ReplayedTrace) -> Markup {
    let row = |(at, step): (usize, &StepTime)| {
        let before = replay.forecast.as_ref().zip(at.checked_sub(1));
        let errors = before.and_then(|(forecast, before)| forecast.relative.get(before));
        let [recorded, replayed, change] = step.words();
        let told = |error: Option<f64>| error.map_or_else(|| quantity::NONE.to_owned(), quantity::change);
        html! {
            tr {
                td.number data-sort=(at) { (at + 1) }
                td.number data-sort=[step.recorded_s] { (recorded) }
                td.number data-sort=(step.replayed_s) { (replayed) }
                td.number data-sort=[step.change()] { (change) }
                td.number { (told(errors.map(|error| error.replayed))) }
                td.number { (told(errors.map(|error| error.naive))) }
            }
        }
    };
    let rows: Vec<Markup> = replay.steps.iter().enumerate().map(row).collect();
    let titles = [">step", ">recorded", ">replayed", ">difference", ">forecast off", ">naive off"];
    let aid = "Unchanged. A step as forecast of the next one: replayed, and as it was recorded (naive).";
    let words = replay.forecast.as_ref().map(Forecast::words);
    html! {
        (figure("Are the recorded steps met?", aid, &[], &sortable(&titles, &rows)))
        @if let Some(words) = words { p.aid { (words) "." } }
    }
}

fn lanes(page: &Page<'_>, run: &RunSummary, replay: &ReplayedTrace) -> Result<Markup, PlotError> {
    let question = format!("What do the lanes spend a step of {} on?", page.label(run));
    let aid = format!(
        "Host threads, then streams of devices, mean over the steps; each adds up to the step. The breakdown above is that of {}.",
        replay.busiest_lane
    );
    chart(&question, &aid, &replay.lanes)
}

fn found(replay: &ReplayedTrace) -> Markup {
    let found = replay.found.iter().filter(|(_, count)| **count > 0);
    html! {
        details {
            summary { "Inferences from the trace, and what remains unexplained" }
            div.wide {
                table {
                    tbody { @for (what, count) in found { tr { td { (what) } td.number { (count) } } } }
                }
            }
            p.aid { "Unexplained: " (quantity::seconds(replay.unexplained_s)) " over the whole trace." }
        }
    }
}
