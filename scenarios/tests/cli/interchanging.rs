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
