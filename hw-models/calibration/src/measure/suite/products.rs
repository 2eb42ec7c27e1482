//! Which matrix products are measured of a GPU.

use super::cuda::{CudaFacts, square};
use crate::measure::Task;
use hw_models::kernels::{Dtype, Gemm, GroupedGemm, Layout};

/// Products of the type that training runs in: shapes that fill the space of sizes evenly, those of transformers, and those
/// that just fill waves of the SMs or are out of alignment.
pub(super) fn products(facts: &CudaFacts, quick: bool) -> Vec<Task> {
    let spread = if quick { 24 } else { 64 };
    let mut shapes = evenly(spread, square(facts, 1));
    if !quick {
        shapes.extend(layers(facts));
        shapes.extend(edges(facts));
    }
    distinct(shapes)
}

/// Products of other types, and batches of them.
pub(super) fn library(facts: &CudaFacts) -> Vec<Task> {
    let of = |dtype| Gemm { dtype, ..square(facts, 1) };
    let mut shapes = evenly(16, of(Dtype::Fp32));
    if facts.capability >= 80 {
        shapes.extend(evenly(16, of(Dtype::Tf32)));
        shapes.extend(evenly(12, of(Dtype::Fp16)));
    }
    if facts.capability >= 89 {
        shapes.extend(evenly(12, of(Dtype::Fp8)));
    }
    for (batch, rows, depth) in
        [(64, 512, 64), (32, 1_024, 64), (16, 2_048, 64), (64, 512, 128), (32, 1_024, 128), (16, 2_048, 128)]
    {
        // Scores of attention heads, and what is read by them.
        let scores = Gemm { batch, m: rows, n: rows, k: depth, ..square(facts, 1) };
        shapes.push(scores);
        shapes.push(Gemm { n: depth, k: rows, layout: Layout::InputGradient, ..scores });
    }
    distinct(shapes)
}

/// Experts of mixtures, many with few rows and few with many: what each multiplies, and its gradients.
pub(super) fn grouped(facts: &CudaFacts) -> Vec<Task> {
    if facts.capability < 80 {
        return Vec::new();
    }
    let experts = |batch, m, n, k| Gemm { batch, m, n, k, ..square(facts, 1) };
    let [few, many] = [experts(8, 1_024, 14_336, 4_096), experts(64, 256, 2_048, 4_096)];
    let input = |of: Gemm| Gemm { n: of.k, k: of.n, layout: Layout::InputGradient, ..of };
    let weight = |of: Gemm| Gemm { m: of.n, n: of.k, k: of.m, layout: Layout::WeightGradient, ..of };
    let more = [experts(8, 256, 14_336, 4_096), experts(32, 512, 2_048, 4_096)];
    [few, input(few), weight(few), many, input(many), weight(many)]
        .into_iter()
        .chain(more)
        .map(|groups| Task::Grouped(GroupedGemm { groups }))
        .collect()
}

/// Least and most length of a side, as powers of two.
const SIDES: [f64; 2] = [6.0, 14.0];
/// The root of `x^4 = x + 1`: steps of its powers fill a cube more evenly than random numbers do (Roberts, "The unreasonable
/// effectiveness of quasirandom sequences", 2018).
const PHI: f64 = 1.220_744_084_605_76;

/// So many shapes whose sides are spread evenly over their logarithms, in multiples of 16.
fn evenly(count: u32, like: Gemm) -> Vec<Gemm> {
    let side = |at: u32, power: i32| {
        let share = (0.5 + f64::from(at) / PHI.powi(power)).fract();
        let side = (SIDES[0] + (SIDES[1] - SIDES[0]) * share).exp2();
        ((side / 16.0).round() as u64).max(1) * 16
    };
    (1..=count).map(|at| Gemm { m: side(at, 1), n: side(at, 2), k: side(at, 3), ..like }).collect()
}

/// The linear layers of transformers with 4,096 tokens: forward, gradient of the input, gradient of the weight.
fn layers(facts: &CudaFacts) -> Vec<Gemm> {
    let tokens = 4_096;
    let mut shapes = Vec::new();
    for hidden in [4_096, 8_192] {
        for (out, into) in [(3 * hidden, hidden), (hidden, hidden), (4 * hidden, hidden)] {
            let forward = Gemm { m: tokens, n: out, k: into, ..square(facts, 1) };
            shapes.push(forward);
            shapes.push(Gemm { n: into, k: out, layout: Layout::InputGradient, ..forward });
            let weight = Gemm { m: out, n: into, k: tokens, layout: Layout::WeightGradient, ..forward };
            shapes.extend([weight, Gemm { accumulate: Some(Dtype::Fp32), ..weight }]);
        }
    }
    shapes
}

/// Of tiles of 128 x 128 as many as there are SMs and one more, and just two waves of them; and sides out of alignment.
fn edges(facts: &CudaFacts) -> Vec<Gemm> {
    let sms = u64::from(facts.sms.max(1));
    let tiles = [sms, sms + 1, 2 * sms - 1, 2 * sms];
    let waves = tiles
        .into_iter()
        .flat_map(|tiles| [1_024, 4_096].map(|k| Gemm { m: 128 * tiles, n: 128, k, ..square(facts, 1) }));
    let odd = [1_023, 2_047, 4_095, 4_097].map(|k| Gemm { k, ..square(facts, 2_048) });
    waves.chain(odd).collect()
}

fn distinct(shapes: Vec<Gemm>) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    for task in shapes.into_iter().map(Task::Product) {
        if !tasks.contains(&task) {
            tasks.push(task);
        }
    }
    tasks
}
