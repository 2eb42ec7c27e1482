//! Valid scenarios of every kind of model, small enough that a run takes milliseconds; most of them fit.

mod layered;
mod machine;
mod profiled;
mod techniques;
mod transformer;

use serde_json::{Value, json};

use super::draw::{Draw, Settings};

/// Case `number` under `seed`, as YAML that [`crate::load`] reads.
pub fn scenario(seed: u64, number: u64) -> String {
    let draw = &mut Draw::of(seed, number);
    let mut settings = Settings::default();
    settings.set("name", format!("case {number} of seed {seed}"));
    match draw.between(0, 9) {
        0..=2 => profiled::fill(draw, &mut settings),
        3..=7 => transformer::fill(draw, &mut settings),
        _ => layered::fill(draw, &mut settings),
    }
    simulation(draw, &mut settings);
    settings.yaml()
}

/// How the simulation itself runs: steps, repetitions, random variation.
fn simulation(draw: &mut Draw, settings: &mut Settings) {
    settings.maybe(
        draw,
        25,
        "run.steps",
        |draw| json!({ "warm_up": draw.between(0, 2), "measured": draw.between(1, 3) }),
    );
    let noisy = settings
        .maybe(draw, 10, "run.noise.operation", |draw| percent(draw.between(1, 10)))
        | settings.maybe(draw, 6, "run.noise.device", |draw| percent(draw.between(1, 10)))
        | settings.maybe(draw, 4, "run.noise.pause", |draw| {
            json!({ "every": format!("{} ms", draw.between(5, 50)), "lasting": format!("{} us", draw.between(10, 999)) })
        });
    settings.maybe(draw, if noisy { 30 } else { 3 }, "run.seeds", |draw| draw.between(1, 3).into());
}

/// A schedule for a pipeline of so many stages, and the chunks that it cuts each stage into.
struct Scheduled {
    schedule: Value,
    chunks: u64,
    /// Whether the backward pass is cut into that of inputs and that of weights.
    splits: bool,
}

/// A schedule for a pipeline of so many stages; `chunks` where a stage may have several.
fn schedule(draw: &mut Draw, stages: u64, chunks: bool) -> Scheduled {
    let names: &[&str] = match (stages, chunks) {
        (1, _) => &["1f1b", "gpipe", "zb-h1"],
        (_, false) => &["1f1b", "1f1b", "gpipe", "zb-h1", "zb-h2", "zb-auto"],
        (_, true) => &[
            "1f1b",
            "1f1b",
            "1f1b",
            "gpipe",
            "interleaved",
            "interleaved",
            "zb-h1",
            "zb-h2",
            "zb-v",
            "zb-auto",
        ],
    };
    let name = draw.one(names);
    let (schedule, chunks) = match name {
        "interleaved" => {
            let chunks = draw.between(2, 3);
            (json!({ "interleaved": { "chunks": chunks } }), chunks)
        }
        "zb-auto" => {
            let limit = match draw.between(0, 2) {
                0 => json!(draw.between(1, 2 * stages)),
                1 => json!(format!("{}p", draw.between(1, 2))),
                _ => json!(format!("{} GB", draw.between(4, 60))),
            };
            (json!({ "zb-auto": { "memory_limit": limit } }), 1)
        }
        "zb-v" => (json!(name), 2),
        _ => (json!(name), 1),
    };
    Scheduled { schedule, chunks, splits: name.starts_with("zb") }
}

/// Micro-batches of a step, of which an interleaved schedule needs whole rounds.
fn micro_batches(draw: &mut Draw, stages: u64, scheduled: &Scheduled) -> u64 {
    match scheduled.schedule.get("interleaved") {
        Some(_) => stages * draw.between(1, 3),
        None => draw.between(1, 2 * stages + 2),
    }
}

fn percent(number: u64) -> Value {
    format!("{number} %").into()
}
