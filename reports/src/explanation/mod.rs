//! A run explained: the critical path of its step in order, exposed time by cause, and what faster
//! parts would bring.

mod beside;
mod page;
mod stretch;
mod terminal;

use indexmap::IndexMap;
use serde::Serialize;

use crate::finding::verdict;
use crate::quantity;
use crate::state;
use crate::summary::{RunSummary, SCHEMA_VERSION};
use crate::wording::capitalised;

pub use beside::{Beside, OtherLanes, Parted, RecordedStep};
pub use page::write as page;
pub use terminal::write as terminal;

/// Part of a step below which a faster part changes nothing that matters.
const CHANGE_MIN: f64 = 0.001;
/// Part of a step that the deciding part saves at least.
const DECIDES_MIN: f64 = 0.01;

/// Time of the critical path on one lane in one visit: a phase of a micro-batch.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Visit {
    /// Rank ("stage 3").
    pub rank: String,
    /// Rank, or what it does beside computing ("stage 3", "messages of stage 0 to stage 1").
    pub lane: String,
    /// Phase ("forward"); empty where operations are not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Micro-batch of the step, from 0. `None`: the phase is one of the whole step.
    pub micro_batch: Option<u32>,
    /// Begin on the path (s).
    pub begin_s: f64,
    /// Time on the path (s).
    pub time_s: f64,
    /// Time by cause; adds up to `time_s`.
    pub by_cause_s: IndexMap<String, f64>,
    /// Time by resource, as far as one is known.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub by_resource_s: IndexMap<String, f64>,
    /// Work that ended before it and let it begin, where that was on another lane.
    pub released_by: Option<String>,
}

/// A class of parts at other speeds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WhatIf {
    /// The parts ("NVLink").
    pub part: String,
    /// Time of a step with parts twice as fast. `None`: it does not fit then, or was not simulated.
    pub twice_s: Option<f64>,
    /// Time of a step with parts half as fast.
    pub half_s: Option<f64>,
}

/// A run, explained.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Explanation {
    /// Version of the result format.
    pub schema_version: u32,
    /// Version of foretrain.
    pub version: String,
    /// The scenario.
    pub name: String,
    /// The variant.
    pub variant: String,
    /// Variant and point for people.
    #[serde(skip)]
    pub label: String,
    /// Swept values by path.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub point: IndexMap<String, String>,
    /// The answer in one sentence of at most 15 words.
    pub finding: String,
    /// Time of a step (s). `None`: it does not fit.
    pub step_time_s: Option<f64>,
    /// The critical path by cause, per step; adds up to the step.
    pub critical_path_s: IndexMap<String, f64>,
    /// Time of a mean rank in which it does not work, by cause, the largest first.
    pub exposed_s: IndexMap<String, f64>,
    /// Time of a mean rank by cause; adds up to the step.
    pub time_breakdown_s: IndexMap<String, f64>,
    /// Exposed communication by kind, part of the above.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub communication_s: IndexMap<String, f64>,
    /// The critical path of the measured steps in order; empty for programs and recordings.
    pub path: Vec<Visit>,
    /// Classes of parts at other speeds, the weightiest first.
    pub what_if: Vec<WhatIf>,
    /// A recorded step beside this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Beside>,
    /// Work of lanes beside the compute lane, where it is known.
    #[serde(skip)]
    pub other_lanes: Option<OtherLanes>,
}

