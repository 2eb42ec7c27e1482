//! The best plan on slower parts: where another of the plans that were kept is better.

use std::sync::Arc;

use hw_models::machine::{Degrade, Machine, PartKind};
use rayon::prelude::*;
use reports::summary::{Changed, RunSummary};

use super::super::{Refusal, in_parallel};
use super::alternatives;
use super::best::Found;
use super::goal::Figures;
use super::group::Place;
use super::hunt::Hunt;
use super::space::Space;
use crate::plans;
use crate::schema::{self, Scenario, Share};

/// Plans that are compared at most, from the best on.
const COMPARED: usize = 4;
/// Ranks of the largest plans that are simulated once more: beside a slow part, ranks are no longer
/// simulated as one.
const RANKS_MAX: u64 = 256;

/// Parts that get slower.
#[derive(Clone, Copy)]
enum Slower {
    /// All links of parts of a kind.
    Links(PartKind),
    /// The clock of the first GPU.
    FirstGpu,
}

/// Parts, their name, and what is left of their rate or clock.
const CHANGES: [(Slower, &str, &str); 7] = [
    (Slower::Links(PartKind::Nic), "network interfaces", "50 %"),
    (Slower::Links(PartKind::Nic), "network interfaces", "25 %"),
    (Slower::Links(PartKind::Gpu), "links of GPUs", "50 %"),
    (Slower::Links(PartKind::Gpu), "links of GPUs", "25 %"),
    (Slower::Links(PartKind::Ssd), "drives", "50 %"),
    (Slower::FirstGpu, "the clock of one GPU", "90 %"),
    (Slower::FirstGpu, "the clock of one GPU", "70 %"),
];

/// The plans that were kept on slower parts, as far as the search is not stopped.
///
/// # Errors
/// A mistake in foretrain.
pub(super) fn sensitivity(hunt: &Hunt<'_>) -> Result<Vec<Changed>, Refusal> {
    let space = hunt.space;
    let compared = &hunt.best.found[..hunt.best.found.len().min(COMPARED)];
    let mut all = Vec::new();
    for (slower, part, left) in CHANGES {
        if hunt.is_stopped() {
            break;
        }
        let runs = in_parallel(hunt.options.jobs, || {
            compared.par_iter().map(|found| slowed(space, found, slower, left)).collect::<Result<Vec<_>, _>>()
        })?;
        // Plans without such parts, or that do not fit any more, tell nothing.
        let runs: Option<Vec<Slowed>> = runs.into_iter().collect();
        all.extend(runs.and_then(|runs| changed(hunt, format!("{part} at {left}"), &runs)));
    }
    Ok(all)
}

/// A plan on slower parts.
struct Slowed {
    place: Place,
    figures: Figures,
    run: Arc<RunSummary>,
}

/// The answer for a change, if there is a plan.
fn changed(hunt: &Hunt<'_>, change: String, runs: &[Slowed]) -> Option<Changed> {
    let first = runs.first()?;
    let best = runs.iter().min_by(|one, other| one.figures[0].total_cmp(&other.figures[0]))?;
    let before = hunt.best.found.first()?.figures[0];
    let another = best.figures[0] < first.figures[0];
    Some(Changed {
        change,
        of_best: first.figures[0] / before,
        plans: runs.len() as u64,
        another: another
            .then(|| alternatives::plan((hunt.space, best.place), &best.run, &best.figures, &first.run)),
    })
}

/// A plan on slower parts. `None`: there are none, or too many ranks.
fn slowed(space: &Space<'_>, found: &Found, slower: Slower, left: &str) -> Result<Option<Slowed>, Refusal> {
    let Ok(scenario) = space.scenario(found.place) else { return Ok(None) };
    let Some(scenario) = slower.applied(scenario, left) else { return Ok(None) };
    let run = space.run(&scenario).map_err(|reason| space.broken(found.place, reason))?;
    let figures = run.as_deref().and_then(|run| space.goals().of_run(&scenario, run));
    Ok(figures.zip(run).map(|(figures, run)| Slowed { place: found.place, figures, run }))
}

impl Slower {
    /// A scenario in which these parts have less left. `None`: its plan has no such parts, or too many
    /// ranks.
    fn applied(self, scenario: Scenario, left: &str) -> Option<Scenario> {
        let machine = plans::machine::of(&scenario).ok()?;
        let left = Share::parse(left).ok()?;
        let line = |name: String| match self {
            Self::Links(_) => Degrade { part: Some(name), rate: Some(left), ..Degrade::default() },
            Self::FirstGpu => Degrade { part: Some(name), clock: Some(left), ..Degrade::default() },
        };
        if let Self::Links(PartKind::Ssd) = self
            && !plans::on_drives(&scenario)
        {
            return None;
        }
        let lines: Vec<Degrade> = self.parts(&machine).into_iter().map(line).collect();
        if lines.is_empty() || plans::ranks(&scenario) > RANKS_MAX {
            return None;
        }
        let mut settings = scenario.machine.clone()?;
        let degrade = match &mut settings {
            schema::Machine::Cluster(cluster) => &mut cluster.degrade,
            schema::Machine::Node(node) => &mut node.degrade,
            schema::Machine::Parts(parts) => &mut parts.degrade,
        };
        degrade.extend(lines);
        Some(Scenario { machine: Some(settings), ..scenario })
    }

    fn parts(self, machine: &Machine) -> Vec<String> {
        let of_kind = |kind: PartKind| {
            let parts = machine.parts().map(|id| machine.part(id));
            parts.filter(move |part| part.kind == kind).map(|part| part.name)
        };
        match self {
            // A network that nobody uses slows nothing.
            Self::Links(PartKind::Nic) if machine.nodes() < 2 => Vec::new(),
            Self::Links(kind) => of_kind(kind).collect(),
            Self::FirstGpu => of_kind(PartKind::Gpu).take(1).collect(),
        }
    }
}
