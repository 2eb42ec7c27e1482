//! Ranks that fared alike are told once.

use workloads::lower::Lowered;

/// The most ranks of one stage that are told apart.
pub(super) const GROUPS_MAX: usize = 8;

/// The first rank of every group of ranks of one stage that have the same value, with that value; of a stage with too many
/// groups the first ones. `values` are those of all ranks.
pub(super) fn groups<T: PartialEq>(lowered: &Lowered, values: Vec<T>) -> Vec<(usize, T)> {
    let replicas = replicas(lowered);
    let mut groups: Vec<(usize, T)> = Vec::new();
    let mut stage = 0;
    for (rank, value) in values.into_iter().enumerate() {
        if rank.is_multiple_of(replicas) {
            stage = groups.len();
        }
        let of_stage = &groups[stage..];
        if of_stage.len() < GROUPS_MAX && of_stage.iter().all(|(_, known)| *known != value) {
            groups.push((rank, value));
        }
    }
    groups
}

/// Ranks per stage.
pub(super) fn replicas(lowered: &Lowered) -> usize {
    (lowered.ranks.len() / lowered.stages.len().max(1)).max(1)
}
