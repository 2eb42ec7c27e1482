//! Hosts that issue the work: a device starts nothing before it is issued, and nobody issues twice.

use hw_models::host::OpClass;
use hw_models::machine::{Machine, Parts};
use sim_core::outcome::End;
use sim_core::time::Time;
use workloads::graph::operator::{Tensor, TensorId};
use workloads::hardware::{Hardware, kernel};
use workloads::model::reuse::{Reuse, reused};
use workloads::model::transformer::{
    DataParallel, Gather, Operator, Overlap, Phase, ShardedTransformer, Transformer, Work,
};
use workloads::names::cause;
use workloads::passes::offload::ActivationOffload;
use workloads::passes::realise::launches::LaunchWaits;
use workloads::passes::recompute::{Mode, recomputed};
use workloads::plan::{Launch, build_on};
use workloads::schedule::LaneKind;

use super::folded::assert_same;
use super::{Ran, SendMode, Sharding, World, every_layer, gpt, plan, schedule};
use crate::plans::schedules;

/// Operator by operator: each starts when it is issued and the one before has ended.
#[test]
fn a_visit_ends_as_if_each_operator_waited_for_its_own_launch() {
    let mut world = World::dgx_a100(1);
    let gpus = [("gpu".to_owned(), "a100-sxm4-80gb".into())].into();
    let parts = Parts { gpus, ..Parts::default() };
    let machine = Machine::from_parts(&world.catalogue, &parts).unwrap();
    // From hardly waiting for the host to wholly.
    for (launch_us, share) in [(0.0, 0.0..0.01), (20.0, 0.01..0.1), (100.0, 0.2..0.8), (500.0, 0.8..1.0)] {
        world.host.launch.us = launch_us;
        let hardware = world.hardware(&machine);
        let kernels = hardware.kernel_model(hardware.gpu().unwrap(), 1.0).unwrap();
        let gap = hardware.host.gap_in_stream.time();
        let (layers, micro_batches) = (3, 4);
        let mut plan = plan(Transformer::gpt(layers, 2_048, 16, 50_257, 1_024), [1, 1, 1], micro_batches);
        plan.deployment.pipelining.techniques.recompute = every_layer(Mode::Selective);
        plan.deployment.launch = Launch::Eager;
        let model = ShardedTransformer::new(&plan.model, &plan.execution).unwrap();
        let (embedding, layer, head) =
            (model.embedding(), recomputed(&model.layer(), Mode::Selective), model.head());
        let update =
            model.update(&model.parameters(layers, true, true), &DataParallel::new(1, Sharding::None));
        let pass = |operators: &[Operator], tensors: &[Tensor], before: Option<TensorId>, count: u32| {
            let list: Vec<(Operator, Vec<Reuse>)> =
                operators.iter().cloned().zip(reused(operators, tensors, before.as_slice())).collect();
            vec![list; count as usize].concat()
        };
        let blocks = [(&embedding, 1), (&layer, layers), (&head, 1)];
        let forward =
            blocks.map(|(block, count)| pass(&block.forward, &block.tensors, Some(block.input), count));
        let mut backward =
            blocks.map(|(block, count)| pass(&block.backward, &block.tensors, block.output_gradient, count));
        backward.reverse();
        let micro_batch = [forward.concat(), backward.concat()].concat();
        let step = [
            vec![micro_batch; micro_batches as usize].concat(),
            pass(&update.operators, &update.tensors, None, 1),
        ]
        .concat();
        let (mut issued, mut ended) = (Time::ZERO, Time::ZERO);
        for (op, reused) in &step {
            let class = match op.work {
                Work::Gemm(_) => OpClass::MatrixProduct,
                Work::Stream(_) if op.phase == Phase::Update => OpClass::Optimizer,
                Work::Stream(stream) if stream.class.normalises() => OpClass::Normalisation,
                _ => OpClass::Pointwise,
            };
            issued += eager(&hardware, class, op);
            let cost = kernel(&kernels, &op.work, reused).unwrap().expect("one rank has no peers");
            ended = issued.max(ended) + gap + cost.alone();
        }
        let ours = Ran::of(build_on(&plan, &hardware).unwrap().lowered);
        let rounding = step.len() as u64;
        assert!(ours.run.time.0.abs_diff(ended.0) <= rounding, "{launch_us}: {:?}, {ended:?}", ours.run.time);
        let waited = ours.spent(0, 0, cause::LAUNCH).0 as f64 / ended.0 as f64;
        assert!(share.contains(&waited), "{launch_us}: {waited}");
    }
}

