//! Changes of lanes: timelines by hand, what stays where there is nothing to do, and that none of
//! those that take time away makes a step longer.

use hw_models::catalogue::{Catalogue, CopyRates, OneWay};
use hw_models::kernels::{Dtype, GpuFacts, KERNELS, KernelCatalogue, KernelModel, StreamClass};
use proptest::prelude::*;
use sim_core::time::Time;
use workloads::lanes::{
    ActivityKind, ActivityRef, DeviceItem, DeviceStream, HostItem, HostTime, Lanes, Thread,
};
use workloads::trace::changes::{Change, GpuSwap, GraphCosts, LinkSwap, Merged};
use workloads::trace::{Traced, kineto};

use super::recorded::{DISTRIBUTED, DLRM, RESNET};
use super::{replayed, us};

const COSTS: GraphCosts =
    GraphCosts { launch: Time::from_us(2), node: Time::from_us(1), gap: Time::from_us(1) };

/// A program of one thread.
#[derive(Default)]
struct Program {
    traced: Traced,
    thread: Vec<HostItem>,
}

impl Program {
    /// Adds an activity that a stream executes: 10 us after its launch, 2 us of gap behind it.
    fn activity(&mut self, stream: u32, name: &str, kind: ActivityKind, duration: u64) -> ActivityRef {
        let streams = &mut self.traced.lanes.streams;
        while streams.len() <= stream as usize {
            streams.push(DeviceStream { id: (0, streams.len() as i64), items: Vec::new() });
        }
        let items = &mut streams[stream as usize].items;
        items.push(DeviceItem {
            name: self.traced.names.id(name),
            kind,
            duration: Time::from_us(duration),
            skew: Time::ZERO,
            latency: Time::from_us(10),
            gap: Time::from_us(2),
            occupied: None,
            after: Vec::new(),
        });
        ActivityRef { stream, number: items.len() as u32 - 1 }
    }

    fn launch(&mut self, name: &str, duration: u64) -> ActivityRef {
        let activity = self.activity(0, name, ActivityKind::Kernel, duration);
        self.thread.push(HostItem::Launch(activity));
        activity
    }

    /// Work of the interpreter, operators and calls (us).
    fn work(&mut self, [python, dispatch, calls]: [u64; 3]) {
        let [python, dispatch, calls] = [python, dispatch, calls].map(|time| time * 1_000_000);
        self.thread.push(HostItem::Work(HostTime { python, dispatch, calls, ..HostTime::default() }));
    }

    fn traced(&self) -> Traced {
        let mut traced = self.traced.clone();
        traced.lanes.threads = vec![Thread { name: "1".to_owned(), items: self.thread.clone() }];
        traced
    }

    /// How long it takes after a change (us).
    fn changed(&self, change: Change) -> f64 {
        let mut traced = self.traced();
        change.apply(&mut traced);
        whole(&traced)
    }
}

/// Until all lanes have ended, whatever steps they mark (us).
fn whole(traced: &Traced) -> f64 {
    let lanes = replayed(traced).lanes;
    let ends = lanes.iter().map(|lane| lane.spent.iter().map(|(_, time)| time.0).sum::<u64>());
    us(Time(ends.max().unwrap_or(0)))
}

/// Numbers of what a change does, in order.
fn counts(change: Change, traced: &mut Traced) -> Vec<u64> {
    change.apply(traced).into_iter().map(|(_, count)| count).collect()
}

#[test]
fn a_graph_of_three_kernels_costs_one_launch() {
    let mut program = Program::default();
    program.work([100, 0, 0]);
    for behind in [[10, 20, 5], [0, 20, 5], [7, 0, 5]] {
        program.launch("k", 10);
        program.work(behind);
    }
    program.thread.push(HostItem::Block(ActivityRef { stream: 0, number: 2 }));
    program.work([3, 0, 0]);
    // The third launch is at 160, its kernel runs from 170 to 180, and 3 follow.
    assert_eq!(whole(&program.traced()), 183.0);
    // One launch at 100; kernels from 110 to 120, 121 to 131, 132 to 142; the host is at 112 then.
    assert_eq!(program.changed(Change::Graphs(COSTS)), 145.0);
    assert_eq!(counts(Change::Graphs(COSTS), &mut program.traced()), [1, 3, 0, 1, 0, 0]);
}

