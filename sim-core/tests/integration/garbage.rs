//! Programs mutated at random: whatever they are, nothing panics, hangs or grows without bound, and segments change
//! nothing but when a mistake of the program shows.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use sim_core::fixed::{Rate, Ratio};
use sim_core::id::{
    BindingId, BlockId, BranchId, CapTableId, CauseId, CellId, CounterId, KindId, QueueId, RoleId, RouteId,
    StoreId,
};
use sim_core::outcome::{End, Limit, Run};
use sim_core::platform::{Bucket, Platform};
use sim_core::program::{
    Affine, Body, Candidate, CellRef, Op, Program, ReclaimTable, Rule, Shortage, StartState, Units,
};
use sim_core::time::Time;
use sim_core::{Options, simulate};

use crate::random_programs::random_program;

/// A random program, what it starts from, and the dice that spoil it.
struct Garbage {
    platform: Platform,
    program: Program,
    start: StartState,
    rng: ChaCha8Rng,
}

impl Garbage {
    /// A program with cells (slot 7), a queue (8), a stream (9), a worker and a reclaim table, after `mutations`.
    fn new(seed: u64, mutations: u32) -> Self {
        let (platform, mut program) = random_program(seed);
        let (cells, queue) = (program.cells(4), program.queue("jobs"));
        for binding in &mut program.bindings {
            binding.slots.extend([cells.0, queue.0, 0]);
        }
        program.branch([u32::MAX]);
        program.stream("worker", BindingId(0), Body::Serve(queue));
        let candidate = |index| Candidate {
            cell: CellId(index),
            resident: 1,
            evicting: 2,
            bytes: 20,
            block: BlockId(index % 3),
            args: [0; 2],
            binding: BindingId(0),
            uses: vec![1, 2],
        };
        let candidates = (0..4).map(candidate).collect();
        let (store, rule, clock) = (StoreId(0), Rule::FarthestNextUse, Some(CounterId(0)));
        program.reclaim.push(ReclaimTable { store, rule, queue, clock, candidates });
        let rng = ChaCha8Rng::seed_from_u64(!seed);
        let mut garbage = Self { platform, program, start: StartState::default(), rng };
        for _ in 0..mutations {
            garbage.mutate();
        }
        garbage
    }

    /// A small number, seldom an absurd one.
    fn number(&mut self) -> u32 {
        match self.rng.random_range(0..40) {
            0 => u32::MAX,
            1 => i32::MAX as u32,
            2 => self.rng.random(),
            _ => self.rng.random_range(0..10),
        }
    }

    /// The same for bytes and work.
    fn amount(&mut self) -> u64 {
        match self.rng.random_range(0..10) {
            0 => u64::MAX,
            1 => i64::MAX as u64,
            2 => self.rng.random(),
            3 => 0,
            _ => self.rng.random_range(0..10_000),
        }
    }

    fn index(&mut self, length: usize) -> usize {
        self.rng.random_range(0..length.max(1))
    }

    fn affine(&mut self) -> Affine {
        let base =
            if self.rng.random_bool(0.9) { self.rng.random_range(-1..21) } else { self.number() as i32 };
        let stride = if self.rng.random_bool(0.8) { 0 } else { self.number() as i32 };
        Affine { base, stride, arg: self.rng.random_range(0..3) }
    }

    /// The slot that is right, seldom another.
    fn slot(&mut self, right: u16) -> u16 {
        if self.rng.random_bool(0.97) { right } else { self.rng.random_range(0..12) }
    }

    fn cell(&mut self) -> CellRef {
        let slot = self.slot(7);
        let index = if self.rng.random_bool(0.9) {
            Affine::constant(self.rng.random_range(0..4))
        } else {
            self.affine()
        };
        CellRef { slot, index }
    }

    fn cause(&mut self) -> CauseId {
        CauseId(if self.rng.random_bool(0.98) { self.rng.random_range(0..2) } else { self.number() })
    }

    fn kind(&mut self) -> KindId {
        KindId(if self.rng.random_bool(0.98) { 0 } else { self.number() })
    }

