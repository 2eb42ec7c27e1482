//! Ways of batches from where features are: bytes of each memory, and what their lanes do.

use hw_models::reads::{PageReaders, Sockets};
use hw_models::settings::Count;
use workloads::feed::{
    Access, Around, Batch, BatchHop, Features, FeedPlan, Home, IdType, Kept, Sampling, SamplingPlace,
};
use workloads::graph::operator::{Afar, CollectiveKind, RowWork, Work};

/// A batch of 1,000 rows of 512 bytes out of a million, a tenth of which a cache on the GPU has.
fn batch() -> Batch {
    Batch {
        hops: vec![
            BatchHop { destinations: 100, sources: 1_000, edges: 1_000, ..LISTS },
            BatchHop { destinations: 1_000, sources: 1_000, edges: 9_000, ..LISTS },
        ],
        rows: 1_000,
        table_rows: 1_000_000,
        graph_edges: 10_000_000,
        row_bytes: 512,
        element_bytes: 4,
        on_gpu: Kept { rows: 10_000, hits: 0.1 },
        on_host: Kept { rows: 0, hits: 0.0 },
    }
}

/// Lists of up to 5,000 edges, of which 10 are drawn.
const LISTS: BatchHop =
    BatchHop { destinations: 0, sources: 0, edges: 0, fan_out: 10, rounds: 3_000, longest: 5_000 };

const TABLE: u64 = 512_000_000;

fn plan(home: Home, access: Access, sharing: u32, ranks: u32, batch: &Batch) -> FeedPlan {
    sampled_plan(SamplingPlace::Host, home, access, [sharing, ranks], batch)
}

fn sampled_plan(
    place: SamplingPlace,
    home: Home,
    access: Access,
    [sharing, ranks]: [u32; 2],
    batch: &Batch,
) -> FeedPlan {
    let features = Features { home, access, ..Features::default() };
    FeedPlan::of(&features, &sampling(place), batch, around(sharing, ranks))
}

fn sampling(place: SamplingPlace) -> Sampling {
    Sampling {
        batch: Count::literal(100),
        fan_out: vec![Count::literal(10), Count::literal(10)],
        place,
        workers: Count::literal(0),
        ids: IdType::Int64,
    }
}

fn around(sharing: u32, ranks: u32) -> Around {
    Around { multiprocessors: 100, sharing, ranks, memory: 16 << 30, arrays_of_driver: false }
}

/// Work of all tasks behind the drawing of neighbours and the copy of these.
fn tasks(plan: &FeedPlan) -> Vec<Work> {
    let all = plan.lanes[1..].iter().flat_map(|lane| &lane.tasks);
    all.filter(|(name, _)| *name != "copy drawn edges").map(|&(_, work)| work).collect()
}

/// Both ends of each edge and the numbers of the rows, once.
#[test]
fn what_the_host_draws_is_copied_to_the_gpu() {
    let batch = Batch { on_gpu: Kept::default(), ..batch() };
    for home in [Home::Gpu, Home::HostPinned, Home::Striped] {
        let plan = plan(home, Access::HostGather, 4, 4, &batch);
        let copies = plan.lanes.iter().flat_map(|lane| &lane.tasks);
        let copies: Vec<Work> =
            copies.filter(|(name, _)| *name == "copy drawn edges").map(|&(_, work)| work).collect();
        let [Work::Transfer(copy)] = copies[..] else { panic!("{copies:?}") };
        assert_eq!(copy.bytes, (2 * batch.edges() + batch.rows) * 8);
    }
}

/// A hop of 100 nodes with 1,000 edges: two pointers and a count each; three numbers an edge; 1,100
/// items in a table of 4,096 entries of 24 bytes, with two atomics each; both ends of each edge
/// found again.
#[test]
fn a_gpu_draws_hop_by_hop_and_numbers_nodes_through_tables() {
    let plan = sampled_plan(SamplingPlace::Gpu, Home::Gpu, Access::HostGather, [1, 1], &batch());
    assert_eq!(plan.on_gpu, TABLE + 10_000 * 512 + (10_000_000 + 1_000_000) * 8);
    let tasks = &plan.lanes[0].tasks;
    assert_eq!(tasks.len(), 2 * 12);
    let of = |name: &str| tasks.iter().find(|(own, _)| *own == name).expect("a kernel").1;
    let walk = |name| match of(name) {
        Work::Traversal(walk) => walk,
        other => panic!("{other:?}"),
    };
    assert_eq!(walk("count edges to draw").gathered, 100 * 2 * 8);
    let draw = walk("draw neighbours");
    assert_eq!((draw.gathered, draw.written), (1_000 * 8, 3 * 1_000 * 8));
    assert_eq!((draw.edges, draw.longest), (3_000 * 32, 4_990));
    let Work::Stream(clear) = of("clear table of nodes") else { panic!("a pass") };
    assert_eq!(clear.bytes_written, 4_096 * 24);
    assert_eq!(walk("insert nodes").atomics, 1_100 * 16);
    assert_eq!(walk("number new nodes").written, 1_000 * 8);
    let ends = walk("renumber sources").gathered + walk("renumber destinations").gathered;
    assert_eq!(ends, 2 * 1_000 * 24);
}

