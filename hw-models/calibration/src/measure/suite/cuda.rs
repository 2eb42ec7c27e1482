//! What is measured of a GPU: what a training step spends most time on comes first.

use super::products::{grouped, library, products};
use super::{GIB, KIB, MIB, Others, Probe, Suite, probe};
use crate::measure::{
    Access, Allocated, Allocation, Beside, Data, Direction, Graph, HostSide, Launch, MemoryPass, Pattern,
    Phase, Spin, Step, Storage, Sustained, Task, Transfer, Work, ZeroCopy,
};
use hw_models::kernels::{Dtype, Gemm, Layout};

/// What a suite depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaFacts {
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Second-level cache (bytes).
    pub cache: u64,
    /// Memory that is free (bytes).
    pub memory: u64,
    /// Compute capability, `90` for 9.0.
    pub capability: u32,
    /// Generation and lanes of its PCIe link to the host, if they are known.
    pub link: Option<(u32, u32)>,
    /// The other GPUs of its machine; none for one that is alone.
    pub others: Option<Others>,
}

impl CudaFacts {
    /// The type that its tensor cores multiply in training: bf16 from Ampere on.
    pub(super) const fn half(&self) -> Dtype {
        if self.capability >= 80 { Dtype::Bf16 } else { Dtype::Fp16 }
    }

    /// What its link to the host carries in one direction (MB/s): transfers of 2.5, 5, 8, 16 and 32 GT/s on each lane in the
    /// codes 8b/10b and 128b/130b (PCI Express Base Specification 5.0, section 4.2), 64 GT/s in flits of 242 of 256 bytes (6.0).
    fn link_mb_s(&self) -> Option<u64> {
        let (generation, lanes) = self.link?;
        let lane = match generation {
            1 => 250.0,
            2 => 500.0,
            3 => 8_000.0 / 8.0 * 128.0 / 130.0,
            4 => 16_000.0 / 8.0 * 128.0 / 130.0,
            5 => 32_000.0 / 8.0 * 128.0 / 130.0,
            _ => 64_000.0 / 8.0 * 242.0 / 256.0,
        };
        Some((lane * f64::from(lanes)).round() as u64)
    }
}

/// What is measured of a GPU; `quick`: what scenarios ask for most.
pub fn cuda_suite(facts: &CudaFacts, quick: bool) -> Suite {
    let mut probes = vec![
        probe("launch", "what launching a kernel takes on the host", launches()),
        probe("gap", "what passes between kernels of a stream, and of a graph", gaps(quick)),
        probe("graph", "what graphs of kernels take on the host", graphs(quick)),
        probe("product", "rates of matrix products", products(facts, quick)),
        probe("stream", "rates of passes over memory", streams(quick)),
        probe("copy", "rates of copies between host and GPU", copies(quick)),
    ];
    if !quick {
        probes.extend([
            probe("library", "products of other types, and batches", library(facts)),
            probe("grouped", "products of groups in one call", grouped(facts)),
            probe("cache", "rate and size of the second-level cache", cache(facts)),
            probe("both-ways", "copies that meet others", both_ways()),
            probe("zero-copy", "rows that kernels read and write in the host's memory", zero_copies(facts)),
            probe("interference", "what work that goes on at once costs the other", interference(facts)),
            probe("storage", "blocks of a file that go to the GPU past the host", storage()),
            probe("allocation", "what allocating takes", allocations()),
        ]);
    }
    // Memory takes longer to allocate once other GPUs see it.
    probes.extend(facts.others.into_iter().flat_map(|others| others.probes(quick)));
    if !quick {
        probes.push(probe("sustained", "what the board holds when it is warm", sustained(facts)));
    }
    let product = square(facts, 4_096);
    let copy = MemoryPass { pattern: Pattern::Copy, dtype: facts.half(), bytes: 256 * MIB, again: false };
    let suite = Suite { probes, sentinels: vec![Task::Product(product), Task::Pass(copy)] };
    fitting(suite, facts)
}

/// Without what needs more memory than there is.
pub(super) fn fitting(mut suite: Suite, facts: &CudaFacts) -> Suite {
    for probe in &mut suite.probes {
        probe.tasks.retain(|task| task.bytes() <= facts.memory / 4 * 3);
    }
    suite.probes.retain(|probe: &Probe| !probe.tasks.is_empty());
    suite
}

