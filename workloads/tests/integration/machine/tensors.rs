//! The tensors of a rank one by one, and what the caching allocator makes of them, beside the storages of the schedule.

use hw_models::allocator::{FrameworkMemory, MEMORY, Request, Settings, Usage, replay};
use workloads::chain::Chain;
use workloads::memory::{Framework, Placeholder, RankList, Ranks};
use workloads::model::transformer::{
    AttentionKernel, Bias, CrossEntropy, Dtype, Execution, Mlp, Norm, Phase, Positions, ShardedTransformer,
    Sharding, Transformer,
};
use workloads::names::kind;
use workloads::order::{Order, PipelineSchedule, Shape, Timing, Visit, generate};
use workloads::passes::recompute::{Mode, recomputed};
use workloads::plan::TransformerPlan;

use super::memory::published;
use super::{GIB, World, every_layer, gpt, plan, schedule};
use crate::plans::interleaved;

const EXPANDABLE: Settings =
    Settings { max_split_size: None, roundup_power2_divisions: None, expandable_segments: true };

/// A framework that adds nothing.
pub(super) const NOTHING: Framework = Framework { workspace: 0, placeholder: Placeholder::None };

/// Kinds that are allocated before the step and stay.
const STATES: [&str; 3] = [kind::PARAMETERS, kind::GRADIENTS, kind::OPTIMIZER];

#[test]
fn what_is_held_between_passes_is_what_the_blocks_save() {
    for recompute in [Mode::None, Mode::Selective, Mode::Full] {
        let mut plan = plan(gpt(4), [2, 1, 1], 3);
        plan.deployment.pipelining.techniques.recompute = every_layer(recompute);
        schedule(&mut plan, PipelineSchedule::Gpipe);
        let list = rank(&plan, 0);
        let backward = |n: &usize| list.executing(*n).is_some_and(|op| op.phase != Phase::Forward);
        let first_backward = (0..list.requests.len()).find(backward).unwrap();
        let model = ShardedTransformer::new(&plan.model, &plan.execution).unwrap();
        let saved = model.embedding().saved_bytes()
            + 4 * recomputed(&model.layer(), recompute).saved_bytes()
            + model.head().saved_bytes();
        let held = held(&list.requests[..first_backward]);
        assert_eq!(held.iter().map(|(_, bytes)| bytes).sum::<u64>(), 3 * saved, "{recompute:?}");
        assert!(held.iter().all(|&(kind, _)| kind == kind::ACTIVATIONS), "{recompute:?}: {held:?}");
    }
}

#[test]
fn a_step_leaves_nothing_behind() {
    let schedules = [
        (PipelineSchedule::Gpipe, 1),
        (PipelineSchedule::OneFOneB, 1),
        (interleaved(2), 2),
        (PipelineSchedule::ZbH1, 1),
        (PipelineSchedule::ZbH2, 1),
    ];
    for (kind, chunks) in schedules {
        for scatter_gather in [false, true] {
            let mut plan = plan(gpt(8), [2, 4, 1], 8);
            schedule(&mut plan, kind);
            assert_eq!(plan.execution.split.chunks, chunks);
            plan.execution.split.sequence_parallel = !scatter_gather;
            plan.scatter_gather = scatter_gather;
            for stage in 0..4 {
                let list = rank(&plan, stage);
                assert_eq!(held(&list.requests), [], "{kind:?}, stage {stage}");
                let usage = used(&list, &Settings::default());
                assert!(usage.peak_allocated.allocated <= usage.peak_reserved.reserved);
            }
        }
    }
}

#[test]
fn a_v_passes_tensors_between_chunks_of_a_rank_without_a_message() {
    // As on the last stage of a V, where the second chunk begins with what the first one ends with.
    let chain = Chain { stages: 1, chunks: 2, folded: true };
    let visit = |phase, chunk| Visit::new(phase, chunk, 0);
    let order = Order {
        shape: Shape { chain, micro_batches: 1 },
        stages: vec![vec![
            visit(Phase::Forward, 0),
            visit(Phase::Forward, 1),
            visit(Phase::BackwardInput, 1),
            visit(Phase::BackwardWeight, 1),
            visit(Phase::BackwardInput, 0),
            visit(Phase::BackwardWeight, 0),
        ]],
    };
    let mut folded = plan(gpt(4), [2, 1, 1], 1);
    folded.execution.split.chunks = 2;
    folded.deployment.pipelining.schedule = PipelineSchedule::ZbV;
    let list = Ranks::of_transformer(&folded, None).unwrap().step(&order, 0, &NOTHING);
    assert_eq!(held(&list.requests), []);
    assert!((0..list.requests.len()).all(|n| list.executing(n).is_none_or(|op| op.operator != "receive")));
}

