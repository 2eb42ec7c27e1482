//! Programs that were executed: the runs of a point, their iterations over time, the lanes of one.

use maud::{Markup, html};

use super::lanes::chart;
use super::{Page, figure, sortable};
use crate::plots::PlotError;
use crate::plots::iterations::{self, Line};
use crate::quantity;
use crate::summary::{ExecutedProgram, RunSummary};

pub(super) fn section(page: &Page<'_>) -> Result<Markup, PlotError> {
    let Some((shown, program)) = page.shown.and_then(|run| Some((run, run.program.as_ref()?))) else {
        return Ok(html! {});
    };
    Ok(html! {
        section {
            (page.heading("How was the program executed?"))
            p { (program.title(&page.label(shown))) ". Iterations: " (program.phase_words()) "." }
            (runs(page))
            (over_iterations(page)?)
            (lanes(page, shown, program)?)
        }
    })
}

fn runs(page: &Page<'_>) -> Markup {
    let row = |run: &&RunSummary| {
        let (program, step) = (run.program.as_ref()?, run.step_time()?);
        let (waits, busy) = (program.python_waits(), program.gpu_busy());
        Some(html! {
            tr {
                td { (run.variant) }
                td { (program.execution) }
                td.number data-sort=(step) { (quantity::seconds(step)) }
                td.number data-sort=(program.mean_iteration_s) { (program.mean_words()) }
                td.number data-sort=(program.coverage) { (quantity::percent(program.coverage)) }
                td data-sort=(waits) { (program.python_waits_words()) }
                td.number data-sort=(busy) { (quantity::percent(busy)) }
            }
        })
    };
    let rows: Vec<Markup> = page.focus.iter().filter_map(row).collect();
    let question = format!("Which execution is fast from when on{}?", page.place);
    let aid = format!("{}.", ExecutedProgram::TIMES);
    figure(&question, &aid, &[], &sortable(&ExecutedProgram::TITLES, &rows))
}

/// Times of iterations, which show when an execution pays.
fn over_iterations(page: &Page<'_>) -> Result<Markup, PlotError> {
    let lines: Vec<Line<'_>> = page.focus.iter().filter_map(|run| line(run)).collect();
    if lines.is_empty() {
        return Ok(html! {});
    }
    let question = format!("How long does each iteration take{}?", page.place);
    let aid = "The first iterations of a run of each variant; most peaks are iterations that trace, capture or compile.";
    Ok(figure(&question, aid, &[], &iterations::draw(&question, &lines, &page.variants)?))
}

fn line(run: &RunSummary) -> Option<Line<'_>> {
    let times_s = run.program.as_ref()?.iteration_s.as_slice();
    (!times_s.is_empty()).then_some(Line { name: &run.variant, times_s })
}

fn lanes(page: &Page<'_>, run: &RunSummary, program: &ExecutedProgram) -> Result<Markup, PlotError> {
    let question = format!("What do the lanes spend an iteration of {} on?", page.label(run));
    let aid = "Host threads, then the GPU, mean over the later half of the simulated iterations; each adds up to the step.";
    chart(&question, aid, &program.lanes)
}
