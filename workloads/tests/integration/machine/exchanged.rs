//! What data-parallel ranks exchange beside passes: how much, when it is exposed, what it holds.

use hw_models::host::OpClass;
use hw_models::settings::Count;
use sim_core::program::{Body, Op};
use sim_core::record::{Recorder, Selection, Span};
use sim_core::time::Time;
use sim_core::{Options, simulate_observed};
use workloads::account::Communication;
use workloads::model::transformer::{
    Fp8, Gather, GatherLimit, GatherUnit, Group, Layout, Scaling, ShardedTransformer, States, Work,
};
use workloads::passes::recompute::Mode;
use workloads::plan::Built;

use super::*;
use crate::plans::{automatic, interleaved};

const MIB: u64 = 1 << 20;

/// Every way to exchange that differs.
pub(super) fn overlaps() -> Vec<(Sharding, Overlap)> {
    let gather = Some(Gather::default());
    let (at_end, buckets) =
        (Overlap::default(), Overlap { bucket: Some(100 * MIB), align: true, gather: None });
    let gathered = |bucket, gather| Overlap { bucket, align: true, gather };
    vec![
        (Sharding::None, buckets),
        (Sharding::Optimizer, at_end),
        (Sharding::Optimizer, buckets),
        (Sharding::Optimizer, gathered(None, gather)),
        (Sharding::Optimizer, gathered(Some(100 * MIB), gather)),
        (Sharding::Gradients, at_end),
        (Sharding::Gradients, gathered(Some(1 << 30), gather)),
        (Sharding::Parameters, gathered(None, gather)),
        (
            Sharding::Parameters,
            gathered(Some(MIB), gather.map(|gather| Gather { unit: GatherUnit::Module, ..gather })),
        ),
        (
            Sharding::Parameters,
            gathered(
                Some(100 * MIB),
                Some(Gather {
                    forward_prefetch: Count::literal(0),
                    backward_prefetch: Count::literal(2),
                    ..Gather::default()
                }),
            ),
        ),
    ]
}

/// A GPT on each of eight ranks, with 16 bytes a parameter.
pub(super) fn eight(sharding: Sharding, overlap: Overlap, micro_batches: u32) -> TransformerPlan {
    let mut plan = plan(gpt(4), [1, 1, 8], micro_batches);
    plan.execution.states = States::HalfGradients;
    (plan.sharding, plan.overlap) = (sharding, overlap);
    plan
}

pub(super) fn fsdp(forward_prefetch: u64, backward_prefetch: u64, reshard_after_forward: bool) -> Overlap {
    let [forward_prefetch, backward_prefetch] = [forward_prefetch, backward_prefetch].map(Count::literal);
    let gather = Gather { forward_prefetch, backward_prefetch, reshard_after_forward, ..Gather::default() };
    Overlap { gather: Some(gather), align: true, ..Overlap::default() }
}

/// Parameters of the model, and those that are not in layers.
pub(super) fn parameters(plan: &TransformerPlan) -> (u64, u64) {
    let model = ShardedTransformer::new(&plan.model, &plan.execution).unwrap();
    (model.parameters(plan.model.layers, true, true).total(), model.parameters(0, true, true).total())
}

/// Elements of the embedding of words, which the head shares.
pub(super) fn words(plan: &TransformerPlan) -> u64 {
    u64::from(plan.model.vocabulary) * u64::from(plan.model.hidden)
}

/// Bytes that the first rank sends to the others of its data group in a step.
pub(super) fn sent(built: &Built) -> u64 {
    sent_among(built, Group::Data)
}

/// The same of a kind of group.
fn sent_among(built: &Built, group: Group) -> u64 {
    let (lowered, accounts) = (&built.lowered, built.accounts.as_ref().unwrap());
    let mut bytes = 0;
    let first = lowered.streams.iter().enumerate().filter(|(_, role)| (role.stage, role.replica) == (0, 0));
    for (stream, role) in first {
        let Body::Role(calls) = lowered.program.streams[stream].body else { continue };
        for call in &lowered.program.roles[calls.index()].calls {
            for op in &lowered.program.blocks[call.block.index()].ops {
                let Op::Join { activity, .. } = op else { continue };
                let task = lowered.tasks[role.lane as usize][activity.base as usize];
                let communication = accounts.of(task.kind).communication;
                if matches!(communication, Some(Communication::Collective(among, _)) if among == group) {
                    bytes += u64::from(call.repeat) * task.bytes;
                }
            }
        }
    }
    bytes
}

