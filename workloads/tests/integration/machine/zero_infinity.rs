//! States of the optimizer on drives, and parameters in host memory.

use hw_models::settings::{Count, Rate};
use hw_models::storage::{Array, DriveSet, OffloadedStates};
use proptest::prelude::*;
use workloads::host_update::{HostGradients, KeptParameters};
use workloads::model::transformer::{AttentionKernel, Sharding, States};
use workloads::names::{cause, kind};
use workloads::passes::zero_infinity::ZeroInfinity;
use workloads::plan::{Drives, PlanError};
use workloads::transfer::Outside;

use super::drives::{array, path};
use super::exchanged::{parameters, words};
use super::{Ran, TransformerPlan, World, gpt, plan};

pub(super) const ALL: ZeroInfinity = ZeroInfinity {
    parameters: KeptParameters::Host,
    parameter_buffers: Count::literal(2),
    states: Outside::Drives,
    gradients: HostGradients::Whole,
    arrays: Vec::new(),
    group: Count::literal(100_000_000),
    buffers: Count::literal(1),
    ratio: None,
    rate: None,
    gradient_rate: None,
};

const fn outside(on_drives: bool) -> Outside {
    if on_drives { Outside::Drives } else { Outside::Host }
}

/// One array, for states.
fn on(members: Option<DriveSet>) -> Drives {
    Drives { arrays: vec![array("nvme", members)], states: vec![0], ..Drives::NONE }
}

pub(super) fn kept(technique: ZeroInfinity, data: u32, micro_batches: u32) -> TransformerPlan {
    let mut plan = plan(gpt(3), [1, 1, data], micro_batches);
    plan.execution.attention = AttentionKernel::Flash;
    plan.execution.states = States::FullGradients;
    if data > 1 {
        plan.sharding = Sharding::Parameters;
        plan.overlap.gather = Some(Default::default());
    }
    plan.deployment.pipelining.techniques.zero_infinity = Some(technique);
    plan.deployment.drives = on(None);
    plan
}

fn world() -> World {
    World::dgx_a100(1).roomy()
}

fn all(plan: &TransformerPlan) -> u64 {
    parameters(plan).0
}

/// Bytes that crossed links whose names begin and end so.
fn served(ran: &Ran, from: &str, to: &str) -> u64 {
    let links = ran.lowered.platform.fluids.iter().zip(&ran.run.fluids);
    let crossed = links.filter(|(fluid, _)| fluid.name.starts_with(from) && fluid.name.contains(to));
    crossed.map(|(_, fluid)| fluid.served as u64).sum()
}

/// Bytes on drives at most.
fn held(ran: &Ran) -> u64 {
    let stores = ran.lowered.platform.stores.iter().zip(&ran.run.stores);
    stores.filter(|(store, _)| store.name == "node[0].nvme").map(|(_, store)| store.peak.bytes).sum()
}

fn close(bytes: u64, expected: u64) {
    assert!(bytes.abs_diff(expected) < 1 << 20, "{bytes} B instead of {expected}");
}

/// Drives have 16 bytes of a parameter, all of which are read, and written in part by gradients.
/// Parameters cross the links once for each pass, of two ranks each half; nothing of them stays on
/// a GPU.
#[test]
fn what_crosses_the_links() {
    for data in [1, 2] {
        let plan = kept(ALL, data, 1);
        let ran = world().completed(&plan);
        let (parameters, root) = parameters(&plan);
        close(served(&ran, "node[0].ssd", " -> node[0].switch"), 16 * parameters);
        close(served(&ran, "node[0].switch", " -> node[0].ssd"), (12 + 4) * parameters);
        // Embedding and head come once, layers for each pass.
        let gathered = 2 * (2 * parameters - root);
        close(served(&ran, "node[0].switch", " -> node[0].gpu"), gathered);
        close(served(&ran, "node[0].gpu", " -> node[0].switch"), 4 * parameters);
        assert_eq!(ran.at_peak(0, &[kind::PARAMETERS, kind::GRADIENTS, kind::OPTIMIZER]), 0);
        close(held(&ran), 16 * parameters);
    }
}

