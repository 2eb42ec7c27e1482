//! Operators that systems make of graph networks: in all kernels, each row is multiplied once, each
//! edge added once, each gradient of a parameter summed once, and nothing is made for nobody.

use std::collections::{BTreeMap, BTreeSet};

use graphs::GraphSource;
use hw_models::allocator::Segments;
use workloads::graph::Phase;
use workloads::graph::block::Block;
use workloads::graph::operator::{Operator, TensorId, Work};
use workloads::model::layered::{LayeredExecution, LayeredModel};
use workloads::model::network::NetworkKind::{self, Gat, Gcn, Hgt, Rgat, Rgcn, Sage};
use workloads::model::network::{
    Asked, Hector, LayerShape, Network, RelationCounts, SUPPORT, Subgraph, System,
};
use workloads::model::transformer::Step;

use crate::layered::execution;

/// Width of all features.
const WIDTH: u64 = 8;
/// Bytes of an element.
const ELEMENT: u64 = 4;

const HECTOR: [System; 4] = {
    const fn of(reorder: bool, compact: bool) -> System {
        System::Hector(Hector { reorder, compact })
    }
    [of(false, false), of(false, true), of(true, false), of(true, true)]
};

fn systems() -> impl Iterator<Item = System> {
    let others = [
        System::Dgl,
        System::Dgl08,
        System::DglHetero,
        System::Pyg,
        System::PygBmm,
        System::Pytorch,
        System::Graphiler,
        System::Seastar,
        System::Hgl,
    ];
    others.into_iter().chain(HECTOR)
}

/// Three nodes of one type, two of another: four edges from the first to the second, three from the
/// second to the first, two among the first.
fn graph() -> Subgraph {
    let relation =
        |source, destination, edges, ends, most| RelationCounts { source, destination, edges, ends, most };
    Subgraph {
        sources: vec![3, 2],
        destinations: vec![3, 2],
        relations: vec![
            relation(0, 1, 4, [3, 2], [2, 2]),
            relation(1, 0, 3, [2, 2], [2, 2]),
            relation(0, 0, 2, [2, 1], [1, 2]),
        ],
        ids: None,
    }
}

const NODES: u64 = 5;
const EDGES: u64 = 9;
const RELATIONS: u64 = 3;
/// Pairs of a node and a type of its edges, by end.
const PAIRS: [u64; 2] = [7, 5];
/// Nodes of the type at an end of a type of edges, over these types.
const TYPED: [u64; 2] = [3 + 2 + 3, 2 + 3 + 3];

/// Two layers, of which the second has a gradient of its features.
fn network(kind: NetworkKind, system: System) -> Network {
    let shape = LayerShape { inputs: WIDTH, outputs: WIDTH, heads: 1, is_last: false, gated: false };
    let last = LayerShape { is_last: true, ..shape };
    Network { layers: vec![(kind, shape), (kind, last)], ends: None, system }
}

fn model(kind: NetworkKind, system: System, step: Step) -> LayeredModel {
    on_parts(kind, system, step, &graph())
}

fn on_parts(kind: NetworkKind, system: System, step: Step, part: &Subgraph) -> LayeredModel {
    let on = LayeredExecution { step, ..execution(1) };
    network(kind, system).model(&[part.clone(), part.clone()], &on)
}

/// Cells that systems support.
fn cells(step: Step) -> impl Iterator<Item = (NetworkKind, System)> {
    let kinds = [Gcn, Sage, Gat, Rgcn, Rgat, Hgt];
    let all = systems().flat_map(move |system| kinds.map(|kind| (kind, system)));
    all.filter(move |&(kind, system)| {
        system.supports(Asked { kind, trained: step != Step::Forward, heads: 1 }).is_ok()
    })
}

fn flops<'a>(operators: impl IntoIterator<Item = &'a Operator>) -> u64 {
    let of = |op: &Operator| match op.work {
        Work::Gemm(gemm) => 2 * gemm.batch * gemm.m * gemm.n * gemm.k,
        Work::Segments(segments) => 2 * segments.rows * segments.n * segments.k,
        _ => 0,
    };
    operators.into_iter().map(of).sum()
}

fn name(operator: &Operator) -> String {
    operator.name.to_string()
}

/// Edges that walks go over whose names end so.
fn edges_of(operators: &[Operator], ends: &[&str]) -> u64 {
    let own = |op: &&Operator| {
        let name = name(op);
        let stem = name.split(" type ").next().unwrap_or(&name);
        let unnumbered = stem.trim_end_matches(|c: char| c.is_ascii_digit() || c == ' ');
        ends.iter().any(|end| name.ends_with(end) || unnumbered == *end && !name.contains("zeros"))
    };
    let edges = |op: &Operator| match op.work {
        Work::Traversal(walk) => walk.edges,
        _ => 0,
    };
    operators.iter().filter(own).map(edges).sum()
}

