//! A recorded step beside the simulated one, lane by lane, by where they part.

use serde::Serialize;

use super::Explanation;
use crate::quantity;
use crate::state;

/// Part of a step by which two steps may differ and be as long.
const ALIKE: f64 = 0.01;

/// Times of a mean step as they were recorded (s).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedStep {
    /// The trace.
    pub file: String,
    /// Number of steps.
    pub steps: u64,
    /// Time of a step.
    pub step_s: f64,
    /// Kernels that compute.
    pub kernels_s: f64,
    /// Collectives that no such kernel hides.
    pub collectives_s: f64,
    /// Copies that neither hides.
    pub copies_s: f64,
    /// Nothing runs.
    pub nothing_s: f64,
    /// Collectives, hidden or not.
    pub all_collectives_s: f64,
    /// Work of the busiest thread. `None`: the trace cannot be replayed.
    pub host_s: Option<f64>,
}

/// Work of lanes beside the compute lane, of a mean rank and step (s).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OtherLanes {
    /// Collectives, hidden or not.
    pub collectives_s: f64,
    /// Issue of work by the host.
    pub host_s: f64,
}

/// Time of a kind on a lane, recorded and simulated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parted {
    /// Lane: the GPU, collectives, or the host.
    pub lane: String,
    /// Kind of time.
    pub kind: String,
    /// As recorded (s).
    pub measured_s: f64,
    /// As simulated (s).
    pub simulated_s: f64,
}

/// A recorded step beside the simulated one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beside {
    /// The trace.
    pub file: String,
    /// Recorded steps, of which times are means.
    pub steps: u64,
    /// Step as recorded (s).
    pub measured_s: f64,
    /// Parts, those first where the two part most. Those of the GPU add up to the step.
    pub parts: Vec<Parted>,
}

/// Lane whose parts add up to the step.
const GPU: &str = "GPU";

impl Beside {
    /// The step of an explanation beside a recorded one. `None`: it has no step.
    pub(super) fn of(explanation: &Explanation, recorded: RecordedStep) -> Option<Self> {
        explanation.step_time_s?;
        let Explanation { time_breakdown_s: breakdown, other_lanes, .. } = explanation;
        let sum = |causes: &[&str]| -> f64 { causes.iter().filter_map(|cause| breakdown.get(*cause)).sum() };
        let kernels = [state::COMPUTE, state::RECOMPUTE, state::KERNELS];
        // A collective waits for its peers on the GPU, and so is recorded as running.
        let collectives = [
            state::COMMUNICATION,
            state::SKEW,
            state::PIPELINE_BUBBLE,
            state::COLLECTIVES,
            state::WAITING_FOR_STREAM,
        ];
        let copies = [state::WAITING_FOR_TRANSFER, state::WAITING_FOR_MEMORY, state::COPIES];
        let known = [&kernels[..], &collectives, &copies].concat();
        let rest: f64 = breakdown.values().sum::<f64>() - sum(&known);
        let part = |lane: &str, kind: &str, measured_s: f64, simulated_s: f64| Parted {
            lane: lane.to_owned(),
            kind: kind.to_owned(),
            measured_s,
            simulated_s,
        };
        let mut parts = vec![
            part(GPU, "kernels", recorded.kernels_s, sum(&kernels)),
            part(GPU, "exposed collectives, skew and bubbles", recorded.collectives_s, sum(&collectives)),
            part(GPU, "exposed copies", recorded.copies_s, sum(&copies)),
            part(GPU, "nothing runs", recorded.nothing_s, rest),
        ];
        if let Some(others) = other_lanes {
            let all = part("collectives", "all", recorded.all_collectives_s, others.collectives_s);
            let host = recorded.host_s.map(|host_s| part("host", "work", host_s, others.host_s));
            parts.extend([Some(all), host].into_iter().flatten());
        }
        parts.sort_by(|a, b| b.difference().abs().total_cmp(&a.difference().abs()));
        Some(Self { file: recorded.file, steps: recorded.steps, measured_s: recorded.step_s, parts })
    }

    /// The answer: how far the steps are apart, and where most.
    pub(super) fn finding(&self, simulated_s: f64) -> String {
        let ratio = simulated_s / self.measured_s;
        if (ratio - 1.0).abs() < ALIKE {
            return "The simulated step is as long as the recorded one.".to_owned();
        }
        let word = if ratio > 1.0 { "longer" } else { "shorter" };
        let share = quantity::percent((ratio - 1.0).abs());
        let of = |part: &&Parted| part.difference() * (ratio - 1.0).signum();
        let gpu = self.parts.iter().filter(|part| part.lane == GPU);
        let most = gpu.max_by(|a, b| of(a).total_cmp(&of(b)));
        let most = most.map_or(String::new(), |part| {
            let difference = quantity::seconds(part.difference().abs());
            let word = if part.difference() > 0.0 { "more" } else { "less" };
            format!(", by {difference} {word} of {}", part.kind.split(',').next().unwrap_or_default())
        });
        format!("The simulated step is {share} {word} than recorded{most}.")
    }
}

impl Parted {
    /// Simulated time less the recorded one (s).
    pub(super) fn difference(&self) -> f64 {
        self.simulated_s - self.measured_s
    }
}