/// Rajbhandari et al. 2020, section 7: 2 Psi elements a step for stages 0 to 2, 3 Psi for stage 3,
/// of which a rank of a ring sends (N - 1) / N. The root of FSDP is gathered once; by module words
/// are gathered for both of their ends. With several micro-batches, gradients that are shared are
/// summed for each, and parameters that are shared gathered twice for each.
#[test]
fn bytes_are_those_of_the_zero_paper() {
    let world = World::dgx_a100(1).roomy();
    for micro_batches in [1, 3] {
        for (sharding, overlap) in overlaps() {
            let plan = eight(sharding, overlap, micro_batches);
            let (all, root) = parameters(&plan);
            let m = u64::from(micro_batches);
            let elements = match sharding {
                Sharding::None | Sharding::Optimizer => 2 * all,
                Sharding::Gradients => (m + 1) * all,
                Sharding::Parameters if overlap.gather.is_some_and(|it| it.unit == GatherUnit::Module) => {
                    m * (3 * all + 2 * words(&plan))
                }
                Sharding::Parameters => m * (3 * all - root),
            };
            let expected = 2.0 * elements as f64 * 7.0 / 8.0;
            let ours = sent(&world.build(&plan).unwrap()) as f64;
            assert!((ours / expected - 1.0).abs() < 1e-6, "{sharding:?} {overlap:?}: {ours}, {expected}");
        }
    }
}

/// Figure 1 of the same paper, with K = 12: 16 Psi; 4 Psi + 12 Psi / N; 2 Psi + 14 Psi / N; 16 Psi / N.
#[test]
fn states_are_those_of_the_zero_paper() {
    for (sharding, whole) in
        [(Sharding::None, 16), (Sharding::Optimizer, 4), (Sharding::Gradients, 2), (Sharding::Parameters, 0)]
    {
        let gather = (sharding == Sharding::Parameters).then(Gather::default);
        let plan = eight(sharding, Overlap { align: true, gather, ..Overlap::default() }, 1);
        let (all, _) = parameters(&plan);
        let ran = World::dgx_a100(1).roomy().completed(&plan);
        let ours = ran.at_peak(0, &[kind::PARAMETERS, kind::GRADIENTS, kind::OPTIMIZER]) as f64;
        let expected = all as f64 * (f64::from(whole) + f64::from(16 - whole) / 8.0);
        assert!((ours / expected - 1.0).abs() < 1e-6, "{sharding:?}: {ours}, {expected}");
    }
}

/// A run with everything recorded that the first rank does and holds.
pub(super) struct Recorded {
    pub(super) ran: Ran,
    recorder: Recorder,
}

impl Recorded {
    pub(super) fn of(world: &World, plan: &TransformerPlan) -> Self {
        let lowered = world.build(plan).unwrap_or_else(|error| panic!("{error}")).lowered;
        let first = lowered.streams.iter().enumerate();
        let first = first.filter(|(_, role)| (role.stage, role.replica) == (0, 0));
        let mut recorder = Recorder::new(Selection {
            streams: first.map(|(stream, _)| StreamId::from(stream)).collect(),
            stores: vec![lowered.stages[0].memory],
            fluids: Vec::new(),
            from: Time::ZERO,
            to: Time::NEVER,
        });
        let options = Options::default();
        let run =
            simulate_observed(&lowered.platform, &lowered.program, &lowered.start, &options, &mut recorder)
                .unwrap();
        assert_eq!(run.end, End::Completed);
        Self { ran: Ran { lowered, run }, recorder }
    }

    /// Most bytes of a kind at any moment.
    pub(super) fn most(&self, name: &str) -> u64 {
        let kinds = &self.ran.lowered.program.kinds;
        let of_kind = self.recorder.stores.iter().filter(|(_, _, kind, _)| kinds[kind.index()] == name);
        of_kind.map(|(.., bytes)| *bytes).max().unwrap_or(0)
    }

    /// What a lane does that takes time, without waits.
    fn spans(&self, lane: LaneKind) -> impl Iterator<Item = &Span> {
        let stream = self.ran.lane(0, 0, lane);
        let works = |op| matches!(op, Op::Run { .. } | Op::Join { .. });
        self.recorder.spans.iter().filter(move |span| span.place.stream == stream && works(span.op))
    }
}