#[test]
fn a_copy_that_blocks_is_not_captured() {
    let mut program = Program::default();
    for _ in 0..2 {
        program.launch("k", 10);
        program.work([0, 20, 5]);
    }
    let copy = program.activity(0, "Memcpy DtoH (Device -> Pageable)", ActivityKind::Copy, 4);
    program.thread.extend([HostItem::Launch(copy), HostItem::Block(copy)]);
    program.work([0, 0, 5]);
    let mut traced = program.traced();
    assert_eq!(counts(Change::Graphs(COSTS), &mut traced), [1, 2, 1, 1, 0, 0]);
    let launches = traced.lanes.threads[0].items.iter().filter(|item| matches!(item, HostItem::Launch(_)));
    assert_eq!(launches.count(), 2);
}

#[test]
fn loaders_handoffs_and_steps_end_a_graph() {
    let mut program = Program::default();
    let loads = HostTime { loader: 1_000_000, ..HostTime::default() };
    for end in [HostItem::Work(loads), HostItem::Give(0), HostItem::Mark, HostItem::Mark] {
        for _ in 0..2 {
            program.launch("k", 10);
            program.work([0, 20, 5]);
        }
        program.thread.push(end);
    }
    program.traced.lanes.channels = 1;
    assert_eq!(counts(Change::Graphs(COSTS), &mut program.traced()), [4, 8, 0, 0, 1, 1]);
}

#[test]
fn a_graph_that_costs_more_than_its_launches_is_not_made() {
    let mut program = Program::default();
    for _ in 0..2 {
        program.launch("k", 10);
        program.work([0, 0, 1]);
    }
    let mut traced = program.traced();
    assert_eq!(counts(Change::Graphs(COSTS), &mut traced), [0, 0, 2, 0, 0, 0]);
    assert_eq!(traced.lanes, program.traced().lanes);
}

#[test]
fn a_chain_of_elementwise_kernels_becomes_one() {
    let mut program = Program::default();
    for duration in [10, 30, 20] {
        program.launch("void at::native::vectorized_elementwise_kernel<4, AddFunctor<float>>", duration);
        program.work([2, 10, 5]);
    }
    let product = program.launch("ampere_sgemm_128x64_nn", 40);
    program.work([0, 0, 5]);
    program.thread.push(HostItem::Block(product));
    // Eager: kernels from 10 to 20, 27 to 57 (launched at 17), 59 to 79, 81 to 121.
    assert_eq!(whole(&program.traced()), 123.0);
    // One kernel from 10 to 40; the product is launched at 21 and runs from 42 to 82.
    assert_eq!(program.changed(Change::Elementwise(Merged::Chained)), 84.0);
    // All bytes are moved: from 10 to 70, then from 72 to 112.
    assert_eq!(program.changed(Change::Elementwise(Merged::Batched)), 114.0);
    let mut traced = program.traced();
    assert_eq!(counts(Change::Elementwise(Merged::Chained), &mut traced), [1, 3]);
    let block = HostItem::Block(ActivityRef { stream: 0, number: 1 });
    assert_eq!(traced.lanes.threads[0].items.last(), Some(&block));
}

#[test]
fn chains_end_where_a_stream_or_the_host_waits() {
    let elementwise = "triton_poi_fused_add_0";
    let mut program = Program::default();
    let first = program.launch(elementwise, 10);
    program.launch(elementwise, 10);
    program.thread.push(HostItem::Block(ActivityRef { stream: 0, number: 1 }));
    program.launch(elementwise, 10);
    program.launch(elementwise, 10);
    // The second stream waits for the first kernel, which therefore stays.
    let other = program.activity(1, elementwise, ActivityKind::Kernel, 10);
    program.traced.lanes.streams[1].items[0].after.push(first);
    program.thread.push(HostItem::Launch(other));
    let mut traced = program.traced();
    assert_eq!(counts(Change::Elementwise(Merged::Chained), &mut traced), [1, 2]);
    assert_eq!(traced.lanes.streams[0].items.len(), 3);
}