#[test]
fn placeholders_of_weight_gradients_are_as_large_as_the_weights() {
    // 4,096 wide over two ranks, in fp16: 12 h^2 / t weights of four shapes, whatever the layers and micro-batches.
    let plan = plan(gpt(4), [2, 1, 1], 3);
    let allocated = |placeholder| {
        let requests = rank_of(&plan, 0, &Framework { placeholder, ..NOTHING }).requests;
        let made = requests.iter().map(|request| match request {
            Request::Allocate { bytes, .. } => *bytes,
            _ => 0,
        });
        (made.sum::<u64>(), held(&requests).iter().map(|(_, bytes)| bytes).sum::<u64>())
    };
    let [none, fresh, kept] = [Placeholder::None, Placeholder::Fresh, Placeholder::Kept].map(allocated);
    let layer = 2 * 12 * 4_096 * 4_096 / 2;
    let logits = 2 * 51_200 * 4_096 / 2;
    assert_eq!((none.1, fresh.1, kept.1), (0, 0, layer));
    assert_eq!(fresh.0 - none.0, 3 * (4 * layer + logits));
    assert_eq!(kept.0 - none.0, layer + 3 * logits);
}

#[test]
fn gradients_of_weights_that_wait_hold_their_inputs() {
    let mut plan = plan(gpt(8), [2, 4, 1], 8);
    schedule(&mut plan, PipelineSchedule::ZbH1);
    let usage = used(&rank(&plan, 0), &Settings::default());
    let held = usage.by_kind.iter().find(|(of, _)| *of == kind::FOR_WEIGHT_GRADIENTS);
    assert!(held.is_some_and(|&(_, bytes)| bytes > 0), "{:?}", usage.by_kind);
}

#[test]
fn recomputation_and_the_operator_at_the_peak() {
    let mut plan = plan(gpt(4), [2, 1, 1], 1);
    let mut at = |recompute| {
        plan.deployment.pipelining.techniques.recompute = every_layer(recompute);
        let list = rank(&plan, 0);
        let usage = used(&list, &Settings::default());
        let op = list.executing(usage.peak_allocated.request).unwrap();
        (usage.peak_allocated.allocated, op)
    };
    let [none, selective, full] = [Mode::None, Mode::Selective, Mode::Full].map(&mut at);
    assert!(none.0 > selective.0 && selective.0 > full.0);
    let peaks = [none, selective, full].map(|(_, op)| (op.operator, op.phase, op.block));
    let expected = [
        // Everything is saved when the loss is taken, behind the embedding and four layers.
        ("cast logits".into(), Phase::Forward, 5),
        ("value gradient".into(), Phase::Backward, 4),
        // The last layer is there again.
        ("value gradient".into(), Phase::Backward, 4),
    ];
    assert_eq!(peaks, expected);
}

#[test]
fn blocks_pass_on_what_the_next_one_starts_from() {
    for sequence_parallel in [false, true] {
        for (dropout, micro_batch) in [(false, 1), (true, 2)] {
            let mut plan = plan(Transformer { dropout, ..gpt(4) }, [2, 1, 1], 1);
            plan.execution.split.sequence_parallel = sequence_parallel;
            plan.execution.micro_batch = micro_batch;
            let model = ShardedTransformer::new(&plan.model, &plan.execution).unwrap();
            let (layer, head) = (recomputed(&model.layer(), Mode::Selective), model.head());
            let bytes = Some(layer.tensor(layer.input).bytes);
            let embedding = model.embedding();
            let passed = [
                (&embedding, embedding.output),
                (&layer, layer.output),
                (&layer, layer.input_gradient),
                (&head, head.input_gradient),
            ]
            .map(|(block, id)| Some(block.tensor(id?)));
            assert_eq!(passed.map(|tensor| Some(tensor?.bytes)), [bytes; 4]);
            assert_eq!(passed[1].map(|tensor| &*tensor.name), Some("mlp residual"));
            assert_eq!(head.output, None);
        }
    }
}

