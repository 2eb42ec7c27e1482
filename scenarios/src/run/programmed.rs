//! A program: its model is asked whether it fits, its iterations are executed, described and drawn.

use indexmap::IndexMap;
use reports::state;
use reports::summary::{ExecutedProgram, LaneTime, Phase, RunSummary, Spread, Timeline, TimelineRow};
use sim_core::time::Time;
use workloads::lanes::{QUEUE, cause};
use workloads::program::base::Base;
use workloads::program::issuer::Costs;
use workloads::program::modes::Ran;
use workloads::program::run::{Executed, Session, SessionError, Written, execute};

use super::failure;
use super::one::{self, Drawn};
use super::picture::draw_span;
use crate::plans;
use crate::schema;
use crate::schema::{Count, FRAMEWORK, Programmed, Scenario, Software};

/// Phases that are told, and iterations whose times are.
const TOLD_MAX: usize = 200;

/// Executes a program.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn outcome(scenario: &Scenario, seed: u64, drawn: Drawn) -> Result<RunSummary, String> {
    // Memory is that of the model trained eagerly.
    let mut summary = one::outcome(&eager(scenario), seed, Drawn::No)?;
    if !summary.fits {
        return Ok(summary);
    }
    let setting = Setting::of(scenario)?;
    let mut runs = Vec::new();
    for further in 0..scenario.run.seeds.get() {
        match setting.execute(seed.wrapping_add(further)) {
            Ok(executed) => runs.push(executed),
            Err(error @ (SessionError::TooLong { .. } | SessionError::TooMany { .. })) => {
                return Ok(failure::infeasible(error.to_string()));
            }
            Err(broken) => return Err(broken.to_string()),
        }
    }
    describe(&mut summary, &setting, &runs);
    if drawn == Drawn::Yes {
        setting.draw(seed, &mut summary)?;
    }
    Ok(summary)
}

/// Draws the last iteration of a run that was executed before.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn draw(scenario: &Scenario, seed: u64, run: &mut RunSummary) -> Result<(), String> {
    if run.fits { Setting::of(scenario)?.draw(seed, run) } else { Ok(()) }
}

/// The scenario with the model of its program alone.
fn eager(scenario: &Scenario) -> Scenario {
    let mut alone = scenario.without_program();
    if let Some(software) = &mut alone.software {
        (software.execution, software.framework, software.launch_queue) = (None, None, None);
    }
    (alone.run.iterations, alone.run.seeds) = (None, Count::new(1).expect("within the limits"));
    alone
}

/// What executing a program takes.
struct Setting<'a> {
    scenario: &'a Scenario,
    program: &'a Programmed,
    software: Software,
    base: Base,
}

impl<'a> Setting<'a> {
    fn of(scenario: &'a Scenario) -> Result<Self, String> {
        let program = scenario.model.program().ok_or("there is no program")?;
        let base = plans::base(scenario).map_err(|error| error.to_string())?.ok_or("there is no model")?;
        Ok(Self { scenario, program, software: scenario.software.clone().unwrap_or_default(), base })
    }

    fn framework(&self) -> &str {
        self.software.framework.as_deref().unwrap_or(FRAMEWORK)
    }

    fn session(&self, seed: u64) -> Session {
        Session {
            execution: self.software.mode(),
            iterations: plans::iterations(self.scenario),
            seed,
            queue: self.software.launch_queue.map_or(QUEUE, Count::get),
        }
    }

    fn costs(&self) -> Costs<'_> {
        Costs {
            base: &self.base,
            loader: self.program.loader.as_ref(),
            framework: plans::framework(self.scenario),
            host: self.scenario.constants.host(),
        }
    }

    fn execute(&self, seed: u64) -> Result<Executed, SessionError> {
        execute(self.program.program(), self.costs(), &self.session(seed))
    }
}

