//! `export` and `import` of plans as arguments of training frameworks.

use std::process::{Command, Stdio};

use super::support::{Sandbox, assert_session};

/// A launch script in the style of Megatron-LM's examples.
const SCRIPT: &str = r#"#!/bin/bash
# Pretrains a small GPT.
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=${NUM_NODES:-2}
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
CHECKPOINT_PATH=$1 # where to save
TP=2

MODEL_ARGS=(
    --num-layers 24
    --hidden-size 2048 --num-attention-heads 16   # 1.3 billion
    --seq-length 2048
    --max-position-embeddings 2048
    --attention-backend auto
    --vocab-size=50257
)
PARALLEL="--tensor-model-parallel-size ${TP} --pipeline-model-parallel-size 2 \
    --num-layers-per-virtual-pipeline-stage 6"
TRAINING_ARGS=(
    --micro-batch-size 4 --global-batch-size 128 --train-iters 500000
    --lr 6.0e-5 --clip-grad 1.0 --bf16 --use-distributed-optimizer
)
if [ -n "$SAVE" ]; then
    TRAINING_ARGS+=(--save "$CHECKPOINT_PATH")
fi

torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NUM_NODES --master_addr localhost \
    pretrain_gpt.py ${MODEL_ARGS[@]} $PARALLEL "${TRAINING_ARGS[@]}" 2>&1 | tee log
"#;

/// A script with one mistake of each kind.
const WRONG: &str = "
torchrun pretrain_gpt.py \\
    --num-layers 24 --hidden-sise 2048 --hidden-size 2048 --num-attention-heads 16 \\
    --seq-length $SEQ --max-position-embeddings many --vocab-size 50257 --micro-batch-size 4 \\
    --fp16 --bf16 --seq-length 4096 --checkpoint-activations --tp-comm-overlap \\
    --recompute-granularity full --recompute-method uniform --recompute-num-layers 4 --quick
";

/// A configuration in the style of the documentation of Transformers.
const DEEPSPEED: &str = r#"{
    // Left to the Trainer.
    "bf16": { "enabled": "auto" },
    "optimizer": { "type": "AdamW", "params": { "lr": "auto", "weight_decay": "auto" } },
    "zero_optimization": {
        "stage": 2,
        "offload_optimizer": { "device": "cpu", "pin_memory": true },
        "overlap_comm": true,
        "contiguous_gradients": true,
        "reduce_bucket_size": 5e8,
    },
    "gradient_accumulation_steps": 4,
    "gradient_clipping": "auto",
    "train_batch_size": 128,
    "train_micro_batch_size_per_gpu": "auto",
    "curriculum_learning": { "enabled": false }
}
"#;

/// A configuration with one mistake of each kind.
const WRONG_DEEPSPEED: &str = r#"{
    "train_micro_batch_size_per_gpu": "many",
    "bf16": { "enabled": true }, "fp16": { "enabled": true },
    "zero_optimisation": { "stage": 2 },
    "zero_optimization": { "stage": 5, "cpu_offload": true, "zero_quantized_weights": true }
}
"#;

/// A job in the style of torchtitan's own.
const JOB: &str = r#"[job]
description = "Llama 3 405B training"

[model]
name = "llama3"
flavor = "405B"
converters = ["float8"]

[training]
local_batch_size = 8
seq_len = 8192
steps = 3000

[parallelism]
data_parallel_shard_degree = 8
tensor_parallel_degree = 8
enable_async_tensor_parallel = true
pipeline_parallel_degree = 8
pipeline_parallel_schedule = "Interleaved1F1B"

[activation_checkpoint]
mode = "full" # ["none", "selective", "full"]

[compile]
enable = true
components = ["model", "loss"]

[quantize.linear.float8]
filter_fqns = ["output"]
"#;

/// A job with names before release 0.1.
const OLD_JOB: &str = r#"[model]
name = "llama3"
flavor = "8B"

[training]
batch_size = 1
seq_len = 8192
data_parallel_replicate_degree = 2
data_parallel_shard_degree = -1
compile = true

[experimental]
context_parallel_degree = 2
"#;

/// A job with one mistake of each kind.
const WRONG_JOB: &str = r#"[model]
name = "llama3"
flavor = "13B"
converters = ["mx"]

[training]
local_batch_size = 2
batch_size = 2
seq_length = 4096

[parallelism]
tensor_parallel_degree = 2
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "DualPipeV"
disable_loss_parallel = true

[compile]
enable = true
"#;

/// A configuration as `ConfigContainer.to_yaml` writes it, in part.
const CONTAINER: &str = "_target_: megatron.bridge.training.config.ConfigContainer
comm_overlap:
  _target_: megatron.bridge.training.comm_overlap.CommOverlapConfig
  tp_comm_overlap: true
ddp:
  average_in_collective: true
  use_distributed_optimizer: true