/// GiB a rank of the first and of the last stage, without what is reserved and communicators: the storages of the schedule
/// as simulated, most that tensors have at a time, segments, and expandable segments.
#[test]
fn tensors_beside_storages() {
    let mut table = String::from(
        "plan                          stage  storages  tensors  segments  expandable  fragmented  at the peak\n",
    );
    for (name, (world, plan)) in plans() {
        let ran = world.completed(&plan);
        let stages = plan.execution.split.stages;
        for stage in [0, stages - 1].into_iter().take(stages as usize) {
            let kinds = [kind::WORKSPACE, kind::ACTIVATIONS, kind::FOR_WEIGHT_GRADIENTS, kind::RECOMPUTED];
            let kinds: Vec<&str> = STATES.into_iter().chain(kinds).collect();
            let storages = ran.at_peak(stage as usize, &kinds);
            let list = rank(&plan, stage);
            let (usage, expandable) = (used(&list, &Settings::default()), used(&list, &EXPANDABLE));
            let [storages, tensors, segments, grown] = [
                storages,
                usage.peak_allocated.allocated,
                usage.peak_reserved.reserved,
                expandable.peak_reserved.reserved,
            ]
            .map(|bytes| bytes as f64 / GIB);
            let lost = 100.0 * (1.0 - tensors / segments);
            let at = list.executing(usage.peak_allocated.request).unwrap();
            table += &format!(
                "{name:<28} {stage:>6} {storages:>9.3} {tensors:>8.3} {segments:>9.3} {grown:>11.3} {lost:>9.2} %  {} of {}\n",
                at.operator,
                at.phase.name(),
            );
            assert!(tensors <= segments && (storages / tensors - 1.0).abs() < 0.003, "{name}: {storages}");
        }
    }
    insta::assert_snapshot!(table);
}

/// Peaks of `max_memory_allocated` and `max_memory_reserved` of Megatron-LM with Transformer Engine on 8 B200, in MiB, on the
/// ranks of each copy of a stage (github.com/MooreThreads/SimuMax @ 4dcaae5, docs/b200/b200_release_v1.2_summary.json; its
/// dense models without context parallelism): bf16, micro-batches of one sequence of 4,096, distributed optimizer, fused loss,
/// nothing recomputed, two steps. Nothing here is fitted to them. Copies differ by which parts of which parameters their
/// optimizer has, which decides what fits into segments of the first step.
#[test]
fn peaks_of_megatron_on_eight_gpus_are_as_measured() {
    let llama_70b = |layers| llama(layers, 8_192, 64, 8, 28_672, 128_256);
    let llama_405b = |layers| llama(layers, 16_384, 128, 16, 53_248, 128_256);
    // Of each stage, the most allocated, and the most reserved by copy.
    type Stages = &'static [(f64, &'static [f64])];
    let rows: [(Transformer, [u32; 3], Stages); 8] = [
        (
            llama_70b(12),
            [1, 2, 4],
            &[
                (68_149.2, &[70_730.0, 71_592.0, 72_586.0, 70_896.0]),
                (64_479.48, &[65_762.0, 65_430.0, 64_938.0, 64_990.0]),
            ],
        ),
        (llama_70b(12), [2, 1, 4], &[(62_136.4, &[63_914.0, 63_560.0, 63_776.0, 64_026.0])]),
        (llama_70b(12), [4, 1, 2], &[(40_009.77, &[41_076.0, 41_140.0])]),
        (llama_70b(12), [8, 1, 1], &[(28_965.36, &[29_816.0])]),
        (
            llama_405b(4),
            [1, 2, 4],
            &[
                (88_688.88, &[93_782.0, 93_838.0, 94_474.0, 93_290.0]),
                (89_173.4, &[90_282.0, 89_788.0, 90_706.0, 90_596.0]),
            ],
        ),
        (llama_405b(4), [2, 1, 4], &[(83_549.85, &[86_704.0, 86_384.0, 86_384.0, 86_734.0])]),
        (llama_405b(4), [4, 1, 2], &[(54_158.11, &[55_966.0, 55_966.0])]),
        (llama_405b(4), [8, 1, 1], &[(39_499.85, &[40_788.0])]),
    ];
    let memory: FrameworkMemory = serde_yaml::from_str(MEMORY).unwrap();
    let workspace = memory.matrix_workspace.of("blackwell").bytes;
    let mut table =
        String::from(" hidden  tensor  stage  copy   allocated  measured           reserved  measured\n");
    for (model, [tensor, stages, data], measured) in rows {
        let hidden = model.hidden;
        let mut plan = flash(model, [tensor, stages], 4);
        (plan.data, plan.sharding) = (data, Sharding::Optimizer);
        plan.execution.fusion.cross_entropy = CrossEntropy::Fused;
        let framework = Framework { workspace, placeholder: Placeholder::Kept };
        let ranks = Ranks::of_transformer(&plan, None).unwrap();
        for (stage, &(allocated, reserved)) in (0u32..).zip(measured) {
            for (copy, &reserved) in (0u32..).zip(reserved) {
                let list = ranks.training(&order(&plan), (stage, copy), &framework);
                let usage = used(&list, &Settings::default());
                let mib = |bytes| bytes as f64 / f64::from(1 << 20);
                let ours = [mib(usage.peak_allocated.allocated), mib(usage.peak_reserved.reserved)];
                let errors = [ours[0] / allocated - 1.0, ours[1] / reserved - 1.0];
                table += &format!(
                    "{hidden:>7} {tensor:>7} {stage:>6} {copy:>5} {:>11.1} {allocated:>9.1} {:>5.2} % {:>11.0} {reserved:>9.0} {:>5.2} %\n",
                    ours[0],
                    100.0 * errors[0],
                    ours[1],
                    100.0 * errors[1]
                );
                assert!(errors[0].abs() < 0.01 && errors[1].abs() < 0.04, "{table}");
            }
        }
    }
    insta::assert_snapshot!(table);
}

