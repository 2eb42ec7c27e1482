//! Valid scenarios of every kind of model, small enough that a run takes milliseconds; most of them fit.

mod fusion;
mod layered;
mod machine;
mod network;
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
    let kind = draw.between(0, 10);
    match kind {
        0..=2 => profiled::fill(draw, &mut settings),
        3..=7 => transformer::fill(draw, &mut settings),
        8..=9 => layered::fill(draw, &mut settings),
        _ => network::fill(draw, &mut settings),
    }
    simulation(draw, &mut settings);
    // Last, so that all else of a case is as it was without.
    if (3..=9).contains(&kind) {
        fusion::fill(draw, &mut settings);
    }
    machine::routing(draw, &mut settings);
    settings.yaml()
}

/// How the simulation itself runs: steps, repetitions, random variation.
fn simulation(draw: &mut Draw, settings: &mut Settings) {
    settings.some(draw, 25, "run.steps", &json!({ "warm_up": [0, 1, 2], "measured": [1, 2, 3] }));
    let noise = json!({
        "operation": ["1 %", "4 %", "10 %"],
        "device": ["1 %", "4 %", "10 %"],
        "pause": [{ "every": "5 ms", "lasting": "999 us" }, { "every": "50 ms", "lasting": "10 us" }],
    });
    let noisy = settings.some(draw, 7, "run.noise", &noise);
    settings.some(draw, if noisy { 30 } else { 3 }, "run", &json!({ "seeds": [1, 2, 3] }));
}

/// How a stage sends.
const SEND: [&str; 4] = ["latency", "eager", "blocking", "rendezvous"];

/// A schedule, and what it makes of a pipeline.
struct Scheduled {
    schedule: Value,
    /// Chunks that it cuts each stage into.
    chunks: u64,
    /// Whether the backward pass is cut into that of inputs and that of weights.
    splits: bool,
    /// Micro-batches of a step.
    count: u64,
}

impl Scheduled {
    fn is_1f1b(&self) -> bool {
        self.schedule == "1f1b"
    }
}

/// A schedule for a pipeline of so many stages; `chunks` where a stage may have several.
fn schedule(draw: &mut Draw, stages: u64, chunks: bool) -> Scheduled {
    let names: &[&str] = match (stages, chunks) {
        (1, _) => &["1f1b", "gpipe", "zb-h1"],
        (_, false) => &["1f1b", "1f1b", "gpipe", "zb-h1", "zb-h2", "zb-auto"],
        (_, true) => &["1f1b", "1f1b", "gpipe", "interleaved", "zb-h1", "zb-h2", "zb-v", "zb-auto"],
    };
    let name = draw.one(names);
    let (schedule, chunks) = match name {
        "interleaved" => {
            let chunks = draw.between(2, 3);
            (json!({ "interleaved": { "chunks": chunks } }), chunks)
        }
        "zb-auto" => {
            let limit =
                draw.one(&[json!(2 * stages), json!("1p"), json!("2p"), json!("4 GB"), json!("60 GB")]);
            (json!({ "zb-auto": { "memory_limit": limit } }), 1)
        }
        "zb-v" => (json!(name), 2),
        _ => (json!(name), 1),
    };
    // An interleaved schedule needs whole rounds.
    let count =
        if name == "interleaved" { stages * draw.between(1, 3) } else { draw.between(1, 2 * stages + 2) };
    Scheduled { schedule, chunks, splits: name.starts_with("zb"), count }
}

fn percent(number: u64) -> Value {
    format!("{number} %").into()
}
