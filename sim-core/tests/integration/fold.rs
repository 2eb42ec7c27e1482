//! Folding: what stands for what, and what must not be shared.

use sim_core::fixed::{Rate, Ratio};
use sim_core::fold::{Folded, fold};
use sim_core::id::{
    BindingId, CauseId, CellId, CostTableId, CounterId, FluidId, RoleId, RouteId, StoreId, StreamId,
};
use sim_core::noise::Noise;
use sim_core::platform::{Bucket, Demand, Platform};
use sim_core::program::{
    Activity, Affine, Body, Call, CellRef, Op, Program, ReclaimTable, Rule, Shortage, Slot, StartState,
};
use sim_core::time::Time;

const BUSY: CauseId = CauseId(0);

/// A platform and a program under construction.
#[derive(Default)]
struct Machine {
    platform: Platform,
    program: Program,
    start: StartState,
}

impl Machine {
    fn new() -> Self {
        let mut machine = Self::default();
        machine.program.cause("busy");
        machine.program.kind("bytes");
        machine
    }

    fn fluid(&mut self) -> FluidId {
        self.platform.fluid("link", 1e9, BUSY)
    }

    /// The route over some fluids.
    fn route(&mut self, fluids: &[FluidId]) -> RouteId {
        self.platform.route(fluids.iter().map(|&fluid| Demand::on(fluid)))
    }

    fn role(&mut self, ops: impl IntoIterator<Item = Op>) -> RoleId {
        let block = self.program.block("step", ops);
        self.program.role([Call::counting(block, 1, 3)])
    }

    /// Costs of one activity: `work` bytes over the route in slot 0.
    fn moving(&mut self, work: u64) -> CostTableId {
        self.program.cost_table(vec![Activity::moving(work, 0, BUSY)], vec![])
    }

    fn rank(&mut self, role: RoleId, costs: CostTableId, slots: &[u32]) -> BindingId {
        let binding = self.program.binding(slots.iter().copied(), Some(costs));
        self.program.stream("rank", binding, Body::Role(role));
        binding
    }

    fn fold(&self) -> Folded {
        fold(&self.platform, &self.program, &self.start)
    }

    /// Which stream stands for each stream.
    fn classes(&self) -> Vec<u32> {
        self.fold().streams.into_iter().map(|stream| stream.0).collect()
    }

    #[track_caller]
    fn assert_unfolded(&self) {
        let folded = self.fold();
        assert_eq!((&folded.program, &folded.platform), (&self.program, &self.platform));
        assert_eq!(folded.streams, (0..self.program.streams.len()).map(StreamId::from).collect::<Vec<_>>());
    }
}

fn run() -> Op {
    Op::Run { activity: Affine::constant(0) }
}

fn add(counter: Slot) -> Op {
    Op::Add { counter, amount: 1, after: None }
}

fn wait(counter: Slot) -> Op {
    Op::Wait { counter, at_least: Affine::offset(0, 0), cause: BUSY }
}

fn join(group: Slot) -> Op {
    Op::Join { group, activity: Affine::constant(0), cause: BUSY }
}

fn cell(slot: Slot) -> CellRef {
    CellRef { slot, index: Affine::offset(0, 0) }
}

/// Four replicas of two stages: each stage moves bytes over its own link and holds some in its own memory, the first
/// tells the second.
fn replicated_pipeline(work_of_stage_1: impl Fn(usize) -> u64) -> Machine {
    let mut m = Machine::new();
    let kind = m.program.kind("bytes");
    let size = Affine::constant(0);
    let acquire =
        Op::Acquire { store: 1, bytes: size, kind, shortage: Shortage::Fail, priority: 0, cause: BUSY };
    let release = Op::Release { store: 1, bytes: size, kind };
    let first = m.role([acquire, run(), add(2), release]);
    let second = m.role([wait(2), acquire, run(), release]);
    for replica in 0..4 {
        let message = m.program.counter();
        for (stage, role) in [first, second].into_iter().enumerate() {
            let link = m.fluid();
            let route = m.route(&[link]);
            let memory = m.platform.store("memory", 100);
            let work = if stage == 0 { 10 } else { work_of_stage_1(replica) };
            let costs = m.program.cost_table(vec![Activity::moving(work, 0, BUSY)], vec![40]);
            m.rank(role, costs, &[route.0, memory.0, message.0]);
        }
    }
    m
}

