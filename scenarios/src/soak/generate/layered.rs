//! Lists of layers: small presets, and images, signals and tokens through drawn layers.

use serde_json::{Value, json};

use super::super::draw::{Draw, Settings};
use super::machine;
use super::schedule;
use super::techniques::{self, Plan};

const MODEL: &str = "model.layers";
const PRESETS: [&str; 5] = ["vgg-16", "resnet-50", "vit-b-16", "t5-small", "switch-base-8"];

/// Writes the model, its machine, training, parallelism and techniques.
pub(super) fn fill(draw: &mut Draw, settings: &mut Settings) {
    let preset = draw.chance(25).then(|| draw.one(&PRESETS));
    let whole = matches!(preset, Some("t5-small" | "switch-base-8"));
    let stages = if whole { 1 } else { draw.one(&[1, 1, 1, 2, 3]) };
    let data = draw.one(&[1, 1, 2, 4, 8]);
    let machine = machine::fill(draw, settings, stages * data);
    let mut scheduled = schedule(draw, stages, false);
    scheduled.count = scheduled.count.min(if preset.is_some() { 2 } else { 8 });
    let routed = match preset {
        Some(name) => {
            settings.set(&format!("{MODEL}.preset"), name);
            name == "switch-base-8"
        }
        None => list(draw, settings),
    };
    let precision = machine.precision(draw);
    settings.set("training.micro_batch", draw.between(1, 16));
    settings.set("training.accumulate", scheduled.count);
    settings.set("training.precision", precision);
    settings.some(draw, 30, "training", &json!({ "optimizer": ["adam", "sgd-momentum"] }));
    let partial = settings.some(draw, 6, "training", &json!({ "step": ["gradients", "forward"] }));
    settings.set("parallelism.schedule", scheduled.schedule.clone());
    settings.set("parallelism.data", data);
    if stages > 1 {
        settings.set("parallelism.pipeline", stages);
    }
    let launch: &[&str] = if routed { &["eager", "free"] } else { &["eager", "graph", "free"] };
    settings.some(draw, 40, "software", &json!({ "launch": launch }));
    let plan = Plan {
        machine,
        stages,
        copies: data,
        experts: false,
        scheduled,
        partial,
        frozen: false,
        layered: true,
    };
    techniques::fill(draw, settings, &plan);
    if draw.chance(10) {
        settings.set("sweep", json!({ "training.micro_batch": [1, 2, 5] }));
    }
}

/// Writes a drawn list; whether it routes tokens to experts.
fn list(draw: &mut Draw, settings: &mut Settings) -> bool {
    let (input, mut layers, routed) = match draw.between(0, 2) {
        0 => image(draw),
        1 => signal(draw),
        _ => tokens(draw),
    };
    layers.push(json!("cross_entropy"));
    settings.set(&format!("{MODEL}.input"), input);
    settings.set(&format!("{MODEL}.list"), layers);
    routed
}

fn activation(draw: &mut Draw) -> Value {
    draw.one(&["relu", "gelu", "silu", "hardswish", "sigmoid", "tanh"]).into()
}

fn image(draw: &mut Draw) -> (Value, Vec<Value>, bool) {
    let channels = 16 * draw.between(1, 8);
    let side = draw.one(&[28, 32, 56]);
    let mut layers = vec![
        json!({ "conv2d": { "channels": channels, "kernel": 3, "padding": 1, "stride": draw.one(&[1, 2]) } }),
    ];
    for _ in 0..draw.between(1, 4) {
        let body = [
            json!({ "conv2d": { "channels": channels, "kernel": draw.one(&[1, 3]), "padding": 0, "bias": draw.chance(50) } }),
            json!({ "depthwise_conv2d": { "kernel": 3, "padding": 1 } }),
            json!({ "residual": { "body": [{ "conv2d": { "channels": channels, "kernel": 3, "padding": 1 } }, "batch_norm", activation(draw)] } }),
            json!({ "repeat": { "count": draw.between(1, 3), "layers": [{ "linear": { "outputs": channels } }, "layer_norm"] } }),
            json!({ "max_pool": { "kernel": 2 } }),
            json!({ "squeeze_excite": { "channels": 8, "activation": activation(draw) } }),
            json!({ "group_norm": { "groups": 4 } }),
            json!("batch_norm"),
            activation(draw),
        ];
        layers.push(draw.one(&body));
    }
    let last = if draw.chance(50) { "flatten" } else { "global_average_pool" };
    layers.extend([json!(last), json!({ "linear": { "outputs": draw.one(&[10, 1000]) } })]);
    (json!({ "channels": 3, "height": side, "width": side }), layers, false)
}

fn signal(draw: &mut Draw) -> (Value, Vec<Value>, bool) {
    let channels = 32 * draw.between(1, 4);
    let mut layers = Vec::new();
    for _ in 0..draw.between(1, 4) {
        layers.push(json!({ "conv1d": { "channels": channels, "kernel": draw.one(&[3, 5]), "stride": draw.one(&[1, 2]) } }));
        layers.push(activation(draw));
    }
    layers.extend([json!("global_average_pool"), json!({ "linear": { "outputs": 35 } })]);
    (json!({ "channels": 1, "length": draw.one(&[4_000, 16_000]) }), layers, false)
}

fn tokens(draw: &mut Draw) -> (Value, Vec<Value>, bool) {
    let heads = draw.between(1, 8);
    let width = 64 * heads;
    let words = draw.chance(80);
    let mut layers = Vec::new();
    if words {
        layers.push(json!({ "embedding": { "vocabulary": draw.one(&[500, 32_128]), "width": width } }));
    }
    if draw.chance(30) {
        layers.push(json!("position_embedding"));
    }
    let attention = json!({ "heads": heads, "causal": draw.chance(50), "bias": draw.chance(50), "dropout": draw.chance(50) });
    let among_tokens = if draw.chance(20) {
        let cell = draw.one(&["simple", "lstm", "gru"]);
        json!({ "recurrent": { "cell": cell, "width": width, "bias": draw.chance(50), "skip_input": draw.chance(30) } })
    } else {
        json!({ "attention": attention })
    };
    let attended = json!({ "residual": { "body": ["layer_norm", among_tokens, "dropout"] } });
    let mlp = json!({ "width": 4 * width, "activation": activation(draw), "gated": draw.chance(30) });
    let routed = draw.chance(20);
    let second = if routed {
        json!({ "experts": { "count": draw.one(&[2, 4]), "width": 2 * width } })
    } else {
        json!({ "mlp": mlp })
    };
    let mixed = json!({ "residual": { "body": ["rms_norm", second] } });
    layers.push(json!({ "repeat": { "count": draw.between(1, 4), "layers": [attended, mixed] } }));
    layers.extend([json!("layer_norm"), json!({ "linear": { "outputs": 500 } })]);
    let count = draw.one(&[64, 128, 256]);
    let input = if words { json!({ "tokens": count }) } else { json!({ "tokens": count, "width": width }) };
    (input, layers, routed)
}