/// Visits wait once where that makes no difference, and for no operator that is never late: with
/// every operator waiting for its own launch a step takes the same time to the picosecond, whatever
/// runs beside it, and whoever is late.
#[test]
fn a_visit_waits_once_only_where_nobody_can_tell() {
    let bucketed = Overlap { bucket: Some(4 << 20), align: true, gather: None };
    let gathered = Overlap { gather: Some(Gather::default()), ..bucketed };
    // Copies, the order of micro-batches, what data-parallel ranks share and when, activations that
    // leave.
    let cases = [
        ([1, 1, 1], "1f1b", Sharding::None, Overlap::default(), None),
        ([2, 4, 1], "1f1b", Sharding::None, Overlap::default(), None),
        ([1, 4, 1], "gpipe", Sharding::None, Overlap::default(), None),
        ([1, 2, 2], "zb-h1", Sharding::None, Overlap::default(), None),
        ([1, 1, 4], "1f1b", Sharding::None, bucketed, None),
        ([2, 2, 2], "1f1b", Sharding::Optimizer, bucketed, None),
        ([1, 1, 4], "1f1b", Sharding::Parameters, gathered, None),
        ([1, 1, 1], "1f1b", Sharding::None, Overlap::default(), Some(ActivationOffload::default())),
    ];
    let mut kinds = [false; 2];
    for (split, order, sharding, overlap, offload) in cases {
        for (launch_us, send) in
            [0.0, 8.0, 30.0].into_iter().zip([SendMode::Latency, SendMode::Eager, SendMode::Blocking])
        {
            let mut world = World::dgx_a100(1).roomy();
            world.host.launch.us = launch_us;
            let mut plan = plan(Transformer::gpt(8, 1_024, 16, 50_257, 512), split, 4);
            let which = schedules(split[1]).into_iter().find(|which| which.name() == order);
            schedule(&mut plan, which.expect("a schedule of so many stages"));
            (plan.sharding, plan.overlap) = (sharding, overlap);
            plan.deployment.launch = Launch::Eager;
            plan.deployment.pipelining.send = send;
            plan.deployment.pipelining.techniques.activation_offload = offload.clone();
            let [once, late, each] =
                [LaunchWaits::Disturbed, LaunchWaits::Late, LaunchWaits::Each].map(|waits| {
                    plan.deployment.pipelining.launch_waits = waits;
                    world.completed(&plan).run
                });
            let what = format!("{split:?}, {order}, {launch_us} us");
            assert_eq!([once.time, late.time], [each.time; 2], "{what}");
            assert!(late.events <= each.events, "{what}");
            kinds[usize::from(once.events < late.events)] = true;
        }
    }
    assert_eq!(kinds, [true; 2], "some visits wait once, some for several operators");
}

/// An update that takes the host long is issued while the device executes the passes before it,
/// unless they fill the queue.
#[test]
fn hosts_run_ahead_as_far_as_launches_may_wait() {
    let mut world = World::dgx_a100(1).roomy();
    world.host.dispatch[&OpClass::Optimizer].us = 200_000.0;
    let time = |queue| {
        let mut plan = plan(gpt(8), [1, 1, 1], 8);
        plan.deployment.launch = Launch::Eager;
        plan.deployment.pipelining.launch_queue = queue;
        world.completed(&plan).seconds()
    };
    let times = [1, 64, 256, 1_024, 1_000_000, u64::MAX].map(time);
    assert!(times.is_sorted_by(|shallow, deep| shallow >= deep), "{times:?}");
    assert!(times[0] > 1.1 * times[4] && times[4] == times[5], "{times:?}");
}

