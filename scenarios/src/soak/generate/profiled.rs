//! Pipelines whose stage times are given.

use serde_json::{Value, json};

use super::super::draw::{Draw, Settings};
use super::{SEND, Scheduled, schedule};

const MODEL: &str = "model.profiled_pipeline";

/// Writes the model, its training, parallelism and techniques.
pub(super) fn fill(draw: &mut Draw, settings: &mut Settings) {
    let stages = draw.between(1, 6);
    let scheduled = schedule(draw, stages, true);
    let activation = draw.between(100, 4_000);
    times(draw, settings, stages);
    memory(draw, settings, stages, activation);
    settings.set("training.micro_batches", scheduled.count);
    settings.some(draw, 20, "training", &json!({ "micro_batch": [1, 2, 8], "flush": [false] }));
    settings.set("parallelism.schedule", scheduled.schedule.clone());
    settings.some(draw, 40, "parallelism", &json!({ "send": SEND }));
    recompute(draw, settings, stages, activation);
    if scheduled.is_1f1b() && draw.chance(35) {
        settings.set("techniques.bpipe", json!({}));
        let choices = json!({
            "policy": ["evict-newest", "every-micro-batch"],
            "transfer": ["hidden", { "rate": "5 GB/s" }, { "rate": "300 GB/s" }],
            "bound": [2, stages + 2],
        });
        settings.some(draw, 50, "techniques.bpipe", &choices);
    }
    if draw.chance(12) {
        settings.set("sweep", sweep(draw, stages, &scheduled));
    }
}

/// Times of passes and messages; those of the backward pass may be zero.
fn times(draw: &mut Draw, settings: &mut Settings, stages: u64) {
    settings.set(&format!("{MODEL}.stages"), stages);
    for (key, least, most) in [
        ("forward", 1, 20_000),
        ("backward_input", 0, 20_000),
        ("backward_weight", 0, 20_000),
        ("transfer", 0, 3_000),
    ] {
        settings.set(&format!("{MODEL}.{key}"), per_stage(draw, stages, (least, most), "us"));
    }
}

/// What stages hold, on devices of which most have room for it.
fn memory(draw: &mut Draw, settings: &mut Settings, stages: u64, activation: u64) {
    settings.set(&format!("{MODEL}.activation"), format!("{activation} MB"));
    let weights = draw.between(0, 20_000);
    let kept = per_stage(draw, stages, (0, activation), "MB");
    let choices = json!({ "activation_kept_for_weight": [kept], "weights": [format!("{weights} MB")] });
    settings.some(draw, 60, MODEL, &choices);
    if draw.chance(50) {
        let room = weights + activation * draw.between(1, 4 * stages + 2);
        settings.set(&format!("{MODEL}.device.memory"), format!("{room} MB"));
        let reserved = json!({ "reserved": ["0 MB", format!("{activation} MB")] });
        settings.some(draw, 20, &format!("{MODEL}.device"), &reserved);
    }
}

fn recompute(draw: &mut Draw, settings: &mut Settings, stages: u64, activation: u64) {
    if !draw.chance(25) {
        return;
    }
    settings.set("techniques.recompute", json!({}));
    let stages_of_some: Vec<u64> = (0..stages).filter(|_| draw.chance(50)).collect();
    let choices = json!({
        "forward": [per_stage(draw, stages, (1, 20_000), "us")],
        "keeps": [per_stage(draw, stages, (0, activation / 4), "MB")],
        "stages": [stages_of_some],
    });
    settings.some(draw, 40, "techniques.recompute", &choices);
}

fn sweep(draw: &mut Draw, stages: u64, scheduled: &Scheduled) -> Value {
    let count = scheduled.count;
    match draw.between(0, 2) {
        0 if scheduled.schedule.get("interleaved").is_none() => {
            json!({ "training.micro_batches": [count, count + 1, count + draw.between(2, 5)] })
        }
        1 if stages > 1 => json!({ "parallelism.schedule": ["1f1b", "gpipe", "zb-h1"] }),
        _ => {
            json!({ format!("{MODEL}.forward"): { "from": "1 ms", "to": "9 ms", "steps": 3, "scale": "linear" } })
        }
    }
}

/// One value for all stages, or one for each.
fn per_stage(draw: &mut Draw, stages: u64, (least, most): (u64, u64), unit: &str) -> Value {
    let each = draw.chance(50);
    let mut value = || Value::from(format!("{} {unit}", draw.between(least, most)));
    if each { (0..stages).map(|_| value()).collect() } else { value() }
}
