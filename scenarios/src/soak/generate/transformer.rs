//! Transformers: of drawn dimensions or presets with few layers, split over a machine.

use serde_json::{Value, json};

use super::super::draw::{Draw, Settings};
use super::machine::{self, Drawn};
use super::techniques::{self, Plan};
use super::{SEND, percent, schedule};

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
    /// Its layers can have adapters.
    decodes: bool,
}

/// Writes the model, its machine, training, parallelism, software and techniques.
pub(super) fn fill(draw: &mut Draw, settings: &mut Settings) {
    let split = Split {
        tensor: draw.one(&[1, 1, 1, 2, 2, 4]),
        context: draw.one(&[1, 1, 1, 1, 1, 1, 2]),
        stages: draw.one(&[1, 1, 1, 2, 2, 4]),
        data: draw.one(&[1, 1, 2, 2, 4]),
    };
    let machine = machine::fill(draw, settings, split.tensor * split.context * split.stages * split.data);
    let scheduled = schedule(draw, split.stages, true);
    settings.set("parallelism.schedule", scheduled.schedule.clone());
    let model = model(draw, settings, &split, split.stages * scheduled.chunks);
    let precision = training(draw, settings, &machine, &model, scheduled.count);
    let partial = settings.some(draw, 6, "training", &json!({ "step": ["gradients", "forward"] }));
    let frozen = model.decodes && adapters(draw, settings, &model);
    parallelism(draw, settings, &split, &model);
    software(draw, settings, precision, split.context);
    let plan = Plan {
        machine,
        stages: split.stages,
        copies: split.data * split.context,
        experts: model.experts > 0,
        scheduled,
        partial,
        frozen,
        layered: false,
    };
    techniques::fill(draw, settings, &plan);
    if draw.chance(10) {
        settings.set("sweep", sweep(draw, precision));
    }
}

/// A model of which every chunk has one to three layers.
fn model(draw: &mut Draw, settings: &mut Settings, split: &Split, positions: u64) -> Dimensions {
    settings.set(&format!("{MODEL}.layers"), positions * draw.between(1, 3));
    let sequence = 2 * split.tensor * split.context * draw.one(&[32, 64, 128]);
    let drawn = Dimensions { sequence, decodes: true, ..Dimensions::default() };
    match draw.between(0, 9) {
        0..=2 => settings.set(&format!("{MODEL}.preset"), draw.one(&PRESETS)),
        3 if split.context == 1 => {
            settings.set(&format!("{MODEL}.preset"), draw.one(&ENCODERS));
            settings.set(&format!("{MODEL}.vocabulary"), 30_000);
            settings.some(draw, 40, MODEL, &json!({ "classes": [2, 9] }));
            return Dimensions { sequence: sequence.min(512), decodes: false, ..drawn };
        }
        _ => return dimensions(draw, settings, split, drawn),
    }
    drawn
}

/// Dimensions that divide by the ranks.
fn dimensions(draw: &mut Draw, settings: &mut Settings, split: &Split, drawn: Dimensions) -> Dimensions {
    let kv_heads = split.tensor * split.context * draw.between(1, 3);
    let heads = kv_heads * draw.one(&[1, 1, 2, 4]);
    let needed = json!({
        "hidden": [heads * draw.one(&[64, 80, 128])],
        "heads": [heads],
        "kv_heads": [heads, kv_heads],
        "vocabulary": [1_000, 32_000, 50_257],
        "max_positions": [drawn.sequence, 4 * drawn.sequence],
    });
    settings.some(draw, 100, MODEL, &needed);
    let optional = json!({
        "ffn": [8 * split.tensor * 128, 8 * split.tensor * 96],
        "norm": ["layer", "rms"],
        "mlp": ["gelu", "swiglu", "geglu"],
        "positions": ["learned", "rotary", "alibi"],
        "tied_embedding": [true, false],
        "dropout": [true, false],
        "parallel_residual": [true],
        "query_key_norm": ["weighted", "plain"],
        "sinks": [true],
        "scaled_embedding": [true],
        "logit_cap": [true],
    });
    settings.some(draw, 35, MODEL, &optional);
    if draw.chance(30) && split.context == 1 {
        let window = json!({ "window": [drawn.sequence / 2, drawn.sequence] });
        settings.some(draw, 100, MODEL, &window);
        settings.some(
            draw,
            50,
            MODEL,
            &json!({ "global_every": [2, 3], "window_form": ["sliding", "chunks"] }),
        );
    }
    if draw.chance(85) || split.context > 1 {
        settings.some(draw, 30, MODEL, &json!({ "bias": ["none", "qkv", "all"] }));
        return drawn;
    }
    let count = draw.one(&[2, 4, 8]);
    settings.some(draw, 100, MODEL, &json!({ "bias": ["none", "qkv"], "parallel_residual": [false] }));
    experts(draw, settings, count, 128 * split.tensor);
    Dimensions { experts: count, ..drawn }
}

