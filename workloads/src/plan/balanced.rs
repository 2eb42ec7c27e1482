//! Layers of each chunk with which the slowest stage is as fast as it can be.
//!
//! For a micro-batch a stage takes e + n t: e for the embedding and the head, t for each of its n
//! layers on its GPUs. Layers are given out one by one, each to the stage that is the fastest with
//! it. As a stage takes t longer with each layer, no other way makes the slowest stage faster.
//!
//! A stage whose memory is too small gets fewer. How much a layer takes there is told by what the
//! stage holds with all that it has, so it may be asked again.

use std::cmp::Reverse;

use sim_core::time::Time;

use crate::chain::Chain;
use crate::graph::cut::PartKind;
use crate::hardware::Hardware;

use super::deployed::BlockTime;
use super::floor::MemoryFloor;
use super::transformer::deployed;
use super::{PlanError, TransformerPlan};

/// Rounds after which stages whose memory is too small keep their layers.
const ROUNDS: usize = 8;

/// Layers of each chunk in the order of the model, which take about as long on all stages and fit
/// into their memories if any do.
///
/// # Errors
/// As [`super::check_on`]. There is a layer for each chunk.
pub fn balanced_on(plan: &TransformerPlan, hardware: &Hardware<'_>) -> Result<Vec<u32>, PlanError> {
    let (layers, split) = (plan.model.layers, &plan.execution.split);
    let chain = plan.deployment.pipelining.schedule.chain(split.stages);
    let mut plan = plan.clone();
    let mut most = vec![u32::MAX; chain.stages as usize];
    let mut listed = spread(layers, chain.positions());
    for _ in 0..ROUNDS {
        plan.execution.split.layers = Some(listed.clone());
        let deployed = deployed(&plan, hardware)?;
        let blocks = deployed.block_times(hardware)?;
        let memory = deployed.floor(hardware)?.memory;
        for (stage, memory) in (0..).zip(&memory) {
            let of_stage = of_stage(&listed, chain, stage);
            let fewer = most_that_fit(of_stage, memory).max(chain.chunks);
            let most = &mut most[stage as usize];
            *most = if fewer < of_stage { fewer.min(*most) } else { *most };
        }
        let next = dealt(layers, chain, &Stage::all(&blocks, chain), &most);
        if next == listed {
            break;
        }
        listed = next;
    }
    Ok(listed)
}

/// Layers of each position that differ by one at most, more at the end, where fewer micro-batches
/// are under way.
pub fn spread(layers: u32, positions: u32) -> Vec<u32> {
    let (each, over) = (layers / positions.max(1), layers % positions.max(1));
    (0..positions).map(|position| each + u32::from(position >= positions - over)).collect()
}

/// Times of a stage for a micro-batch.
#[derive(Clone, Copy, Debug, Default)]
struct Stage {
    /// Of a layer.
    layer: Time,
    /// Of the embedding and the head.
    ends: Time,
}

impl Stage {
    /// The stages on which blocks take these times, each with a layer.
    fn all(blocks: &[BlockTime], chain: Chain) -> Vec<Self> {
        let stage = |stage| {
            let of = |is_layer| {
                let own = blocks.iter().filter(move |it: &&BlockTime| it.stage == stage);
                own.filter(move |it| (it.kind == PartKind::Layer) == is_layer).map(|it| it.time.0)
            };
            let count = of(true).count().max(1) as u64;
            Self { layer: Time(of(true).sum::<u64>() / count), ends: Time(of(false).sum()) }
        };
        (0..chain.stages).map(stage).collect()
    }

    fn with(self, layers: u32) -> u128 {
        u128::from(self.ends.0) + u128::from(self.layer.0) * u128::from(layers)
    }
}

