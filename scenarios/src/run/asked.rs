//! Demand of the kernels of each rank on its GPU: bytes of memory, products at their peak rate.

use std::collections::BTreeMap;

use hw_models::catalogue::Gpu;
use indexmap::IndexMap;
use reports::state;
use sim_core::id::BlockId;
use workloads::account::Accounts;
use workloads::lower::{Lowered, RankIds};
use workloads::names::cause;
use workloads::schedule::LaneKind;

use super::lanes::{Lane, lanes};

/// Demand over all steps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    /// Bytes of memory at its nominal bandwidth (s).
    pub(super) bytes_s: f64,
    /// Matrix products at the peak rates of their types (s).
    pub(super) at_peak_s: f64,
    /// Part of that beyond the bytes of the same kernels (s).
    beyond_bytes_s: f64,
}

/// By rank, the demand of its kernels on the GPU of its stage, one of `gpus`.
pub(super) fn asked(lowered: &Lowered, accounts: &Accounts, gpus: &[&Gpu]) -> Vec<Asked> {
    let of_lane = |lane: &Lane<'_>| match gpus.get(lane.stage as usize) {
        Some(gpu) if lane.kind == LaneKind::Compute => of_lane(lane, accounts, gpu),
        _ => Asked::default(),
    };
    let by_lane: Vec<Asked> = lanes(lowered).map(|lane| of_lane(&lane)).collect();
    let lane = |rank: &RankIds| lowered.streams[rank.compute.index()].lane;
    lowered.ranks.iter().map(|rank| by_lane[lane(rank) as usize]).collect()
}

fn of_lane(lane: &Lane<'_>, accounts: &Accounts, gpu: &Gpu) -> Asked {
    let nominal = gpu.bandwidth_gb_per_s * 1e9;
    let mut times: BTreeMap<BlockId, f64> = BTreeMap::new();
    for call in lane.calls {
        *times.entry(call.block).or_default() += f64::from(call.repeat);
    }
    let mut asked = Asked::default();
    for (block, times) in times {
        for task in lane.ops(block).iter().filter_map(|op| lane.done_by(op)) {
            let load = accounts.load(task.kind);
            let (bytes_s, at_peak_s) = (load.bytes as f64 / nominal, load.at_peak.as_secs());
            asked.bytes_s += times * bytes_s;
            asked.at_peak_s += times * at_peak_s;
            asked.beyond_bytes_s += times * (at_peak_s - bytes_s).max(0.0);
        }
    }
    asked
}

/// The compute of a step by what bounds kernels, the mean over ranks whose times are `by_rank`, of
/// which each made `steps` steps. Nothing where no demand is known, or where layers are computed
/// again: bounds of these are not told from those of others.
pub(super) fn bounds(
    asked: &[Asked],
    by_rank: &[IndexMap<String, f64>],
    steps: f64,
) -> IndexMap<String, f64> {
    let of = |times: &IndexMap<String, f64>, cause: &str| times.get(cause).copied().unwrap_or_default();
    if asked.is_empty() || by_rank.iter().any(|times| of(times, cause::RECOMPUTE) > 0.0) {
        return IndexMap::new();
    }
    let mut sums = [0.0; 3];
    for (asked, times) in asked.iter().zip(by_rank) {
        let compute = of(times, cause::COMPUTE);
        let bytes = (asked.bytes_s / steps).min(compute);
        let arithmetic = (asked.beyond_bytes_s / steps).min(compute - bytes);
        for (sum, part) in sums.iter_mut().zip([bytes, arithmetic, compute - bytes - arithmetic]) {
            *sum += part;
        }
    }
    let words = [state::BYTES, state::ARITHMETIC, state::OCCUPANCY];
    let means = sums.map(|sum| sum / by_rank.len().max(1) as f64);
    words.into_iter().map(str::to_owned).zip(means).collect()
}