pub(super) fn square(facts: &CudaFacts, side: u64) -> Gemm {
    let (batch, dtype, layout) = (1, facts.half(), Layout::Forward);
    Gemm { batch, m: side, n: side, k: side, dtype, layout, accumulate: None }
}

fn launches() -> Vec<Task> {
    let launch = |arguments, waited| Task::Launch(Launch { arguments, waited });
    [false, true]
        .into_iter()
        .flat_map(|waited| [1, 4, 16].map(|arguments| launch(arguments, waited)))
        .collect()
}

fn gaps(quick: bool) -> Vec<Task> {
    let clocks: &[u32] =
        if quick { &[1_500, 4_000, 7_500] } else { &[1_000, 1_500, 2_000, 4_000, 7_500, 10_000] };
    let spins = |graph| clocks.iter().map(move |&clocks| Task::Spin(Spin { clocks, graph }));
    spins(false).chain(spins(true)).collect()
}

fn graphs(quick: bool) -> Vec<Task> {
    let nodes: &[u32] = if quick { &[1, 100, 1_000] } else { &[1, 10, 30, 100, 300, 1_000] };
    let steps = |step| nodes.iter().map(move |&nodes| Task::Graph(Graph { nodes, step }));
    steps(Step::Launch).chain(steps(Step::Instantiate)).collect()
}

/// Sizes from `least` to `most`, each so many times the one before.
pub(super) fn sizes(least: u64, most: u64, factor: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(least), move |size| size.checked_mul(factor))
        .take_while(move |&size| size <= most)
}

fn streams(quick: bool) -> Vec<Task> {
    let pass = |pattern, dtype, bytes| Task::Pass(MemoryPass { pattern, dtype, bytes, again: false });
    if quick {
        return sizes(MIB, GIB, 4).map(|bytes| pass(Pattern::Copy, Dtype::Bf16, bytes)).collect();
    }
    let copies = sizes(64 * KIB, 4 * GIB, 2).map(|bytes| pass(Pattern::Copy, Dtype::Bf16, bytes));
    let others = [Pattern::Scale, Pattern::Add, Pattern::Triad]
        .into_iter()
        .flat_map(|pattern| sizes(64 * KIB, 4 * GIB, 4).map(move |bytes| pass(pattern, Dtype::Bf16, bytes)));
    let single = [Pattern::Copy, Pattern::Scale, Pattern::Add, Pattern::Triad]
        .into_iter()
        .flat_map(|pattern| sizes(MIB, GIB, 16).map(move |bytes| pass(pattern, Dtype::Fp32, bytes)));
    copies.chain(others).chain(single).collect()
}

/// Two arrays that take from a sixteenth of the cache to four times its size together, closest where it begins to lose them.
fn cache(facts: &CudaFacts) -> Vec<Task> {
    let sixteenths = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20, 22, 24, 28, 32, 40, 48, 64];
    let array = |of: u64| (facts.cache / 32 * of) / KIB * KIB;
    let pass = |bytes| MemoryPass { pattern: Pattern::Copy, dtype: Dtype::Bf16, bytes, again: true };
    sixteenths
        .map(array)
        .into_iter()
        .filter(|&bytes| bytes > 0)
        .map(|bytes| Task::Pass(pass(bytes)))
        .collect()
}

const WAYS: [Direction; 2] = [Direction::ToDevice, Direction::ToHost];

fn copies(quick: bool) -> Vec<Task> {
    let copy = |direction, host, waited, bytes| {
        Task::Transfer(Transfer { direction, host, waited, against: 0, bytes })
    };
    let each = |direction| {
        let factor = if quick { 16 } else { 2 };
        let issued =
            sizes(KIB, GIB, factor).map(move |bytes| copy(direction, HostSide::Pinned, false, bytes));
        let waited =
            sizes(KIB, 16 * MIB, 2 * factor).map(move |bytes| copy(direction, HostSide::Pinned, true, bytes));
        let pageable = sizes(64 * KIB, 512 * MIB, 2 * factor)
            .map(move |bytes| copy(direction, HostSide::Pageable, true, bytes));
        issued.chain(waited).chain(pageable)
    };
    WAYS.into_iter().flat_map(each).collect()
}

