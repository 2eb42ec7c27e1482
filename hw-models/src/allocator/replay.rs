//! A list of requests, one after the other.

use std::collections::{BTreeMap, BTreeSet};

use super::blocks::{Blocks, Pool, Taken};
use super::caches::Caches;
use super::mistakes::{Mistake, mistakes};
use super::plain::PlainBlocks;
use super::{DriverCalls, Request, Segments, Settings, StreamNumber, sizes};

/// What a list of requests needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// When tensors had most bytes, first.
    pub peak_allocated: Moment,
    /// When segments had most bytes, first.
    pub peak_reserved: Moment,
    /// Bytes of blocks at [`Usage::peak_allocated`] by the kind of their tensors, the largest first.
    pub by_kind: Vec<(&'static str, u64)>,
    /// How often the device was waited for and free segments were released to serve a request.
    pub retries: u64,
    /// Calls of the driver for requests, in their order.
    pub driver: Vec<DriverCalls>,
    /// The request that could not be served, if there is one; those after it were not made.
    pub shortage: Option<Shortage>,
}

/// The state after a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The position of the request in the list.
    pub request: usize,
    /// Bytes that the tensors asked for.
    pub requested: u64,
    /// Bytes of the blocks of tensors.
    pub allocated: u64,
    /// Bytes of blocks that are freed, but still in use by other streams.
    pub lent: u64,
    /// Bytes of segments.
    pub reserved: u64,
}

/// A request that could not be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The state, with the position of the request.
    pub moment: Moment,
    /// Bytes that it asked for.
    pub bytes: u64,
    /// Bytes of blocks by the kind of their tensors, the largest first.
    pub by_kind: Vec<(&'static str, u64)>,
}

/// Makes `requests` of the allocator of a device that has `capacity` bytes for segments.
///
/// # Errors
/// Everything about the list and the settings that makes no sense. Running out of memory is no error, but
/// [`Usage::shortage`].
pub fn replay(requests: &[Request], capacity: u64, settings: &Settings) -> Result<Usage, Vec<Mistake>> {
    replay_on(Caches::new(*settings), requests, capacity, settings)
}

/// The same by scanning every block for every request: slow and plainly right.
///
/// # Errors
/// As [`replay`].
pub fn replay_plainly(
    requests: &[Request],
    capacity: u64,
    settings: &Settings,
) -> Result<Usage, Vec<Mistake>> {
    replay_on(PlainBlocks::new(*settings), requests, capacity, settings)
}

fn replay_on<B: Blocks>(
    blocks: B,
    requests: &[Request],
    capacity: u64,
    settings: &Settings,
) -> Result<Usage, Vec<Mistake>> {
    if settings.faults().next().is_some() {
        return Err(mistakes(requests, settings));
    }
    let capacity = capacity.min(sizes::DEVICE_MAX);
    let mut state = Replay {
        blocks,
        capacity,
        settings,
        // Most are freed too.
        tensors: Vec::with_capacity(requests.len().div_ceil(2)),
        awaited: BTreeSet::new(),
        now: Moment::default(),
        retries: 0,
        driver: Vec::new(),
    };
    let (mut peak_allocated, mut peak_reserved, mut shortage) = (Moment::default(), Moment::default(), None);
    for (position, request) in requests.iter().enumerate() {
        if !state.makes_sense(request) {
            return Err(mistakes(requests, settings));
        }
        state.now.request = position;
        let served = state.serve(request);
        if state.now.allocated > peak_allocated.allocated {
            peak_allocated = state.now;
        }
        if state.now.reserved > peak_reserved.reserved {
            peak_reserved = state.now;
        }
        if let Err(bytes) = served {
            let found = mistakes(requests, settings);
            if !found.is_empty() {
                return Err(found);
            }
            shortage = Some((state.now, bytes));
            break;
        }
    }
    let by_kind = |end| by_kind(&requests[..end], &state.tensors);
    Ok(Usage {
        peak_allocated,
        peak_reserved,
        by_kind: by_kind(requests.len().min(peak_allocated.request + 1)),
        retries: state.retries,
        driver: state.driver,
        shortage: shortage.map(|(moment, bytes)| Shortage {
            moment,
            bytes,
            by_kind: by_kind(moment.request),
        }),
    })
}

struct Replay<'a, B> {
    blocks: B,
    capacity: u64,
    settings: &'a Settings,
    tensors: Vec<Tensor>,
    /// Those that are freed, but lent.
    awaited: BTreeSet<u32>,
    now: Moment,
    retries: u64,
    driver: Vec<DriverCalls>,
}

/// A tensor of the list.
#[derive(Clone, Copy)]
struct Tensor {
    requested: u64,
    /// None if it has no bytes.
    taken: Option<Taken>,
    lent: bool,
    /// The request that freed it, `usize::MAX` while none has.
    freed_by: usize,
}

