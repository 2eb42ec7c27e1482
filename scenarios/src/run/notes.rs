//! Notes for readers who compare a run with others.

use reports::quantity;
use reports::summary::RunSummary;
use workloads::plan::{Built, Oversubscribed};

use crate::schema::{Scenario, Share};

/// Notes on a run that has been measured.
pub(super) fn notes(scenario: &Scenario, built: &Built, summary: &RunSummary) -> Vec<String> {
    let asked = scenario.memory.footprint_ratio.map(Share::as_f64);
    let capped = built.oversubscribed.zip(asked).map(|(found, asked)| less_memory(found, asked));
    let above = summary.mfu.is_some_and(|mfu| mfu > 1.0).then(|| ABOVE_PEAK.to_owned());
    capped.into_iter().chain(above).collect()
}

/// Convolutions count as sums over their filters, whatever algorithm is chosen.
const ABOVE_PEAK: &str = "model FLOPs utilisation exceeds 100 %: it counts convolutions as sums over their filters, and Winograd \
                          kernels multiply less";

fn less_memory(Oversubscribed { ratio, asked: limit, capacity }: Oversubscribed, asked: f64) -> String {
    format!(
        "`memory.footprint_ratio: {asked}` leaves a GPU {}, but it has only {}: the ratio is {ratio:.3}",
        quantity::bytes(limit),
        quantity::bytes(capacity)
    )
}