#[test]
fn replicas_of_a_pipeline_fold_to_one() {
    let machine = replicated_pipeline(|_| 20);
    let folded = machine.fold();
    assert_eq!(machine.classes(), [0, 1, 0, 1, 0, 1, 0, 1]);
    assert_eq!(folded.program.streams.len(), 2);
    assert_eq!(folded.program.bindings[1].slots, [1, 1, 0]);
    assert_eq!(folded.program.counters, 1);
    assert_eq!((folded.platform.fluids.len(), folded.platform.stores.len()), (2, 2));
    assert_eq!(folded.stores, [0, 1, 0, 1, 0, 1, 0, 1].map(StoreId));
    assert_eq!(folded.fluids, [0, 1, 0, 1, 0, 1, 0, 1].map(FluidId));
    assert!(folded.platform.routes.iter().all(|route| route.demands[0].multiplicity == 1));
}

#[test]
fn a_straggler_and_whom_it_meets_stand_for_themselves() {
    let machine = replicated_pipeline(|replica| if replica == 2 { 21 } else { 20 });
    assert_eq!(machine.classes(), [0, 1, 0, 1, 2, 3, 0, 1]);
}

#[test]
fn a_start_that_differs_is_a_difference() {
    let mut machine = replicated_pipeline(|_| 20);
    let kind = machine.program.kind("bytes");
    machine.start.stores = vec![(StoreId(2), kind, 5), (StoreId(6), kind, 5)];
    machine.start.counters = vec![(CounterId(1), 1), (CounterId(3), 1)];
    let folded = machine.fold();
    assert_eq!(machine.classes(), [0, 1, 2, 3, 0, 1, 2, 3]);
    assert_eq!(folded.start.stores, [(StoreId(2), kind, 5)]);
    assert_eq!(folded.start.counters, [(CounterId(1), 1)]);
}

#[test]
fn folding_twice_changes_nothing() {
    let once = replicated_pipeline(|_| 20).fold();
    let twice = fold(&once.platform, &once.program, &once.start);
    assert_eq!((twice.program, twice.platform), (once.program, once.platform));
}

/// Nodes of two ranks that share what `share` makes, in slot 1, which `ops` use.
fn nodes(ops: &[Op], share: impl Fn(&mut Machine) -> u32) -> Machine {
    let mut m = Machine::new();
    let role = m.role([&[run()], ops].concat());
    let costs = m.program.cost_table(vec![Activity::moving(10, 0, BUSY)], vec![40]);
    for _ in 0..3 {
        let shared = share(&mut m);
        for _ in 0..2 {
            let link = m.fluid();
            let route = m.route(&[link]);
            m.rank(role, costs, &[route.0, shared]);
        }
    }
    m
}

#[test]
fn ranks_that_share_what_serves_in_order_fold_only_with_those_of_other_nodes() {
    let kind = sim_core::id::KindId(0);
    let size = Affine::constant(0);
    let acquire =
        Op::Acquire { store: 1, bytes: size, kind, shortage: Shortage::Wait, priority: 0, cause: BUSY };
    let release = Op::Release { store: 1, bytes: size, kind };
    let store = nodes(&[acquire, release], |m| m.platform.store("host", 50).0);
    assert_eq!(store.classes(), [0, 1, 0, 1, 0, 1]);
    assert_eq!(store.fold().platform.stores.len(), 1);

    let hold = Op::Hold { pool: 1, units: 1, priority: 0, cause: BUSY };
    let pool = nodes(&[hold, Op::Drop { pool: 1, units: 1 }], |m| m.platform.pool("cores", 1).0);
    assert_eq!(pool.classes(), [0, 1, 0, 1, 0, 1]);

    let cells = nodes(&[Op::Set { cell: cell(1), state: 1 }], |m| m.program.cells(4).0);
    assert_eq!(cells.classes(), [0, 1, 0, 1, 0, 1]);
    assert_eq!(cells.fold().program.cells, 4);
}

