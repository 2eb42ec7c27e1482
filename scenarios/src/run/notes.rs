//! Notes for readers who compare a run with others.

use reports::summary::RunSummary;

/// Notes on a run that has been measured.
pub(super) fn notes(summary: &RunSummary) -> Vec<String> {
    summary.mfu.is_some_and(|mfu| mfu > 1.0).then(|| ABOVE_PEAK.to_owned()).into_iter().collect()
}

/// Convolutions count as sums over their filters, whatever algorithm is chosen.
const ABOVE_PEAK: &str = "model FLOPs utilisation exceeds 100 %: it counts convolutions as sums over their filters, and Winograd \
                          kernels multiply less";
