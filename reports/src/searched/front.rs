//! The front of a search: plans that no other beats in all objectives.

use super::{objective, setting};
use crate::summary::{RunSummary, SearchProof};

/// Titles of [`rows`]. `None`: there is one objective, and no front.
pub(crate) fn titles(proof: &SearchProof) -> Option<Vec<String>> {
    let titles = proof.minimise.iter().map(|one| format!(">{}", objective::title(one)));
    (proof.minimise.len() > 1).then(|| ["plan".to_owned()].into_iter().chain(titles).collect())
}

/// By plan its settings and its value by each objective.
pub(crate) fn rows(proof: &SearchProof, runs: &[RunSummary]) -> Vec<Vec<String>> {
    let row = |run: &RunSummary| {
        let values = proof.minimise.iter().map(|one| {
            objective::value(one, run).map(|value| objective::text(one, value, run)).unwrap_or_default()
        });
        [setting(&run.variant, &run.point)].into_iter().chain(values).collect()
    };
    runs.iter().filter(|run| run.step_time().is_some()).map(row).collect()
}
