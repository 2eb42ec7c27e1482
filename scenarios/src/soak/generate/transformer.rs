//! Transformers: of drawn dimensions or presets with few layers, split over a machine.

use serde_json::{Value, json};

use super::super::draw::{Draw, Settings};
use super::machine::{self, Node};
use super::techniques::{self, Plan};
use super::{micro_batches, percent, schedule};

const MODEL: &str = "model.transformer";
const PRESETS: [&str; 12] = [
    "gpt2",
    "gpt2-medium",
    "gpt2-xl",
    "gpt3-96b",
    "megatron-1.7b",
    "llama-7b",
    "llama-2-70b",
    "llama-3-8b",
    "mistral-7b",
    "qwen2-7b",
    "mpt-7b",
    "gpt-neox-20b",
];
const ENCODERS: [&str; 2] = ["bert-base", "roberta-base"];

/// How the model is split over ranks.
struct Split {
    tensor: u64,
    context: u64,
    stages: u64,
    data: u64,
}

/// The parts of a model that decide what goes with it.
#[derive(Default)]
struct Dimensions {
    /// Experts of a layer; 0: none.
    experts: u64,
    sequence: u64,
}

/// Writes the model, its machine, training, parallelism, software and techniques.
pub(super) fn fill(draw: &mut Draw, settings: &mut Settings) {
    let split = Split {
        tensor: draw.one(&[1, 1, 1, 2, 2, 4]),
        context: draw.one(&[1, 1, 1, 1, 1, 1, 2]),
        stages: draw.one(&[1, 1, 1, 2, 2, 4]),
        data: draw.one(&[1, 1, 2, 2, 4]),
    };
    let node = machine::fill(draw, settings, split.tensor * split.context * split.stages * split.data);
    let scheduled = schedule(draw, split.stages, true);
    settings.set("parallelism.schedule", scheduled.schedule.clone());
    let model = model(draw, settings, &split, split.stages * scheduled.chunks);
    let count = micro_batches(draw, split.stages, &scheduled);
    let precision = training(draw, settings, node, &model, count);
    let step = settings.maybe(draw, 6, "training.step", |draw| draw.one(&["gradients", "forward"]).into());
    parallelism(draw, settings, &split, &model);
    software(draw, settings, precision, split.context);
    let plan = Plan {
        drives: node.drives,
        memory: node.memory,
        stages: split.stages,
        copies: split.data * split.context,
        experts: model.experts > 0,
        splits: scheduled.splits,
        chunks: scheduled.chunks,
        one_at_a_time: count == 1 || (split.stages == 1 && scheduled.schedule == json!("1f1b")),
        is_1f1b: scheduled.schedule == json!("1f1b"),
        partial: step,
        layered: false,
    };
    techniques::fill(draw, settings, &plan);
    settings.maybe(draw, 10, "sweep", |draw| sweep(draw, precision));
}

/// A model of which every chunk has one to three layers.
fn model(draw: &mut Draw, settings: &mut Settings, split: &Split, positions: u64) -> Dimensions {
    settings.set(&format!("{MODEL}.layers"), positions * draw.between(1, 3));
    let sequence = 2 * split.tensor * split.context * draw.one(&[32, 64, 128]);
    let drawn = Dimensions { sequence, ..Dimensions::default() };
    match draw.between(0, 9) {
        0..=2 => settings.set(&format!("{MODEL}.preset"), draw.one(&PRESETS)),
        3 if split.context == 1 => {
            settings.set(&format!("{MODEL}.preset"), draw.one(&ENCODERS));
            settings.set(&format!("{MODEL}.vocabulary"), 30_000);
            settings.maybe(draw, 40, &format!("{MODEL}.classes"), |draw| draw.between(2, 9).into());
            return Dimensions { sequence: sequence.min(512), ..drawn };
        }
        _ => return dimensions(draw, settings, split, drawn),
    }
    drawn
}

/// Dimensions that divide by the ranks.
fn dimensions(draw: &mut Draw, settings: &mut Settings, split: &Split, drawn: Dimensions) -> Dimensions {
    let mut set = |key: &str, value: Value| settings.set(&format!("{MODEL}.{key}"), value);
    let kv_heads = split.tensor * split.context * draw.between(1, 3);
    let heads = kv_heads * draw.one(&[1, 1, 2, 4]);
    let width = draw.one(&[64, 80, 128]);
    set("hidden", json!(heads * width));
    set("heads", json!(heads));
    set("vocabulary", json!(draw.one(&[1_000, 32_000, 50_257])));
    set("max_positions", json!(drawn.sequence * draw.between(1, 4)));
    if draw.chance(50) {
        set("kv_heads", json!(kv_heads));
    } else {
        set("kv_heads", json!(heads));
    }
    let optional: [(&str, &[Value]); 7] = [
        ("ffn", &[json!(8 * split.tensor * 128), json!(8 * split.tensor * 96)]),
        ("norm", &[json!("layer"), json!("rms")]),
        ("mlp", &[json!("gelu"), json!("swiglu")]),
        ("positions", &[json!("learned"), json!("rotary"), json!("alibi")]),
        ("tied_embedding", &[json!(true), json!(false)]),
        ("dropout", &[json!(true), json!(false)]),
        ("parallel_residual", &[json!(true)]),
    ];
    for (key, values) in optional {
        if draw.chance(35) {
            set(key, values[draw.index(values.len())].clone());
        }
    }
    if draw.chance(85) || split.context > 1 {
        if draw.chance(30) {
            set("bias", json!(draw.one(&["none", "qkv", "all"])));
        }
        return drawn;
    }
    let experts = draw.one(&[2, 4, 8]);
    set("bias", json!(draw.one(&["none", "qkv"])));
    set("parallel_residual", json!(false));
    set("experts", experts_of(draw, experts, 128 * split.tensor));
    Dimensions { experts, ..drawn }
}

