//! Plans are built the same, whatever earlier ones have left in memory.

use hw_models::settings::Count;
use proptest::prelude::*;
use workloads::hardware::Hardware;
use workloads::memo::Memo;
use workloads::order::PipelineSchedule;
use workloads::passes::bpipe::{Bpipe, EvictionPolicy};
use workloads::passes::recompute::Mode;
use workloads::plan::{Launch, build_on, check_on};

use super::{Placement, Sharding, TransformerPlan, World, every_layer, gpt, plan, schedule};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn plans_are_built_as_if_they_were_the_first(
        cases in prop::collection::vec((plans(), any::<bool>()), 2..6),
    ) {
        let whole = World::dgx_a100(2);
        let slow = whole.clone().slowed("{ part: 'node[1].gpu[3]', rate: 50 % }");
        let machines = [whole.machine(), slow.machine()];
        let memo = Memo::default();
        for (plan, is_slow) in &cases {
            let world = if *is_slow { &slow } else { &whole };
            let first = world.hardware(&machines[usize::from(*is_slow)]);
            let later = Hardware { memo: Some(&memo), ..first };
            prop_assert_eq!(check_on(plan, &first), check_on(plan, &later));
            prop_assert!(build_on(plan, &first) == build_on(plan, &later), "{:?}", plan);
        }
    }
}

/// Plans of which several have their graph, order and decisions in common.
fn plans() -> impl Strategy<Value = TransformerPlan> {
    let schedules = [PipelineSchedule::OneFOneB, PipelineSchedule::Gpipe, PipelineSchedule::ZbV];
    let splits = [[2, 4, 2], [4, 2, 2], [8, 2, 1]];
    let placements = [Placement::Sequential, Placement::PairAdjacent, Placement::CopyAfterCopy];
    let models = (prop::sample::select(splits.to_vec()), prop::sample::select(schedules.to_vec()));
    let placed =
        (prop::sample::select(placements.to_vec()), prop::sample::select(vec![Launch::Eager, Launch::Free]));
    let changes = (any::<bool>(), any::<bool>(), any::<bool>());
    (models, placed, changes).prop_map(
        |((split, order), (placement, launch), (recompute, lends, sharded))| {
            let mut plan = plan(gpt(8), split, 8);
            schedule(&mut plan, order);
            plan.deployment.pipelining.techniques.recompute =
                every_layer(if recompute { Mode::Full } else { Mode::None });
            plan.sharding = if sharded { Sharding::Optimizer } else { Sharding::None };
            plan.deployment.placement = placement;
            plan.deployment.launch = launch;
            plan.deployment.pipelining.techniques.bpipe = lends.then(|| Bpipe {
                policy: EvictionPolicy::EveryMicroBatch,
                bound: Count::new(2),
                transfer: None,
            });
            plan
        },
    )
}
