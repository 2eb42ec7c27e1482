//! What runs: streams of operations, built from shared blocks.
//!
//! A [`Role`] is a finite list of calls of [`Block`]s; a block is straight-line operations over *slots*; a [`Binding`]
//! says what the slots of one rank stand for. Memory grows with what differs, not with ranks x layers x micro-batches.
//! Branches go forward only and call lists are finite, so a stream ends or is reported deadlocked.

use crate::fixed::Rate;
use crate::id::{
    BindingId, BlockId, BranchId, CapTableId, CauseId, CellId, CostTableId, CounterId, GroupId, KindId,
    QueueId, RoleId, RouteId, StoreId, StreamId,
};
use crate::noise::Noise;
use crate::time::Time;

/// The largest number of causes of a program.
pub const CAUSES_MAX: usize = 16;

/// Streams, what they execute, and the objects they synchronise on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// The streams; ids order what happens in one instant.
    pub streams: Vec<Stream>,
    /// Call lists.
    pub roles: Vec<Role>,
    /// Operations.
    pub blocks: Vec<Block>,
    /// Slots of the ranks.
    pub bindings: Vec<Binding>,
    /// Activities and sizes.
    pub costs: Vec<CostTable>,
    /// Branch targets: the entry of a cell's state (or the last one) is the index of the next operation in the block,
    /// greater than the branch's own.
    pub branches: Vec<Vec<u32>>,
    /// Rate caps over units, see [`CapTable`].
    pub caps: Vec<CapTable>,
    /// Number of counters.
    pub counters: u32,
    /// Number of cells.
    pub cells: u32,
    /// Groups of joins.
    pub groups: Vec<Group>,
    /// Names of the queues.
    pub queues: Vec<String>,
    /// Reclaim tables, at most one per store.
    pub reclaim: Vec<ReclaimTable>,
    /// Names of the kinds of bytes.
    pub kinds: Vec<String>,
    /// Names of the causes, at most [`CAUSES_MAX`].
    pub causes: Vec<String>,
    /// Random variation of durations.
    pub noise: Noise,
}

/// An in-order list of operations, like a CUDA stream or a host thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// Hierarchical name for results, `stage[3].compute`.
    pub name: String,
    /// What its slots stand for.
    pub binding: BindingId,
    /// What it executes.
    pub body: Body,
    /// The device whose noise it shares.
    pub device: u32,
}

/// What a stream executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// A call list, once.
    Role(RoleId),
    /// Blocks posted to a queue, by (priority, arrival), until every stream with a role has ended and the queue is
    /// empty. Posted blocks run with the binding of the poster.
    Serve(QueueId),
}

/// A finite list of calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Role {
    /// Executed in order.
    pub calls: Vec<Call>,
}

/// `repeat` executions of a block; the arguments grow by `step` each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The block.
    pub block: BlockId,
    /// Arguments of the first execution.
    pub args: [i32; 2],
    /// Added to the arguments after each execution.
    pub step: [i32; 2],
    /// Number of executions.
    pub repeat: u32,
}

impl Call {
    /// One execution without arguments.
    pub const fn once(block: BlockId) -> Self {
        Self { block, args: [0; 2], step: [0; 2], repeat: 1 }
    }

    /// `repeat` executions with argument 0 counting up from `first`.
    pub const fn counting(block: BlockId, first: i32, repeat: u32) -> Self {
        Self { block, args: [first, 0], step: [1, 0], repeat }
    }
}

/// Straight-line operations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Name for results, `forward`.
    pub name: String,
    /// Executed in order.
    pub ops: Vec<Op>,
}

/// A slot of a binding.
pub type Slot = u16;

/// `base + stride * argument[arg]`, for counter thresholds, cells, activities and sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Affine {
    /// Value at argument 0.
    pub base: i32,
    /// Growth per unit of the argument.
    pub stride: i32,
    /// Which argument.
    pub arg: u8,
}

impl Affine {
    /// A constant.
    pub const fn constant(base: i32) -> Self {
        Self { base, stride: 0, arg: 0 }
    }

    /// `base + argument[arg]`.
    pub const fn offset(base: i32, arg: u8) -> Self {
        Self { base, stride: 1, arg }
    }