/// A pass holds the block it is in and as many as are gathered ahead, and the root; of gradients, those that are summed and
/// those of the next block.
#[test]
fn fsdp_holds_as_many_layers_as_it_gathers_ahead_and_one() {
    for (forward, backward) in [(0, 0), (1, 1), (2, 2), (0, 2), (2, 0)] {
        let plan = eight(Sharding::Parameters, fsdp(forward, backward, true), 2);
        let (all, root) = parameters(&plan);
        let layer = (all - root) / 4;
        let recorded = Recorded::of(&World::dgx_a100(1).roomy(), &plan);
        let most = forward.max(backward) + 1;
        assert_eq!(recorded.most(kind::GATHERED), 2 * (root + most * layer), "{forward}, {backward}");
        let gradients = recorded.most(kind::UNREDUCED);
        assert!((2 * layer..=2 * (root + 2 * layer)).contains(&gradients), "{gradients}");
    }
}

/// Without resharding a micro-batch holds everything at the end of its forward pass, and gathers once.
#[test]
fn parameters_that_stay_are_gathered_once() {
    let world = World::dgx_a100(1).roomy();
    let plan = eight(Sharding::Parameters, fsdp(1, 1, false), 1);
    let (all, _) = parameters(&plan);
    assert_eq!(Recorded::of(&world, &plan).most(kind::GATHERED), 2 * all);
    assert_eq!(sent(&world.build(&plan).unwrap()), 2 * 2 * all * 7 / 8);
}

/// One bucket has all gradients: nothing runs beside its sum, and the step is as long as with the sum at its end.
#[test]
fn a_bucket_of_all_gradients_hides_nothing() {
    let world = World::dgx_a100(1).roomy();
    let at_end = world.completed(&eight(Sharding::None, Overlap::default(), 2));
    let bucket = Overlap { bucket: Some(u64::MAX), align: true, gather: None };
    let beside = world.completed(&eight(Sharding::None, bucket, 2));
    assert_eq!(beside.run.time, at_end.run.time);
}

/// Over a slow network sums follow each other without a gap: the last backward pass is over long before. What is exposed is
/// what they take together, less the time from the first bucket to the end of the pass.
#[test]
fn sums_longer_than_the_backward_pass_are_exposed_exactly() {
    let mut plan = plan(gpt(4), [1, 1, 16], 1);
    plan.execution.sequence = 256;
    plan.overlap.bucket = Some(400 * MIB);
    let recorded = Recorded::of(&World::dgx_a100(2).roomy(), &plan);
    let sums: Vec<&Span> = recorded.spans(LaneKind::Reduce).collect();
    assert!(sums.len() >= 4);
    assert!(sums.windows(2).all(|pair| pair[0].end == pair[1].start), "one after the other");
    let update = recorded.spans(LaneKind::Compute).find(|span| span.start >= sums[sums.len() - 1].end);
    let backward = recorded.spans(LaneKind::Compute).filter(|span| span.end <= update.unwrap().start);
    let backward = backward.map(|span| span.end).max().unwrap();
    let together = sum(sums.iter().map(|span| span.end - span.start));
    let exposed = recorded.ran.spent(0, 0, cause::COMMUNICATION) + recorded.ran.spent(0, 0, cause::SKEW);
    assert_eq!(exposed, together - (backward - sums[0].start));
    assert_eq!(update.unwrap().start, sums[0].start + together);
}

/// Over NVLink they are shorter than what remains of the backward pass: only the last one is exposed, as nothing is left to
/// compute beside it.
#[test]
fn sums_shorter_than_the_backward_pass_are_hidden_but_for_the_last() {
    let mut plan = eight(Sharding::None, Overlap { bucket: Some(100 * MIB), align: true, gather: None }, 1);
    plan.execution.micro_batch = 4;
    let recorded = Recorded::of(&World::dgx_a100(1).roomy(), &plan);
    let last = recorded.spans(LaneKind::Reduce).last().unwrap();
    assert_eq!(recorded.ran.spent(0, 0, cause::COMMUNICATION), last.end - last.start);
    let at_end =
        World::dgx_a100(1).roomy().completed(&TransformerPlan { overlap: Overlap::default(), ..plan });
    assert!(recorded.ran.run.time < at_end.run.time);
}

