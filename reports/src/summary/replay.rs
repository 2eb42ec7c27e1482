//! Recorded steps, replayed: each step beside its recording, lanes by cause, steps as forecasts.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::LaneTime;
use crate::quantity;

/// Replay of a recorded program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplayedTrace {
    /// The trace.
    pub file: String,
    /// Names of the devices that the trace describes, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Rank of the process, and number of ranks.
    pub rank: Option<[u64; 2]>,
    /// Changes of the recording (`host=50 %`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub what_if: Vec<String>,
    /// Steps before the measured ones, which step time, breakdown and critical path are of: the
    /// first of several finds an empty device.
    pub warm_up: u64,
    /// Mean of the measured steps as they were recorded. `None`: see [`StepTime::recorded_s`].
    pub recorded_step_s: Option<f64>,
    /// Steps, in order.
    pub steps: Vec<StepTime>,
    /// Share of the critical path that is recorded time of hosts, 0 to 1: a replay repeats it.
    pub host_share: f64,
    /// Inferences and other findings, each with a count.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub found: IndexMap<String, u64>,
    /// Time by which activities began later than anything that was found explains.
    pub unexplained_s: f64,
    /// The lane that the breakdown of the step is of: the stream of a device that works longest.
    pub busiest_lane: String,
    /// Threads, then streams of devices, that do anything in the steps: time of a step by cause.
    pub lanes: Vec<LaneTime>,
    /// Steps as forecasts of the next ones. Absent for a changed recording.
    pub forecast: Option<Forecast>,
}

impl ReplayedTrace {
    /// Meaning of the share of recorded host time.
    pub const HOST_SHARE: &str = "recorded host time is repeated as it was: a step of it alone is right by construction, and proves nothing";

    /// `6 recorded steps of x.json.gz on Tesla V100, rank 3 of 8`.
    pub fn title(&self) -> String {
        let steps = match self.steps.len() {
            1 => "1 recorded step".to_owned(),
            count => format!("{count} recorded steps"),
        };
        let on = match self.devices.is_empty() {
            true => String::new(),
            false => format!(" on {}", self.devices.join(", ")),
        };
        let rank = self.rank.map_or_else(String::new, |[rank, ranks]| format!(", rank {rank} of {ranks}"));
        let warm_up = if self.warm_up > 0 { ", the first as warm-up" } else { "" };
        format!("{steps} of {}{on}{rank}{warm_up}", self.file)
    }

    /// The changes in a table.
    pub(crate) fn what_if_words(&self) -> String {
        if self.what_if.is_empty() { quantity::NONE.to_owned() } else { self.what_if.join(", ") }
    }
}

/// A step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepTime {
    /// As it was recorded. `None`: the file says only durations.
    pub recorded_s: Option<f64>,
    /// As it was replayed.
    pub replayed_s: f64,
}

impl StepTime {
    /// Mean of steps: recorded, where all are, and replayed.
    pub fn mean(steps: &[Self]) -> Self {
        let count = steps.len().max(1) as f64;
        let recorded: Option<f64> = steps.iter().map(|step| step.recorded_s).sum();
        let replayed: f64 = steps.iter().map(|step| step.replayed_s).sum();
        Self { recorded_s: recorded.map(|sum| sum / count), replayed_s: replayed / count }
    }

    /// How far the replayed time is from the recorded one, relative to that.
    pub(crate) fn change(&self) -> Option<f64> {
        Some(self.replayed_s / self.recorded_s? - 1.0)
    }

    /// Recorded, replayed and the change, in words.
    pub(crate) fn words(&self) -> [String; 3] {
        let told = |value: Option<f64>, word: fn(f64) -> String| {
            value.map_or_else(|| quantity::NONE.to_owned(), word)
        };
        let recorded = told(self.recorded_s, quantity::seconds);
        [recorded, quantity::seconds(self.replayed_s), told(self.change(), quantity::change)]
    }
}

/// Each step as a forecast of the next one: replayed, and as it was recorded (the naive forecast).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// Errors for the second step and those after it.
    pub relative: Vec<ForecastError>,
    /// Mean absolute error of the replayed step, relative to the next one as it was recorded.
    pub replayed_error: f64,
    /// Mean absolute error of the recorded step.
    pub naive_error: f64,
    /// True if the steps are alike enough for a forecast to be judged: [`Forecast::ALIKE`].
    pub judged: bool,
}

/// Errors of the forecasts of a step, relative to the step as it was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ForecastError {
    /// Forecast by the step before it, replayed.
    pub replayed: f64,
    /// Forecast by the step before it, as it was recorded.
    pub naive: f64,
}

impl Forecast {
    /// Naive error below which steps are alike, and below or at which a forecast passes.
    pub const ALIKE: f64 = 0.04;

    /// Forecasts of the steps after the first. `None`: there is no step after the first, or steps
    /// are not recorded.
    pub fn of(steps: &[StepTime]) -> Option<Self> {
        let error = |pair: &[StepTime]| {
            let (before, next) = (pair[0].recorded_s?, pair[1].recorded_s?);
            let [replayed, naive] = [pair[0].replayed_s, before].map(|time| time / next - 1.0);
            Some(ForecastError { replayed, naive })
        };
        let relative: Vec<ForecastError> = steps.windows(2).map(error).collect::<Option<_>>()?;
        let mean = |of: fn(&ForecastError) -> f64| {
            relative.iter().map(|error| of(error).abs()).sum::<f64>() / relative.len() as f64
        };
        let (replayed_error, naive_error) = (mean(|error| error.replayed), mean(|error| error.naive));
        let judged = naive_error < Self::ALIKE;
        (!relative.is_empty()).then_some(Self { replayed_error, naive_error, judged, relative })
    }

    /// Mean errors, and the verdict where there is one.
    pub fn words(&self) -> String {
        let [replayed, naive] = [self.replayed_error, self.naive_error].map(quantity::percent);
        let bar = quantity::percent(Self::ALIKE);
        let verdict = match (self.judged, self.replayed_error <= Self::ALIKE) {
            (true, true) => format!("within the {bar} that it is judged by"),
            (true, false) => format!("beyond the {bar} that it is judged by"),
            (false, _) => format!("not judged, as recorded steps differ by {bar} or more"),
        };
        format!(
            "a replayed step forecasts the next one within {replayed} on average, a recorded one within {naive}: {verdict}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(recorded_s: f64, replayed_s: f64) -> StepTime {
        StepTime { recorded_s: Some(recorded_s), replayed_s }
    }

    /// A stall of the second step that the replay does not repeat is no part of its forecast.
    #[test]
    fn a_step_is_forecast_by_the_one_before_it() {
        let steps = [step(1.0, 1.0), step(1.03, 1.0), step(1.0, 1.0)];
        let forecast = Forecast::of(&steps).expect("there are several steps");
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(near(forecast.relative[1].replayed, 0.0) && near(forecast.relative[1].naive, 0.03));
        assert!(forecast.replayed_error < forecast.naive_error && forecast.judged);
        assert_eq!(Forecast::of(&steps[..1]), None);
        let unrecorded = StepTime { recorded_s: None, replayed_s: 1.0 };
        assert_eq!(Forecast::of(&[steps[0], unrecorded]), None);
    }

    #[test]
    fn unlike_steps_judge_nothing() {
        let forecast = Forecast::of(&[step(1.0, 1.0), step(2.0, 2.0)]).expect("there are two steps");
        assert!(!forecast.judged);
    }
}