    /// The value for the arguments of a call.
    #[inline]
    pub fn at(self, args: [i32; 2]) -> i64 {
        i64::from(self.base) + i64::from(self.stride) * i64::from(args[self.arg as usize & 1])
    }
}

/// A cell: the cell in `slot` plus `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CellRef {
    /// Slot that holds the first cell.
    pub slot: Slot,
    /// Offset from it.
    pub index: Affine,
}

/// What an acquire does when the store has too little room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// The run ends out of memory, as with a framework's allocator.
    Fail,
    /// The stream waits, by (priority, arrival), without overtaking.
    Wait,
    /// The store's [`ReclaimTable`] is walked: candidates are evicted until there is room, and the stream waits for it.
    Reclaim,
}

/// One operation of a stream. Activities and sizes are positions in the binding's [`CostTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Adds to a counter, now or when a pure latency (`after`, an activity without work) has passed: a message.
    Add {
        /// Slot of the counter.
        counter: Slot,
        /// How much.
        amount: u32,
        /// Activity whose latency passes first; the stream does not wait for it.
        after: Option<Affine>,
    },
    /// Waits until a counter has reached a threshold.
    Wait {
        /// Slot of the counter.
        counter: Slot,
        /// The threshold.
        at_least: Affine,
        /// Cause of the time before what releases it is under way.
        cause: CauseId,
    },
    /// Takes bytes of a store.
    Acquire {
        /// Slot of the store.
        store: Slot,
        /// Position of the size.
        bytes: Affine,
        /// What the bytes are.
        kind: KindId,
        /// When there is no room.
        shortage: Shortage,
        /// Order among those that wait; smaller is served first.
        priority: u8,
        /// Cause of the time waited.
        cause: CauseId,
    },
    /// Gives bytes of a store back.
    Release {
        /// Slot of the store.
        store: Slot,
        /// Position of the size.
        bytes: Affine,
        /// What the bytes are.
        kind: KindId,
    },
    /// Takes units of a pool; may be held across operations.
    Hold {
        /// Slot of the pool.
        pool: Slot,
        /// How many.
        units: u32,
        /// Order among those that wait; smaller is served first. A kernel gives units up, at the end of its wave, to
        /// requests of a smaller number than its own.
        priority: u8,
        /// Cause of the time waited.
        cause: CauseId,
    },
    /// Gives units of a pool back.
    Drop {
        /// Slot of the pool.
        pool: Slot,
        /// How many.
        units: u32,
    },
    /// Runs an activity to its end.
    Run {
        /// Position of the activity.
        activity: Affine,
    },
    /// Arrives at a group; the last to arrive starts the one activity (on the group's route), all resume at its end.
    Join {
        /// Slot of the group.
        group: Slot,
        /// Position of the activity; the last arriver's counts, members give the same.
        activity: Affine,
        /// Cause of the time before the last arrival (skew).
        cause: CauseId,
    },
    /// Puts a block in a queue. The ticket's cell goes queued -> running -> done.
    Post {
        /// Slot of the queue.
        queue: Slot,
        /// What to execute, with the poster's binding.
        block: BlockId,
        /// Its arguments.
        args: [Affine; 2],
        /// Cell that shows its state.
        ticket: Option<CellRef>,
        /// Order in the queue; smaller is served first.
        priority: u8,
    },
    /// Takes a posted block back while it is still queued; its cell becomes cancelled. Otherwise nothing happens.
    Cancel {
        /// The ticket.
        ticket: CellRef,
    },
    /// Waits until a cell has reached `state` (tickets: [`ticket::DONE`] or cancelled).
    Await {
        /// The cell.
        cell: CellRef,
        /// The state, or any above it.
        state: u8,
        /// Cause of the time before what releases it is under way.
        cause: CauseId,
    },
    /// Sets a cell.
    Set {
        /// The cell.
        cell: CellRef,
        /// Its new state.
        state: u8,
    },
    /// Goes on at the operation the cell's state selects.
    Branch {
        /// The cell.
        cell: CellRef,
        /// Targets by state.
        targets: BranchId,
    },
    /// Stops another stream: what it has pending is dropped, the pools and stores it holds are given back, and it
    /// resumes at a call of its role. Nothing happens to a stream that has ended. One that serves a queue cannot be
    /// halted.
    Halt {
        /// Slot of the stream.
        stream: Slot,
        /// Index into the calls of its role.
        call: u32,
    },
    /// Notes the time in the stream's marks (steps).
    Mark,
}

