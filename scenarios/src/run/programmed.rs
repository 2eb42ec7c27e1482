//! A program: its model is asked whether it fits, its iterations are executed, described and drawn.

use hw_models::provenance::Origin;
use reports::summary::{ExecutedProgram, LaneTime, Phase, RunSummary, Spread};
use reports::trace::Tracer;
use serde_json::Value as Json;
use sim_core::time::Time;
use workloads::lanes::{LanesError, QUEUE, Simulation, cause};
use workloads::program::base::Base;
use workloads::program::execution::Execution;
use workloads::program::issuer::Costs;
use workloads::program::modes::Ran;
use workloads::program::run::{Executed, Iteration, Session, SessionError, Written, execute};

use super::one::{self, Drawn};
use super::{failure, lane_trace, spent};
use crate::plans;
use crate::schema::{Count, FRAMEWORK, Programmed, Scenario, Software};

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
    match setting.executed(seed, drawn, &mut summary) {
        Ok(()) => Ok(summary),
        Err(SessionError::Lanes(broken)) => Err(broken.to_string()),
        Err(refused) => Ok(failure::infeasible(refused.to_string())),
    }
}

/// Draws the last iteration of a run that was executed before.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn draw(scenario: &Scenario, seed: u64, run: &mut RunSummary) -> Result<(), String> {
    if !run.fits {
        return Ok(());
    }
    let setting = Setting::of(scenario)?;
    let written = setting.written(seed).map_err(|error| error.to_string())?;
    let simulation = written.simulation();
    let ran = simulation.run().map_err(|error| error.to_string())?;
    draw_last(&simulation, &written, &written.executed(ran), run)
}

/// Draws an iteration of an executed program, the last but one.
fn draw_last(
    simulation: &Simulation<'_>,
    written: &Written,
    executed: &Executed,
    run: &mut RunSummary,
) -> Result<(), String> {
    let shown = (executed.shown, executed.stepping);
    spent::draw(simulation, written.lanes().names(), shown, |_| String::new(), run)
}

/// Writes an executed program for a viewer.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn trace(scenario: &Scenario, seed: u64, tracer: &mut dyn Tracer) -> Result<(), String> {
    let setting = Setting::of(scenario)?;
    let written = setting.written(seed).map_err(|error| error.to_string())?;
    lane_trace::write(&written.simulation(), written.lanes().names(), |_| None, tracer)
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

/// Everything that executing a program takes.
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

    fn written(&self, seed: u64) -> Result<Written, SessionError> {
        Written::of(self.program.program(), self.costs(), &self.session(seed))
    }

    /// Executes all seeds; the first is described, and drawn if that is asked, the others only
    /// timed.
    fn executed(&self, seed: u64, drawn: Drawn, summary: &mut RunSummary) -> Result<(), SessionError> {
        let written = self.written(seed)?;
        let simulation = written.simulation();
        let first = written.executed(simulation.run()?);
        let lanes = spent::lanes(&simulation, written.lanes().names(), first.settled);
        let lanes = lanes.map_err(LanesError::Broken)?;
        let mut times = vec![[first.step, first.mean]];
        for further in 1..self.scenario.run.seeds.get() {
            let run =
                execute(self.program.program(), self.costs(), &self.session(seed.wrapping_add(further)))?;
            times.push([run.step, run.mean]);
        }
        self.describe(summary, &first, &lanes, &times);
        if drawn == Drawn::Yes {
            draw_last(&simulation, &written, &first, summary).map_err(LanesError::Broken)?;
        }
        Ok(())
    }

    fn describe(
        &self,
        summary: &mut RunSummary,
        first: &Executed,
        lanes: &[spent::Lane],
        times: &[[Time; 2]],
    ) {
        let seeds = times.len() as u64;
        let of = |which: usize| times.iter().map(move |times| times[which].as_secs());
        let spread = |which: usize| Spread {
            min_s: of(which).fold(f64::INFINITY, f64::min),
            mean_s: of(which).sum::<f64>() / seeds as f64,
            max_s: of(which).fold(0.0, f64::max),
            seeds,
        };
        let [step, mean] = [0, 1].map(spread);
        let settled = (first.iterations.len() - first.iterations.len() / 2).max(1) as f64;
        let lanes: Vec<LaneTime> = lanes
            .iter()
            .filter(|lane| lane.works() > Time::ZERO)
            .map(|lane| LaneTime { name: lane.name.clone(), time_s: lane.per_step(settled) })
            .collect();
        retime(summary, step.mean_s);
        summary.critical_path_s =
            first.critical.iter().map(|(cause, time)| (cause.clone(), time.as_secs() / settled)).collect();
        summary.time_breakdown_s = lanes.last().map(|lane| lane.time_s.clone()).unwrap_or_default();
        summary.activities = Some(first.activities);
        rest_on(summary, first);
        summary.step_time_spread = Some(step).filter(|_| seeds > 1);
        summary.seed_step_times_s = if seeds > 1 { of(0).collect() } else { Vec::new() };
        summary.program = Some(ExecutedProgram {
            execution: written(self.software.mode()),
            framework: self.framework().to_owned(),
            iterations: first.asked.into(),
            simulated: first.iterations.len() as u64,
            mean_iteration_s: mean.mean_s,
            mean_iteration_spread_s: (seeds > 1).then_some([mean.min_s, mean.max_s]),
            coverage: coverage(&first.iterations),
            iteration_s: first
                .iterations
                .iter()
                .take(ExecutedProgram::TOLD_MAX)
                .map(|it| it.time.as_secs())
                .collect(),
            lanes,
            ..phases(&first.iterations)
        });
    }
}

