//! Plans as a `ConfigContainer` of Megatron-Bridge.

use scenarios::Failure;
use scenarios::interchange::{Given, Imported, Options, Target, import};

use super::{come_back, each_comes_back, no_text_panics, owned};

const TARGET: Target = Target::MEGATRON_BRIDGE;

const BASE: &str = "
name: plan
machine: { cluster: { node: dgx-h100, count: 4 } }
model: { transformer: { layers: 8, hidden: 1024, heads: 16, vocabulary: 32000, max_positions: 4096, bias: none } }
training: { global_batch: 128, micro_batch: 1, sequence: 2048 }
software: { attention: flash, cross_entropy: compiled }
";

/// Alternatives that there are keys for.
const CHOICES: [&[&str]; 27] = [
    &["parallelism.tensor=2", "parallelism.tensor=4; parallelism.sequence_parallel=true"],
    &[
        "parallelism.pipeline=2",
        "parallelism.pipeline=4; parallelism.stage_layers=[1, 3, 3, 1]",
        "parallelism.pipeline=2; parallelism.schedule={ interleaved: { chunks: 2 } }",
        "parallelism.pipeline=2; parallelism.schedule={ interleaved: { chunks: 2 } }; \
         parallelism.stage_layers=[1, 3, 3, 1]",
    ],
    &[
        "parallelism.context=2",
        "parallelism.context=2; parallelism.context_exchange=ring",
        "parallelism.context=2; parallelism.context_exchange=all-gather",
    ],
    &[
        "parallelism.sharding=optimizer",
        "parallelism.sharding=optimizer; parallelism.overlap_gradient_reduce={}; \
         parallelism.overlap_parameter_gather={}",
        "parallelism.sharding=gradients; software.products_add_to=none",
        "parallelism.sharding=parameters; software.products_add_to=none",
    ],
    &[
        "parallelism.overlap_gradient_reduce={ bucket: 100 MB }",
        "parallelism.overlap_gradient_reduce={ align: false }",
    ],
    &["parallelism.sharding=optimizer; parallelism.overlap_parameter_gather={ align: false }"],
    &["parallelism.tensor=2; parallelism.sequence_parallel=true; parallelism.asynchronous_tensor=true"],
    &["parallelism.placement=copy-after-copy"],
    &["parallelism.send=blocking"],
    &["model.transformer.kv_heads=4"],
    &["model.transformer.mlp=swiglu", "model.transformer.mlp=swiglu; model.transformer.ffn=2816"],
    &["model.transformer.norm=rms"],
    &["model.transformer.bias=qkv", "model.transformer.bias=all"],
    &["model.transformer.positions=rotary"],
    &["model.transformer.dropout=false"],
    &["model.transformer.tied_embedding=false"],
    &["model.transformer.window=2048"],
    &[
        "model.transformer.experts={ count: 8, top_k: 2, ffn: 2048 }",
        "model.transformer.experts={ count: 8, top_k: 4, ffn: 512, shared_ffn: 1024, dense_layers: 1, \
         capacity_factor: 1.25 }",
        "model.transformer.experts={ count: 4, top_k: 1, ffn: 512, capacity_factor: 2, \
         pad_to_capacity: true, balance_loss: false, z_loss: true }",
        "model.transformer.experts={ count: 8, top_k: 2, ffn: 2048 }; parallelism.expert=2",
    ],
    &[
        "training.precision=fp16-mixed; memory.bytes_per_parameter=18",
        "training.precision=bf16-mixed; memory.bytes_per_parameter=20",
        "training.precision=fp32; software.attention=materialised",
    ],
    &["training.fp8={ scaling: delayed }", "training.fp8={ scaling: tensorwise }"],
    &["software.vocabulary_multiple=64", "software.vocabulary_multiple=1"],
    &["software.attention=materialised", "software.attention=cudnn"],
    &["software.cross_entropy=passes", "software.cross_entropy=transformer-engine"],
    &["software.products_add_to=none"],
    &["software.launch=graph"],
    &[
        "techniques.recompute={}",
        "techniques.recompute={ mode: selective }",
        "techniques.recompute={ mode: full, layers: 1 }",
        "techniques.recompute={ modules: [core-attention, layer-norm] }",
    ],
    &[
        "techniques.zero_offload={}; parallelism.sharding=optimizer; parallelism.pipeline=2",
        "techniques.zero_offload={ ratio: 40 % }; parallelism.sharding=optimizer; parallelism.pipeline=2",
    ],
];