fn plans() -> Vec<(&'static str, (World, TransformerPlan))> {
    let a100 = |plan: TransformerPlan| {
        let nodes = plan.extent().ranks().div_ceil(8) as u32;
        (World::dgx_a100(nodes).roomy(), plan)
    };
    let llama_7b = llama(32, 4_096, 32, 32, 11_008, 32_000);
    let llama_70b = llama(80, 8_192, 64, 8, 28_672, 32_000);
    vec![
        ("22B", published("22B", false, Mode::None)),
        ("22B, sequence, selective", published("22B", true, Mode::Selective)),
        ("22B, full", published("22B", false, Mode::Full)),
        ("175B", published("175B", false, Mode::None)),
        ("175B, sequence, selective", published("175B", true, Mode::Selective)),
        ("175B, full", published("175B", false, Mode::Full)),
        ("Llama 2 7B", a100(flash(llama_7b.clone(), [1, 1], 1))),
        ("Llama 2 7B, 4 stages", a100(flash(llama_7b, [2, 4], 16))),
        ("Llama 2 70B, 4 stages", a100(flash(llama_70b, [8, 4], 16))),
    ]
}

fn llama(layers: u32, hidden: u32, heads: u32, kv_heads: u32, ffn: u32, vocabulary: u32) -> Transformer {
    Transformer {
        kv_heads,
        ffn,
        tied_embedding: false,
        norm: Norm::Rms,
        mlp: Mlp::Swiglu,
        bias: Bias::None,
        positions: Positions::Rotary,
        dropout: false,
        ..Transformer::gpt(layers, hidden, heads, vocabulary, 4_096)
    }
}

/// bfloat16 with flash attention, sequences of 4,096.
fn flash(model: Transformer, [tensor, stages]: [u32; 2], micro_batches: u32) -> TransformerPlan {
    let mut plan = plan(model, [tensor, stages, 1], micro_batches);
    let split = plan.execution.split;
    plan.execution = Execution::new(1, 4_096, split, Dtype::Bf16, AttentionKernel::Flash);
    plan
}

/// The list of a rank with the workspace of an A100.
fn rank(plan: &TransformerPlan, stage: u32) -> RankList {
    let memory: FrameworkMemory = serde_yaml::from_str(MEMORY).unwrap();
    let workspace = memory.matrix_workspace.of("ampere").bytes;
    rank_of(plan, stage, &Framework { workspace, ..NOTHING })
}

/// The list of a rank of a plan whose order follows a rule.
pub(super) fn rank_of(plan: &TransformerPlan, stage: u32, framework: &Framework) -> RankList {
    Ranks::of_transformer(plan, None).unwrap().step(&order(plan), stage, framework)
}

/// An order that follows a rule.
pub(super) fn order(plan: &TransformerPlan) -> Order {
    let pipelining = &plan.deployment.pipelining;
    let chain = pipelining.schedule.chain(plan.execution.split.stages);
    let shape = Shape { chain, micro_batches: pipelining.micro_batches };
    let nothing = Timing { chunks: Vec::new(), limit: Vec::new() };
    generate(&pipelining.schedule, shape, || nothing)
}

fn used(list: &RankList, settings: &Settings) -> Usage {
    replay(&list.requests, u64::MAX, settings).unwrap()
}

/// Bytes asked for by tensors that are not freed, by kind, without what is there before the step.
pub(super) fn held(requests: &[Request]) -> Vec<(&'static str, u64)> {
    let mut tensors: Vec<Option<(&'static str, u64)>> = Vec::new();
    for request in requests {
        match *request {
            Request::Allocate { bytes, kind, .. } => tensors.push(Some((kind, bytes))),
            Request::Free(id) => tensors[id as usize] = None,
            Request::Lend(_) | Request::Done(_) => {}
        }
    }
    tensors.into_iter().skip(STATES.len() + 1).flatten().filter(|&(_, bytes)| bytes > 0).collect()
}