fn describe(summary: &mut RunSummary, setting: &Setting<'_>, runs: &[Executed]) {
    let Some(first) = runs.first() else { return };
    let count = runs.len() as f64;
    let mean = |time: fn(&Executed) -> Time| runs.iter().map(|run| time(run).as_secs()).sum::<f64>() / count;
    let span = |time: fn(&Executed) -> Time| {
        let times = || runs.iter().map(|run| time(run).as_secs());
        [times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max)]
    };
    let simulated = first.iterations.len().max(1) as f64;
    let lane = |lane: &workloads::lanes::LaneUse| {
        let spent = lane.spent.iter().map(|(cause, time)| (cause.clone(), time.as_secs() / simulated));
        LaneTime { name: lane.name.clone(), time_s: spent.collect() }
    };
    let mut ran: IndexMap<String, u64> = IndexMap::new();
    let mut phases: Vec<Phase> = Vec::new();
    for (number, iteration) in (1..).zip(&first.iterations) {
        let name = iteration.ran.name();
        *ran.entry(name.to_owned()).or_default() += 1;
        if phases.last().is_none_or(|phase| phase.ran != name) {
            phases.push(Phase { from: number, ran: name.to_owned() });
        }
    }
    phases.truncate(TOLD_MAX);
    let from_graph = first.iterations.iter().filter(|it| matches!(it.ran, Ran::Captured | Ran::CoExecuted));
    let lanes: Vec<LaneTime> = first.lanes.iter().map(lane).collect();
    let step = mean(|run| run.step);
    let settled = (first.iterations.len() - first.iterations.len() / 2).max(1) as f64;
    retime(summary, step);
    summary.critical_path_s =
        first.critical.iter().map(|(cause, time)| (cause.clone(), time.as_secs() / settled)).collect();
    summary.time_breakdown_s = lanes.last().map(|lane| lane.time_s.clone()).unwrap_or_default();
    summary.activities = Some(first.activities);
    if runs.len() > 1 {
        let [min_s, max_s] = span(|run| run.step);
        summary.step_time_spread = Some(Spread { min_s, mean_s: step, max_s, seeds: runs.len() as u64 });
    }
    summary.program = Some(ExecutedProgram {
        execution: schema::word(&setting.software.mode()),
        framework: setting.framework().to_owned(),
        iterations: first.asked.into(),
        simulated: first.iterations.len() as u64,
        mean_iteration_s: mean(|run| run.mean),
        mean_iteration_spread_s: (runs.len() > 1).then(|| span(|run| run.mean)),
        coverage: from_graph.count() as f64 / simulated,
        ran,
        phases,
        iteration_s: first.iterations.iter().take(TOLD_MAX).map(|it| it.time.as_secs()).collect(),
        lanes,
    });
}

/// Gives the run of a model the step of its program; what only the model's own step has goes.
fn retime(summary: &mut RunSummary, step: f64) {
    let ratio = summary.step_time_s.map_or(1.0, |before| before / step);
    for rate in [&mut summary.samples_per_s, &mut summary.tokens_per_s, &mut summary.mfu] {
        *rate = rate.map(|rate| rate * ratio);
    }
    let RunSummary {
        fits,
        samples_per_s,
        tokens_per_s,
        mfu,
        peak_memory_bytes,
        peak_activation_bytes,
        allocator,
        allocator_unknown,
        ..
    } = std::mem::take(summary);
    *summary = RunSummary {
        fits,
        step_time_s: Some(step),
        samples_per_s,
        tokens_per_s,
        mfu,
        peak_memory_bytes,
        peak_activation_bytes,
        allocator,
        allocator_unknown,
        ..RunSummary::default()
    };
}

impl Setting<'_> {
    /// Draws the last iteration but one: threads and the GPU.
    fn draw(&self, seed: u64, run: &mut RunSummary) -> Result<(), String> {
        let written = Written::of(self.program.program(), self.costs(), &self.session(seed));
        let written = written.map_err(|error| error.to_string())?;
        let simulation = written.simulation();
        let executed = written.executed(simulation.run().map_err(|error| error.to_string())?);
        let [start, end] = executed.shown;
        let mut rows: Vec<TimelineRow> =
            written.lanes().names().map(|name| TimelineRow { name, spans: Vec::new() }).collect();
        simulation
            .watch([start, end], |span| {
                let times = ((span.start - start).as_secs(), (span.end - start).as_secs());
                draw_span(&mut rows[span.lane].spans, times, span.cause.to_owned(), String::new());
            })
            .map_err(|error| error.to_string())?;
        let waits = [cause::DEVICE, cause::THREAD, cause::QUEUE, cause::LAUNCH, state::IDLE];
        rows.retain(|row| row.spans.iter().any(|span| !waits.contains(&span.state.as_str())));
        run.timeline = Some(Timeline { end_s: (end - start).as_secs(), rows });
        Ok(())
    }
}