/// Products of a layer, counted by hand: multiplications and additions of rows with a matrix, and of
/// what is beside them.
fn products(kind: NetworkKind, system: System) -> u64 {
    let (compact, reorder) = match system {
        System::Hector(Hector { compact, reorder }) => (compact, reorder),
        _ => (false, false),
    };
    let typed = |end: usize| match system {
        System::DglHetero | System::Hgl => TYPED[end],
        System::Seastar => 0,
        _ if compact => PAIRS[end],
        _ => EDGES,
    };
    let matrix = 2 * WIDTH * WIDTH;
    // HGL multiplies with vectors in products of matrices, too.
    let vectors = if system == System::Hgl { 2 * WIDTH * (typed(0) + typed(1)) } else { 0 };
    // Weights of a relation are multiplied once for all of its rows.
    let fold = |columns| if reorder { 2 * RELATIONS * WIDTH * WIDTH * columns } else { 0 };
    match kind {
        Gcn => matrix * NODES,
        Sage => matrix * 2 * NODES,
        Gat if system == System::Hgl => matrix * 2 * NODES + 4 * WIDTH * NODES,
        Gat => matrix * 2 * NODES,
        Rgcn => matrix * (typed(0) + NODES),
        // Products of destinations go: only attention reads them.
        Rgat if reorder => matrix * typed(0) + 2 * fold(1),
        Rgat => matrix * (typed(0) + typed(1)) + vectors,
        Hgt if reorder => matrix * (2 * typed(0) + 2 * NODES) + 2 * fold(WIDTH),
        // Keys, queries and values once for each relation.
        Hgt if system == System::DglHetero => matrix * (2 * TYPED[0] + TYPED[1] + 2 * TYPED[0] + NODES),
        Hgt => matrix * (2 * typed(0) + 4 * NODES),
    }
}

#[test]
fn each_row_is_multiplied_once_forward_and_twice_backward() {
    for (kind, system) in cells(Step::Forward) {
        let model = model(kind, system, Step::Forward);
        for block in model.blocks() {
            assert_eq!(flops(&block.block.forward), products(kind, system), "{system:?} {kind:?}");
        }
    }
    for (kind, system) in cells(Step::Whole) {
        let model = model(kind, system, Step::Whole);
        let second = &model.blocks()[1].block;
        let backward: Vec<&Operator> = second.backward.iter().collect();
        // Vectors are walks forward, whose weights' gradients Hector and Seastar sum in products.
        let is_vector = |op: &Operator| match op.work {
            Work::Segments(segments) => segments.n == 1 && system != System::Hgl,
            _ => false,
        };
        let of_matrices = flops(backward.iter().copied().filter(|op| !is_vector(op)));
        assert_eq!(of_matrices, 2 * products(kind, system), "{system:?} {kind:?}");
    }
}

#[test]
fn each_edge_is_added_once_to_what_it_leads_to_and_back() {
    for (kind, system) in cells(Step::Forward) {
        let model = model(kind, system, Step::Forward);
        let forward = &model.blocks()[0].block.forward;
        let sums = ["sum of messages", "weighted sum", "sum of neighbours"];
        assert_eq!(edges_of(forward, &sums), EDGES, "{system:?} {kind:?}");
    }
    let unfused = |system: &System| !matches!(system, System::Hector(_) | System::Seastar | System::Hgl);
    for (kind, system) in cells(Step::Whole).filter(|(_, system)| unfused(system)) {
        let model = model(kind, system, Step::Whole);
        let second = &model.blocks()[1].block;
        assert_eq!(edges_of(&second.backward, &["message gradient"]), EDGES, "{system:?} {kind:?}");
    }
}

/// DGL sorts the edges of a sampled block by each end that it sums at, once (`COOToCSR`): copies of
/// both ends and numbers of 8 bytes, sorted, then the other ends and where those of a node begin.
/// A pass sorts all bits of five nodes. From the driver, each of the arrays is a call.
#[test]
fn blocks_are_sorted_by_the_ends_that_sums_need() {
    for ids in [4, 8] {
        let part = Subgraph { ids: Some(ids), ..graph() };
        for (kind, by_source) in [(Sage, [0, 1]), (Gcn, [1, 1])] {
            for system in [System::Dgl, System::Dgl08] {
                let model = on_parts(kind, system, Step::Whole, &part);
                for (block, by_source) in model.blocks().iter().zip(by_source) {
                    let operators = || block.block.forward.iter().chain(&block.block.backward);
                    let named = |wanted: &str| operators().filter(|op| name(op) == wanted).count();
                    assert_eq!(named("edges by destination"), 1);
                    assert_eq!(named("edges by source"), by_source, "{kind:?}: where sources have gradients");
                    let of_sort = |op: &&Operator| name(op).starts_with("edges by destination digit");
                    assert_eq!(operators().filter(of_sort).count(), 1);
                    let sorted = operators().find(|op| name(op) == "edges by destination").expect("one");
                    let (calls, casts) = if ids == 4 { (8, ids * EDGES) } else { (7, 0) };
                    let bytes = EDGES * (4 * ids + 2 * 8) + casts + ids * NODES;
                    let taken = match system {
                        System::Dgl => Segments::default(),
                        _ => Segments { count: calls, bytes },
                    };
                    assert_eq!((sorted.driver, sorted.awaited), (taken, system == System::Dgl08));
                }
            }
        }
    }
    let whole = model(Gcn, System::Dgl08, Step::Whole);
    let mut operators = whole.blocks().iter().flat_map(|block| &block.block.forward);
    assert!(!operators.any(|op| name(op).contains("edges by")), "a graph is sorted before its first step");
}