#[test]
fn graphs_take_the_host_away_from_small_models() {
    let mut world = World::dgx_a100(1);
    world.host.launch.us = 20.0;
    let time = |hidden, launch| {
        let mut plan = plan(Transformer::gpt(4, hidden, 16, 50_257, 512), [2, 1, 1], 4);
        plan.deployment.launch = launch;
        world.completed(&plan).seconds()
    };
    let [eager, graph, free] = [Launch::Eager, Launch::Graph, Launch::Free].map(|launch| time(512, launch));
    assert!(eager > 1.5 * graph && graph < 1.02 * free, "{eager}, {graph}, {free}");
    let [eager, free] = [Launch::Eager, Launch::Free].map(|launch| time(8_192, launch));
    assert!(eager < 1.01 * free, "{eager}, {free}");
}

#[test]
fn every_schedule_completes_with_its_hosts() {
    let world = World::dgx_a100(1).roomy();
    for send in [SendMode::Latency, SendMode::Eager, SendMode::Blocking, SendMode::Rendezvous] {
        for which in schedules(4) {
            let mut plan = plan(gpt(24), [2, 4, 1], 8);
            schedule(&mut plan, which);
            plan.deployment.pipelining.send = send;
            // Deeper orders would deadlock, which is refused.
            if send == SendMode::Rendezvous && !["gpipe", "1f1b", "zb-h1"].contains(&which.name()) {
                continue;
            }
            let free = world.run(&plan);
            plan.deployment.launch = Launch::Eager;
            let eager = world.run(&plan);
            let what = format!("{which:?}, {send:?}");
            assert_eq!([&eager.run.end, &free.run.end], [&End::Completed; 2], "{what}");
            assert!(eager.run.time >= free.run.time, "{what}");
        }
    }
}

/// With sends that block, hosts cannot run ahead: they issue a visit when the one before is done.
#[test]
fn hosts_run_ahead_unless_sends_block() {
    let launch_bound = |send| {
        let mut plan = plan(gpt(8), [1, 4, 1], 8);
        plan.deployment.pipelining.send = send;
        plan.deployment.launch = Launch::Eager;
        World::dgx_a100(1).completed(&plan).spent(1, 0, cause::LAUNCH)
    };
    let (ahead, blocked) = (launch_bound(SendMode::Eager), launch_bound(SendMode::Blocking));
    // A visit of two layers begins with a norm: some 6 us of dispatch and launch, for 16 visits, unless it is a product
    // that the host is late for.
    assert!(ahead < Time::from_us(40), "{ahead:?}");
    assert!(blocked > Time::from_us(16 * 6), "{blocked:?}");
}

#[test]
fn hosts_fold_with_their_ranks() {
    for (nodes, split, send) in [
        (1, [2, 2, 2], SendMode::Eager),
        (2, [4, 4, 1], SendMode::Blocking),
        (1, [1, 1, 8], SendMode::Latency),
    ] {
        let mut plan = plan(gpt(8), split, 4);
        plan.deployment.pipelining.send = send;
        plan.deployment.pipelining.steps = 2;
        plan.deployment.launch = Launch::Eager;
        let world = World::dgx_a100(nodes).roomy();
        assert_same(&world, &plan, &format!("{split:?}, {send:?}"));
        let ran = world.completed(&plan);
        let marks = &ran.run.streams[ran.lane(0, 0, LaneKind::Compute).index()].marks;
        assert_eq!(marks.len(), 4, "a pair of marks for each step");
        assert_eq!(marks[3] - marks[2], marks[1] - marks[0], "the second step is as long as the first");
    }
}

/// The host's time to issue an operator of a class, and what changes shapes alone before it.
pub(crate) fn eager(hardware: &Hardware<'_>, class: OpClass, op: &Operator) -> Time {
    let issue = |class| hardware.framework.issue(hardware.host, class, op.phase.is_backward());
    let view = issue(OpClass::Metadata);
    let views = u64::from(op.views) * (view.python.0 + view.dispatch.0);
    Time(u64::from(op.members) * (issue(class).time().0 + views))
}