#[test]
fn a_counter_counts_each_rank_of_a_class() {
    let flight = Activity::lasting(Time::from_us(1), BUSY);
    for tell in [add(1), Op::Add { counter: 1, amount: 1, after: Some(Affine::constant(1)) }] {
        let mut counter = nodes(&[tell], |m| m.program.counter().0);
        counter.program.costs[0].activities.push(flight);
        assert_eq!(counter.classes(), [0, 1, 0, 1, 0, 1]);
    }
}

#[test]
fn teams_in_another_order_do_not_fold() {
    let mut m = Machine::new();
    let hold =
        [Op::Hold { pool: 1, units: 1, priority: 0, cause: BUSY }, run(), Op::Drop { pool: 1, units: 1 }];
    let (compute, copy) = (m.role(hold), m.role(hold));
    let costs = m.moving(10);
    for order in [[compute, copy], [copy, compute], [compute, copy]] {
        let pool = m.platform.pool("engine", 1);
        for role in order {
            let link = m.fluid();
            let route = m.route(&[link]);
            m.rank(role, costs, &[route.0, pool.0]);
        }
    }
    assert_eq!(m.classes(), [0, 1, 2, 3, 0, 1]);
}

#[test]
fn a_shared_uplink_carries_all_members_of_a_class() {
    let mut m = Machine::new();
    let uplink = m.fluid();
    let role = m.role([run()]);
    let costs = m.moving(10);
    for _ in 0..8 {
        let nic = m.fluid();
        let route = m.platform.route([Demand::on(nic).coefficient(2.0), Demand::on(uplink)]);
        m.rank(role, costs, &[route.0]);
    }
    let folded = m.fold();
    assert_eq!(m.classes(), [0; 8]);
    // Fluids keep the order of their ids: the uplink is 0.
    let demands = &folded.platform.routes[0].demands;
    assert_eq!(demands.iter().map(|d| (d.fluid.0, d.multiplicity)).collect::<Vec<_>>(), [(1, 1), (0, 8)]);
    assert_eq!(demands[0].coefficient, Ratio::new(2.0));
}

#[test]
fn classes_on_a_shared_fluid_keep_their_own_multiplicity() {
    let mut m = Machine::new();
    let uplink = m.fluid();
    let route = m.route(&[uplink]);
    let role = m.role([run()]);
    let (small, large) = (m.moving(10), m.moving(20));
    for rank in 0..6 {
        m.rank(role, if rank % 3 == 0 { large } else { small }, &[route.0]);
    }
    let folded = m.fold();
    assert_eq!(m.classes(), [0, 1, 1, 0, 1, 1]);
    let of = |binding: usize| {
        let route = folded.program.bindings[binding].slots[0] as usize;
        folded.platform.routes[route].demands[0].multiplicity
    };
    assert_eq!((of(0), of(1)), (2, 4));
}

#[test]
fn a_bucket_and_ports_serve_one_rank_of_a_class() {
    let mut bucket = nodes(&[], |_| 0);
    let bursts = Bucket::full(Rate::per_second(2e9), 10);
    let cache = bucket.fluid();
    bucket.platform.fluids[cache.index()].bucket = Some(bursts);
    let mut ports = nodes(&[], |_| 0);
    let uplink = ports.fluid();
    for rank in 0..6 {
        bucket.platform.routes[rank].demands.push(Demand::on(cache));
        let port = ports.platform.port();
        ports.platform.routes[rank].demands.push(Demand::on(uplink).port(port));
    }
    bucket.assert_unfolded();
    ports.assert_unfolded();
}

/// Eight ranks that work, tell the next and wait for the one before.
fn ring(tell: Op) -> Machine {
    let mut m = Machine::new();
    let role = m.role([run(), tell, wait(2)]);
    let flight = Activity::lasting(Time::from_us(1), BUSY);
    let costs = m.program.cost_table(vec![Activity::moving(10, 0, BUSY), flight], vec![]);
    let counters: Vec<CounterId> = (0..8).map(|_| m.program.counter()).collect();
    for rank in 0..8 {
        let link = m.fluid();
        let route = m.route(&[link]);
        m.rank(role, costs, &[route.0, counters[(rank + 1) % 8].0, counters[rank].0]);
    }
    m
}

