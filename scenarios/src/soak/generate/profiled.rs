//! Pipelines whose stage times are given.

use serde_json::{Value, json};

use super::super::draw::{Draw, Settings};
use super::{Scheduled, micro_batches, schedule};

const MODEL: &str = "model.profiled_pipeline";
const MEGABYTES: u64 = 1_000_000;

/// Writes the model, its training, parallelism and techniques.
pub(super) fn fill(draw: &mut Draw, settings: &mut Settings) {
    let stages = draw.between(1, 6);
    let scheduled = schedule(draw, stages, true);
    let count = micro_batches(draw, stages, &scheduled);
    let activation = draw.between(100, 4_000);
    times(draw, settings, stages);
    memory(draw, settings, stages, activation);
    settings.set("training.micro_batches", count);
    settings.maybe(draw, 40, "training.micro_batch", |draw| draw.between(1, 8).into());
    settings.maybe(draw, 10, "training.flush", |_| false.into());
    settings.set("parallelism.schedule", scheduled.schedule.clone());
    settings.maybe(draw, 40, "parallelism.send", |draw| {
        draw.one(&["latency", "eager", "blocking", "rendezvous"]).into()
    });
    recompute(draw, settings, stages, activation);
    if scheduled.schedule == json!("1f1b") {
        bpipe(draw, settings, stages);
    }
    settings.maybe(draw, 12, "sweep", |draw| sweep(draw, stages, count, &scheduled));
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
    settings.maybe(draw, 40, &format!("{MODEL}.activation_kept_for_weight"), |draw| {
        per_stage(draw, stages, (0, activation), "MB")
    });
    let weights = draw.between(0, 20_000);
    settings.maybe(draw, 70, &format!("{MODEL}.weights"), |_| format!("{weights} MB").into());
    if draw.chance(50) {
        let room = weights + activation * draw.between(1, 4 * stages + 2);
        settings.set(&format!("{MODEL}.device.memory"), format!("{} B", room * MEGABYTES));
        settings.maybe(draw, 20, &format!("{MODEL}.device.reserved"), |draw| {
            format!("{} MB", draw.between(0, activation)).into()
        });
    }
}

fn recompute(draw: &mut Draw, settings: &mut Settings, stages: u64, activation: u64) {
    if !draw.chance(25) {
        return;
    }
    const RECOMPUTE: &str = "techniques.recompute";
    settings.set(RECOMPUTE, json!({}));
    settings
        .maybe(draw, 40, &format!("{RECOMPUTE}.forward"), |draw| per_stage(draw, stages, (1, 20_000), "us"));
    settings.maybe(draw, 50, &format!("{RECOMPUTE}.keeps"), |draw| {
        per_stage(draw, stages, (0, activation / 4), "MB")
    });
    settings.maybe(draw, 30, &format!("{RECOMPUTE}.stages"), |draw| {
        (0..stages).filter(|_| draw.chance(50)).collect::<Vec<u64>>().into()
    });
}

fn bpipe(draw: &mut Draw, settings: &mut Settings, stages: u64) {
    if !draw.chance(35) {
        return;
    }
    const BPIPE: &str = "techniques.bpipe";
    settings.set(BPIPE, json!({}));
    settings.maybe(draw, 50, &format!("{BPIPE}.policy"), |draw| {
        draw.one(&["evict-newest", "every-micro-batch"]).into()
    });
    settings.maybe(draw, 70, &format!("{BPIPE}.transfer"), |draw| {
        if draw.chance(30) {
            "hidden".into()
        } else {
            json!({ "rate": format!("{} GB/s", draw.between(5, 300)) })
        }
    });
    settings.maybe(draw, 30, &format!("{BPIPE}.bound"), |draw| draw.between(2, stages + 2).into());
}

fn sweep(draw: &mut Draw, stages: u64, count: u64, scheduled: &Scheduled) -> Value {
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