    fn block(&mut self) -> BlockId {
        let blocks = self.program.blocks.len();
        BlockId(if self.rng.random_bool(0.98) { self.index(blocks) as u32 } else { self.number() })
    }

    fn op(&mut self) -> Op {
        let (state, priority) = (self.rng.random_range(0..5), self.rng.random_range(0..4));
        let cause = self.cause();
        match self.rng.random_range(0..17) {
            0 => Op::Add { counter: self.slot(4), amount: self.number(), after: Some(self.affine()) },
            1 => Op::Add { counter: self.slot(5), amount: 1, after: None },
            2 => Op::Wait { counter: self.slot(4), at_least: self.affine(), cause },
            3 => {
                let shortage = [Shortage::Fail, Shortage::Wait, Shortage::Reclaim][self.index(3)];
                let (store, bytes, kind) = (self.slot(3), self.affine(), self.kind());
                Op::Acquire { store, bytes, kind, shortage, priority, cause }
            }
            4 => Op::Release { store: self.slot(3), bytes: self.affine(), kind: self.kind() },
            5 => Op::Hold { pool: self.slot(2), units: self.number(), priority, cause },
            6 => Op::Drop { pool: self.slot(2), units: self.number() },
            7 => Op::Join { group: self.slot(6), activity: self.affine(), cause },
            8 => {
                let ticket = self.rng.random_bool(0.7).then(|| self.cell());
                let (queue, block, args) = (self.slot(8), self.block(), [self.affine(), self.affine()]);
                Op::Post { queue, block, args, ticket, priority }
            }
            9 => Op::Cancel { ticket: self.cell() },
            10 => Op::Await { cell: self.cell(), state, cause },
            11 | 12 => Op::Set { cell: self.cell(), state },
            13 => Op::Branch { cell: self.cell(), targets: BranchId(self.rng.random_range(0..2)) },
            14 => Op::Halt { stream: self.slot(9), call: self.number() },
            15 => Op::Mark,
            _ => Op::Run { activity: self.affine() },
        }
    }

    fn mutate(&mut self) {
        match self.rng.random_range(0..20) {
            0..8 => {
                let (op, block) = (self.op(), self.index(self.program.blocks.len()));
                let at = self.index(self.program.blocks[block].ops.len());
                if self.rng.random_bool(0.5) {
                    self.program.blocks[block].ops.insert(at, op);
                } else if let Some(old) = self.program.blocks[block].ops.get_mut(at) {
                    *old = op;
                }
            }
            8..11 => self.mutate_program(),
            11..14 => self.mutate_costs(),
            14..17 => self.mutate_platform(),
            _ => self.mutate_start_or_table(),
        }
    }

    fn mutate_program(&mut self) {
        let number = self.number();
        match self.rng.random_range(0..8) {
            0 => {
                let binding = self.index(self.program.bindings.len());
                let slot = self.index(10);
                self.program.bindings[binding].slots[slot] = number;
            }
            1 => {
                let (role, block, args) =
                    (self.index(self.program.roles.len()), self.block(), [number as i32, 1]);
                let call = &mut self.program.roles[role].calls[0];
                (call.repeat, call.args, call.block) = (number, args, block);
            }
            2 => {
                let stream = self.index(self.program.streams.len());
                self.program.streams[stream].body = Body::Serve(QueueId(number % 2));
            }
            3 => {
                let stream = self.index(self.program.streams.len());
                self.program.streams[stream].body = Body::Role(RoleId(number));
            }
            4 => self.program.branches.push(vec![number, number / 2 + 1]),
            5 => self.program.groups[0].members = number,
            6 => self.program.groups[0].route = Some(RouteId(number)),
            _ => {
                let row = self.index(3);
                let table = self.index(self.program.caps.len());
                let rows = &mut self.program.caps[table].rows;
                (rows[row].cap, rows[row].waves) = (Rate(u64::from(number) << 30), number);
            }
        }
    }

