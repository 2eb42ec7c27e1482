//! Passes: any order that respects what each declares gives the same plan, and the graph is verified after each.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use workloads::check::Fault;
use workloads::error::PlanError;
use workloads::graph::cut::{Cut, LayerPlace, PartKind, Piece};
use workloads::graph::{Phase, StorageId};
use workloads::model::transformer::{
    AttentionKernel, Dtype, Execution, ShardedTransformer, Split, Transformer,
};
use workloads::order::PipelineSchedule;
use workloads::passes::bpipe::Bpipe;
use workloads::passes::fusion::fused;
use workloads::passes::realise::messages::SendMode;
use workloads::passes::recompute::{Mode, recomputed};
use workloads::passes::{Context, Kind, Pass, Pipelining, Plan, Techniques, in_order, list};
use workloads::plan::{PipelinePlan, build, build_by, build_with};

use crate::plans::{keeping, stage, uniform};

/// A pipeline that balances what it keeps of recomputed stages, with messages that block.
fn plan() -> PipelinePlan {
    let mut plan = uniform(stage(3, 4, 2, 1), 8, 12, PipelineSchedule::OneFOneB);
    plan.pipelining.send = SendMode::Blocking;
    plan.pipelining.techniques =
        Techniques { recompute: Some(keeping(500)), bpipe: Some(Bpipe::default()), ..Techniques::default() };
    plan
}

#[test]
fn any_order_that_passes_allow_gives_the_same_plan() {
    let plan = plan();
    let expected = build(&plan).expect("a valid plan");
    let mut orders = std::collections::BTreeSet::new();
    for passes in orders_of(&plan.pipelining) {
        orders.insert(passes.iter().map(|pass| pass.name()).collect::<Vec<_>>());
        assert_eq!(build_by(&plan, &passes).as_ref(), Ok(&expected));
    }
    assert!(orders.len() > 1, "there is more than one order: {orders:?}");
}

#[test]
fn any_order_that_passes_allow_gives_the_same_blocks() {
    let pipelining = Pipelining { compiled: true, ..plan().pipelining };
    let execution = Execution::new(1, 1_024, Split::NONE, Dtype::Bf16, AttentionKernel::Flash);
    let gpt = Transformer::gpt(2, 1_024, 16, 50_257, 1_024);
    let layer = ShardedTransformer::new(&gpt, &execution).expect("a valid model").layer();
    let (kind, owned, read, experts) = (PartKind::Layer, 0, 0, 0);
    let piece =
        Piece { kind, block: 0, layer: Some(LayerPlace::default()), owned, trained: owned, read, experts };
    let model = Cut { blocks: vec![layer.clone()], positions: vec![vec![piece; 2]], ..Cut::default() };
    let expected = fused(&recomputed(&layer, Mode::Full));
    for passes in orders_of(&pipelining) {
        let mut model = model.clone();
        passes.iter().for_each(|pass| pass.rewrite(&mut model));
        assert_eq!(model.blocks, std::slice::from_ref(&expected));
    }
}

/// Passes in 40 of the orders that they allow.
fn orders_of(pipelining: &Pipelining) -> impl Iterator<Item = Vec<Box<dyn Pass>>> {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    (0..40).map(move |_| {
        let mut passes = list(pipelining, Vec::new());
        passes.shuffle(&mut rng);
        in_order(passes)
    })
}

/// A pass that lets a forward pass read what nobody has filled.
#[derive(Debug)]
struct ReadsTooEarly;

impl Pass for ReadsTooEarly {
    fn name(&self) -> &'static str {
        "reads_too_early"
    }

    fn kind(&self) -> Kind {
        Kind::Rewriter
    }

    fn apply(&self, plan: &mut Plan, _: &Context<'_>) -> Result<(), PlanError> {
        let first = plan.graph.visit(0, 0, Phase::Forward)[0];
        plan.graph.get_mut(first).reads.push(StorageId(0));
        Ok(())
    }
}

#[test]
fn the_graph_is_verified_after_a_pass() {
    let plan = uniform(stage(1, 1, 1, 1), 2, 4, PipelineSchedule::OneFOneB);
    let broken = build_with(&plan, vec![Box::new(ReadsTooEarly)]);
    let Err(PlanError::Broken(problems)) = broken else { panic!("{broken:?}") };
    assert_eq!(problems[0].pass, "reads_too_early");
    assert_eq!(problems[0].fault, Fault::NotResident("activation of stage 0".to_owned()));
}