fn model(name: &str) -> KernelModel {
    let catalogue = Catalogue::embedded(serde_yaml::Deserializer::from_str).expect("valid");
    let kernels: KernelCatalogue = serde_yaml::from_str(KERNELS).expect("valid");
    let gpu = &catalogue.gpus[name];
    KernelModel::new(GpuFacts::of(gpu, 1.0), kernels.parameters(name, &gpu.architecture).expect("known"))
}

#[test]
fn kernels_scale_by_what_bounds_them() {
    let [old, new] = ["a100-sxm4-40gb", "h100-sxm5-80gb"].map(model);
    let mut program = Program::default();
    let names = [
        "ampere_sgemm_128x128_tn",
        "cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>",
        "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn",
        "flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, bfloat16>>",
        "void at::native::unrolled_elementwise_kernel<direct_copy>",
        "cudnn::bn_fw_tr_1C11_kernel_NCHW<float>",
    ];
    names.into_iter().for_each(|name| _ = program.launch(name, 1_000));
    let copy = program.activity(0, "Memcpy HtoD (Pinned -> Device)", ActivityKind::Copy, 1_000);
    program.thread.push(HostItem::Launch(copy));
    let mut traced = program.traced();
    assert_eq!(counts(Change::Gpu(GpuSwap::between(&old, &new)), &mut traced), [3, 1, 1, 1]);
    let peak = |dtype| old.facts.peak_flops[&dtype] / new.facts.peak_flops[&dtype];
    let pass = |model: &KernelModel| {
        model.facts.hbm_bytes_per_s * model.parameters.stream[&StreamClass::Elementwise].achieved
    };
    let memory = pass(&old) / pass(&new);
    let found = traced.lanes.streams[0].items.iter().map(|item| us(item.duration));
    let product = |dtype| 5.4 + 994.6 * peak(dtype);
    let expected = [
        product(Dtype::Fp32),
        product(Dtype::Tf32),
        product(Dtype::Fp16),
        product(Dtype::Bf16),
        2.5 + 997.5 * memory,
        2.5 + 997.5 * memory,
        1_000.0,
    ];
    for (found, expected) in found.zip(expected) {
        assert!((found - expected).abs() < 1e-3, "{found} us, expected {expected} us");
    }
}

fn rates(alone: f64) -> CopyRates {
    let way = |alone| OneWay { alone, against: alone };
    CopyRates { to_device: way(alone), from_device: way(2.0 * alone) }
}

#[test]
fn pinned_copies_cross_another_link() {
    let mut program = Program::default();
    let copies = [
        ("Memcpy HtoD (Pinned -> Device)", 25.0),
        ("Memcpy DtoH (Device -> Pinned)", 25.0),
        ("Memcpy HtoD (Pageable -> Device)", 100.0),
        ("Memcpy DtoD (Device -> Device)", 100.0),
    ];
    for (name, _) in copies {
        program.activity(0, name, ActivityKind::Copy, 100);
    }
    let mut traced = program.traced();
    assert_eq!(counts(Change::Link(LinkSwap::between(rates(1.0), rates(4.0))), &mut traced), [2, 1]);
    for (item, (name, expected)) in traced.lanes.streams[0].items.iter().zip(copies) {
        assert_eq!(us(item.duration), expected, "{name}");
    }
}

fn recorded(trace: &[u8]) -> Traced {
    Traced::of(kineto::read(trace).expect("it is a trace"))
}