    fn mutate_costs(&mut self) {
        let (number, amount, cause) = (self.number(), self.amount(), self.cause());
        let table = self.index(self.program.costs.len());
        let units = self.rng.random_bool(0.8).then(|| Units {
            pool: self.slot(2),
            want: number,
            priority: self.rng.random_range(0..4),
            table: CapTableId(self.rng.random_range(0..3)),
        });
        let at = self.index(21);
        let activity = &mut self.program.costs[table].activities[at];
        match self.rng.random_range(0..7) {
            0 => activity.latency = Time(amount),
            1 => activity.work = amount,
            2 => activity.cap = Rate(amount),
            3 => activity.route = Some(number as u16 % 12),
            4 => activity.units = units,
            5 => activity.cause = cause,
            _ => self.program.costs[table].sizes[number as usize % 6] = amount,
        }
    }

    fn mutate_platform(&mut self) {
        let (number, amount) = (self.number(), self.amount());
        let fluid = self.index(self.platform.fluids.len());
        let route = self.index(self.platform.routes.len());
        match self.rng.random_range(0..8) {
            0 => self.platform.fluids[fluid].capacity = Rate(amount << 20),
            1 => {
                let bucket = Bucket::full(Rate(amount << 30), amount);
                self.platform.fluids[fluid].bucket = Some(bucket);
            }
            2 => self.platform.routes[route].demands[0].coefficient = Ratio(number << 10),
            3 => self.platform.routes[route].demands[0].weight = Ratio(number << 10),
            4 => self.platform.routes[route].demands[0].multiplicity = number,
            5 => self.platform.routes[route].demands[0].fluid.0 = number,
            6 => self.platform.stores[0].capacity = amount,
            _ => self.platform.pools[0].units = number,
        }
    }

    fn mutate_start_or_table(&mut self) {
        let (number, amount) = (self.number(), self.amount());
        let candidate = self.index(4);
        let table = &mut self.program.reclaim[0];
        match self.rng.random_range(0..8) {
            0 => self.start.stores.push((StoreId(0), KindId(0), amount)),
            1 => self.start.cells.push((CellId(number), 1)),
            2 => self.start.counters.push((CounterId(number), amount)),
            3 => table.candidates[candidate].bytes = amount,
            4 => table.candidates[candidate].binding = BindingId(number),
            5 => table.candidates[candidate].block = BlockId(number),
            6 => table.candidates[candidate].evicting = number as u8,
            _ => table.clock = Some(CounterId(number)),
        }
    }

    /// Simulates it, if it is valid.
    fn simulated(&self, segments: bool) -> Option<Run> {
        let time_max = Time(self.program.streams.len() as u64 * 1_000_000_000_000);
        let path_from = Some(0);
        let options = Options { segments, events_max: 20_000, time_max, path_from, ..Options::default() };
        simulate(&self.platform, &self.program, &self.start, &options).ok()
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4_000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::default()
    })]

    #[test]
    fn garbage_ends(seed in any::<u64>(), mutations in 0..16_u32) {
        let garbage = Garbage::new(seed, mutations);
        let Some(on) = garbage.simulated(true) else { return Ok(()) };
        let off = garbage.simulated(false).expect("as valid as with segments");
        match (&on.end, &off.end) {
            (End::Limit(Limit::Events(_)), _) | (_, End::Limit(Limit::Events(_))) => {}
            (End::Invalid { .. }, end) | (end, End::Invalid { .. }) => prop_assert_ne!(end, &End::Completed),
            _ => prop_assert_eq!(Run { events: 0, ..on }, Run { events: 0, ..off }),
        }
    }
}

/// The dice leave enough programs valid to reach every end.
#[test]
fn garbage_reaches_every_end() {
    let mut ends = [0; 6];
    for seed in 0..1_000 {
        let end = Garbage::new(seed, (seed % 8) as u32).simulated(true).map(|run| run.end);
        ends[match end {
            None => 0,
            Some(End::Completed) => 1,
            Some(End::OutOfMemory(_)) => 2,
            Some(End::Deadlock(_)) => 3,
            Some(End::Limit(_)) => 4,
            Some(End::Invalid { .. }) => 5,
        }] += 1;
    }
    assert!(ends.iter().all(|&count| count > 10), "{ends:?}");
}
