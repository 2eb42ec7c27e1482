//! The slow reference: a plain replay of an order (Qi et al. 2024, Table 9), visit by visit until nothing can go on. It knows
//! neither schedules nor programs, and is the oracle of the engine's times.

use sim_core::time::Time;
use workloads::graph::Phase;
use workloads::order::{Order, Timing};

/// When each stage started its first visit and ended its last, and the most it held at any time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Replay {
    pub(crate) starts: Vec<Time>,
    pub(crate) ends: Vec<Time>,
    /// Activation bytes.
    pub(crate) peaks: Vec<u64>,
}

impl Replay {
    /// The longest span from a stage's own first start to its own last end.
    pub(crate) fn cost(&self) -> Time {
        self.starts.iter().zip(&self.ends).map(|(&start, &end)| end - start).max().unwrap()
    }
}

/// # Panics
/// If the order cannot be executed: a visit waits for one that never comes.
pub(crate) fn replay(order: &Order, timing: &Timing) -> Replay {
    let (chain, m) = (order.shape.chain, order.shape.micro_batches as usize);
    let positions = chain.positions() as usize;
    let mut ends = vec![[None::<Time>; 2]; positions * m];
    let mut next = vec![0; order.stages.len()];
    let mut clocks = vec![Time::ZERO; order.stages.len()];
    let mut starts = vec![None; order.stages.len()];
    let mut held = vec![0u64; order.stages.len()];
    let mut peaks = vec![0u64; order.stages.len()];
    loop {
        let mut progress = false;
        for (stage, visits) in order.stages.iter().enumerate() {
            while let Some(visit) = visits.get(next[stage]) {
                let at = chain.position(stage as u32, u32::from(visit.chunk)) as usize;
                let i = visit.micro_batch as usize;
                let after = |position: usize, kind: usize, hop: usize| {
                    ends[position * m + i][kind].map(|end| end + timing.chunks[hop].message)
                };
                let own = |kind: usize| ends[at * m + i][kind];
                let (ready, duration) = match visit.phase {
                    Phase::Forward if at == 0 => (Some(Time::ZERO), timing.chunks[at].forward),
                    Phase::Forward => (after(at - 1, 0, at - 1), timing.chunks[at].forward),
                    Phase::BackwardInput | Phase::Backward => {
                        let last = at + 1 == positions;
                        let weight = if visit.phase == Phase::Backward {
                            timing.chunks[at].backward_weight
                        } else {
                            Time::ZERO
                        };
                        let ready = if last {
                            own(0)
                        } else {
                            after(at + 1, 1, at).and(own(0)).and(after(at + 1, 1, at))
                        };
                        (ready, timing.chunks[at].backward_input + weight)
                    }
                    Phase::BackwardWeight => (own(1), timing.chunks[at].backward_weight),
                    Phase::Recompute | Phase::Accumulate | Phase::Update => {
                        unreachable!("orders have none of these")
                    }
                };
                let Some(ready) = ready else { break };
                let start = clocks[stage].max(ready);
                starts[stage].get_or_insert(start);
                clocks[stage] = start + duration;
                let (all, kept) = (timing.chunks[at].activation, timing.chunks[at].kept_for_weight);
                match visit.phase {
                    Phase::Forward => held[stage] += all,
                    Phase::Backward => held[stage] -= all,
                    Phase::BackwardInput => held[stage] -= all - kept,
                    _ => held[stage] -= kept,
                }
                peaks[stage] = peaks[stage].max(held[stage]);
                match visit.phase {
                    Phase::Forward => ends[at * m + i][0] = Some(clocks[stage]),
                    Phase::BackwardWeight => {}
                    _ => ends[at * m + i][1] = Some(clocks[stage]),
                }
                next[stage] += 1;
                progress = true;
            }
        }
        if !progress {
            break;
        }
    }
    for (stage, visits) in order.stages.iter().enumerate() {
        assert_eq!(
            next[stage],
            visits.len(),
            "stage {stage} waits for ever at {:?}",
            visits.get(next[stage])
        );
    }
    Replay { starts: starts.into_iter().map(Option::unwrap).collect(), ends: clocks, peaks }
}