/// States of a cell that serves as a ticket.
pub mod ticket {
    /// Not posted.
    pub const IDLE: u8 = 0;
    /// Waiting in the queue.
    pub const QUEUED: u8 = 1;
    /// Being executed.
    pub const RUNNING: u8 = 2;
    /// Executed.
    pub const DONE: u8 = 3;
    /// Taken back before it ran.
    pub const CANCELLED: u8 = 4;
}

/// The only thing that takes time: a latency, then work at a rate of at most `cap`, less when its route is shared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Activity {
    /// Passes first, without demands.
    pub latency: Time,
    /// Units of the principal stream (bytes); 0 for a pure latency.
    pub work: u64,
    /// Speed when alone.
    pub cap: Rate,
    /// Slot of the route; none: nothing is shared.
    pub route: Option<Slot>,
    /// Units of a pool that set the cap.
    pub units: Option<Units>,
    /// What its time counts as.
    pub cause: CauseId,
}

impl Activity {
    /// A pure latency.
    pub const fn lasting(latency: Time, cause: CauseId) -> Self {
        Self { latency, work: 0, cap: Rate::UNLIMITED, route: None, units: None, cause }
    }

    /// `work` units over a route, as fast as it goes.
    pub const fn moving(work: u64, route: Slot, cause: CauseId) -> Self {
        Self { latency: Time::ZERO, work, cap: Rate::UNLIMITED, route: Some(route), units: None, cause }
    }
}

/// A kernel's claim on a pool (SMs): it takes what is free up to `want`, waits only when nothing is, and gives up or
/// gains units at the end of a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    /// Slot of the pool.
    pub pool: Slot,
    /// Most units it can use.
    pub want: u32,
    /// Order among those that wait for the pool.
    pub priority: u8,
    /// Its speed over the units it has.
    pub table: CapTableId,
}

/// Speeds over units, ascending by units; the entry with the most units not above those held counts (the first one
/// below its own number of units).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapTable {
    /// Rows.
    pub rows: Vec<CapRow>,
}

impl CapTable {
    /// The row that counts for a number of units; none in an empty table.
    pub fn row(&self, units: u32) -> Option<&CapRow> {
        self.rows.iter().rev().find(|row| row.units <= units).or(self.rows.first())
    }

    /// The rate cap with a number of units.
    pub fn cap(&self, units: u32) -> Rate {
        self.row(units).map_or(Rate::UNLIMITED, |row| row.cap)
    }
}

/// Speed with a number of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapRow {
    /// Units held, at least.
    pub units: u32,
    /// Rate cap; an activity's own cap applies as well.
    pub cap: Rate,
    /// Waves the whole activity takes; units change hands between waves.
    pub waves: u32,
}

/// What the slots of one rank stand for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Binding {
    /// Ids of fluids' routes, pools, stores, counters, first cells, groups, queues or streams; the operations that use a
    /// slot say which.
    pub slots: Vec<u32>,
    /// Its activities and sizes.
    pub costs: Option<CostTableId>,
}

/// The numbers that may differ between ranks of one role.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CostTable {
    /// Activities.
    pub activities: Vec<Activity>,
    /// Sizes in bytes.
    pub sizes: Vec<u64>,
}

/// The members of a join and the route their common activity takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// How many arrivals start the activity.
    pub members: u32,
    /// What the activity demands; none: nothing is shared.
    pub route: Option<RouteId>,
}

/// How a store makes room ([`Shortage::Reclaim`]).
#[derive(Clone, Debug, PartialEq)]
pub struct ReclaimTable {
    /// The store.
    pub store: StoreId,
    /// Which candidate goes first.
    pub rule: Rule,
    /// Where evictions are posted.
    pub queue: QueueId,
    /// Counts uses, for [`Rule::FarthestNextUse`].
    pub clock: Option<CounterId>,
    /// What may go; a tie goes to the earlier entry.
    pub candidates: Vec<Candidate>,
}

/// Which candidate is evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The one whose cell was set longest ago.
    LeastRecentlyUsed,
    /// The one whose next use, after the clock's value, is farthest.
    FarthestNextUse,
    /// The one with the most bytes.
    Largest,
    /// The one that became resident first.
    FirstProduced,
}