#[test]
fn a_ring_of_messages_folds_to_a_rank_that_talks_to_itself() {
    let m = ring(Op::Add { counter: 1, amount: 1, after: Some(Affine::constant(1)) });
    assert_eq!(m.classes(), [0; 8]);
    assert_eq!(m.fold().program.bindings[0].slots, [0, 0, 0]);
}

/// In the instant in which all act, the first rank comes before the one it waits for; all others come after it.
#[test]
fn a_ring_without_latency_is_not_symmetric() {
    ring(add(1)).assert_unfolded();
    ring(Op::Add { counter: 1, amount: 1, after: Some(Affine::constant(0)) }).assert_unfolded();
}

#[test]
fn a_ring_all_reduce_over_eight_ranks_waits_for_one() {
    let mut m = Machine::new();
    let links: Vec<FluidId> = (0..8).map(|_| m.fluid()).collect();
    let route = m.route(&links);
    let group = m.program.group(8, Some(route));
    let role = m.role([run(), join(1)]);
    let costs = m.moving(10);
    for &link in &links {
        let own = m.route(&[link]);
        m.rank(role, costs, &[own.0, group.0]);
    }
    let folded = m.fold();
    assert_eq!(m.classes(), [0; 8]);
    assert_eq!(folded.program.groups[0].members, 1);
    let ring = folded.program.groups[0].route.expect("a group keeps its route");
    let demands = &folded.platform.routes[ring.index()].demands;
    assert_eq!(demands.as_slice(), [Demand::on(FluidId(0))]);
}

#[test]
fn equal_groups_on_one_fluid_stand_behind_one() {
    let mut m = Machine::new();
    let uplink = m.fluid();
    let role = m.role([join(0)]);
    let costs =
        m.program.cost_table(vec![Activity { work: 10, ..Activity::lasting(Time::ZERO, BUSY) }], vec![]);
    m.program.costs[costs.index()].activities[0].cap = Rate::per_second(1e9);
    for _ in 0..3 {
        let route = m.route(&[uplink]);
        let group = m.program.group(4, Some(route));
        for _ in 0..4 {
            m.rank(role, costs, &[group.0]);
        }
    }
    let folded = m.fold();
    assert_eq!(m.classes(), [0; 12]);
    assert_eq!((folded.program.groups.len(), folded.program.groups[0].members), (1, 1));
    assert_eq!(folded.platform.routes[0].demands[0].multiplicity, 3);
}

#[test]
fn a_group_that_expects_others_than_its_streams_keeps_its_ranks() {
    let mut m = Machine::new();
    let group = m.program.group(3, None);
    let role = m.role([join(1), run()]);
    let costs = m.moving(10);
    for _ in 0..4 {
        let link = m.fluid();
        let route = m.route(&[link]);
        m.rank(role, costs, &[route.0, group.0]);
    }
    m.assert_unfolded();
}

#[test]
fn a_route_that_meets_a_class_in_two_ways_is_not_folded() {
    let mut m = Machine::new();
    let links: Vec<FluidId> = (0..6).map(|_| m.fluid()).collect();
    let role = m.role([run()]);
    let costs = m.moving(10);
    for rank in 0..6 {
        let next = Demand::on(links[(rank + 1) % 6]).coefficient(2.0);
        let route = m.platform.route([Demand::on(links[rank]), next]);
        m.rank(role, costs, &[route.0]);
    }
    m.assert_unfolded();
}

