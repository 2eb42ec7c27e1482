//! BPipe (Kim et al. 2023): memory-balanced pipelines. Under 1F1B stage `s` holds `min(m, p - s)` micro-batches. The
//! stages of the first half, the *evictors*, lend what exceeds a bound to their partner `p - 1 - s`, the *acceptor*,
//! and fetch it back in time for its backward pass.
//!
//! Two in-flight counts of a pair sum to `p + 1`, so the bound `ceil((p + 2) / 2)` is the balanced share with one slot in
//! transit. An eviction runs beside the visit after the forward it belongs to, a load beside the visit before the
//! backward that needs it; both are launched one visit ahead, and a visit that finds no room, or its activations not
//! back yet, waits: that is the time transfers expose.

mod settings;

use std::collections::{BTreeMap, BTreeSet};

use crate::error::PlanError;
use crate::graph::{OpGraph, Phase, StorageId};
use crate::order::{Order, Visit};
use crate::transfer::{Conflict, Dispositions, Listed, Tier, Transfer, Trip, Trips};

use super::{Added, Context, Kind, Pass, Plan, Size, Technique};

pub use settings::{Bpipe, EvictionPolicy, PairTransfer, TRANSFER};

/// The name of this technique in scenarios and errors.
pub const NAME: &str = "bpipe";

impl Pass for Bpipe {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self) -> Kind {
        Kind::Decider
    }

    /// Micro-batches of stages with more in flight than the bound go to the partner and come back.
    fn adds(&self, size: &Size<'_>) -> Added {
        let lenders = self.lenders(size.stages, size.micro_batches);
        size.copies(|stage| lenders.contains(&stage))
    }

    fn apply(&self, plan: &mut Plan, _: &Context<'_>) -> Result<(), PlanError> {
        Ok(plan.decide(|graph, order, table| decide(self, order, graph, table))?)
    }
}

/// Decides which micro-batches of which stages are lent, and when they leave and return.
///
/// # Errors
/// If another technique has decided about an activation.
pub fn decide(
    bpipe: &Bpipe,
    order: &Order,
    graph: &OpGraph,
    table: &mut Dispositions,
) -> Result<(), Conflict> {
    let stages = order.shape.chain.stages;
    let bound = bpipe.bound(stages);
    for stage in 0..stages / 2 {
        let trips = trips(&order.stages[stage as usize], bound, bpipe.policy);
        let saved: BTreeSet<StorageId> = graph
            .visit(stage, 0, Phase::Forward)
            .iter()
            .flat_map(|&op| &graph.get(op).writes)
            .copied()
            .filter(|&storage| graph.stored(storage).purpose.is_activation())
            .collect();
        // Storages that another technique moves stay its own.
        let storages: Vec<StorageId> = saved.into_iter().filter(|&s| !table.leaves(s)).collect();
        if trips.is_empty() || storages.is_empty() {
            continue;
        }
        let [from, to] = [stage, stages - 1 - stage].map(Tier::hbm);
        let trips = Trips::Listed(Listed { away: away(&trips), trips, bound });
        table.transfer(NAME, graph, Transfer { storages, from, to, trips })?;
    }
    Ok(())
}

/// Most micro-batches at the partner when each visit begins with everything back that it needs: those lent at a time and
/// one in transit. A trip leaves beside the visit after `copied_after`.
fn away(trips: &[Trip]) -> u32 {
    let returned = |trip: &Trip| trips.partition_point(|other| other.needed_by <= trip.copied_after + 1);
    (1u32..).zip(trips).map(|(left, trip)| left.saturating_sub(returned(trip) as u32)).max().unwrap_or(0)
}

/// The trips that keep a stage within `bound`: wherever the micro-batches resident at a forward pass would be too many,
/// one that is needed later leaves beside the visit before.
fn trips(visits: &[Visit], bound: u32, policy: EvictionPolicy) -> Vec<Trip> {
    let mut trips: BTreeMap<u32, Trip> = BTreeMap::new();
    // Resident micro-batches, with the visit that made them so.
    let mut resident: BTreeMap<u32, u32> = BTreeMap::new();
    let away = |trips: &BTreeMap<u32, Trip>, visit: &Visit, resident: &BTreeMap<u32, u32>| {
        visit.phase != Phase::Forward
            && trips.contains_key(&visit.micro_batch)
            && !resident.contains_key(&visit.micro_batch)
    };
    for (now, visit) in (0u32..).zip(visits) {
        let next = visits.get(now as usize + 1);
        if visit.phase == Phase::Forward {
            resident.insert(visit.micro_batch, now);
        }
        if let Some(next) = next.filter(|next| away(&trips, next, &resident)) {
            resident.insert(next.micro_batch, now);
            let trip = trips.get_mut(&next.micro_batch).expect("it is away");
            (trip.asked_after, trip.needed_by) = (now.saturating_sub(1), now + 1);
        }
        // A backward pass makes room itself; what is fetched beside it waits for that.
        while visit.phase == Phase::Forward && resident.len() > bound as usize {
            let needed = |i: u32| i == visit.micro_batch || next.is_some_and(|next| i == next.micro_batch);
            let candidates = || resident.iter().map(|(&i, &since)| (i, since)).filter(|&(i, _)| !needed(i));
            // A forward that has just ended would be copied while this visit waits for its room.
            let settled = |&(_, since): &(u32, u32)| since + 2 <= now;
            let victim = match policy {
                EvictionPolicy::EvictNewest => {
                    candidates().rfind(settled).or_else(|| candidates().next_back())
                }
                EvictionPolicy::EveryMicroBatch => {
                    let fresh = |&(i, _): &(u32, u32)| !trips.contains_key(&i);
                    candidates().filter(fresh).find(settled).or_else(|| candidates().find(fresh))
                }
            };
            let Some((micro_batch, since)) = victim else { break };
            resident.remove(&micro_batch);
            let copied_after = since.max(now.saturating_sub(2));
            trips.insert(micro_batch, Trip { micro_batch, copied_after, asked_after: 0, needed_by: 0 });
        }
        if visit.phase != Phase::Forward {
            resident.remove(&visit.micro_batch);
        }
    }
    trips.into_values().collect()
}
