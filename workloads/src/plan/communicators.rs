//! What communicators hold in the memory of a rank: a communicator for every group whose collectives it takes part in,
//! and one of its pipeline for messages, as Megatron-LM makes them.

use std::collections::BTreeSet;

use crate::chain::Chain;
use crate::graph::Op;
use crate::hardware::{CostModels, HardwareError};
use crate::model::laid::Laid;
use crate::model::transformer::{Group, Work};

/// Bytes of buffers on a rank of each stage. Copies between partners need none: copy engines write where they are to.
pub(super) fn buffers(
    laid: &Laid,
    chain: Chain,
    models: &mut CostModels<'_>,
) -> Result<Vec<u64>, HardwareError> {
    let mut of_groups = vec![0; chain.stages as usize];
    for (stage, group) in groups(laid) {
        of_groups[stage as usize] += models.buffers(stage, group)?;
    }
    let (job, collectives) = (models.job, models.collectives_across());
    let pipeline = if chain.stages > 1 { Some(job.pipeline_shape()?) } else { None };
    let neighbours = neighbours(chain);
    let node = |stage| job.gpu(stage, 0) / job.machine.gpus_per_node().max(1);
    let stage = |stage: u32| {
        let of_messages = pipeline.as_ref().map_or(0, |shape| {
            let others = neighbours.iter().filter(|(from, _)| *from == stage);
            let (inside, outside): (Vec<u32>, Vec<u32>) =
                others.map(|(_, to)| to).partition(|&&to| node(to) == node(stage));
            let messages = collectives.message_buffers(shape, inside.len() as u32, !outside.is_empty());
            collectives.collective_buffers(shape) + messages
        });
        of_groups[stage as usize] + of_messages
    };
    Ok((0..chain.stages).map(stage).collect())
}

/// Which stages take part in collectives of which groups.
fn groups(laid: &Laid) -> BTreeSet<(u32, Group)> {
    let graph = &laid.graph;
    let group = |op: &Op| match graph.work_of(op).work {
        Work::Collective(collective) => Some((op.stage, collective.group)),
        _ => None,
    };
    graph.ops().iter().filter_map(group).collect()
}

/// Pairs of stages that send each other messages, both ways.
fn neighbours(chain: Chain) -> BTreeSet<(u32, u32)> {
    let hops = (0..chain.positions()).filter_map(|position| chain.hop(position));
    hops.flat_map(|hop| [(hop.from, hop.to), (hop.to, hop.from)]).collect()
}