/// What is gathered ahead is there in time, once micro-batches take longer than parameters do to arrive.
#[test]
fn gathers_ahead_hide_what_gathers_in_time_expose() {
    let world = World::dgx_a100(1).roomy();
    let exposed = |overlap| {
        let mut plan = eight(Sharding::Parameters, overlap, 2);
        plan.execution.micro_batch = 4;
        world.completed(&plan).spent(0, 0, cause::COMMUNICATION)
    };
    let [in_time, ahead] = [fsdp(0, 0, true), fsdp(1, 1, true)].map(exposed);
    assert!(ahead.as_secs() < 0.3 * in_time.as_secs(), "{} s, {} s", ahead.as_secs(), in_time.as_secs());
}

/// Stages with several chunks gather those of the next while one computes; without that each chunk
/// waits for its own. Those of the first two chunks follow each other from the beginning of the step.
#[test]
fn chunks_are_gathered_ahead_where_stages_align() {
    let world = World::dgx_a100(4).roomy();
    let ran = |align| {
        let mut plan = plan(gpt(16), [1, 4, 8], 8);
        (plan.sharding, plan.execution.states) = (Sharding::Optimizer, States::HalfGradients);
        plan.overlap = Overlap { gather: Some(Gather { align, ..Gather::default() }), ..Overlap::default() };
        plan.deployment.placement = Placement::Sequential;
        schedule(&mut plan, interleaved(4));
        Recorded::of(&world, &plan)
    };
    let [aligned, apart] = [true, false].map(ran);
    assert!(aligned.ran.run.time < apart.ran.run.time);
    let gathers = |recorded: &Recorded| {
        recorded.spans(LaneKind::Gather).map(|span| (span.start, span.end)).collect::<Vec<_>>()
    };
    let [aligned, apart] = [&aligned, &apart].map(gathers);
    assert_eq!(aligned.len(), apart.len());
    // Embedding and layer, then the layer of the second chunk.
    assert!(aligned[..3].windows(2).all(|pair| pair[0].1 == pair[1].0), "one after the other");
    assert!(apart[1].1 < apart[2].0, "the second chunk waits for its first pass");
}

/// One chunk of a stage is gathered as it is needed, and one stage sums as buckets are filled: nothing
/// is there to align.
#[test]
fn aligning_changes_nothing_where_there_is_nothing_to_align() {
    let world = World::dgx_a100(4).roomy();
    let time = |stages, [reduce, gather]: [bool; 2]| {
        let mut plan = plan(gpt(16), [1, stages, 32 / stages], 8);
        (plan.sharding, plan.execution.states) = (Sharding::Optimizer, States::HalfGradients);
        let gather = Some(Gather { align: gather, ..Gather::default() });
        plan.overlap = Overlap { bucket: Some(100 * MIB), align: reduce, gather };
        world.completed(&plan).run.time
    };
    assert_eq!(time(1, [false, false]), time(1, [true, true]));
    assert_eq!(time(4, [true, false]), time(4, [true, true]));
    assert_ne!(time(4, [false, true]), time(4, [true, true]), "later stages sum at the end");
}

/// Parameters of FSDP2 are copied out of what was gathered: read and written in half precision, those of layers twice.
#[test]
fn parameters_that_are_shared_one_by_one_are_copied() {
    let world = World::dgx_a100(1).roomy().forgetful();
    let moved = |per_parameter| {
        let gather = Some(Gather { per_parameter, ..Gather::default() });
        let plan = eight(Sharding::Parameters, Overlap { align: true, gather, ..Overlap::default() }, 3);
        let ran = world.completed(&plan);
        let hbm = ran.lowered.platform.fluids.iter().position(|fluid| fluid.name == "node[0].gpu[0].hbm");
        (ran.run.fluids[hbm.expect("memory of the first GPU")].served, parameters(&plan))
    };
    let ((flat, (all, root)), (each, _)) = (moved(false), moved(true));
    assert_eq!(each - flat, u128::from(3 * 2 * 2 * (2 * all - root)));
}