#[test]
fn the_gradient_of_each_parameter_is_summed_once() {
    for (kind, system) in cells(Step::Whole) {
        let matrix = WIDTH * WIDTH;
        let folds = matches!(system, System::Hector(Hector { reorder: true, .. }));
        // Further gradients of weights that are used several times.
        let uses = match (kind, system) {
            // A row of each end is multiplied with the same weight; folded, it is part of three.
            (Gat, _) => matrix,
            (Rgat, _) => RELATIONS * matrix * if folds { 2 } else { 1 },
            // Keys, queries and values of a relation, not of a type of nodes.
            (Hgt, System::DglHetero) => 3 * (RELATIONS - 2) * matrix,
            _ => 0,
        };
        let model = model(kind, system, Step::Whole);
        let block = &model.blocks()[1];
        let written = |op: &Operator| match op.work {
            Work::Stream(stream) if name(op).starts_with("accumulate") => stream.bytes_written / ELEMENT,
            _ => 0,
        };
        let summed: u64 = block.block.backward.iter().map(written).sum();
        assert_eq!(summed, block.parameters + uses, "{system:?} {kind:?}");
    }
}

#[test]
fn what_is_read_was_filled_and_what_is_filled_is_read() {
    let sampled = Subgraph { ids: Some(4), ..graph() };
    let of_parts = [graph(), sampled].map(|part| cells(Step::Whole).map(move |cell| (cell, part.clone())));
    for ((kind, system), part) in of_parts.into_iter().flatten() {
        for block in on_parts(kind, system, Step::Whole, &part).blocks() {
            let block = &block.block;
            let mut filled: BTreeSet<TensorId> =
                [block.input].into_iter().chain(block.output_gradient).collect();
            let mut read: BTreeSet<TensorId> = block.output.into_iter().chain(block.input_gradient).collect();
            for op in block.forward.iter().chain(&block.backward) {
                for &of in &op.reads {
                    let tensor = block.tensor(of).name.to_string();
                    let is_given = GIVEN.iter().any(|given| tensor.starts_with(given));
                    assert!(
                        is_given || filled.contains(&of),
                        "{system:?} {kind:?}: {} reads {tensor}",
                        op.name
                    );
                }
                filled.extend(&op.writes);
                read.extend(&op.reads);
            }
            let unread = filled.difference(&read).map(|&id| block.tensor(id).name.to_string());
            let unread: Vec<String> = unread
                .filter(|name| {
                    !READ_BY_HOST.iter().any(|of| name.ends_with(of))
                        && !name.contains("argument")
                        && !KEPT.contains(&name.as_str())
                })
                .collect();
            assert_eq!(unread, Vec::<String>::new(), "{system:?} {kind:?}");
        }
    }
}

/// Constants of edges.
const GIVEN: [&str; 2] = ["norm", "prior of the type"];

/// Tensors that the host waits for and reads.
const READ_BY_HOST: [&str; 1] = ["number known"];

/// Results of a step, for which no operator follows.
const KEPT: [&str; 3] = ["loss", "input", "output gradient"];

/// Tensors of a forward pass of R-GCN on the graph, in rows of so many elements.
fn tensors(block: &Block) -> BTreeMap<String, u64> {
    let named = block.forward.iter().flat_map(|op| &op.writes).map(|&id| block.tensor(id));
    named.map(|tensor| (tensor.name.to_string(), tensor.bytes / ELEMENT)).collect()
}