/// Parameters that are on drives are read for each pass, of two ranks by each its half, and
/// written once a step; host memory has buffers for some blocks, drives 2 bytes of a parameter
/// more.
#[test]
fn parameters_come_from_drives_for_every_pass() {
    for (data, micro_batches, states_on_drives) in [(1, 1, true), (2, 3, true), (2, 1, false)] {
        let technique =
            ZeroInfinity { parameters: KeptParameters::Drives, states: outside(states_on_drives), ..ALL };
        let plan = kept(technique, data, micro_batches);
        let ran = world().completed(&plan);
        let (parameters, root) = parameters(&plan);
        let of_states = |bytes: u64| if states_on_drives { bytes * parameters } else { 0 };
        let passes = u64::from(micro_batches) * 2 * (2 * parameters - root);
        close(served(&ran, "node[0].ssd", " -> node[0].switch"), of_states(16) + passes);
        close(served(&ran, "node[0].switch", " -> node[0].ssd"), of_states(12 + 4) + 2 * parameters);
        close(held(&ran), of_states(16) + 2 * parameters);
        assert_eq!(ran.at_peak(0, &[kind::PARAMETERS, kind::GRADIENTS, kind::OPTIMIZER]), 0);
        let stores = ran.lowered.platform.stores.iter().zip(&ran.run.stores);
        let hosts = stores.filter(|(store, _)| store.name.starts_with("node[0].memory"));
        let kind = ran.lowered.program.kinds.iter().position(|known| known == kind::PARAMETERS).unwrap();
        // The embedding and the head are the largest block.
        let buffers: u64 = hosts.map(|(_, store)| store.peak.by_kind[kind]).sum();
        close(buffers, 2 * 2 * root);
    }
}

/// A drive that reads 1 GB/s, far less than passes and their gradients take: every micro-batch
/// more takes what reading its parameters twice takes, less what stays of embedding and head.
#[test]
fn a_step_that_reads_too_slowly_takes_what_reading_takes() {
    let mut world = world();
    world.catalogue.ssds.values_mut().for_each(|drive| drive.read_gb_per_s = Some(1.0));
    let plan = |micro_batches| {
        let technique = ZeroInfinity { parameters: KeptParameters::Drives, states: Outside::Host, ..ALL };
        let mut plan = kept(technique, 1, micro_batches);
        plan.deployment.drives = on(Some(DriveSet::First(Count::literal(1))));
        plan
    };
    let (parameters, root) = parameters(&plan(1));
    let reading = (2 * (2 * parameters - root)) as f64 / 1e9;
    let [two, six] = [2, 6].map(|micro_batches| world.completed(&plan(micro_batches)).seconds());
    let each = (six - two) / 4.0;
    assert!((each / reading - 1.0).abs() < 0.005, "{each} s, of which {reading} s of reading");
}

/// The more blocks are read ahead, the less the GPU waits for them; with one buffer every block is
/// read when the one before has gone.
#[test]
fn reading_ahead_hides_reads() {
    let world = world();
    let step = |buffers| {
        let technique = ZeroInfinity {
            parameters: KeptParameters::Drives,
            parameter_buffers: Count::literal(buffers),
            states: Outside::Host,
            ..ALL
        };
        let mut plan = kept(technique, 1, 4);
        plan.execution.micro_batch = 4;
        world.completed(&plan).seconds()
    };
    let [one, two, four] = [1, 2, 4].map(step);
    assert!(two < 0.99 * one && four <= two, "{one}, {two} and {four} s");
}