/// Weights of all layers that are multiplied in 8 bits.
pub(super) fn narrow_weights(plan: &TransformerPlan) -> u64 {
    let block = ShardedTransformer::new(&plan.model, &plan.execution).unwrap().layer();
    let products = block.backward.iter().filter_map(|op| match op.work {
        Work::Gemm(gemm) if (gemm.layout, gemm.dtype) == (Layout::WeightGradient, Dtype::Fp8) => {
            Some(gemm.m * gemm.n)
        }
        _ => None,
    });
    u64::from(plan.model.layers) * products.sum::<u64>()
}

/// Weights of linear layers take one byte of two in each gather: of the 3 Psi elements (see above) 2 are gathered.
#[test]
fn weights_in_8_bits_are_gathered_so() {
    let cluster = Cluster::new("dgx-h100", 1);
    let world = World::of(cluster).roomy();
    let sent = |gathers| {
        let mut plan = eight(Sharding::Parameters, fsdp(1, 1, true), 2);
        plan.execution.dtype = Dtype::Bf16;
        plan.execution.fp8 = Some(Fp8 { scaling: Scaling::Tensorwise, gathers });
        (sent(&world.build(&plan).unwrap()), narrow_weights(&plan))
    };
    let ((whole, weights), (narrow, _)) = (sent(false), sent(true));
    let saved = 2.0 * 2.0 * weights as f64 * 7.0 / 8.0;
    // Ranks also agree on the largest of all weights, four bytes.
    assert!(((whole - narrow) as f64 / saved - 1.0).abs() < 1e-6, "{whole} {narrow} {saved}");
}

/// Of a host that all else waits for, each gather and each sum takes what an operator of communication costs it, but for one
/// that is issued while the last kernel of a pass runs.
#[test]
fn hosts_issue_what_ranks_exchange() {
    let mut world = World::dgx_a100(1).roomy();
    world.host.launch.us = 20_000.0;
    let limited = |limit| {
        let gather = Some(Gather { limit, ..Gather::default() });
        Overlap { align: true, gather, ..Overlap::default() }
    };
    for (sharding, overlap) in [
        (Sharding::None, Overlap { bucket: Some(100 * MIB), align: true, gather: None }),
        (Sharding::Parameters, limited(GatherLimit::Device)),
        (Sharding::Parameters, limited(GatherLimit::Host)),
    ] {
        let mut plan = eight(sharding, overlap, 2);
        plan.deployment.launch = Launch::Eager;
        let mut ran = |us| {
            world.host.dispatch[&OpClass::Communication].us = us;
            Recorded::of(&world, &plan)
        };
        // The interpreter takes 6 us of it in any case.
        let (before, after) = (ran(6.0), ran(1_006.0));
        let lanes = [LaneKind::Gather, LaneKind::Reduce].into_iter();
        let has = |lane: &LaneKind| before.ran.lowered.streams.iter().any(|role| role.kind == *lane);
        let count: usize = lanes.filter(has).map(|lane| before.spans(lane).count()).sum();
        let more = (after.ran.seconds() - before.ran.seconds()) * 1e3;
        assert!(count >= 5 && (more - count as f64).abs() < 2.5, "{count}: {more} ms");
    }
}

#[test]
fn every_schedule_ends() {
    let schedules = [
        PipelineSchedule::OneFOneB,
        PipelineSchedule::Gpipe,
        interleaved(2),
        PipelineSchedule::ZbH1,
        PipelineSchedule::ZbH2,
        PipelineSchedule::ZbV,
        automatic(4),
    ];
    for plan in every_way(&schedules) {
        World::dgx_a100(2).roomy().completed(&plan);
    }
}

/// A small model in each of the schedules, whatever two copies share and however they exchange it, with and without
/// recomputation.
pub(super) fn every_way(schedules: &[PipelineSchedule]) -> Vec<TransformerPlan> {
    let mut plans = Vec::new();
    for &which in schedules {
        for (sharding, overlap) in overlaps() {
            for recompute in [Mode::None, Mode::Full] {
                let mut plan = plan(gpt(8), [2, 4, 2], 8);
                (plan.sharding, plan.overlap) = (sharding, overlap);
                plan.deployment.pipelining.techniques.recompute = every_layer(recompute);
                schedule(&mut plan, which);
                plans.push(plan);
            }
        }
    }
    plans
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |plan: &TransformerPlan| match World::dgx_a100(1).build(plan) {
        Err(PlanError::Invalid(found)) => found.iter().map(|invalid| invalid.path).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(&eight(Sharding::Parameters, Overlap::default(), 2)),
        ["parallelism.overlap_parameter_gather"]
    );
    let both = Overlap { bucket: Some(0), ..fsdp(1, 1, true) };
    assert_eq!(
        refused(&eight(Sharding::None, both, 2)),
        ["parallelism.overlap_gradient_reduce.bucket", "parallelism.overlap_parameter_gather"]
    );
    let mut stays = eight(Sharding::Parameters, fsdp(1, 1, false), 2);
    stays.deployment.pipelining.schedule = PipelineSchedule::Gpipe;
    assert_eq!(refused(&stays), ["parallelism.overlap_parameter_gather.reshard_after_forward"]);
}