fn both_ways() -> Vec<Task> {
    let copy = |direction, against, bytes| {
        Task::Transfer(Transfer { direction, host: HostSide::Pinned, waited: false, against, bytes })
    };
    let by = |direction, streams| [32, 64, 128].map(|mib| copy(direction, streams, mib * MIB));
    WAYS.into_iter().flat_map(|direction| (1..=4).flat_map(move |streams| by(direction, streams))).collect()
}

fn zero_copies(facts: &CudaFacts) -> Vec<Task> {
    let Some(link) = facts.link_mb_s() else { return Vec::new() };
    let rows = [32, 64, 96, 128, 256, 512, 1_024, 4_096];
    let of =
        |access, row, aligned, mib| Task::ZeroCopy(ZeroCopy { access, row, aligned, bytes: mib * MIB, link });
    let each = |access| {
        let aligned = rows.into_iter().map(move |row| of(access, row, true, 256));
        let unaligned = rows.into_iter().map(move |row| of(access, row, false, 256));
        let tables =
            [4, 512].into_iter().flat_map(move |mib| [128, 1_024].map(|row| of(access, row, true, mib)));
        aligned.chain(unaligned).chain(tables)
    };
    [Access::Read, Access::Write].into_iter().flat_map(each).collect()
}

/// Products that just fill waves of the SMs, and such that no more do beside a few blocks that hold an SM.
fn interference(facts: &CudaFacts) -> Vec<Task> {
    let product = Work::Product(square(facts, 4_096));
    let pass = Work::Pass(256 * MIB);
    let ways = [Work::ToDevice(64 * MIB), Work::ToHost(64 * MIB)];
    let holders = [8, 16, 24, 32].map(|blocks: u32| Work::Hold(blocks.min(facts.sms / 2).max(1)));
    let edge = |tiles: u64| Work::Product(Gemm { m: 128 * tiles.max(1), n: 128, ..square(facts, 4_096) });
    let sms = u64::from(facts.sms);
    let edges = [sms, sms.saturating_sub(24), 2 * sms].map(edge);
    let beside = |timed, meanwhile| Task::Beside(Beside { timed, meanwhile });
    let mut tasks = Vec::new();
    for timed in [product, pass] {
        let others = ways.into_iter().chain(holders).chain([Work::Nothing, product, pass]);
        tasks.extend(others.map(|other| beside(timed, other)));
    }
    for timed in edges {
        tasks.extend([Work::Nothing, holders[2]].map(|other| beside(timed, other)));
    }
    for timed in ways {
        tasks.extend([Work::Nothing, product, pass].map(|other| beside(timed, other)));
    }
    tasks
}

fn storage() -> Vec<Task> {
    let of = |access| sizes(64 * KIB, 16 * MIB, 4).map(move |block| Task::Storage(Storage { access, block }));
    [Access::Read, Access::Write].into_iter().flat_map(of).collect()
}

fn allocations() -> Vec<Task> {
    let of = |memory, bytes| Task::Allocation(Allocation { memory, bytes });
    let device = sizes(MIB, 4 * GIB, 4).map(|bytes| of(Allocated::Device, bytes));
    let pooled = sizes(MIB, GIB, 16).map(|bytes| of(Allocated::Pool, bytes));
    let pinned = sizes(64 * KIB, GIB, 4).map(|bytes| of(Allocated::Pinned, bytes));
    device.chain(pooled).chain(pinned).collect()
}

fn sustained(facts: &CudaFacts) -> Vec<Task> {
    let product = square(facts, 8_192);
    let of = |work, data, phase| Task::Sustained(Sustained { work, data, phase });
    let products = [Data::Random, Data::Zeros]
        .into_iter()
        .flat_map(|data| [Phase::Begun, Phase::Held].map(|phase| of(Work::Product(product), data, phase)));
    // A product that reads more of its memory comes to the limit of the board at another clock.
    let flat = Gemm { m: 128 * u64::from(facts.sms / 2).max(1), n: 256, ..product };
    let others = [Work::Product(flat), Work::Pass(256 * MIB), Work::Hold(facts.sms), Work::Nothing];
    products.chain(others.map(|work| of(work, Data::Random, Phase::Held))).collect()
}
