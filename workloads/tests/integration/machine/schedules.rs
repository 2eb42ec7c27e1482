//! Every schedule with every way to recompute, with and without sequence parallelism.

use sim_core::outcome::{End, OutOfMemory};
use workloads::names::{cause, kind};
use workloads::passes::recompute::Mode;
use workloads::plan::Pipelining;

use super::{GIB, TransformerPlan, World, every_layer, gpt, plan, schedule};
use crate::plans::schedules;

const RECOMPUTE: [Mode; 3] = [Mode::None, Mode::Selective, Mode::Full];

fn every_plan() -> impl Iterator<Item = TransformerPlan> {
    let combined = schedules(4).into_iter().flat_map(|schedule| {
        RECOMPUTE.into_iter().flat_map(move |recompute| [false, true].map(|sp| (schedule, recompute, sp)))
    });
    combined.map(|(which, recompute, sequence_parallel)| {
        let mut plan = plan(gpt(24), [2, 4, 1], 8);
        schedule(&mut plan, which);
        plan.deployment.pipelining.techniques.recompute = every_layer(recompute);
        plan.execution.split.sequence_parallel = sequence_parallel;
        plan
    })
}

/// All passes are checked by [`workloads::check`] while the plan is built.
#[test]
fn every_plan_completes_and_returns_its_memory() {
    let world = World::dgx_a100(1).roomy();
    let states = [kind::PARAMETERS, kind::GRADIENTS, kind::OPTIMIZER];
    let held = [&states[..], &[kind::WORKSPACE, kind::COMMUNICATION, kind::RESERVED]].concat();
    for plan in every_plan() {
        let ran = world.completed(&plan);
        let Pipelining { schedule, techniques, .. } = &plan.deployment.pipelining;
        let what = format!("{schedule:?}, {:?}", techniques.recompute);
        let recomputes = techniques.recompute != every_layer(Mode::None);
        for (stage, ids) in (0..).zip(&ran.lowered.stages) {
            assert_eq!(ran.spent(stage, 0, cause::RECOMPUTE).0 > 0, recomputes, "{what}");
            let kinds = ran.run.stores[ids.memory.index()].held.iter().zip(&ran.lowered.program.kinds);
            for (bytes, name) in kinds.filter(|(_, name)| !held.contains(&name.as_str())) {
                assert_eq!(*bytes, 0, "{what}: {name} on stage {stage}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_says_where_and_who_holds_it() {
    let world = World::dgx_a100(1);
    let (mut completed, mut out_of_memory) = (0, 0);
    for mut plan in every_plan() {
        plan.deployment.limit = Some((32.0 * GIB) as u64);
        let ran = world.run(&plan);
        match &ran.run.end {
            End::Completed => completed += 1,
            End::OutOfMemory(OutOfMemory { store, requested, capacity, holders, .. }) => {
                out_of_memory += 1;
                let held: u64 = holders.iter().map(|(_, bytes)| bytes).sum();
                assert!(held <= *capacity && held + requested > *capacity);
                assert_eq!(Some(*capacity), plan.deployment.limit);
                assert!(ran.lowered.ranks.iter().any(|ids| ids.memory == *store));
                let names = holders.iter().map(|(kind, _)| ran.lowered.program.kinds[kind.index()].as_str());
                assert!(
                    names.clone().any(|name| name == kind::ACTIVATIONS || name == kind::FOR_WEIGHT_GRADIENTS)
                );
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(completed > 0 && out_of_memory > 0, "{completed} fit, {out_of_memory} do not");
}

#[test]
fn what_can_never_fit_is_not_simulated() {
    let mut plan = plan(gpt(24), [2, 4, 1], 8);
    plan.deployment.limit = Some((8.0 * GIB) as u64);
    let found = World::dgx_a100(1).build(&plan).expect("a plan").shortfalls;
    assert_eq!(found[0].stage, 0);
    assert!(found[0].needed > 8 << 30 && found[0].capacity == 8 << 30, "{}", found[0]);
    // Who holds it, the largest first, and what there is no room for.
    assert_eq!(found[0].holders[0].0, kind::OPTIMIZER);
    assert_eq!(found[0].holders.iter().map(|(_, bytes)| bytes).sum::<u64>(), found[0].persistent);
    assert_eq!(found[0].requested, kind::ACTIVATIONS);
}
