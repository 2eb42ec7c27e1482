//! Groups of operators that are one kernel, in words and as rows.

use reports::quantity;
use serde::Serialize;
use workloads::passes::fusion::{Explanation, Group, GroupTimes, Refused};

use crate::Experiment;
use crate::experiment::Resolved;
use crate::plans;
use crate::schema::Scenario;

use super::Options;

/// A kernel of several operators, or of one that would be slower with another, as a row of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FusedGroup {
    /// Variant.
    pub variant: String,
    /// Number of the block of the model that it is in, from 0.
    pub block: usize,
    /// How often the block occurs.
    pub occurrences: usize,
    /// Part of the step.
    pub phase: &'static str,
    /// Operators, joined by ` + `.
    pub members: String,
    /// Kernels of the members one by one.
    pub kernels_before: usize,
    /// Kernels now.
    pub kernels_after: usize,
    /// Launches that are left out, in all occurrences.
    pub launches_saved: usize,
    /// Bytes that are not moved, in all occurrences.
    pub bytes_saved: u64,
    /// Below which the kernel cannot be (us). `None`: the policy knows no times.
    pub bound_us: Option<f64>,
    /// Time of the kernel (us).
    pub estimate_us: Option<f64>,
    /// Time of the runner-up (us): its members one by one.
    pub apart_us: Option<f64>,
    /// Operator with which the group would be larger.
    pub refused: String,
    /// Why it is not.
    pub because: String,
}

/// Groups of the variants of an experiment that asks for fusion, of a sweep at its first point.
pub fn fused(experiment: &Experiment, options: &Options) -> Vec<FusedGroup> {
    let chosen = &options.variants;
    let variants =
        experiment.variants().filter(|name| chosen.is_empty() || chosen.iter().any(|it| it == name));
    let of_variant = |name: &str| {
        let point = experiment.points().next()?;
        let Resolved { scenario, .. } = experiment.resolve(name, &point).ok()?;
        let explained = plans::fused(&scenario).ok()??;
        Some(explained.groups.into_iter().map(|group| row(name, group)).collect::<Vec<_>>())
    };
    variants.filter_map(of_variant).flatten().collect()
}

fn row(variant: &str, group: Group) -> FusedGroup {
    let Group { block, occurrences, phase, members, bytes_saved, times, refused } = group;
    let refused = refused.unwrap_or_else(|| Refused {
        operator: String::new(),
        because: String::new(),
        by_time: false,
    });
    let micro = |of: fn(&GroupTimes) -> f64| times.as_ref().map(|times| (of(times) * 1e9).round() / 1e3);
    FusedGroup {
        variant: variant.to_owned(),
        block,
        occurrences,
        phase: phase.name(),
        kernels_before: members.len(),
        kernels_after: 1,
        launches_saved: (members.len() - 1) * occurrences,
        bytes_saved: bytes_saved * occurrences as u64,
        bound_us: micro(|times| times.bound),
        estimate_us: micro(|times| times.together),
        apart_us: micro(|times| times.apart),
        members: members.join(" + "),
        refused: refused.operator,
        because: refused.because,
    }
}

/// Sentence on the fusion of a scenario, if it asks for any.
pub(super) fn note(scenario: &Scenario) -> Option<String> {
    let Explanation { groups, considered, pruned } = plans::fused(scenario).ok()??;
    let groups: Vec<Group> = groups.into_iter().filter(|group| group.members.len() > 1).collect();
    if groups.is_empty() {
        return Some("fusion: each operator is a kernel".to_owned());
    }
    let sum =
        |of: fn(&Group) -> u64| groups.iter().map(|group| of(group) * group.occurrences as u64).sum::<u64>();
    let (kernels, members) = (sum(|_| 1), sum(|group| group.members.len() as u64));
    let bytes = quantity::bytes(sum(|group| group.bytes_saved));
    let searched =
        if pruned > 0 { format!("; of {considered} groups {pruned} could not gain") } else { String::new() };
    let timed = sum(|group| u64::from(group.times.is_some_and(|times| times.measured)));
    let timed = if timed > 0 { format!("; {timed} were timed") } else { String::new() };
    Some(format!(
        "fusion: {kernels} kernels do the work of {members}, and move {bytes} less{searched}{timed}"
    ))
}
