//! Time of one layer of the 22B model against Korthikanti et al. 2023, table 4: eight A100, tensor 8, micro-batch 4.

#![expect(clippy::print_stdout, reason = "the five times, for who asks with --nocapture")]

use workloads::model::transformer::Transformer;
use workloads::passes::recompute::Mode;

use super::{World, every_layer, plan};

/// What one layer adds to what one micro-batch adds to the step, in milliseconds: no optimizer, no embedding, no loss.
fn layer(sequence_parallel: bool, recompute: Mode) -> f64 {
    let seconds = |layers, micro_batches| {
        let mut plan = plan(Transformer::gpt(layers, 6_144, 64, 51_200, 2_048), [8, 1, 1], micro_batches);
        plan.execution.micro_batch = 4;
        plan.execution.split.sequence_parallel = sequence_parallel;
        plan.deployment.pipelining.techniques.recompute = every_layer(recompute);
        World::dgx_a100(1).roomy().completed(&plan).seconds()
    };
    let micro_batch = |layers| seconds(layers, 2) - seconds(layers, 1);
    (micro_batch(4) - micro_batch(2)) / 2.0 * 1e3
}

#[test]
fn a_layer_takes_what_was_measured() {
    let rows = [
        (false, Mode::None, 19.6),
        (true, Mode::None, 19.0),
        (false, Mode::Full, 27.2),
        (false, Mode::Selective, 20.9),
        (true, Mode::Selective, 20.3),
    ];
    let mut sum = 0.0;
    for (sequence_parallel, recompute, published) in rows {
        let ours = layer(sequence_parallel, recompute);
        let error = ours / published - 1.0;
        println!(
            "{recompute:?}, {sequence_parallel}: {ours:.2} ms, published {published}, {:+.1} %",
            error * 100.0
        );
        assert!(
            error.abs() < 0.06,
            "{recompute:?}, sequence parallel {sequence_parallel}: {ours} ms, published {published}"
        );
        sum += error;
    }
    assert!((sum / rows.len() as f64).abs() < 0.04, "bias {}", sum / rows.len() as f64);
}