mixed_precision: bf16_with_fp8_current_scaling_mixed
model:
  _target_: megatron.bridge.models.gpt_provider.GPTModelProvider
  account_for_embedding_in_pipeline_split: true
  account_for_loss_in_pipeline_split: true
  activation_func:
    _call_: false
    _target_: torch.nn.functional.silu
  add_bias_linear: false
  attention_dropout: 0.0
  context_parallel_size: 2
  ffn_hidden_size: 53248
  gated_linear_unit: true
  hidden_dropout: 0.0
  hidden_size: 16384
  moe_router_topk: 2
  normalization: RMSNorm
  num_attention_heads: 128
  num_layers: 126
  num_moe_experts: null
  num_query_groups: 8
  pipeline_model_parallel_size: 8
  position_embedding_type: rope
  seq_length: 8192
  sequence_parallel: true
  share_embeddings_and_output_weights: false
  tensor_model_parallel_size: 8
  virtual_pipeline_model_parallel_size: 8
  vocab_size: 128256
train:
  global_batch_size: 1536
  micro_batch_size: 1
  train_iters: 50
";

/// A configuration with one mistake of each kind.
const WRONG_CONTAINER: &str = "model:
  num_layers: many
  hiden_size: 1024
  gated_linear_unit: true
  activation_func: squared_relu
  mtp_num_layers: 1
mixed_precision:
  bf16: true
  fp16: true
  fp8: e4m3
peft: { dim: 16 }
";

/// A plan that torchtitan can run.
const PLAN: &str = "name: Llama 3 8B
machine: { cluster: { node: dgx-h100, count: 4 } }
model: { transformer: { preset: llama-3-8b } }
training: { global_batch: 64, micro_batch: 1, sequence: 8192 }
software: { attention: flash, layers: torchtitan, cross_entropy: operators, compile: true }
parallelism:
  sharding: optimizer
  overlap_gradient_reduce: {}
  overlap_parameter_gather: {}
  pipeline: 4
  stage_layers: [8, 9, 8, 7]
techniques: { recompute: { every: 2 } }
";

#[test]
fn documents_are_exported() {
    let sandbox = Sandbox::new("export-document");
    sandbox.write("plan.yaml", PLAN);
    sandbox.write("pipeline.yaml", PLAN.replace("{}", "{ align: false }"));
    assert_session!(
        "export-document",
        sandbox.session(&[
            "export zero3-sharded --to deepspeed --variant zero-1",
            "export zero3-sharded --to deepspeed --variant zero-2",
            "export zero-infinity-nvme --to deepspeed",
            "export plan.yaml --to torchtitan",
            "export pipeline.yaml --to torchtitan",
            "export bpipe-gpt3-96b --to torchtitan --variant bpipe",
        ])
    );
    let json = sandbox.run("export pipeline.yaml --to torchtitan --format json").json();
    assert_eq!(json["arguments"][0]["settings"][0]["path"], "model.transformer.preset");
    sandbox.write("job.toml", sandbox.run("export pipeline.yaml --to torchtitan").out);
    sandbox.write("again.yaml", sandbox.run("import torchtitan job.toml --machine dgx-h100").out);
    let (there, back) = ("export pipeline.yaml --to torchtitan", "export again.yaml --to torchtitan");
    let keys = |command: &str| -> Vec<String> {
        let lines = sandbox.run(command).out;
        let lines = lines.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.split('#').next().unwrap_or_default().trim_end().to_owned()).collect()
    };
    assert_eq!(keys(there), keys(back));
}

#[test]
fn documents_are_imported() {
    let sandbox = Sandbox::new("import-document");
    sandbox.write("ds.json", DEEPSPEED);
    sandbox.write("wrong.json", WRONG_DEEPSPEED);
    sandbox.write("twice.json", "{ \"train_batch_size\": 8,\n  \"train_batch_size\": 16 }\n");
    sandbox.write("broken.json", "{ \"train_batch_size\": [8,\n");
    sandbox.write("job.toml", JOB);
    sandbox.write("old.toml", OLD_JOB);
    sandbox.write("wrong.toml", WRONG_JOB);
    sandbox.write("twice.toml", "[model]\nname = \"llama3\"\nname = \"llama2\"\n");
    let known = "--machine dgx-a100-80g --model llama-2-7b --set training.sequence=4096";
    assert_session!(
        "import-document",
        sandbox.session(&[
            &format!("import deepspeed ds.json {known}"),
            "import deepspeed ds.json",
            &format!("import deepspeed wrong.json {known}"),
            &format!("import deepspeed twice.json {known}"),
            &format!("import deepspeed broken.json {known}"),
            "import deepspeed ds.json --machine dgx-a100-80g --model llama-2-7 --set training.sequence=4096",
            "import torchtitan job.toml --machine dgx-h100",
            "import torchtitan old.toml --machine dgx-h100",
            "import torchtitan wrong.toml --machine dgx-h100",
            "import torchtitan twice.toml --machine dgx-h100",
        ])
    );
    let json = sandbox.run("import torchtitan old.toml --machine dgx-h100 --format json").json();
    assert_eq!(json["release"], "0.0");
    sandbox.write("plan.yaml", json["scenario"].as_str().expect("a scenario"));
    assert_eq!(sandbox.run("check plan.yaml").exit, 0);
}

