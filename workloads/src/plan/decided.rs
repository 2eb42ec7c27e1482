//! What is decided about tensors that leave GPUs, by replicas that do the same.

use crate::disposition::Dispositions;
use crate::order::Order;
use crate::techniques::offload::adaptive::Kept;
use crate::techniques::offload::{self, Keep};
use crate::techniques::swap::{self, Swap, Swapped};

use super::{Copies, Grounds, Pipelining, PlanError, Staged, profile};

/// What replicas decide.
pub(super) struct Decided {
    /// By cohort.
    pub(super) tables: Vec<Dispositions>,
    /// By replica.
    pub(super) cohort_of: Vec<u32>,
    pub(super) swapped: Vec<Swapped>,
    pub(super) kept: Vec<Kept>,
}

/// What techniques that move tensors decide.
pub(super) fn decided(
    staged: &mut Staged,
    order: &Order,
    pipelining: &Pipelining,
    copies: &Copies,
    grounds: &impl Grounds,
) -> Result<Decided, PlanError> {
    match &pipelining.offload {
        Some(technique) if technique.keep == Keep::Adaptive => {
            return profile::decided(technique, staged, order, pipelining, copies.replicas, grounds);
        }
        Some(technique) => {
            let Staged { chain, graph, layers, table, .. } = staged;
            offload::decide(technique, graph, *chain, technique.leaving(layers, order), table)?;
        }
        None => {}
    }
    let (tables, swapped) = match &pipelining.swap {
        Some(technique) => {
            let made = produced_again(technique, staged, order);
            swapped(technique, staged, order, copies, &made)?
        }
        None => (vec![staged.table.clone()], Vec::new()),
    };
    let count = tables.len() as u32;
    let cohort_of = (0..copies.replicas).map(|replica| copies.cohort(replica, count)).collect();
    Ok(Decided { tables, cohort_of, swapped, kept: Vec::new() })
}

/// By stage, how many tensors of how many bytes are produced again instead of being swapped; the graph has that executed.
fn produced_again(technique: &Swap, staged: &mut Staged, order: &Order) -> Vec<(u32, u64)> {
    let Staged { chain, graph, costs, memory, .. } = staged;
    let stage = |stage: u32| {
        if !technique.recompute {
            return (0, 0);
        }
        let choice = swap::Choice {
            stage,
            visits: &order.stages[stage as usize],
            room: memory[stage as usize].room(),
            links: costs.links_of_host(stage),
            prefetch: technique.prefetch.get() as usize,
            store: technique.store,
        };
        let made = choice.made(graph, costs);
        let bytes = made.iter().map(|again| again.bytes).sum();
        swap::realise(&made, graph, costs);
        (made.len() as u32, bytes)
    };
    (0..chain.stages).map(stage).collect()
}

/// What each cohort decides about swapping, beside what is produced again.
fn swapped(
    technique: &Swap,
    Staged { chain, graph, table, costs, memory, .. }: &Staged,
    order: &Order,
    copies: &Copies,
    again: &[(u32, u64)],
) -> Result<(Vec<Dispositions>, Vec<Swapped>), PlanError> {
    let cohorts = technique.coordination.cohorts(copies.together);
    let (mut tables, mut decided, mut shortfalls) =
        (vec![table.clone(); cohorts as usize], Vec::new(), Vec::new());
    for stage in 0..chain.stages {
        let memory = &memory[stage as usize];
        let visits = &order.stages[stage as usize];
        let (links, again) = (costs.links_of_host(stage), again[stage as usize]);
        let stage = swap::Stage::new(technique, stage, visits, (graph, costs), memory.room(), links, again);
        for (cohort, table) in (0..).zip(&mut tables) {
            match stage.decide(technique, graph, (cohort, cohorts), table)? {
                Ok(swapped) => decided.push(swapped),
                Err(no_room) if cohort == 0 => shortfalls.push(stage.told(no_room, memory, graph)),
                Err(_) => {}
            }
        }
    }
    if shortfalls.is_empty() { Ok((tables, decided)) } else { Err(PlanError::DoesNotFit(shortfalls)) }
}