/// Share of iterations that run from a graph.
fn coverage(iterations: &[Iteration]) -> f64 {
    let from_graph = iterations.iter().filter(|it| matches!(it.ran, Ran::Captured | Ran::CoExecuted));
    from_graph.count() as f64 / iterations.len().max(1) as f64
}

/// How iterations ran, in all and one after the other.
fn phases(iterations: &[Iteration]) -> ExecutedProgram {
    let mut told = ExecutedProgram::default();
    for (number, iteration) in (1..).zip(iterations) {
        let ran = iteration.ran.name();
        *told.ran.entry(ran.to_owned()).or_default() += 1;
        if told.phases.last().is_none_or(|phase| phase.ran != ran) {
            told.phases.push(Phase { from: number, ran: ran.to_owned() });
        }
    }
    told.phases.truncate(ExecutedProgram::TOLD_MAX);
    told
}

/// A mode as a file says it: a word, or with its choices on the same line.
fn written(mode: Execution) -> String {
    let value = |value: Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match serde_json::to_value(mode) {
        Ok(Json::Object(modes)) => {
            let choices = |choices: Json| {
                let choices = choices.as_object().cloned().unwrap_or_default().into_iter();
                choices
                    .map(|(name, chosen)| format!("{name}: {}", value(chosen)))
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            modes.into_iter().map(|(mode, chosen)| format!("{mode}: {{ {} }}", choices(chosen))).collect()
        }
        other => other.map(value).unwrap_or_default(),
    }
}

/// Says what the step rests on: kernels on what their model's do, the host on estimates.
fn rest_on(summary: &mut RunSummary, executed: &Executed) {
    let device = [cause::KERNEL, cause::COPY, cause::GAP];
    let sum = |counts: &dyn Fn(&str) -> bool| {
        let counted = executed.critical.iter().filter(|(cause, _)| counts(cause));
        counted.map(|(_, time)| time.as_secs()).sum::<f64>()
    };
    let of_device = sum(&|cause| device.contains(&cause)) / sum(&|_| true).max(f64::MIN_POSITIVE);
    summary.provenance.values_mut().for_each(|share| *share *= of_device);
    *summary.provenance.entry(Origin::Estimate.to_string()).or_default() += 1.0 - of_device;
}

/// Gives the run of a model the step of its program; what only the model's own step has goes.
fn retime(summary: &mut RunSummary, step: f64) {
    let before = std::mem::take(summary);
    let ratio = before.step_time_s.map_or(1.0, |before| before / step);
    let faster = |rate: Option<f64>| rate.map(|rate| rate * ratio);
    *summary = RunSummary {
        fits: before.fits,
        step_time_s: Some(step),
        samples_per_s: faster(before.samples_per_s),
        tokens_per_s: faster(before.tokens_per_s),
        mfu: faster(before.mfu),
        peak_memory_bytes: before.peak_memory_bytes,
        peak_activation_bytes: before.peak_activation_bytes,
        allocator: before.allocator,
        allocator_unknown: before.allocator_unknown,
        provenance: before.provenance,
        ..RunSummary::default()
    };
}
