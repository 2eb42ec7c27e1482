//! No step is faster than its busiest rank alone, and where nothing contends none is slower.

use hw_models::machine::{Machine, Parts};
use sim_core::time::Time;
use workloads::graph::operator::{Tensor, TensorId};
use workloads::hardware::kernel;
use workloads::model::reuse::{Reuse, reused};
use workloads::model::transformer::{DataParallel, Operator, ShardedTransformer};
use workloads::passes::recompute::{Mode, recomputed};
use workloads::plan::build_on;
use workloads::schedule::LaneKind;

use super::{Ran, SendMode, Sharding, World, every_layer, gpt, plan, sum};

/// A pipeline cannot be faster than a stage that gets its first micro-batch as soon as those before it have computed it,
/// never waits after that, and whose last gradient goes back through those stages to the first, which then updates.
fn bound(ran: &Ran) -> Time {
    let calls = |stage| ran.alone(ran.lane(stage, 0, LaneKind::Compute));
    let (mut around, mut bound, mut update) = (Time::ZERO, Time::ZERO, Time::ZERO);
    for stage in 0..ran.lowered.stages.len() as u32 {
        let calls = calls(stage);
        let [first, .., last, end] = calls.as_slice() else { panic!("a step has at least three calls") };
        update = if stage == 0 { *end } else { update };
        bound = bound.max(around + sum(calls.iter().copied()) - *end);
        around = around + *first + *last;
    }
    bound + update
}

#[test]
fn no_pipeline_is_faster_than_its_busiest_stage() {
    for (nodes, split) in [(1, [1, 8, 1]), (1, [2, 4, 1]), (2, [4, 4, 1]), (2, [2, 2, 4]), (4, [8, 4, 1])] {
        for recompute in [Mode::None, Mode::Selective, Mode::Full] {
            for micro_batches in [1, 4, 16] {
                let mut plan = plan(gpt(8), split, micro_batches);
                plan.deployment.pipelining.techniques.recompute = every_layer(recompute);
                let ran = World::dgx_a100(nodes).roomy().completed(&plan);
                let (ours, bound) = (ran.run.time, bound(&ran));
                let what = format!("{nodes} nodes, {split:?}, {recompute:?}, {micro_batches} micro-batches");
                assert!(ours >= bound, "{what}: {ours:?} is less than {bound:?}");
                assert!(ours.0 as f64 <= 1.2 * bound.0 as f64, "{what}: {ours:?} is far above {bound:?}");
            }
        }
    }
}

/// The last stage, which has the head, is the slowest: it never waits, and but for the messages the bound is reached.
#[test]
fn a_pipeline_without_contention_takes_its_bound_and_its_messages() {
    for (stages, micro_batches) in [(8, 12), (8, 3), (8, 1)] {
        for recompute in [Mode::None, Mode::Selective, Mode::Full] {
            let mut plan = plan(gpt(16), [1, stages, 1], micro_batches);
            plan.deployment.pipelining.techniques.recompute = every_layer(recompute);
            plan.deployment.pipelining.send = SendMode::Latency;
            let ran = World::dgx_a100(1).roomy().completed(&plan);
            let messages = sum((0..stages).map(|stage| round_trip(&ran, stage)));
            assert_eq!(
                ran.run.time,
                bound(&ran) + messages,
                "{stages} stages, {micro_batches}, {recompute:?}"
            );
        }
    }
}

/// The first activations and the last gradients that a stage sends.
fn round_trip(ran: &Ran, stage: u32) -> Time {
    let messages = ran.messages(ran.lane(stage, 0, LaneKind::Compute));
    let [first, .., last, _] = messages.as_slice() else { panic!("a step has at least three calls") };
    *first + *last
}

#[test]
fn a_single_gpu_takes_the_sum_of_its_operators() {
    let world = World::dgx_a100(1);
    let gpus = [("gpu".to_owned(), "a100-sxm4-80gb".into())].into();
    let parts = Parts { gpus, ..Parts::default() };
    let machine = Machine::from_parts(&world.catalogue, &parts).unwrap();
    let hardware = world.hardware(&machine);
    let kernels = hardware.kernel_model(hardware.gpu().unwrap(), 1.0).unwrap();
    let gap = hardware.host.gap_in_stream.time().0;
    let alone = |operators: &[Operator], tensors: &[Tensor], before: Option<TensorId>| -> u64 {
        let cost = |(op, reused): (&Operator, Vec<Reuse>)| {
            kernel(&kernels, &op.work, &reused).unwrap().expect("one rank has no peers")
        };
        let reused = reused(operators, tensors, before.as_slice());
        operators.iter().zip(reused).map(|op| gap + cost(op).alone().0).sum()
    };
    for recompute in [Mode::None, Mode::Selective, Mode::Full] {
        let (layers, micro_batches) = (4, 3);
        let mut plan = plan(gpt(layers), [1, 1, 1], micro_batches);
        plan.deployment.pipelining.techniques.recompute = every_layer(recompute);
        let model = ShardedTransformer::new(&plan.model, &plan.execution).unwrap();
        let parameters = model.parameters(layers, true, true);
        let update = model.update(&parameters, &DataParallel::new(1, Sharding::None));
        let blocks = [model.embedding(), recomputed(&model.layer(), recompute), model.head()];
        let passes = blocks.iter().zip([1, layers, 1]).flat_map(|(block, count)| {
            let passes = [(&block.forward, Some(block.input)), (&block.backward, block.output_gradient)];
            passes.map(|(pass, before)| (pass, &block.tensors, before, u64::from(count * micro_batches)))
        });
        let passes: Vec<_> = passes.chain([(&update.operators, &update.tensors, None, 1)]).collect();
        let sum: u64 =
            passes.iter().map(|&(pass, tensors, before, times)| alone(pass, tensors, before) * times).sum();
        let ours = Ran::of(build_on(&plan, &hardware).unwrap().lowered);
        // A picosecond of rounding for each operator.
        let rounding = passes.iter().map(|&(pass, _, _, times)| pass.len() as u64 * times).sum();
        assert!(ours.run.time.0.abs_diff(sum) <= rounding, "{recompute:?}: {:?}, {sum} ps", ours.run.time);
    }
}

#[test]
fn ranks_that_only_meet_in_the_update_take_the_sum_of_their_operations() {
    for sharding in [Sharding::None, Sharding::Optimizer] {
        let mut plan = plan(gpt(2), [1, 1, 8], 3);
        plan.sharding = sharding;
        let ran = World::dgx_a100(1).completed(&plan);
        let alone = sum(ran.alone(ran.lane(0, 0, LaneKind::Compute)));
        assert_eq!(ran.run.time, alone, "{sharding:?}");
    }
}
