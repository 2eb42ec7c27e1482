//! What is measured of several GPUs of one machine.

use super::cuda::sizes;
use super::{GIB, KIB, MIB, Probe, probe};
use crate::measure::{Collective, PeerCopy, SendReceive, Task, Ways};
use hw_models::collectives::CollectiveKind;

/// The other GPUs of a machine, as far as a suite depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Others {
    /// GPUs of the machine, the one that is measured among them.
    pub gpus: u32,
    /// One of them can be copied to without the host.
    pub peer: bool,
    /// The library of collectives is there.
    pub collectives: bool,
}

/// Bytes of a number in half precision.
const HALF: u64 = 2;

impl Others {
    /// The probes; `quick`: what scenarios ask for most.
    pub(super) fn probes(self, quick: bool) -> Vec<Probe> {
        let mut probes = Vec::new();
        if self.peer {
            probes.push(probe("peer", "rates of copies between GPUs", peer_copies(quick)));
        }
        if self.collectives {
            probes.push(probe(
                "collective",
                "times of collectives and messages of GPUs",
                self.collectives(quick),
            ));
        }
        probes
    }

    fn collectives(self, quick: bool) -> Vec<Task> {
        let mut groups: Vec<u32> = [2, 4, 8].into_iter().filter(|&ranks| ranks < self.gpus).collect();
        groups.push(self.gpus);
        let (least, factor) = if quick { (64, 64) } else { (16, 4) };
        let (first, all) = (groups[0], self.gpus);
        if quick {
            groups = vec![all];
        }
        let mut messages = vec![first, all];
        messages.dedup();
        let by = |ranks: u32| {
            // A part for each that is whole numbers.
            let parts = HALF * u64::from(ranks);
            sizes(least, GIB, factor).map(move |bytes| bytes / parts * parts).filter(|&bytes| bytes > 0)
        };
        let collective = |ranks| {
            let of =
                move |kind| by(ranks).map(move |bytes| Task::Collective(Collective { kind, ranks, bytes }));
            CollectiveKind::ALL.into_iter().flat_map(of)
        };
        let message = |ranks| by(ranks).map(move |bytes| Task::SendReceive(SendReceive { ranks, bytes }));
        groups.into_iter().flat_map(collective).chain(messages.into_iter().flat_map(message)).collect()
    }
}

/// The sizes of copies between host and GPU; against others large ones, of which the link alone tells.
fn peer_copies(quick: bool) -> Vec<Task> {
    let copy = |ways, bytes| Task::PeerCopy(PeerCopy { ways, bytes });
    let alone = sizes(KIB, GIB, if quick { 16 } else { 2 }).map(|bytes| copy(Ways::One, bytes));
    let against = [32, 64, 128].map(|mib| copy(Ways::Both, mib * MIB));
    alone.chain(against).collect()
}
