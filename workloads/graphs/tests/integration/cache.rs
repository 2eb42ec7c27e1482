//! Hit rates against counted reads of drawn mini-batches.

use std::collections::BTreeSet;

use graphs::GraphSource;
use graphs::cache::{Policy, Reads};
use graphs::edges::Edges;
use graphs::sampling::Batch;
use proptest::prelude::*;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const POLICIES: [Policy; 4] =
    [Policy::Random, Policy::Degree, Policy::Presample { epochs: 1 }, Policy::Optimal];

/// Reads of each node in an epoch.
fn epoch(edges: &Edges, training: &mut [u32], batch: Batch<'_>, dice: &mut ChaCha8Rng) -> Vec<u64> {
    let mut reads = vec![0; edges.graph().nodes() as usize];
    training.shuffle(dice);
    for seeds in training.chunks(batch.seeds as usize) {
        let drawn = edges.sample((0, seeds), batch.fan_out, dice);
        drawn.rows[0].iter().for_each(|&row| reads[row as usize] += 1);
    }
    reads
}

/// Share of the reads that the nodes with the highest ranks take.
fn served(reads: &[u64], ranks: &[u64], share: f64) -> f64 {
    let mut nodes: Vec<usize> = (0..reads.len()).collect();
    // Equal ranks in the order of a hash, as any of them may be held.
    nodes.sort_by_key(|&node| (u64::MAX - ranks[node], (node as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let held: BTreeSet<usize> = nodes[..(share * reads.len() as f64) as usize].iter().copied().collect();
    let hits: u64 = held.iter().map(|&node| reads[node]).sum();
    hits as f64 / reads.iter().sum::<u64>() as f64
}

#[test]
fn as_counted() {
    let mut dice = ChaCha8Rng::seed_from_u64(7);
    let degree =
        |dice: &mut ChaCha8Rng| (dice.random::<f64>().powf(-0.6).mul_add(3.0, -3.0)).min(400.0) as u32;
    let mut stubs: Vec<u32> = (0..20_000).flat_map(|node| vec![node; degree(&mut dice) as usize]).collect();
    stubs.shuffle(&mut dice);
    let pairs: Vec<(u32, u32)> = stubs.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let edges = Edges::new(20_000, &[], &pairs);
    let mut training = edges.connected(0);
    training.shuffle(&mut dice);
    training.truncate(2_000);
    let batch = Batch { seeds: 100, seed_type: 0, fan_out: &[5, 4] };
    let graph = graphs::Graph { training_nodes: Some(2_000), ..edges.graph() };
    let expected = Reads::of(&graph, batch).unwrap();
    let [before, reads] = [(); 2].map(|()| epoch(&edges, &mut training, batch, &mut dice));
    let mut degrees = vec![0; 20_000];
    pairs.iter().flat_map(|&(a, b)| [a, b]).for_each(|node| degrees[node as usize] += 1);
    let rows = reads.iter().sum::<u64>() as f64 / 20.0;
    assert!((expected.rows() / rows - 1.0).abs() < 0.02, "{} for {rows}", expected.rows());
    for share in [0.02, 0.1, 0.3] {
        for policy in POLICIES {
            let ranks = match policy {
                Policy::Random => &vec![0; 20_000],
                Policy::Degree => &degrees,
                Policy::Presample { .. } => &before,
                Policy::Optimal => &reads,
            };
            let (counted, found) = (served(&reads, ranks, share), expected.hit_rate(policy, share));
            // Nodes next to training nodes are read more than others of their degree, which counts
            // know.
            let off = if matches!(policy, Policy::Random | Policy::Degree) { 0.02 } else { 0.06 };
            assert!((counted - found).abs() < off, "{policy:?} at {share}: {found} for {counted}");
        }
    }
}

proptest! {
    #[test]
    fn more_rows_serve_more(
        name in prop::sample::select(vec!["reddit", "ogbn-products", "twitter", "papers100M", "uk"]),
        seeds in 100_u64..10_000, a in 0.0_f64..1.0, b in 0.0_f64..1.0,
    ) {
        let graph = GraphSource::Preset(name.to_owned()).graph().unwrap();
        let reads = Reads::of(&graph, Batch { seeds, seed_type: 0, fan_out: &[10, 10] }).unwrap();
        let (less, more) = (a.min(b), a.max(b));
        for policy in POLICIES {
            let [low, high] = [less, more].map(|share| reads.hit_rate(policy, share));
            prop_assert!((0.0..=1.0).contains(&low) && low <= high + 1e-9, "{policy:?}: {low}, {high}");
            prop_assert!(high <= reads.hit_rate(Policy::Optimal, more) + 0.01, "{policy:?} beats the optimum");
        }
    }
}