/// Two groups of four of eight ranks share everything: a rank has a quarter of all states; within its group it sends three
/// quarters of three times all parameters but those of the root, which is gathered once; of its quarter of the gradients it
/// sends half twice, to the rank of the other group that has the same. Nothing else changes with groups of all.
#[test]
fn groups_share_and_sum_what_they_share() {
    let world = World::dgx_a100(1).roomy();
    let plan = |sharing| TransformerPlan { sharing, ..eight(Sharding::Parameters, fsdp(1, 1, true), 1) };
    let (all, root) = parameters(&plan(None));
    let states = |sharing| {
        let ran = world.completed(&plan(sharing));
        ran.at_peak(0, &[kind::PARAMETERS, kind::GRADIENTS, kind::OPTIMIZER])
    };
    assert_eq!(states(Some(4)), 16 * all.div_ceil(4));
    let within = |built: &Built, group| sent_among(built, group) as f64;
    let built = world.build(&plan(Some(4))).unwrap();
    let expected = 2.0 * (3 * all - root) as f64 * 3.0 / 4.0;
    // What follows a scatter is accounted with it.
    let over = 2.0 * 2.0 * (all / 4) as f64 / 2.0;
    let ours = within(&built, Group::Shard);
    assert!((ours / (expected + over) - 1.0).abs() < 1e-6, "{ours} {expected} {over}");
    let [whole, none] = [Some(8), None].map(|sharing| world.build(&plan(sharing)).unwrap());
    assert!(whole.lowered.program == none.lowered.program);
}

/// Over two nodes, groups of a node gather over NVLink alone, and only a rank's part of the gradients leaves it.
#[test]
fn groups_of_a_node_keep_gathers_inside() {
    let world = World::dgx_a100(2).roomy();
    let between = |sharing| {
        let mut plan = plan(gpt(4), [1, 1, 16], 1);
        plan.execution.states = States::HalfGradients;
        (plan.sharding, plan.overlap, plan.sharing) = (Sharding::Parameters, fsdp(1, 1, true), sharing);
        let (all, _) = parameters(&plan);
        let ran = world.completed(&plan);
        let carried = ran.lowered.platform.fluids.iter().zip(&ran.run.fluids);
        let of_nic =
            carried.filter(|(fluid, _)| fluid.name.starts_with("node[0].nic") && fluid.name.contains("->"));
        (of_nic.map(|(_, used)| used.served).sum::<u128>(), u128::from(all))
    };
    let ((hybrid, all), (whole, _)) = (between(Some(8)), between(None));
    // Of two nodes each sends half of a sum, and the sum of the other half, and gets as much: 2 Psi elements of half precision, where
    // rings over all ranks send and get 6 Psi less what is gathered once, of which each node has one end.
    assert!((hybrid as f64 / (4 * all) as f64 - 1.0).abs() < 0.01, "{hybrid} {all}");
    assert!(whole as f64 > 2.5 * hybrid as f64, "{hybrid} {whole}");
}

#[test]
fn groups_that_do_not_divide_are_refused() {
    let refused = |plan: &TransformerPlan| match World::dgx_a100(1).build(plan) {
        Err(PlanError::Invalid(found)) => found.iter().map(|invalid| invalid.path).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let plan = |sharding, overlap, sharing| TransformerPlan { sharing, ..eight(sharding, overlap, 1) };
    assert_eq!(
        refused(&plan(Sharding::Parameters, fsdp(1, 1, true), Some(3))),
        ["parallelism.sharding_group"]
    );
    assert_eq!(refused(&plan(Sharding::None, Overlap::default(), Some(4))), ["parallelism.sharding_group"]);
}
