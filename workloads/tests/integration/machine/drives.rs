//! Arrays of drives that several techniques use.

use hw_models::settings::{Bytes, Count};
use hw_models::storage::{DriveSet, PATHS, PathCatalogue, PathParameters};
use sim_core::outcome::End;
use workloads::model::transformer::{AttentionKernel, Sharding, States};
use workloads::names::kind;
use workloads::passes::offload::{ActivationOffload, Keep, Store};
use workloads::passes::zero_infinity::ZeroInfinity;
use workloads::plan::{DriveArray, Drives, PlanError};

use super::{Ran, TransformerPlan, World, gpt, plan};

pub(super) fn path(name: &str) -> PathParameters {
    let paths: PathCatalogue = serde_yaml::from_str(PATHS).expect("the embedded catalogue");
    paths[name].clone()
}

pub(super) fn array(name: &str, members: Option<DriveSet>) -> DriveArray {
    DriveArray {
        name: name.to_owned(),
        members,
        to_host: path("direct"),
        to_gpu: path("gpu-direct"),
        at_most: [f64::INFINITY; 2],
        wear: [1.0; 3],
    }
}

/// Drives from one to before another.
pub(super) fn drives(from: u32, to: u32) -> Option<DriveSet> {
    Some(DriveSet::Named((from..to).map(|drive| format!("ssd[{drive}]")).collect()))
}

/// Two copies of a model with states and activations on drives.
fn both(arrays: Vec<DriveArray>, states: usize, activations: usize) -> TransformerPlan {
    let mut plan = plan(gpt(3), [1, 1, 2], 2);
    plan.execution.micro_batch = 8;
    plan.execution.attention = AttentionKernel::Flash;
    plan.execution.states = States::FullGradients;
    plan.sharding = Sharding::Parameters;
    plan.overlap.gather = Some(Default::default());
    let pipelining = &mut plan.deployment.pipelining;
    pipelining.techniques.zero_infinity =
        Some(ZeroInfinity { group: Count::literal(100_000_000), ..ZeroInfinity::default() });
    pipelining.techniques.activation_offload = Some(ActivationOffload {
        smallest: Some(Bytes::new_bytes(16 << 20)),
        keep: Keep::Layers(Count::literal(0)),
        prefetch: Some(Count::literal(4)),
        store: Store::Produced,
        forwarding: false,
        ..ActivationOffload::default()
    });
    plan.deployment.drives =
        Drives { arrays, states: vec![states], activations: vec![activations], ..Drives::NONE };
    plan
}

fn world() -> World {
    World::dgx_a100(1).roomy()
}

/// Bytes of a kind that the array of a name holds at most.
fn held(ran: &Ran, name: &str, kind: &str) -> u64 {
    let store = ran.lowered.platform.stores.iter().position(|store| store.name == name);
    let store = store.unwrap_or_else(|| panic!("no {name}"));
    let kind = ran.lowered.program.kinds.iter().position(|known| known == kind).expect("a known kind");
    ran.run.stores[store].peak.by_kind[kind]
}

/// What is on one drive is there together, and gradients that are written while activations come back take its time from them.
#[test]
fn states_and_activations_share_an_array() {
    let mut world = world();
    world.catalogue.ssds.values_mut().for_each(|drive| drive.mixed_share = Some(0.5));
    let shared = world.completed(&both(vec![array("nvme", drives(0, 1))], 0, 0));
    let arrays = vec![array("states", drives(1, 2)), array("activations", drives(0, 1))];
    let apart = world.completed(&both(arrays, 0, 1));
    let of_states = held(&apart, "node[0].states", kind::OPTIMIZER);
    let of_activations = held(&apart, "node[0].activations", kind::OFFLOADED);
    assert!(of_states > 1 << 30 && of_activations > 1 << 30);
    assert_eq!(held(&shared, "node[0].nvme", kind::OPTIMIZER), of_states);
    assert_eq!(held(&shared, "node[0].nvme", kind::OFFLOADED), of_activations);
    assert!(1.02 * apart.seconds() < shared.seconds(), "{} and {} s", apart.seconds(), shared.seconds());
    shared.does_what_it_does_apart();
}

/// Drives that have room for states, or for activations, but not for both.
#[test]
fn what_both_keep_on_an_array_has_to_fit_together() {
    let mut world = world();
    let roomy = world.completed(&both(vec![array("nvme", drives(0, 2))], 0, 0));
    let (states, activations) =
        (held(&roomy, "node[0].nvme", kind::OPTIMIZER), held(&roomy, "node[0].nvme", kind::OFFLOADED));
    let room = states + activations / 2;
    world.catalogue.ssds.values_mut().for_each(|drive| drive.capacity_tb = Some(room as f64 / 2e12));
    let End::OutOfMemory(short) = world.run(&both(vec![array("nvme", drives(0, 2))], 0, 0)).run.end else {
        panic!("{room} B hold {states} B of states and {activations} B of activations")
    };
    assert!(short.capacity.abs_diff(room) < 4, "{} and {room} B", short.capacity);
    let apart = vec![array("states", drives(0, 2)), array("activations", drives(2, 4))];
    world.completed(&both(apart, 0, 1));
}

#[test]
fn arrays_that_cannot_be_are_refused() {
    let refused = |arrays: Vec<DriveArray>, activations: &[usize], word: &str| {
        let mut plan = both(arrays, 0, 0);
        plan.deployment.drives.activations = activations.to_vec();
        let error = world().build(&plan).unwrap_err();
        assert!(matches!(error, PlanError::Invalid(_)) && error.to_string().contains(word), "{error}");
    };
    refused(vec![array("nvme", Some(DriveSet::First(Count::literal(9))))], &[0], "which has 8");
    refused(vec![array("nvme", None), array("more", drives(7, 8))], &[1], "which `nvme` has, too");
    let other = DriveArray { to_gpu: path("bounce"), ..array("other", drives(2, 4)) };
    refused(vec![array("nvme", drives(0, 2)), other], &[0, 1], "go the same way");
    let whole = DriveArray { to_gpu: path("direct"), ..array("nvme", None) };
    refused(vec![whole], &[0], "in host memory on its way");
}