/// The step waits for what the states alone take, and at most for the gradients that are still to
/// be written before.
#[test]
fn an_update_takes_what_its_states_take() {
    let world = world();
    let machine = world.machine();
    let array = Array::of("drives", machine.drives_of_node(0).collect());
    for buffers in [1, 3] {
        let rate = Some(Rate::new_bytes_per_second(20_000_000_000));
        let plan = kept(ZeroInfinity { buffers: Count::literal(buffers.into()), rate, ..ALL }, 1, 1);
        let states = OffloadedStates {
            array: &array,
            memory: machine.memory_of(machine.gpu(0)).unwrap(),
            parameters: all(&plan),
            group: ALL.group.get(),
            buffers,
            requests: path("direct").requests(),
            update_bytes_per_s: Some(20e9),
            gradient_bytes_per_s: None,
        };
        let (update, gradients) =
            (states.update_s(&machine).unwrap(), states.backward_s(&machine, 0.0).unwrap());
        let waited = world.completed(&plan).spent(0, 0, cause::TRANSFER).as_secs();
        assert!(
            update < 1.001 * waited && waited < update + gradients,
            "{buffers} buffers: {waited} s, of which {update} s of states and {gradients} s of gradients"
        );
    }
}

/// Stages of a pipeline, whose parameters are whole on GPUs: gradients leave once and wait in host
/// memory, so that drives have 12 bytes of a parameter, which are read and written once a step.
/// The first and the last stage have words both.
#[test]
fn stages_have_their_states_on_drives() {
    for data in [1, 2] {
        let technique = ZeroInfinity { parameters: KeptParameters::Gpu, ..ALL };
        let mut plan = plan(gpt(4), [1, 4, data], 4);
        plan.execution.states = States::FullGradients;
        plan.sharding = if data > 1 { Sharding::Optimizer } else { Sharding::None };
        plan.deployment.pipelining.techniques.zero_infinity = Some(technique);
        plan.deployment.drives = on(None);
        let ran = world().completed(&plan);
        let updated = all(&plan) + words(&plan);
        close(served(&ran, "node[0].ssd", " -> node[0].switch"), 12 * updated);
        close(served(&ran, "node[0].switch", " -> node[0].ssd"), 12 * updated);
        close(served(&ran, "node[0].gpu", " -> node[0].switch"), 4 * updated);
        close(served(&ran, "node[0].switch", " -> node[0].gpu"), 2 * updated);
        close(held(&ran), 12 * updated);
        let optimizer = (0..4).map(|stage| ran.at_peak(stage, &[kind::OPTIMIZER])).max();
        assert_eq!(optimizer, Some(0));
    }
}

/// Gradients pass the buffers of states: host memory has nothing else of them, links and drives
/// what they have otherwise. Sums over micro-batches are whole.
#[test]
fn gradients_pass_the_buffers_of_states() {
    for (gradients, micro_batches, whole) in [
        (HostGradients::Buffered, 1, false),
        (HostGradients::Whole, 1, true),
        (HostGradients::Buffered, 2, true),
    ] {
        let plan = kept(ZeroInfinity { gradients, ..ALL }, 2, micro_batches);
        let ran = world().completed(&plan);
        let all = all(&plan);
        let on_hosts = |name: &str| {
            let stores = ran.lowered.platform.stores.iter().zip(&ran.run.stores);
            let hosts = stores.filter(|(store, _)| store.name.starts_with("node[0].memory"));
            let kind = ran.lowered.program.kinds.iter().position(|known| known == name);
            kind.map_or(0, |kind| hosts.map(|(_, store)| store.peak.by_kind[kind]).sum())
        };
        close(on_hosts(kind::GRADIENTS), if whole { 4 * all } else { 0 });
        close(on_hosts(kind::OPTIMIZER), 2 * 16 * ALL.group.get());
        close(held(&ran), 16 * all);
        close(served(&ran, "node[0].switch", " -> node[0].ssd"), (12 + 4) * all);
    }
}

