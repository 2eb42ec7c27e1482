//! Programs that were executed: the runs of a point, the phases of one, its lanes.

use std::io::{self, Write};

use super::{Style, clean, lanes, section};
use crate::quantity;
use crate::ranking::Comparison;
use crate::summary::{ExecutedProgram, RunSummary};

/// The runs of a point that execute a program, and one of them closely.
pub(super) fn programs(
    out: &mut impl Write,
    comparison: &Comparison<'_>,
    (runs, shown): (&[&RunSummary], &RunSummary),
    style: Style,
) -> io::Result<()> {
    let Some(program) = &shown.program else { return Ok(()) };
    let named = comparison.naming.run(shown);
    let rows = runs.iter().filter_map(|run| {
        let program = run.program.as_ref()?;
        Some(vec![
            run.variant.clone(),
            program.execution.clone(),
            quantity::seconds(run.step_time()?),
            program.mean_words(),
            quantity::percent(program.coverage),
            program.python_waits_words(),
            quantity::percent(program.gpu_busy()),
        ])
    });
    section(out, style, "how the program was executed", &ExecutedProgram::TITLES, rows.collect())?;
    writeln!(out, "  {}", ExecutedProgram::TIMES)?;
    writeln!(out, "\n{}", style.bold(&clean(&program.title(&named))))?;
    writeln!(out, "  {}", clean(&program.phase_words()))?;
    let heading = format!("lanes in an iteration of {named}, mean over the later half");
    lanes::table(out, style, (&heading, ">of its time"), &program.lanes)
}
