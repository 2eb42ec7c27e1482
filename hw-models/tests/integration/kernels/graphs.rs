//! Kernels of graph networks: what no roofline has.

use hw_models::kernels::{Dtype, KernelCost, Layout, Segments, Traversal, Walk};
use proptest::prelude::*;

use super::{model, row_at};

#[test]
fn the_longest_segment_bounds_a_weight_gradient_however_many_sms_there_are() {
    let h100 = model("h100-sxm5-80gb");
    let of = |longest| h100.segments(&Segments { longest, ..typed(Layout::WeightGradient) }).unwrap();
    let (short, long) = (of(10_000), of(20_000));
    let longer = (long.alone().as_secs() - short.alone().as_secs()) / 10_000.0;
    assert!((longer * 1e9 / h100.parameters.graph.walked_row_ns - 1.0).abs() < 0.01, "{longer}");
    assert_eq!(row_at(&long, 132).bytes_per_s, row_at(&long, 100).bytes_per_s);
    // The outputs of the same rows are dealt out.
    let outputs = |longest| h100.segments(&Segments { longest, ..typed(Layout::Forward) }).unwrap();
    assert_eq!(outputs(10_000), outputs(20_000));
}

#[test]
fn rows_that_are_dealt_out_wait_for_no_segment() {
    let rtx3090 = model("rtx-3090");
    let of = |scattered, longest| {
        let shape = Segments { scattered, longest, ..typed(Layout::WeightGradient) };
        rtx3090.segments(&shape).unwrap().alone().as_secs()
    };
    let (short, long) = (of(true, 10_000), of(true, 500_000));
    // 4,096 shares of 152 rows: those of the longest segment add to its gradient one after the other.
    let conflicts = 4_096.0 * 490_000.0 / 620_232.0 * rtx3090.parameters.graph.conflict_ns * 1e-9;
    assert!(long - short <= conflicts, "{short} {long}");
    assert!(of(false, 500_000) > 10.0 * long, "{long}");
}

#[test]
fn padding_of_many_segments_costs_tiles() {
    let seconds = |segments| {
        let shape = Segments { segments, ..typed(Layout::Forward) };
        model("h100-sxm5-80gb").segments(&shape).unwrap().alone().as_secs()
    };
    assert!(seconds(100_000) > 1.5 * seconds(100), "{} {}", seconds(100_000), seconds(100));
}

#[test]
fn a_hub_takes_its_edges_one_after_the_other() {
    let of = |longest, walk| seconds(&Traversal { longest, walk, ..sum(12_499, 73) });
    let (even, hub) = (of(171, Walk::Block), of(5_000, Walk::Block));
    assert!(hub > 10.0 * even, "{hub} {even}");
    // A thread waits for the index and the row of each edge.
    assert!(of(5_000, Walk::Thread) > 3.0 * hub);
}

#[test]
fn rows_of_a_table_in_the_cache_are_not_read_again() {
    let of = |table| {
        let rows = 400_000_000;
        seconds(&Traversal {
            gathered: rows,
            table,
            streamed: 0,
            destinations: 0,
            longest: 0,
            ..sum(390_625, 1)
        })
    };
    let (kept, lost) = (of(10_000_000), of(400_000_000));
    assert!(lost > 2.5 * kept, "{lost} {kept}");
}

#[test]
fn atomics_take_clocks_and_wait_for_each_other_on_a_row() {
    let of = |longest, atomics| seconds(&Traversal { destinations: 0, longest, atomics, ..sum(12_499, 73) });
    let (stored, added, hub) = (of(0, 0), of(171, 12_499 << 10), of(10_000, 12_499 << 10));
    assert!(added > 2.0 * stored && hub > 4.0 * added, "{stored} {added} {hub}");
}

/// Each state of random numbers costs, each candidate does, and a hub takes its own in a row.
#[test]
fn draws_pay_for_states_candidates_and_the_longest_list() {
    let drawn = |nodes, edges, longest| {
        let read = Traversal { streamed: 0, written: nodes * 4, destinations: nodes, ..sum(edges, nodes) };
        seconds(&Traversal { longest, row_bytes: 4, walk: Walk::Draw, ..read })
    };
    let few = drawn(64, 0, 0);
    assert!(few > 20e-6, "curand_init alone takes tens of thousands of clocks: {few}");
    let many = drawn(1 << 20, 0, 0);
    assert!(many > 10.0 * few, "{many} {few}");
    let candidates = drawn(1 << 20, 1 << 32, 4_096);
    assert!(candidates > 3.0 * many, "{candidates} {many}");
    let hub = drawn(64, 1 << 24, 1 << 24);
    assert!(hub > 0.03, "half a million rounds of some 140 clocks at 1.8 GHz: {hub}");
}

proptest! {
    #[test]
    fn no_shape_breaks_the_model(
        (rows, segments, longest, n, k) in (0_u64..1 << 40, 0_u64..1 << 20, 0_u64..1 << 40, 0_u64..1 << 16, 0_u64..1 << 16),
        layout in prop::sample::select(vec![Layout::Forward, Layout::InputGradient, Layout::WeightGradient]),
        gathered: bool,
        scattered: bool,
        (streamed, cached, atomics) in (0_u64..1 << 50, 0_u64..1 << 50, 0_u64..1 << 50),
        walked in prop::sample::select(vec![Walk::Block, Walk::Thread, Walk::Draw]),
    ) {
        let dtype = Dtype::Bf16;
        let segments = Segments { rows, segments, longest, n, k, dtype, layout, gathered, table: segments, scattered };
        let walk = Traversal { streamed, cached, atomics, longest, gathered: rows, table: n, walk: walked, ..sum(rows, k) };
        for device in ["h100-sxm5-80gb", "rtx-3090"] {
            let model = model(device);
            let valid = |cost: KernelCost| {
                let speeds = cost.rows.iter().all(|row| row.bytes_per_s > 0.0 && row.bytes_per_s.is_finite());
                speeds && cost.alone() >= cost.fixed && cost.bytes > 0
            };
            prop_assert!(valid(model.segments(&segments).unwrap()), "{segments:?}");
            prop_assert!(valid(model.traversal(&walk).unwrap()), "{walk:?}");
        }
    }
}

fn seconds(shape: &Traversal) -> f64 {
    model("h100-sxm5-80gb").traversal(shape).unwrap().alone().as_secs()
}

/// The typed products of a graph with the edges of FB15k-237.
fn typed(layout: Layout) -> Segments {
    Segments {
        rows: 620_232,
        segments: 474,
        longest: 16_391,
        n: 64,
        k: 64,
        dtype: Dtype::Fp32,
        layout,
        gathered: true,
        table: 14_541,
        scattered: false,
    }
}

/// Sums of rows of 1 KB by a block for each destination.
fn sum(edges: u64, nodes: u64) -> Traversal {
    Traversal {
        dtype: Dtype::Fp32,
        edges,
        gathered: 0,
        table: 0,
        streamed: edges << 10,
        cached: 0,
        written: nodes << 10,
        destinations: nodes,
        longest: edges / nodes.max(1),
        row_bytes: 1 << 10,
        atomics: 0,
        walk: Walk::Block,
    }
}