/// A drive that takes gradients slower than they come: with buffers for a tenth of them the GPU
/// waits in its backward pass for what it would wait for at its update, and the step is as long.
#[test]
fn full_buffers_hold_the_backward_pass_back() {
    let mut world = world();
    world.catalogue.ssds.values_mut().for_each(|drive| drive.write_gb_per_s = Some(1.0));
    let ran = |gradients| {
        let group = Count::literal(16_000_000);
        let mut plan = kept(ZeroInfinity { gradients, group, ..ALL }, 1, 1);
        plan.deployment.drives = on(Some(DriveSet::First(Count::literal(1))));
        (world.completed(&plan), all(&plan))
    };
    let ((whole, all), (buffered, _)) = (ran(HostGradients::Whole), ran(HostGradients::Buffered));
    let waited = |ran: &Ran| ran.spent(0, 0, cause::TRANSFER).as_secs();
    // A block's gradients are more than the buffers take: two of them are under way at the end.
    let moved = waited(&whole) - waited(&buffered);
    assert!(moved > 0.3 * 4.0 * all as f64 / 1e9, "{moved} s");
    let longer = buffered.seconds() / whole.seconds();
    assert!((1.0 - 1e-6..1.02).contains(&longer), "{longer}");
}

#[test]
fn a_full_drive_is_told_before_anything_runs() {
    let mut world = world();
    world.catalogue.ssds.values_mut().for_each(|drive| drive.capacity_tb = Some(0.001));
    let plan = kept(ALL, 1, 1);
    let Err(PlanError::HostDoesNotFit(full)) = world.build(&plan) else { panic!("it does not fit") };
    let needed = 16 * all(&plan);
    assert_eq!((full.len(), &*full[0].memory, full[0].needed), (1, "node[0].nvme", needed));
    assert_eq!(full[0].capacity, 8_000_000_000);
}

#[test]
fn what_hosts_cannot_keep_is_refused() {
    let refused = |world: &World, change: fn(&mut TransformerPlan), word: &str| {
        let mut plan = kept(ALL, 2, 1);
        plan.model.layers = 4;
        change(&mut plan);
        let error = world.build(&plan).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    };
    refused(&world(), |plan| plan.execution.split.stages = 2, "use 1 stage");
    refused(&world(), |plan| plan.sharding = Sharding::Gradients, "ZeRO-3");
    refused(&world(), |plan| plan.deployment.drives = Drives::NONE, "on none that is named");
    refused(&World::of_node("dgx-1p"), |_| (), "have none");
}

#[test]
fn folded_ranks_that_share_drives_do_what_they_do_apart() {
    let folded = world().completed(&kept(ALL, 4, 2));
    folded.does_what_it_does_apart();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Whatever is kept where, and however many groups are under way: a step reaches its end, and
    /// what is read is what was there.
    #[test]
    fn what_is_kept_is_read_once_a_step(
        (data, tensor) in prop_oneof![Just((1_u32, 1_u32)), Just((2, 1)), Just((2, 2)), Just((4, 1))],
        micro_batches in 1_u32..3,
        parameters in prop_oneof![
            Just(KeptParameters::Gpu),
            Just(KeptParameters::Host),
            Just(KeptParameters::Drives),
        ],
        parameter_buffers in 1_u64..5,
        states_on_drives: bool,
        gradients in prop_oneof![Just(HostGradients::Buffered), Just(HostGradients::Whole)],
        group in prop_oneof![Just(30_000_000_u64), Just(1_000_000_000_000)],
        buffers in 1_u64..4,
        count in 1_u32..8,
    ) {
        let technique = ZeroInfinity {
            parameters,
            parameter_buffers: Count::literal(parameter_buffers),
            states: outside(states_on_drives),
            gradients,
            group: Count::literal(group),
            buffers: Count::literal(buffers),
            ..ALL
        };
        let mut plan = kept(technique, data, micro_batches);
        plan.execution.split.tensor = tensor;
        plan.model.layers = 4;
        plan.deployment.drives = on(Some(DriveSet::First(Count::literal(count.into()))));
        let ran = world().completed(&plan);
        let held = held(&ran);
        let read = served(&ran, "node[0].ssd", " -> node[0].switch");
        let (all, root) = super::exchanged::parameters(&plan);
        let on_drives = |bytes: u64| if parameters.are_on_drives() { u64::from(tensor) * 2 * bytes } else { 0 };
        let states = held - on_drives(all);
        let expected = u64::from(micro_batches) * on_drives(2 * all - root) + states;
        prop_assert!(read.abs_diff(expected) <= expected / 1_000, "{read} B of {expected}");
        prop_assert_eq!(states > 0, states_on_drives);
    }
}