#[test]
fn plans_come_back() {
    come_back(TARGET, BASE, &owned(&CHOICES), 0.12);
}

#[test]
fn each_choice_comes_back_alone() {
    each_comes_back(TARGET, BASE, &CHOICES);
}

#[cfg(feature = "soak")]
#[test]
fn random_scenarios_are_refused_or_come_back() {
    super::random_scenarios_come_back(TARGET);
}

/// Llama 3 8B, as both frameworks are told.
const MODEL: &str = "
model:
  num_layers: 32
  hidden_size: 4096
  ffn_hidden_size: 14336
  num_attention_heads: 32
  num_query_groups: 8
  gated_linear_unit: true
  activation_func: { _target_: torch.nn.functional.silu, _call_: false }
  position_embedding_type: rope
  normalization: RMSNorm
  add_bias_linear: false
  attention_dropout: 0.0
  hidden_dropout: 0.0
  share_embeddings_and_output_weights: false
  vocab_size: 128256
  should_pad_vocab: true
  seq_length: 8192
  attention_backend: { _target_: megatron.core.transformer.enums.AttnBackend, _call_: true, _args_: [1], _name_: flash }
train: { micro_batch_size: 1, global_batch_size: 128 }
mixed_precision: bf16_mixed
";

fn imported(text: &str, overrides: &[&str]) -> Result<Imported, Failure> {
    let overrides: Vec<String> = overrides.iter().map(|word| (*word).to_owned()).collect();
    let options = Options { machine: Some("dgx-h100"), overrides: &overrides, ..Options::default() };
    import(TARGET, Given::Text { name: "config.yaml", text }, &options)
}

/// Settings of a scenario without what they come from, in any order.
fn settings(imported: &Imported) -> Vec<String> {
    let lines = imported.scenario.lines().filter(|line| !line.starts_with('#') && !line.starts_with("name"));
    let mut lines: Vec<String> =
        lines.map(|line| line.split(" #").next().unwrap_or_default().trim().to_owned()).collect();
    lines.sort();
    lines
}

#[test]
fn megatron_lm_is_told_the_same_in_other_words() {
    let words = "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 \
        --group-query-attention --num-query-groups 8 --swiglu --position-embedding-type rope \
        --normalization RMSNorm --disable-bias-linear --attention-dropout 0 --hidden-dropout 0 \
        --untie-embeddings-and-output-weights --vocab-size 128256 --seq-length 8192 \
        --max-position-embeddings 8192 --attention-backend flash --micro-batch-size 1 \
        --global-batch-size 128 --bf16 --cross-entropy-loss-fusion --tensor-model-parallel-size 2 \
        --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
        --recompute-granularity selective --recompute-modules mlp layernorm";
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let options = Options { machine: Some("dgx-h100"), ..Options::default() };
    let lm = import(Target::MEGATRON, Given::Words(&words), &options);
    let overrides = [
        "model.tensor_model_parallel_size=2",
        "model.sequence_parallel=true",
        "ddp.use_distributed_optimizer=true",
        "ddp.overlap_grad_reduce=true",
        "++ddp.overlap_param_gather=true",
        "model.recompute_granularity=selective",
        "model.recompute_modules=[mlp, layernorm]",
    ];
    let bridge = imported(MODEL, &overrides);
    let [lm, bridge] = [lm, bridge].map(|it| it.unwrap_or_else(|failure| panic!("{failure}")));
    assert_eq!(settings(&bridge), settings(&lm));
}