fn experts(draw: &mut Draw, settings: &mut Settings, count: u64, width: u64) {
    let path = format!("{MODEL}.experts");
    let needed = json!({ "count": [count], "top_k": [1, 2], "ffn": [width, 8 * width] });
    settings.some(draw, 100, &path, &needed);
    let busiest = percent(draw.between(100 / count + 1, 60));
    let drawn = json!({ "concentration": draw.between(1, 100), "seed": draw.between(1, 9) });
    let optional = json!({
        "shared_ffn": [width, 4 * width],
        "load": ["even", { "busiest": busiest }, { "drawn": drawn }],
    });
    settings.some(draw, 35, &path, &optional);
    if settings.some(draw, 30, &path, &json!({ "capacity_factor": [1.0, 1.25, 2.0] })) {
        settings.set(&format!("{path}.pad_to_capacity"), draw.chance(50));
    }
}

/// Writes batches and number formats; the precision.
fn training(
    draw: &mut Draw,
    settings: &mut Settings,
    machine: &Drawn,
    model: &Dimensions,
    count: u64,
) -> &'static str {
    settings.set("training.sequence", model.sequence);
    settings.set("training.micro_batch", draw.one(&[1, 1, 2, 4]));
    settings.set("training.accumulate", count);
    let precision = machine.precision(draw);
    settings.set("training.precision", precision);
    if machine.gpu.peak_tflops.fp8.is_some() && precision != "fp32" && model.experts == 0 {
        let scalings = json!({ "scaling": ["tensorwise", "rowwise", "delayed"] });
        settings.some(draw, 25, "training.fp8", &scalings);
    }
    precision
}

/// Writes adapters of linear layers, of attention where there are experts; whether there are any.
fn adapters(draw: &mut Draw, settings: &mut Settings, model: &Dimensions) -> bool {
    const ADAPTERS: &str = "training.adapters";
    if !draw.chance(12) {
        return false;
    }
    settings.set(&format!("{ADAPTERS}.rank"), draw.one(&[1, 8, 64]));
    settings.set(&format!("{ADAPTERS}.dropout"), draw.chance(30));
    let (chance, layers) = if model.experts > 0 {
        (100, json!([["query", "key", "value"], ["query", "key", "value", "output"]]))
    } else {
        (60, json!([["query", "key", "value"], ["output", "down"], ["gate", "up"]]))
    };
    settings.some(draw, chance, ADAPTERS, &json!({ "layers": layers }));
    true
}

fn parallelism(draw: &mut Draw, settings: &mut Settings, split: &Split, model: &Dimensions) {
    for (key, ranks) in [("tensor", split.tensor), ("context", split.context), ("pipeline", split.stages)] {
        if ranks > 1 {
            settings.set(&format!("parallelism.{key}"), ranks);
        }
    }
    settings.set("parallelism.data", split.data);
    if split.tensor > 1 && (model.experts > 0 || draw.chance(50)) {
        settings.set("parallelism.sequence_parallel", true);
        let choices = json!({ "asynchronous_tensor": [true], "overlap_tensor_reduce": [true, false] });
        settings.some(draw, 20, "parallelism", &choices);
    }
    if split.context > 1 {
        let exchanges = ["all-to-all", "ring", "all-gather", "gathered-ring"];
        settings.set("parallelism.context_exchange", draw.one(&exchanges));
    }
    if model.experts > 0 && split.data > 1 && model.experts.is_multiple_of(split.data) {
        settings.set("parallelism.expert", split.data);
    }
    if split.stages > 1 {
        settings.some(draw, 40, "parallelism", &json!({ "send": SEND }));
    }
    settings.some(draw, 15, "parallelism", &json!({ "scatter_gather": [true, false] }));
}

fn software(draw: &mut Draw, settings: &mut Settings, precision: &str, context: u64) {
    let kernels: &[&str] = match (precision, context) {
        ("fp32", _) => &["materialised"],
        (_, 1) => &["materialised", "flash", "flash", "flash3", "cudnn", "flash-triton"],
        _ => &["flash"],
    };
    settings.set("software.attention", draw.one(kernels));
    let choices = json!({
        "layers": ["megatron-lm", "hugging-face", "torchtitan"],
        "gelu": ["kernel", "operators"],
        "optimizer": ["fused", "operators"],
        "products_add_to": ["none", "fp32", "any"],
        "gradients": ["added", "released"],
        "cross_entropy": ["passes", "operators", "fused", "compiled", "transformer-engine"],
        "fused_softmax": ["auto", "on", "off"],
        "launch": ["eager", "eager", "graph", "free", "free"],
        "compile": [true, false],
        "loss_metrics": [0, 1, 2],
        "host_overhead": ["0 us", "20 us"],
    });
    settings.some(draw, 20, "software", &choices);
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