fn experts_of(draw: &mut Draw, count: u64, width: u64) -> Value {
    let mut experts =
        json!({ "count": count, "top_k": draw.between(1, 2), "ffn": width * draw.between(1, 8) });
    if draw.chance(30) {
        experts["shared_ffn"] = json!(width * draw.between(1, 4));
    }
    if draw.chance(30) {
        experts["capacity_factor"] = json!(draw.one(&[1.0, 1.25, 2.0]));
        experts["pad_to_capacity"] = json!(draw.chance(50));
    }
    if draw.chance(40) {
        experts["load"] = match draw.between(0, 2) {
            0 => json!("even"),
            1 => json!({ "busiest": percent(draw.between(100 / count + 1, 60)) }),
            _ => json!({ "drawn": { "concentration": draw.between(1, 100), "seed": draw.between(1, 9) } }),
        };
    }
    experts
}

/// Writes batches and number formats; the precision.
fn training(
    draw: &mut Draw,
    settings: &mut Settings,
    node: Node,
    model: &Dimensions,
    count: u64,
) -> &'static str {
    settings.set("training.sequence", model.sequence);
    settings.set("training.micro_batch", draw.one(&[1, 1, 2, 4]));
    settings.set("training.accumulate", count);
    let precision = draw.one(node.precisions);
    settings.set("training.precision", precision);
    if node.fp8 && precision != "fp32" && model.experts == 0 {
        settings.maybe(
            draw,
            25,
            "training.fp8",
            |draw| json!({ "scaling": draw.one(&["tensorwise", "rowwise", "delayed"]) }),
        );
    }
    precision
}

fn parallelism(draw: &mut Draw, settings: &mut Settings, split: &Split, model: &Dimensions) {
    let mut set = |key: &str, value: Value| settings.set(&format!("parallelism.{key}"), value);
    for (key, ranks) in [("tensor", split.tensor), ("context", split.context), ("pipeline", split.stages)] {
        if ranks > 1 {
            set(key, json!(ranks));
        }
    }
    set("data", json!(split.data));
    let sequence_parallel = split.tensor > 1 && (model.experts > 0 || draw.chance(50));
    if sequence_parallel {
        set("sequence_parallel", json!(true));
        if draw.chance(20) {
            set("asynchronous_tensor", json!(true));
        }
        if draw.chance(20) {
            set("overlap_tensor_reduce", json!(draw.chance(50)));
        }
    }
    if split.context > 1 {
        set("context_exchange", json!(draw.one(&["all-to-all", "ring", "all-gather", "gathered-ring"])));
    }
    if model.experts > 0 && split.data > 1 && model.experts.is_multiple_of(split.data) {
        set("expert", json!(split.data));
    }
    if split.stages > 1 && draw.chance(40) {
        set("send", json!(draw.one(&["latency", "eager", "blocking", "rendezvous"])));
    }
    if draw.chance(15) {
        set("scatter_gather", json!(draw.chance(50)));
    }
}

fn software(draw: &mut Draw, settings: &mut Settings, precision: &str, context: u64) {
    let kernels: &[&str] = match (precision, context) {
        ("fp32", _) => &["materialised"],
        (_, 1) => &["materialised", "flash", "flash", "flash3", "cudnn", "flash-triton"],
        _ => &["flash"],
    };
    settings.set("software.attention", draw.one(kernels));
    let words: [(&str, &[&str]); 8] = [
        ("layers", &["megatron-lm", "hugging-face", "torchtitan"]),
        ("gelu", &["kernel", "operators"]),
        ("optimizer", &["fused", "operators"]),
        ("products_add_to", &["fp32", "any"]),
        ("cross_entropy", &["passes", "operators", "fused"]),
        ("fused_softmax", &["auto", "on", "off"]),
        ("launch", &["eager", "graph", "free"]),
        ("launch", &["eager", "free"]),
    ];
    for (key, values) in words {
        settings.maybe(draw, 20, &format!("software.{key}"), |draw| draw.one(values).into());
    }
    settings.maybe(draw, 15, "software.compile", |draw| draw.chance(50).into());
    settings.maybe(draw, 10, "software.loss_metrics", |draw| draw.between(0, 2).into());
    settings.maybe(draw, 10, "software.host_overhead", |draw| format!("{} us", draw.between(0, 20)).into());
}

fn sweep(draw: &mut Draw, precision: &str) -> Value {
    let (path, values) = match draw.between(0, 4) {
        0 => ("training.micro_batch", json!([1, 2, 3])),
        1 if precision != "fp32" => ("software.attention", json!(["materialised", "flash"])),
        2 => ("parallelism.data", json!([1, 2])),
        3 => ("software.launch", json!(["eager", "free"])),
        _ => ("model.transformer.layers", json!([2, 4, 12])),
    };
    json!({ path: values })
}