#[test]
fn nemo_2_has_other_paths() {
    let bridge = imported(MODEL, &["model.tensor_model_parallel_size=4", "model.sequence_parallel=true"]);
    let words = [
        "trainer.strategy.tensor_model_parallel_size=4",
        "trainer.strategy.sequence_parallel=true",
        "trainer.strategy.ddp.overlap_grad_reduce=false",
        "trainer.plugins.precision=bf16-mixed",
        "data.seq_length=8192",
        "data.micro_batch_size=1",
        "data.global_batch_size=128",
        "model.config.attention_backend=flash",
    ];
    let words = words.map(str::to_owned);
    let options = Options { machine: Some("dgx-h100"), model: Some("llama-3-8b"), ..Options::default() };
    let nemo = import(TARGET, Given::Words(&words), &options);
    let [bridge, nemo] = [bridge, nemo].map(|it| it.unwrap_or_else(|failure| panic!("{failure}")));
    assert_eq!((bridge.release.as_deref(), nemo.release.as_deref()), (Some("0.7"), Some("NeMo 2")));
    for setting in settings(&nemo).iter().filter(|line| !line.ends_with(':') && !line.contains("preset")) {
        let elsewhere = setting.starts_with("vocabulary_multiple");
        assert!(elsewhere || settings(&bridge).contains(setting), "{setting}");
    }
}

#[test]
fn keys_of_both_releases_are_refused() {
    let failure =
        imported(MODEL, &["trainer.strategy.tensor_model_parallel_size=4"]).expect_err("two releases");
    let problem = &failure.problems[0];
    assert!(problem.message.contains("release NeMo 2"), "{}", problem.message);
    assert!(problem.help.as_deref().is_some_and(|help| help.contains("`model.tensor_model_parallel_size`")));
}

/// Pieces of configurations.
const PIECES: [&str; 40] = [
    "model:\n",
    "train:\n",
    "ddp:\n",
    "comm_overlap:\n",
    "mixed_precision: bf16_mixed\n",
    "mixed_precision:\n",
    "  bf16: true\n",
    "  fp8: hybrid\n",
    "  num_layers: 8\n",
    "  hidden_size: 1024\n",
    "  num_moe_experts: 8\n",
    "  moe_layer_freq: [0, 1]\n",
    "  moe_layer_freq: ",
    "  window_size: [128, 0]\n",
    "  pipeline_model_parallel_layout: Et*3|tL\n",
    "  pipeline_model_parallel_layout: Et|(t|)*999999999tL\n",
    "  pipeline_model_parallel_size: ",
    "  virtual_pipeline_model_parallel_size: ",
    "  account_for_loss_in_pipeline_split: true\n",
    "  num_layers_in_first_pipeline_stage: ",
    "  micro_batch_size: ",
    "  global_batch_size: 64\n",
    "  use_distributed_optimizer: true\n",
    "  bucket_size: ",
    "  recompute_modules: [mlp]\n",
    "  recompute_granularity: full\n",
    "  _target_: a.b\n",
    "  activation_func: { _target_: x, _call_: false }\n",
    "  tp_comm_overlap: true\n",
    "2\n",
    "0\n",
    "-1\n",
    "99999999999999999999\n",
    "1e400\n",
    "null\n",
    "[",
    "{",
    "!!python/tuple",
    "'",
    "é",
];

#[test]
fn no_configuration_panics() {
    no_text_panics(TARGET, &PIECES);
    let deep = format!("a: {}", "[".repeat(200_000));
    assert!(imported(&deep, &[]).is_err());
    let layout = format!("model.pipeline_model_parallel_layout=E{}L", "(t|)*1".repeat(60_000));
    assert!(imported(MODEL, &[&layout]).is_err());
}