#[test]
fn what_changes_nothing_leaves_the_lanes() {
    let gpu = model("a100-sxm4-40gb");
    let never = GraphCosts { launch: Time::from_ms(1_000_000), ..COSTS };
    let changes = [
        Change::Graphs(never),
        Change::Gpu(GpuSwap::between(&gpu, &gpu)),
        Change::Link(LinkSwap::between(rates(3.0), rates(3.0))),
    ];
    let before = recorded(DISTRIBUTED);
    for change in changes {
        let mut after = before.clone();
        change.apply(&mut after);
        // Multiprocessors are those of the catalogue from then on: 108, as the trace says.
        assert!(after.lanes == before.lanes, "{change:?}");
    }
}

#[test]
fn better_hardware_and_software_are_never_slower() {
    let [a100, v100, h100] = ["a100-sxm4-40gb", "v100-sxm2-32gb", "h100-sxm5-80gb"].map(model);
    for (trace, gpu) in [(DLRM, &a100), (RESNET, &v100), (DISTRIBUTED, &a100)] {
        let before = recorded(trace);
        let mean = replayed(&before).mean_s();
        let changes = [
            Change::Graphs(COSTS),
            Change::Elementwise(Merged::Chained),
            Change::Elementwise(Merged::Batched),
            Change::Gpu(GpuSwap::between(gpu, &h100)),
            Change::Link(LinkSwap::between(rates(1.0), rates(4.0))),
        ];
        for change in changes {
            let mut after = before.clone();
            change.apply(&mut after);
            let after = replayed(&after).mean_s();
            assert!(after <= mean * 1.0001, "{change:?}: {after} s, it was {mean} s");
        }
    }
}

/// Random launches, waits and work of a thread with two streams.
fn random() -> impl Strategy<Value = Program> {
    let step = (0u32..10, 0u32..2, 0u64..40, [0u64..20, 0..20, 1..8]);
    prop::collection::vec(step, 1..60).prop_map(|steps| {
        let mut program = Program::default();
        for (kind, stream, duration, work) in steps {
            let count = |stream: u32| {
                program
                    .traced
                    .lanes
                    .streams
                    .get(stream as usize)
                    .map_or(0, |stream| stream.items.len() as u32)
            };
            let last = |stream| count(stream).checked_sub(1).map(|number| ActivityRef { stream, number });
            let (own, other) = (last(stream), last(1 - stream));
            match (kind, own) {
                (0, Some(activity)) => program.thread.push(HostItem::Block(activity)),
                (1, _) => program.thread.push(HostItem::Mark),
                (0..8, _) => {
                    let name = if kind < 6 { "elementwise_kernel" } else { "sgemm" };
                    let activity = program.activity(stream, name, ActivityKind::Kernel, duration);
                    if kind == 3 {
                        let item = &mut program.traced.lanes.streams[stream as usize].items;
                        item[activity.number as usize].after.extend(other);
                    }
                    program.thread.push(HostItem::Launch(activity));
                }
                _ => {}
            }
            program.work(work);
        }
        program
    })
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} on {:?}", self.thread, self.traced.lanes.streams)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Graphs and merged kernels make no random program longer, alone or one after the other, and
    /// merging by the longest is no longer than by the sum.
    #[test]
    fn graphs_and_merged_kernels_are_never_slower(program in random()) {
        let before = whole(&program.traced());
        let graphs = program.changed(Change::Graphs(COSTS));
        let chained = program.changed(Change::Elementwise(Merged::Chained));
        let batched = program.changed(Change::Elementwise(Merged::Batched));
        prop_assert!(graphs <= before && chained <= batched && batched <= before);
        let mut both = program.traced();
        Change::Elementwise(Merged::Chained).apply(&mut both);
        Change::Graphs(COSTS).apply(&mut both);
        prop_assert!(whole(&both) <= chained);
        // Kernels stay as many, and work of the device as much, but for what is merged.
        let work = |lanes: &Lanes| {
            lanes.streams.iter().flat_map(|it| &it.items).map(|it| it.duration.0).sum::<u64>()
        };
        let mut merged = program.traced();
        Change::Elementwise(Merged::Batched).apply(&mut merged);
        prop_assert_eq!(work(&merged.lanes), work(&program.traced().lanes));
    }
}