#[test]
fn containers_are_imported() {
    let sandbox = Sandbox::new("import-container");
    sandbox.write("config.yaml", CONTAINER);
    sandbox.write("wrong.yaml", WRONG_CONTAINER);
    sandbox.write("twice.yaml", "train:\n  micro_batch_size: 1\n  micro_batch_size: 2\n");
    sandbox.write("list.yaml", "- model\n");
    assert_session!(
        "import-container",
        sandbox.session(&[
            "import megatron-bridge config.yaml --machine dgx-h100 --set parallelism.data=8",
            "import megatron-bridge --machine dgx-h100 --model llama-3-8b -- model.seq_length=8192 train.micro_batch_size=1 \
             train.global_batch_size=128 ++model.recompute_granularity=selective model.recompute_modules=[mlp,layernorm]",
            "import megatron-bridge --machine dgx-h100 --model llama-3-8b -- trainer.strategy.tensor_model_parallel_size=2 \
             data.seq_length=8192 data.micro_batch_size=1 data.global_batch_size=128 trainer.max_steps=100",
            "import megatron-bridge wrong.yaml --machine dgx-h100 -- train.micro_batch_size=2 train.micro_batch_size=4 --quick \
             ~model ddp={",
            "import megatron-bridge wrong.yaml --machine dgx-h100",
            "import megatron-bridge twice.yaml --machine dgx-h100",
            "import megatron-bridge list.yaml --machine dgx-h100",
            "export megatron-175b --to megatron-bridge",
        ])
    );
}

#[test]
fn plans_are_exported() {
    let sandbox = Sandbox::new("export");
    assert_session!(
        "export",
        sandbox.session(&[
            "export megatron-22b --to megatron --variant selective-sp",
            "export megatron-175b --to megatron",
            "export moe-expert-parallel --to megatron --variant over-8",
            "export bpipe-gpt3-96b --to megatron --variant bpipe",
            "export zero-infinity-nvme --to megatron",
            "export pipeline-schedules --to megatron",
        ])
    );
    let json = sandbox.run("export megatron-175b --to megatron --format json").json();
    assert_eq!(json["gpus"], serde_json::json!([8, 8]));
    assert_eq!(json["arguments"][0]["settings"][0]["path"], "model.transformer.layers");
}

#[test]
fn arguments_are_imported() {
    let sandbox = Sandbox::new("import-plan");
    sandbox.write("pretrain.sh", SCRIPT);
    sandbox.write("wrong.sh", WRONG);
    sandbox.write("empty.sh", "echo nothing\n");
    assert_session!(
        "import-plan",
        sandbox.session(&[
            "import megatron pretrain.sh --machine dgx-a100-80g",
            "import megatron pretrain.sh",
            "import megatron wrong.sh --machine dgx-a100-80g",
            "import megatron empty.sh --machine dgx-a100-80g",
            "import megatron pretrain.sh --machine dgx-a100 --set training.micro_batch=3",
            "import megatron --machine dgx-a100-80g -- --num-layers 2 --bf16",
        ])
    );
    let json = sandbox.run("import megatron pretrain.sh --machine dgx-a100-80g --format json").json();
    assert_eq!(json["ignored"][0]["argument"], "--train-iters");
    sandbox.write("plan.yaml", json["scenario"].as_str().expect("a scenario"));
    assert_eq!(sandbox.run("check plan.yaml").exit, 0);
    let less = "--set machine.cluster.count=1 --set parallelism.data=2";
    sandbox.write(
        "less.yaml",
        sandbox.run(&format!("import megatron pretrain.sh --machine dgx-a100-80g {less}")).out,
    );
    assert_eq!(sandbox.run("check less.yaml").exit, 0);
}

#[test]
#[expect(clippy::print_stderr, reason = "who runs tests should know what was not tested")]
fn an_export_is_a_bash_array_that_comes_back() {
    let sandbox = Sandbox::new("export-bash");
    let script = sandbox.run("export megatron-22b --to megatron").out;
    sandbox.write("arguments.sh", &script);
    let bash = Command::new("bash").arg("-n").arg(sandbox.path("arguments.sh")).stdin(Stdio::null()).output();
    match bash {
        Ok(bash) => assert!(bash.status.success(), "{}", String::from_utf8_lossy(&bash.stderr)),
        Err(_) => eprintln!("skipped: there is no bash here"),
    }
    let plan = sandbox.run("import megatron arguments.sh --machine dgx-a100-80g").out;
    sandbox.write("plan.yaml", &plan);
    assert_eq!(sandbox.run("export plan.yaml --to megatron").out.lines().count(), script.lines().count());
}