impl<B: Blocks> Replay<'_, B> {
    /// Tells whether a program could make a request after those before.
    fn makes_sense(&self, request: &Request) -> bool {
        let known = |id: u32| self.tensors.get(id as usize);
        match *request {
            Request::Allocate { .. } => self.tensors.len() < u32::MAX as usize,
            Request::Lend(id) | Request::Free(id) => known(id).is_some_and(|it| it.freed_by == usize::MAX),
            Request::Done(id) => known(id).is_some_and(|it| it.lent),
        }
    }

    /// Serves a request, or says how many bytes there was no memory for.
    fn serve(&mut self, request: &Request) -> Result<(), u64> {
        match *request {
            Request::Allocate { bytes, stream, .. } => {
                let taken = if bytes > 0 { Some(self.allocate(bytes, stream).ok_or(bytes)?) } else { None };
                self.tensors.push(Tensor { requested: bytes, taken, lent: false, freed_by: usize::MAX });
                self.now.requested += bytes;
                self.now.allocated += taken.map_or(0, |taken| taken.bytes);
            }
            Request::Lend(id) => self.tensors[id as usize].lent = true,
            Request::Done(id) => {
                self.tensors[id as usize].lent = false;
                if self.awaited.remove(&id) {
                    self.give_back_lent(id);
                }
            }
            Request::Free(id) => self.free(id),
        }
        Ok(())
    }

    fn free(&mut self, id: u32) {
        let tensor = &mut self.tensors[id as usize];
        tensor.freed_by = self.now.request;
        let Tensor { requested, taken: Some(taken), lent, .. } = *tensor else { return };
        self.now.requested -= requested;
        self.now.allocated -= taken.bytes;
        if lent {
            self.now.lent += taken.bytes;
            self.awaited.insert(id);
        } else {
            self.blocks.give_back(taken.block);
        }
    }

    fn give_back_lent(&mut self, id: u32) {
        if let Some(taken) = self.tensors[id as usize].taken {
            self.now.lent -= taken.bytes;
            self.blocks.give_back(taken.block);
        }
    }

    fn allocate(&mut self, bytes: u64, stream: StreamNumber) -> Option<Taken> {
        if bytes > sizes::DEVICE_MAX {
            return None;
        }
        let bytes = sizes::block(bytes, self.settings);
        let pool = Pool { stream, small: bytes <= sizes::SMALL_MAX };
        self.blocks.take(pool, bytes).or_else(|| self.ask(pool, bytes))
    }

    /// Asks the driver for memory.
    fn ask(&mut self, pool: Pool, bytes: u64) -> Option<Taken> {
        let (before, mut returned) = (self.blocks.held(), Segments::default());
        let first = self.reserve(pool, bytes);
        let taken = first.or_else(|| self.reserve_again(pool, bytes, &mut returned));
        let held = self.blocks.held();
        let asked = held + returned - before;
        self.driver.push(DriverCalls { request: self.now.request, returned, asked });
        self.now.reserved = held.bytes;
        taken
    }

    fn reserve(&mut self, pool: Pool, bytes: u64) -> Option<Taken> {
        let room = self.capacity - self.blocks.held().bytes;
        self.blocks.reserve(pool, bytes, room)
    }

    /// Asks the driver again after oversize segments, then after all free memory has been released. Blocks of segments
    /// that are in use in part are not looked at once more.
    fn reserve_again(&mut self, pool: Pool, bytes: u64, returned: &mut Segments) -> Option<Taken> {
        let held = self.blocks.held();
        let is_enough = self.blocks.release_oversize(pool, bytes);
        *returned += held - self.blocks.held();
        if is_enough && let Some(taken) = self.reserve(pool, bytes) {
            return Some(taken);
        }
        for id in std::mem::take(&mut self.awaited) {
            self.give_back_lent(id);
        }
        let held = self.blocks.held();
        self.blocks.release();
        *returned += held - self.blocks.held();
        self.retries += 1;
        self.reserve(pool, bytes)
    }
}

/// Bytes of the blocks that are allocated after `requests`, by kind.
fn by_kind(requests: &[Request], tensors: &[Tensor]) -> Vec<(&'static str, u64)> {
    let kinds = requests.iter().filter_map(|request| match request {
        Request::Allocate { kind, .. } => Some(*kind),
        _ => None,
    });
    let mut held: BTreeMap<&'static str, u64> = BTreeMap::new();
    // One that could not be served is no tensor.
    for (kind, tensor) in kinds.zip(tensors).filter(|(_, tensor)| tensor.freed_by >= requests.len()) {
        if let Some(taken) = tensor.taken {
            *held.entry(kind).or_default() += taken.bytes;
        }
    }
    let mut held: Vec<_> = held.into_iter().filter(|&(_, bytes)| bytes > 0).collect();
    held.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
    held
}