impl Explanation {
    /// A run with its critical path and its what-ifs.
    pub fn of(run: &RunSummary, mut path: Vec<Visit>, what_if: Vec<WhatIf>) -> Self {
        release(&mut path);
        let works =
            |cause: &str| [state::COMPUTE, state::RECOMPUTE].contains(&cause) || state::is_work(cause);
        let waits = run.time_breakdown_s.iter().filter(|(cause, time)| !works(cause) && **time > 0.0);
        let mut exposed: IndexMap<String, f64> = waits.map(|(cause, time)| (cause.clone(), *time)).collect();
        exposed.sort_by(|_, a, _, b| b.total_cmp(a));
        let kinds = run.communication.iter().filter(|one| one.exposed_s > 0.0);
        let mut communication: IndexMap<String, f64> =
            kinds.map(|one| (one.kind.clone(), one.exposed_s)).collect();
        communication.sort_by(|_, a, _, b| b.total_cmp(a));
        let mut explanation = Self {
            schema_version: SCHEMA_VERSION,
            variant: run.variant.clone(),
            label: run.label(),
            point: run.point.clone(),
            step_time_s: run.step_time(),
            critical_path_s: run.critical_path_s.clone(),
            exposed_s: exposed,
            time_breakdown_s: run.time_breakdown_s.clone(),
            communication_s: communication,
            path,
            what_if,
            ..Self::default()
        };
        explanation.finding = explanation.answer();
        explanation
    }

    /// The run beside a recorded step, which then is what the answer is about.
    #[must_use]
    pub fn beside(self, recorded: RecordedStep) -> Self {
        let beside = Beside::of(&self, recorded);
        let finding = self.step_time_s.zip(beside.as_ref()).map(|(step, beside)| beside.finding(step));
        Self { finding: finding.unwrap_or_else(|| self.finding.clone()), measured: beside, ..self }
    }

    /// A run that has no step.
    pub fn of_failure(name: &str, run: &RunSummary) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            name: name.to_owned(),
            variant: run.variant.clone(),
            label: run.label(),
            point: run.point.clone(),
            finding: format!("{} {}.", run.label(), verdict(run)),
            ..Self::default()
        }
    }

    fn answer(&self) -> String {
        let Some(step) = self.step_time_s else { return String::new() };
        let saved = |it: &WhatIf| it.twice_s.map_or(0.0, |time| 1.0 - time / step);
        match self.what_if.first() {
            Some(first) if saved(first) >= DECIDES_MIN => format!(
                "{} most: twice as fast, a step takes {} less.",
                decides(&first.part),
                quantity::percent(saved(first)),
            ),
            _ => {
                let cause = self.critical_path_s.iter().max_by(|a, b| a.1.total_cmp(b.1));
                let cause = cause.map_or(state::IDLE, |(cause, _)| cause);
                format!("No part alone makes a step faster: most of its path is {cause}.")
            }
        }
    }

    /// Parts that change the step, and the names of those that do not.
    fn deciding(&self) -> (Vec<&WhatIf>, Vec<&str>) {
        let step = self.step_time_s.unwrap_or(f64::NAN);
        let changes = |it: &&WhatIf| {
            let far = |time: Option<f64>| time.is_none_or(|time| (time / step - 1.0).abs() >= CHANGE_MIN);
            far(it.twice_s) || far(it.half_s)
        };
        let (deciding, others): (Vec<&WhatIf>, Vec<&WhatIf>) = self.what_if.iter().partition(changes);
        (deciding, others.into_iter().map(|it| it.part.as_str()).collect())
    }
}

/// `The host decides`: a class of parts and its verb, at the beginning of a sentence.
fn decides(part: &str) -> String {
    match part {
        "host" | "network" => format!("The {part} decides"),
        _ if part.ends_with('s') => format!("{} decide", capitalised(part)),
        _ => format!("{} decides", capitalised(part)),
    }
}

/// Tells of each visit what let it begin, where that was on another lane.
fn release(path: &mut [Visit]) {
    for at in 1..path.len() {
        if path[at].lane != path[at - 1].lane {
            path[at].released_by = Some(path[at - 1].words());
        }
    }
}

impl Visit {
    /// `forward of micro-batch 3 on stage 0`.
    fn words(&self) -> String {
        match self.what() {
            what if what.is_empty() => self.lane.clone(),
            what => format!("{what} on {}", self.lane),
        }
    }

    /// `forward of micro-batch 3`.
    fn what(&self) -> String {
        match self.micro_batch {
            Some(number) => format!("{} of micro-batch {number}", self.phase),
            None => self.phase.clone(),
        }
    }
}
