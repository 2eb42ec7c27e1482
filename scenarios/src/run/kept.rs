//! What ranks keep by profiles of their own, in words.

use reports::summary::KeptActivations;
use workloads::passes::offload::adaptive::Kept;
use workloads::plan::Built;

use super::ranks;
use super::words::Words;

/// What stays on the ranks of a run; those of a stage that keep the same are told once.
pub(super) fn told(built: &Built, words: &Words<'_>) -> Vec<KeptActivations> {
    let groups = ranks::groups(&built.lowered, built.decided.kept.clone());
    let told =
        |(rank, Kept { from, bytes: [stays, all], needed, measured }): (usize, Kept)| KeptActivations {
            of: words.rank(rank),
            from,
            kept_bytes: stays,
            candidate_bytes: all,
            needed_bytes_per_s: needed,
            measured_bytes_per_s: measured,
        };
    groups.into_iter().map(told).collect()
}