/// A hop draws at most 10 edges of each of 100 nodes, 1,000 in all: three arrays of 1,000 numbers as
/// they are drawn, three of the edges, and two of 1,100 nodes.
#[test]
fn arrays_of_the_driver_are_taken_once_a_hop() {
    let sampling = sampling(SamplingPlace::Gpu);
    let around = Around { arrays_of_driver: true, ..around(1, 1) };
    let features = Features { home: Home::Gpu, ..Features::default() };
    let tasks = &FeedPlan::of(&features, &sampling, &batch(), around).lanes[0].tasks;
    let taken = tasks.iter().filter_map(|(_, work)| match work {
        Work::Rows(RowWork::Allocate(segments)) => Some((segments.count, segments.bytes)),
        _ => None,
    });
    let bytes = |most: u64, edges: u64, nodes: u64| (3 * most + 3 * edges + 2 * nodes) * 8;
    let by_hand = [(8, bytes(1_000, 1_000, 1_100)), (8, bytes(10_000, 9_000, 10_000))];
    assert_eq!(taken.collect::<Vec<_>>(), by_hand);
}

/// 900 rows come in a buffer and are read and written once more; without a cache the copy ends
/// where they belong.
#[test]
fn copied_rows_are_placed_beside_those_of_a_cache() {
    let placed = |batch: &Batch| {
        let plan = plan(Home::HostPinned, Access::HostGather, 1, 1, batch);
        let tasks = plan.lanes.iter().flat_map(|lane| &lane.tasks);
        let placed = tasks.filter(|(name, _)| *name == "place copied rows");
        (placed.map(|&(_, work)| work).collect::<Vec<_>>(), plan.on_gpu)
    };
    let (tasks, held) = placed(&batch());
    let [Work::Traversal(walk)] = tasks[..] else { panic!("{tasks:?}") };
    assert_eq!((walk.gathered, walk.written), (900 * 512, 900 * 512));
    assert_eq!(held, (10_000 + 900) * 512);
    assert_eq!(placed(&Batch { on_gpu: Kept::default(), ..batch() }), (Vec::new(), 0));
}

#[test]
fn a_stripe_over_one_gpu_is_all_on_the_gpu() {
    let uncached = Batch { on_gpu: Kept::default(), ..batch() };
    let gathered = Access::HostGather;
    let on_gpu = plan(Home::Gpu, gathered, 1, 1, &uncached);
    assert_eq!(plan(Home::Striped, gathered, 1, 4, &uncached), on_gpu);
    assert_eq!((on_gpu.on_gpu, on_gpu.table, on_gpu.on_host), (TABLE, 0, 0));
}

#[test]
fn gpus_keep_their_part_and_read_that_of_the_others() {
    let striped = plan(Home::Striped, Access::HostGather, 4, 8, &batch());
    assert_eq!(striped.on_gpu, TABLE / 4 + 10_000 * 512);
    // Of 900 rows a quarter is its own.
    let Work::Rows(RowWork::Read { rows, from: Afar::Peers { own }, .. }) = tasks(&striped)[0] else {
        panic!("it reads peers: {striped:?}")
    };
    assert_eq!((rows.rows, own), (675, 225 * 512));
    let sharded = plan(Home::Sharded, Access::HostGather, 4, 8, &batch());
    assert_eq!(sharded.on_gpu, TABLE / 8 + 10_000 * 512 + 2 * 900 * 512);
    let exchanged = tasks(&sharded).into_iter().filter_map(|work| match work {
        Work::Collective(collective) => Some((collective.kind, collective.bytes)),
        _ => None,
    });
    let to_all = CollectiveKind::AllToAll;
    assert_eq!(exchanged.collect::<Vec<_>>(), [(to_all, 900 * 8), (to_all, 900 * 512)]);
}

#[test]
fn drives_are_read_for_rows_that_no_memory_has() {
    let kept = Batch { on_host: Kept { rows: 200_000, hits: 0.4 }, ..batch() };
    let by_gpu = plan(Home::Drives, Access::GpuDirect, 4, 4, &kept);
    // 500 rows on as many pages of 125,000, then 400 rows of the host.
    let [Work::Rows(RowWork::Pages { pages, payload }), Work::Rows(RowWork::Read { rows, .. }), _] =
        tasks(&by_gpu)[..]
    else {
        panic!("pages, then rows of the host, then of the cache: {by_gpu:?}")
    };
    assert_eq!((pages.pages, pages.page, pages.by), (499, 4_096, PageReaders::Gpu(u32::MAX)));
    assert_eq!((payload, rows.rows), (500 * 512, 400));
    assert_eq!((by_gpu.table, by_gpu.sockets, by_gpu.on_host), (TABLE, None, 200_000 * 512 / 4));
    let by_host = plan(Home::Drives, Access::HostGather, 4, 4, &kept);
    let [Work::Rows(RowWork::Pages { pages, .. }), Work::Rows(RowWork::Copy { rows, on, .. }), _, _, _] =
        tasks(&by_host)[..]
    else {
        panic!("pages, rows to a buffer, the copy, their places, rows of the cache: {by_host:?}")
    };
    assert_eq!((pages.pages, pages.by, rows, on), (499, PageReaders::Host(8), 900, Sockets::Each));
    assert_eq!(by_host.on_host, 200_000 * 512 / 4 + 900 * 512);
}
