//! What arrays of drives hold, and what all that use them move in a step.

use std::collections::BTreeMap;

use reports::summary::DriveUse;
use sim_core::outcome::Run;
use workloads::account::{Accounts, Communication};
use workloads::plan::Built;
use workloads::site::ArrayUse;

use super::communication::of_lane;
use super::lanes::lanes;
use super::ranks;
use super::tally::{Tally, Traffic};
use super::words::Words;

/// The most arrays that are told.
const SHOWN: usize = 32;

/// What a rank moves to drives and back in all measured steps.
#[derive(Clone, Copy, Default)]
struct Moved {
    /// States and parameters, read and written.
    states: [u64; 2],
    /// Activations, read and written.
    activations: [u64; 2],
    /// Rows of features, which are read.
    rows: u64,
}

/// The arrays of a run with so many measured steps that each take so long, those that are written most first; one stands for all that do the same.
pub(super) fn drives(
    (built, accounts): (&Built, &Accounts),
    (run, tally): (&Run, &Tally<'_>),
    words: &Words<'_>,
    (steps, step_s): (f64, f64),
) -> Vec<DriveUse> {
    if built.arrays.is_empty() {
        return Vec::new();
    }
    let moved = moved(built, accounts, tally);
    let one = |array: &ArrayUse| {
        let sum = |ranks: &[u32], of: fn(&Moved) -> [u64; 2]| {
            let of_ranks = ranks.iter().map(|&rank| of(&moved[rank as usize]));
            of_ranks.fold([0; 2], |[read, written], [reads, writes]| [read + reads, written + writes])
        };
        let (states, activations) =
            (sum(&array.states, |moved| moved.states), sum(&array.activations, |moved| moved.activations));
        let [rows, _] = sum(&array.rows, |moved| [moved.rows, 0]);
        let read = (states[0] + activations[0] + rows) as f64 / steps;
        let written = (states[1] + activations[1]) as f64 / steps;
        let peak = &run.stores[array.store.index()].peak;
        let capacity = built.lowered.platform.stores[array.store.index()].capacity;
        let years = array.endurance.map(|endurance| endurance.years(written, step_s));
        DriveUse {
            array: array.name.clone(),
            alike: 1,
            capacity_bytes: (capacity < u64::MAX).then_some(capacity),
            peak_bytes: peak.bytes,
            by_kind_bytes: words.by_kind(&peak.by_kind),
            read_bytes: read.round() as u64,
            written_bytes: written.round() as u64,
            lifetime_years: years.filter(|years| years.is_finite()),
        }
    };
    let mut told: Vec<DriveUse> = Vec::new();
    for array in built.arrays.iter().map(one) {
        let same = |known: &&mut DriveUse| {
            DriveUse { array: array.array.clone(), alike: 1, ..(**known).clone() } == array
        };
        match told.iter_mut().find(same) {
            Some(known) => known.alike += 1,
            None => told.push(array),
        }
    }
    told.sort_by_key(|array| std::cmp::Reverse(array.written_bytes));
    told.truncate(SHOWN);
    told
}

/// By rank.
fn moved(built: &Built, accounts: &Accounts, tally: &Tally<'_>) -> Vec<Moved> {
    let lowered = &built.lowered;
    let replicas = ranks::replicas(lowered) as u32;
    let lanes: Vec<BTreeMap<Communication, Traffic>> =
        lanes(lowered).map(|lane| of_lane(&lane, accounts)).collect();
    let mut moved = vec![Moved::default(); lowered.ranks.len()];
    for (stream, role) in lowered.streams.iter().enumerate() {
        let rank = &mut moved[(role.stage * replicas + role.replica) as usize];
        for (&kind, said) in &lanes[role.lane as usize] {
            let bytes = tally.made_by(stream, *said).bytes;
            match kind {
                Communication::ReadStates | Communication::ReadParameters => rank.states[0] += bytes,
                Communication::WriteStates | Communication::WriteParameters => rank.states[1] += bytes,
                Communication::Read => rank.activations[0] += bytes,
                Communication::Write => rank.activations[1] += bytes,
                Communication::ReadRows => rank.rows += bytes,
                _ => {}
            }
        }
    }
    moved
}
