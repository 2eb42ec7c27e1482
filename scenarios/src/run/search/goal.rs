//! Objectives of a plan as numbers: those of its run, and what no run of it is below.

use hw_models::power::BoardPower;
use reports::summary::RunSummary;

use crate::campaign;
use crate::expectation::Metric;
use crate::experiment::{OBJECTIVES_MAX, Objective};
use crate::plans;
use crate::schema::{Count, Scenario};

/// By objective in the order of the search; 0 behind the last.
pub(super) type Figures = [f64; OBJECTIVES_MAX];

/// Objectives of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goals<'s>(pub(super) &'s [Objective]);

impl Goals<'_> {
    /// Figures of a run of a plan. `None`: it has no figure of an objective.
    pub(super) fn of_run(self, scenario: &Scenario, run: &RunSummary) -> Option<Figures> {
        let mut figures = Figures::default();
        for (figure, objective) in figures.iter_mut().zip(self.0) {
            *figure = match objective {
                Objective::StepTime => run.step_time(),
                Objective::TimePerSample => run.step_time().map(|time| time / samples(scenario)),
                Objective::Cost => run.campaign.as_ref().and_then(|it| it.cost.as_ref()?.per_unit()),
                Objective::Energy => run.power.as_ref().map(|it| it.step_energy_j / samples(scenario)),
                Objective::PeakMemory => Metric::PeakMemoryBytes.of(run),
            }?;
        }
        Some(figures)
    }

    /// Figures that no run of a plan is below: its step takes this time (s), and a GPU holds these
    /// bytes.
    pub(super) fn at_least(self, scenario: &Scenario, seconds: f64, bytes: u64) -> Figures {
        self.figures(|objective| match objective {
            Objective::StepTime => seconds,
            Objective::TimePerSample => seconds / samples(scenario),
            // No plan costs less than one that always makes progress.
            Objective::Cost => seconds * campaign::least_cost_per_second(scenario).unwrap_or(0.0),
            Objective::Energy => seconds * idle_w(scenario).unwrap_or(0.0) / samples(scenario),
            Objective::PeakMemory => bytes as f64,
        })
    }

    /// Figures for each second of a step that are those of all plans of a group: cost and energy hang
    /// on the GPUs of each.
    pub(super) fn per_second_of_group(self, scenario: &Scenario) -> Figures {
        self.figures(|objective| match objective {
            Objective::StepTime => 1.0,
            Objective::TimePerSample => 1.0 / samples(scenario),
            Objective::Cost | Objective::Energy | Objective::PeakMemory => 0.0,
        })
    }

    fn figures(self, of: impl Fn(Objective) -> f64) -> Figures {
        let mut figures = Figures::default();
        figures.iter_mut().zip(self.0).for_each(|(figure, &objective)| *figure = of(objective));
        figures
    }
}

fn samples(scenario: &Scenario) -> f64 {
    scenario.training.global_batch.map_or(1, Count::get) as f64
}

/// Power that the boards of all ranks draw with nothing to do (W). `None`: it is not known.
fn idle_w(scenario: &Scenario) -> Option<f64> {
    let machine = plans::machine::of(scenario).ok()?;
    let devices = scenario.constants.devices();
    let boards = machine.gpu_kinds().iter().map(|(_, gpu)| BoardPower::of(devices, gpu));
    let least = boards.collect::<Option<Vec<_>>>()?.iter().map(|board| board.idle_w).reduce(f64::min)?;
    Some(least * plans::ranks(scenario) as f64)
}