/// Which of two fluids that limit a transfer alike is blamed for it depends on their ids.
#[test]
fn routes_over_classes_in_another_order_do_not_fold() {
    let links = |orders: [[u32; 2]; 3]| {
        let mut m = Machine::new();
        m.program.cause("other");
        let role = m.role([run()]);
        let costs = m.moving(10);
        for order in orders {
            let fluids = order.map(|cause| m.platform.fluid("link", 1e9, CauseId(cause)));
            let route = m.route(&[fluids[order[0] as usize], fluids[order[1] as usize]]);
            m.rank(role, costs, &[route.0]);
        }
        m.classes()
    };
    assert_eq!(links([[0, 1], [0, 1], [0, 1]]), [0, 0, 0]);
    assert_eq!(links([[0, 1], [1, 0], [0, 1]]), [0, 1, 0]);
}

#[test]
fn workers_and_cells_move_with_their_rank() {
    let mut m = Machine::new();
    let stored = m.program.block("store", [run()]);
    let ticket = Some(cell(2));
    let args = [Affine::constant(0); 2];
    let post = Op::Post { queue: 1, block: stored, args, ticket, priority: 0 };
    let role = m.role([post, Op::Await { cell: cell(2), state: 3, cause: BUSY }]);
    let costs = m.moving(10);
    for rank in 0..4 {
        let link = m.fluid();
        let route = m.route(&[link]);
        let queue = m.program.queue(format!("stores[{rank}]"));
        let first = m.program.cells(4);
        m.start.cells.push((CellId(first.0 + 3), 1));
        m.rank(role, costs, &[route.0, queue.0, first.0]);
        let idle = m.program.binding([], None);
        m.program.stream("worker", idle, Body::Serve(queue));
    }
    let folded = m.fold();
    assert_eq!(m.classes(), [0, 1, 0, 1, 0, 1, 0, 1]);
    assert_eq!(folded.program.queues, ["stores[0]"]);
    assert_eq!(folded.program.cells, 4);
    assert_eq!(folded.start.cells, [(CellId(3), 1)]);

    // A rank that reaches into the cells of the next one is no longer like the others.
    m.program.roles[role.index()].calls[0].repeat = 4;
    m.assert_unfolded();
}

#[test]
fn noise_reclaim_and_halt_stay_unfolded() {
    let folds = replicated_pipeline(|_| 20);
    for noise in [Noise { operation: 0.1, ..Noise::default() }, Noise { device: 0.1, ..Noise::default() }] {
        let mut noisy = replicated_pipeline(|_| 20);
        noisy.program.noise = noise;
        noisy.assert_unfolded();
    }
    let mut reclaims = replicated_pipeline(|_| 20);
    let queue = reclaims.program.queue("evictions");
    let rule = Rule::Largest;
    reclaims.program.reclaim =
        vec![ReclaimTable { store: StoreId(0), rule, queue, clock: None, candidates: vec![] }];
    reclaims.assert_unfolded();

    let mut halts = replicated_pipeline(|_| 20);
    let halt = halts.role([Op::Halt { stream: 0, call: 0 }]);
    let binding = halts.program.binding([0], None);
    halts.program.stream("failure", binding, Body::Role(halt));
    halts.assert_unfolded();
    assert_eq!(folds.fold().program.streams.len(), 2);
}

#[test]
fn a_program_that_is_not_valid_comes_back_as_it_is() {
    for slot in 0..3 {
        let mut broken = replicated_pipeline(|_| 20);
        broken.program.bindings[3].slots[slot] = 1_000_000;
        broken.assert_unfolded();
    }
    Machine::new().assert_unfolded();
}

#[test]
fn posting_without_end_is_bounded() {
    let mut m = Machine::new();
    let grow = Affine { base: 1, stride: 2, arg: 0 };
    let block = sim_core::id::BlockId::from(m.program.blocks.len());
    let post = Op::Post { queue: 1, block, args: [grow; 2], ticket: Some(cell(2)), priority: 0 };
    assert_eq!(m.program.block("again", [post]), block);
    let role = m.role([post]);
    let costs = m.moving(10);
    let link = m.fluid();
    for _ in 0..2 {
        let route = m.route(&[link]);
        let queue = m.program.queue("again");
        let first = m.program.cells(1_000);
        m.rank(role, costs, &[route.0, queue.0, first.0]);
    }
    m.assert_unfolded();
}