/// Deals out layers to stages, of which none gets more than `most` as long as another may.
fn dealt(layers: u32, chain: Chain, stages: &[Stage], most: &[u32]) -> Vec<u32> {
    let mut listed = vec![1; chain.positions() as usize];
    let mut each = vec![chain.chunks; stages.len()];
    for _ in chain.positions()..layers {
        let with_one = |&stage: &usize| {
            let more = each[stage] + 1;
            // Of stages that are as fast the later one holds fewer micro-batches.
            (more > most[stage], stages[stage].with(more), Reverse(stage))
        };
        let Some(stage) = (0..stages.len()).min_by_key(with_one) else { break };
        each[stage] += 1;
        let positions = (0..chain.chunks).map(|chunk| chain.position(stage as u32, chunk) as usize);
        let Some(fewest) = positions.min_by_key(|&position| listed[position]) else { break };
        listed[fewest] += 1;
    }
    listed
}

fn of_stage(listed: &[u32], chain: Chain, stage: u32) -> u32 {
    (0..chain.chunks).map(|chunk| listed[chain.position(stage, chunk) as usize]).sum()
}

/// The most layers that memory has room for, if what is held is that of `layers`.
fn most_that_fit(layers: u32, memory: &MemoryFloor) -> u32 {
    if memory.held <= memory.capacity {
        return layers;
    }
    let share = u128::from(layers) * u128::from(memory.capacity) / u128::from(memory.held.max(1));
    (share as u32).min(layers.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All ways to split layers over positions with at least one each.
    fn all(layers: u32, positions: usize) -> Vec<Vec<u32>> {
        match positions {
            0 => Vec::new(),
            1 => vec![vec![layers]],
            _ => {
                let first = 1..=layers - (positions as u32 - 1);
                let rest = |first| {
                    all(layers - first, positions - 1)
                        .into_iter()
                        .map(move |rest| [vec![first], rest].concat())
                };
                first.flat_map(rest).collect()
            }
        }
    }

    proptest! {
        #[test]
        fn no_other_way_makes_the_slowest_stage_faster(
            times in prop::collection::vec((1u64..50, 0u64..100), 1..5),
            more in 0u32..8,
        ) {
            let stages: Vec<Stage> =
                times.iter().map(|&(layer, ends)| Stage { layer: Time(layer), ends: Time(ends) }).collect();
            let (chain, layers) = (Chain::straight(stages.len() as u32), stages.len() as u32 + more);
            let slowest = |listed: &Vec<u32>| {
                stages.iter().zip(listed).map(|(stage, &layers)| stage.with(layers)).max()
            };
            let dealt = dealt(layers, chain, &stages, &vec![u32::MAX; stages.len()]);
            prop_assert_eq!(dealt.iter().sum::<u32>(), layers);
            let least = all(layers, stages.len()).iter().map(slowest).min().flatten();
            prop_assert_eq!(slowest(&dealt), least);
        }
    }

    #[test]
    fn a_full_stage_leaves_layers_to_others() {
        let stages = [Stage { layer: Time(1), ends: Time(0) }, Stage { layer: Time(10), ends: Time(0) }];
        let dealt = |most: [u32; 2]| dealt(12, Chain::straight(2), &stages, &most);
        assert_eq!(dealt([u32::MAX; 2]), [11, 1]);
        assert_eq!(dealt([7, u32::MAX]), [7, 5]);
        // Where all are full, time decides again.
        assert_eq!(dealt([7, 3]), [9, 3]);
    }

    #[test]
    fn chunks_of_a_stage_share_its_layers() {
        let stages = [Stage { layer: Time(1), ends: Time(0) }; 2];
        let chain = Chain { stages: 2, chunks: 2, folded: false };
        assert_eq!(dealt(10, chain, &stages, &[u32::MAX; 2]), [3, 3, 2, 2]);
        assert_eq!(spread(10, 4), [2, 2, 3, 3]);
    }

    #[test]
    fn memory_that_is_too_small_has_room_for_fewer_layers() {
        let most = |held, capacity| most_that_fit(10, &MemoryFloor { held, capacity });
        assert_eq!([most(100, 100), most(101, 100), most(200, 100), most(100, 0)], [10, 9, 5, 0]);
    }
}