/// Something a store can evict.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// It may be evicted while this cell is in state `resident`; the eviction puts it in `evicting`.
    pub cell: CellId,
    /// State in which it can go.
    pub resident: u8,
    /// State set when its eviction is posted.
    pub evicting: u8,
    /// Bytes it frees; the block releases them.
    pub bytes: u64,
    /// Executed by the queue's workers: copies out, releases, sets the cell.
    pub block: BlockId,
    /// Arguments of the block.
    pub args: [i32; 2],
    /// Binding of the block.
    pub binding: BindingId,
    /// Positions of its uses on the clock, ascending.
    pub uses: Vec<u64>,
}

/// What a run starts from, beside empty counters, stores and cells, and the tokens of [buckets](crate::platform::Bucket).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StartState {
    /// Values of counters.
    pub counters: Vec<(CounterId, u64)>,
    /// States of cells.
    pub cells: Vec<(CellId, u8)>,
    /// Bytes already held.
    pub stores: Vec<(StoreId, KindId, u64)>,
}

impl Program {
    /// Adds a stream.
    pub fn stream(&mut self, name: impl Into<String>, binding: BindingId, body: Body) -> StreamId {
        self.streams.push(Stream { name: name.into(), binding, body, device: binding.0 });
        StreamId::from(self.streams.len() - 1)
    }

    /// Adds a role.
    pub fn role(&mut self, calls: impl IntoIterator<Item = Call>) -> RoleId {
        self.roles.push(Role { calls: calls.into_iter().collect() });
        RoleId::from(self.roles.len() - 1)
    }

    /// Adds a block.
    pub fn block(&mut self, name: impl Into<String>, ops: impl IntoIterator<Item = Op>) -> BlockId {
        self.blocks.push(Block { name: name.into(), ops: ops.into_iter().collect() });
        BlockId::from(self.blocks.len() - 1)
    }

    /// Adds a binding.
    pub fn binding(&mut self, slots: impl IntoIterator<Item = u32>, costs: Option<CostTableId>) -> BindingId {
        self.bindings.push(Binding { slots: slots.into_iter().collect(), costs });
        BindingId::from(self.bindings.len() - 1)
    }

    /// Adds a cost table.
    pub fn cost_table(&mut self, activities: Vec<Activity>, sizes: Vec<u64>) -> CostTableId {
        self.costs.push(CostTable { activities, sizes });
        CostTableId::from(self.costs.len() - 1)
    }

    /// Adds the targets of a branch.
    pub fn branch(&mut self, targets: impl IntoIterator<Item = u32>) -> BranchId {
        self.branches.push(targets.into_iter().collect());
        BranchId::from(self.branches.len() - 1)
    }

    /// Adds a cap table.
    pub fn cap_table(&mut self, rows: impl IntoIterator<Item = CapRow>) -> CapTableId {
        self.caps.push(CapTable { rows: rows.into_iter().collect() });
        CapTableId::from(self.caps.len() - 1)
    }

    /// Adds a counter.
    pub fn counter(&mut self) -> CounterId {
        self.counters += 1;
        CounterId(self.counters - 1)
    }

    /// Adds `count` cells and gives the first.
    pub fn cells(&mut self, count: u32) -> CellId {
        self.cells += count;
        CellId(self.cells - count)
    }

    /// Adds a group.
    pub fn group(&mut self, members: u32, route: Option<RouteId>) -> GroupId {
        self.groups.push(Group { members, route });
        GroupId::from(self.groups.len() - 1)
    }

    /// Adds a queue.
    pub fn queue(&mut self, name: impl Into<String>) -> QueueId {
        self.queues.push(name.into());
        QueueId::from(self.queues.len() - 1)
    }

    /// The kind of that name, added if new.
    pub fn kind(&mut self, name: &str) -> KindId {
        KindId::from(intern(&mut self.kinds, name))
    }

    /// The cause of that name, added if new.
    pub fn cause(&mut self, name: &str) -> CauseId {
        CauseId::from(intern(&mut self.causes, name))
    }
}

/// Position of `name` in `names`, added if new.
fn intern(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|n| n == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}