#[test]
fn tensors_of_a_layer_are_those_counted_by_hand() {
    // Common to all: the product of a node's own features, and the result.
    let common = [("own product 5", 40), ("tanh 7", 40), ("both 6", 40)];
    let of_system = |system: System, own: &[(&str, u64)]| {
        let model = model(Rgcn, system, Step::Forward);
        // One kernel adds both and has tanh where functions are fused.
        let fuses = matches!(system, System::Hector(_) | System::Seastar | System::Hgl);
        let expected = common[..if fuses { 2 } else { 3 }]
            .iter()
            .chain(own)
            .map(|&(name, elements)| (name.to_owned(), elements))
            .collect();
        assert_eq!(tensors(&model.blocks()[0].block), expected, "{system:?}");
    };
    // A row of each edge twice, as input and as message; messages times constants.
    let messages = [
        ("input at edges", 72),
        ("message 3", 72),
        ("sum of messages 4 messages", 72),
        ("sum of messages 4", 40),
    ];
    of_system(System::Dgl, &messages);
    // Results of a relation before they are joined: 4, 3, 2 rows.
    let parts = [0, 1, 2].map(|part| format!("message 3 part {part} product"));
    let joined: Vec<(&str, u64)> =
        messages.into_iter().chain(parts.iter().map(String::as_str).zip([32, 24, 16])).collect();
    of_system(System::Graphiler, &joined);
    of_system(System::Pytorch, &joined);
    // A matrix for each edge: 9 x 8 x 8.
    let mut bmm = messages.to_vec();
    bmm.push(("message 3 weights of edges", 576));
    of_system(System::PygBmm, &bmm);
    // Messages once for each node of the type that a relation begins at: 3, 2 and 3 rows. Two
    // relations lead to the first type, whose sums of 3 rows each are joined.
    of_system(
        System::DglHetero,
        &[
            ("message 3 type 0", 24),
            ("message 3 type 1", 16),
            ("message 3 type 2", 24),
            ("sum of messages 4", 40),
            ("sum of messages 4 type 1", 24),
            ("sum of messages 4 type 2", 24),
            ("sum of messages 4 of nodes 0 joined", 48),
        ],
    );
    let parts = [
        ("message 3 part 0 product", 24),
        ("message 3 part 1 product", 16),
        ("message 3 part 2 product", 24),
    ];
    of_system(System::Hgl, &[&[("message 3", 64), ("sum of messages 4", 40)][..], &parts].concat());
    // Messages stay in registers.
    of_system(System::Seastar, &[("sum of messages 4", 40)]);
    // Hector keeps messages, of edges or of pairs.
    of_system(HECTOR[0], &[("message 3", 72), ("sum of messages 4", 40)]);
    of_system(HECTOR[1], &[("message 3", 56), ("sum of messages 4", 40)]);
}

#[test]
fn the_example_of_dgl_launches_the_kernels_of_its_trace() {
    let acm = GraphSource::Preset("acm".to_owned()).graph().expect("it is a preset");
    let shape = LayerShape { inputs: 256, outputs: 256, heads: 4, is_last: false, gated: true };
    let layers = vec![(Hgt, shape), (Hgt, LayerShape { is_last: true, ..shape })];
    let network = Network { layers, ends: Some([256, 14]), system: System::DglHetero };
    let parts = [Subgraph::whole(&acm), Subgraph::whole(&acm)];
    let on = LayeredExecution { step: Step::Forward, ..execution(1) };
    let model = network.model(&parts, &on);
    let kernels: Vec<usize> = model.blocks().iter().map(|block| block.block.forward.len()).collect();
    // The trace has 356: 9 of them add parts of products of 73 rows, which one kernel has here.
    assert_eq!(kernels, [6, 170, 170, 1]);
    assert!(
        model.blocks().iter().flat_map(|block| &block.block.forward).all(|op| op.phase == Phase::Forward)
    );
}

#[test]
fn what_no_source_has_is_refused_with_who_does_it() {
    let refused = |system: System, kind, trained, heads| {
        system.supports(Asked { kind, trained, heads }).expect_err("no source has it")
    };
    let (fault, remedy) = refused(System::Graphiler, Hgt, true, 1);
    assert!(fault.starts_with("`graphiler` does not support training of `hgt`"), "{fault}");
    assert!(
        remedy.contains("step: forward") && remedy.contains("`dgl`") && !remedy.contains("`hgl`"),
        "{remedy}"
    );
    let (fault, remedy) = refused(System::Graphiler, Rgat, false, 2);
    assert!(fault.contains("2 heads") && remedy.starts_with("write `heads: 1`"), "{fault}: {remedy}");
    assert!(refused(System::Seastar, Rgat, false, 1).0.contains("EuroSys"));
    assert!(refused(HECTOR[0], Gcn, false, 1).1.contains("`seastar`"));
    let names: BTreeSet<&str> = systems().map(System::name).collect();
    assert_eq!(SUPPORT.iter().map(|support| support.system).collect::<BTreeSet<_>>(), names);
    assert!(SUPPORT.iter().all(|of| of.training.iter().all(|kind| of.forward.contains(kind))));
}
