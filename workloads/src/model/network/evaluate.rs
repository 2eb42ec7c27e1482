//! Layers on small graphs with whole numbers: what passes change must not change what a layer
//! makes.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::compact::stored_at;
use super::kinds::{LayerShape, NetworkKind};
use super::layer::{By, End, Function, Made, NetworkLayer, Space, ValueId, WeightId};
use super::reorder::reordered;

/// A graph, edge by edge.
#[derive(Clone, Debug)]
struct Small {
    /// Type of each node.
    nodes: Vec<usize>,
    /// Source, destination, type.
    edges: Vec<(usize, usize, usize)>,
}

type Rows = Vec<Vec<i64>>;

struct Evaluation<'a> {
    layer: &'a NetworkLayer,
    graph: &'a Small,
    values: Vec<Rows>,
}

impl Small {
    /// Pairs of a node at an end and a type of edges.
    fn pairs(&self, end: End) -> BTreeMap<(usize, usize), usize> {
        let mut pairs: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        self.edges.iter().for_each(|&edge| _ = pairs.insert((at(edge, end), edge.2), 0));
        pairs.values_mut().enumerate().for_each(|(number, place)| *place = number);
        pairs
    }

    /// All nodes of the type at an end of a type of edges, with that type.
    fn typed(&self, end: End) -> BTreeMap<(usize, usize), usize> {
        let of_edge = |&edge: &(usize, usize, usize)| {
            let node_type = self.nodes[at(edge, end)];
            let nodes = (0..self.nodes.len()).filter(move |&node| self.nodes[node] == node_type);
            nodes.map(move |node| ((node, edge.2), 0))
        };
        let mut all: BTreeMap<(usize, usize), usize> = self.edges.iter().flat_map(of_edge).collect();
        all.values_mut().enumerate().for_each(|(number, place)| *place = number);
        all
    }

    fn row(&self, space: Space, edge: usize) -> usize {
        let (source, destination, relation) = self.edges[edge];
        match space {
            Space::Sources => source,
            Space::Destinations => destination,
            Space::Edges => edge,
            Space::Pairs(end) => self.pairs(end)[&(at(self.edges[edge], end), relation)],
            Space::Typed(end) => self.typed(end)[&(at(self.edges[edge], end), relation)],
        }
    }

    /// Each row of a space, as the node and the type of edges that it is of.
    fn rows(&self, space: Space) -> Vec<(usize, usize)> {
        match space {
            Space::Sources | Space::Destinations => (0..self.nodes.len()).map(|node| (node, 0)).collect(),
            Space::Edges => self.edges.iter().map(|&(source, _, relation)| (source, relation)).collect(),
            Space::Pairs(end) => self.pairs(end).into_keys().collect(),
            Space::Typed(end) => self.typed(end).into_keys().collect(),
        }
    }
}

fn at((source, destination, _): (usize, usize, usize), end: End) -> usize {
    if end == End::Source { source } else { destination }
}

impl Evaluation<'_> {
    fn of(layer: &NetworkLayer, graph: &Small) -> Rows {
        let mut evaluation = Evaluation { layer, graph, values: Vec::new() };
        for id in layer.ids() {
            let rows = evaluation.value(id);
            evaluation.values.push(rows);
        }
        evaluation.values[layer.output.0].clone()
    }

    /// Copy of a weight: a row for each of its inputs.
    fn weight(&self, id: WeightId, copy: usize) -> Rows {
        let weight = &self.layer.weights[id.0];
        if let Some([inner, outer]) = weight.product {
            let (first, second) = (self.weight(inner, self.copy_of(inner, copy)), self.weight(outer, copy));
            return first.iter().map(|row| times(row, &second)).collect();
        }
        let (heads, rows, columns) = (weight.heads as usize, weight.rows as usize, weight.columns as usize);
        let mut all = vec![vec![0; heads * columns]; heads * rows];
        for (at, row) in all.iter_mut().enumerate() {
            for (column, number) in
                row.iter_mut().enumerate().filter(|(column, _)| column / columns == at / rows)
            {
                let seed = (id.0 * 7 + copy * 13 + at * 3 + column * 5) as i64;
                *number = seed % 11 - 5;
            }
        }
        all
    }

    /// Copy of a weight of nodes for edges of a type, whose sources are all of one type.
    fn copy_of(&self, id: WeightId, relation: usize) -> usize {
        match self.layer.weights[id.0].by {
            By::Nothing => 0,
            By::EdgeType => relation,
            By::NodeType => self
                .graph
                .edges
                .iter()
                .find(|edge| edge.2 == relation)
                .map_or(0, |edge| self.graph.nodes[edge.0]),
        }
    }

    fn value(&self, id: ValueId) -> Rows {
        let value = self.layer.get(id);
        let (graph, width) = (self.graph, value.width as usize);
        let rows = graph.rows(value.space);
        match &value.made {
            Made::Features | Made::OwnFeatures => {
                let number = |node: usize, at: usize| ((node * 17 + at * 5) % 7) as i64 - 3;
                rows.iter().map(|&(node, _)| (0..width).map(|at| number(node, at)).collect()).collect()
            }
            Made::EdgeConstant => (0..rows.len()).map(|edge| vec![edge as i64 % 3 + 1; width]).collect(),
            &Made::Linear(of, weight) => {
                let space = self.layer.get(of).space;
                let of_row = |(number, &(node, relation)): (usize, &(usize, usize))| {
                    let from = match value.space {
                        own if own == space => number,
                        Space::Edges => graph.row(space, number),
                        _ => node,
                    };
                    let copy = match self.layer.weights[weight.0].by {
                        By::Nothing => 0,
                        By::EdgeType => relation,
                        By::NodeType => graph.nodes[node],
                    };
                    times(&self.values[of.0][from], &self.weight(weight, copy))
                };
                rows.iter().enumerate().map(of_row).collect()
            }
            &Made::Dot(left, right) => {
                let of_edge = |edge: usize| {
                    let [a, b] = [left, right].map(|side| self.at(side, edge));
                    let each = a.len() / width;
                    (0..width).map(|head| dot(&a[head * each..][..each], &b[head * each..][..each])).collect()
                };
                (0..rows.len()).map(of_edge).collect()
            }
            Made::Map(of, function) => {
                let of_row = |row: usize| {
                    let read = |&read: &ValueId| match value.space {
                        Space::Edges => self.at(read, row),
                        _ => self.values[read.0][row].clone(),
                    };
                    let inputs: Vec<Vec<i64>> = of.iter().map(read).collect();
                    (0..width).map(|at| apply(*function, inputs.iter().map(|input| input[at]))).collect()
                };
                (0..rows.len()).map(of_row).collect()
            }
            // Any function of a row and of all that lead to the same node.
            &Made::Softmax(of) => {
                let all = self.sums(width, |edge| self.at(of, edge));
                let of_edge = |edge: usize| {
                    let (own, sum) = (self.at(of, edge), &all[graph.edges[edge].1]);
                    own.iter().zip(sum).map(|(own, sum)| own.wrapping_mul(3).wrapping_add(*sum)).collect()
                };
                (0..rows.len()).map(of_edge).collect()
            }
            &Made::Sum(message, factor) => self.sums(width, |edge| {
                let message = self.at(message, edge);
                let Some(factor) = factor.map(|factor| self.at(factor, edge)) else { return message };
                let each = width / factor.len();
                message
                    .iter()
                    .enumerate()
                    .map(|(at, number)| number.wrapping_mul(factor[at / each]))
                    .collect()
            }),
        }
    }

    /// Row of a value for an edge.
    fn at(&self, id: ValueId, edge: usize) -> Vec<i64> {
        self.values[id.0][self.graph.row(self.layer.get(id).space, edge)].clone()
    }

    /// Sums over the edges that lead to each node.
    fn sums(&self, width: usize, row: impl Fn(usize) -> Vec<i64>) -> Rows {
        let mut sums = vec![vec![0_i64; width]; self.graph.nodes.len()];
        for (edge, &(_, destination, _)) in self.graph.edges.iter().enumerate() {
            sums[destination]
                .iter_mut()
                .zip(row(edge))
                .for_each(|(sum, number)| *sum = sum.wrapping_add(number));
        }
        sums
    }
}

fn apply(function: Function, mut inputs: impl Iterator<Item = i64>) -> i64 {
    let first = inputs.next().unwrap_or(0);
    match function {
        Function::Add => inputs.fold(first, i64::wrapping_add),
        Function::Multiply => inputs.fold(first, i64::wrapping_mul),
        Function::LeakyRelu if first < 0 => first / 5,
        Function::LeakyRelu => first,
        _ => first.wrapping_mul(first),
    }
}

fn dot(a: &[i64], b: &[i64]) -> i64 {
    a.iter().zip(b).fold(0, |sum, (a, b)| sum.wrapping_add(a.wrapping_mul(*b)))
}

fn times(row: &[i64], weight: &Rows) -> Vec<i64> {
    let columns = weight.first().map_or(0, Vec::len);
    let column = |at: usize| -> Vec<i64> { weight.iter().map(|row| row[at]).collect() };
    (0..columns).map(|at| dot(row, &column(at))).collect()
}

/// Graphs of three types of nodes, each relation from one type to another.
fn graphs() -> impl Strategy<Value = Small> {
    let ends = vec((0..3_usize, 0..3_usize), 1..5);
    let nodes = (3..12_usize).prop_map(|count| (0..count).map(|node| node % 3).collect::<Vec<_>>());
    (nodes, ends, vec((0..100_usize, 0..100_usize, 0..100_usize), 1..40)).prop_map(|(nodes, ends, drawn)| {
        let edges = drawn.into_iter().map(|(source, destination, relation)| {
            let relation = relation % ends.len();
            let (from, to) = ends[relation];
            let of_type = |node_type: usize, draw: usize| {
                let all: Vec<usize> = (0..nodes.len()).filter(|&node| nodes[node] == node_type).collect();
                all[draw % all.len()]
            };
            (of_type(from, source), of_type(to, destination), relation)
        });
        Small { edges: edges.collect(), nodes: nodes.clone() }
    })
}

proptest! {
    #[test]
    fn passes_keep_what_a_layer_makes(
        graph in graphs(),
        kind in prop::sample::select(vec![NetworkKind::Rgcn, NetworkKind::Rgat, NetworkKind::Hgt, NetworkKind::Gat]),
        heads in 1..3_u64,
        (inputs, each) in (1..4_u64, 1..4_u64),
    ) {
        let shape = LayerShape { inputs, outputs: heads * each, heads, is_last: true, gated: false };
        let plain = kind.layer(shape);
        let made = Evaluation::of(&plain, &graph);
        for changed in [
            reordered(plain.clone()),
            stored_at(plain.clone(), Space::Pairs),
            stored_at(plain.clone(), Space::Typed),
            stored_at(reordered(plain.clone()), Space::Pairs),
        ] {
            prop_assert_eq!(&Evaluation::of(&changed, &graph), &made);
        }
    }
}

#[test]
fn reordering_drops_products_that_nothing_else_reads() {
    let shape = LayerShape { inputs: 64, outputs: 64, heads: 1, is_last: true, gated: false };
    let needed = |layer: &NetworkLayer| {
        let names = layer.values.iter().zip(layer.needed()).filter(|(_, needed)| *needed);
        names.map(|(value, _)| value.name).collect::<Vec<_>>()
    };
    let plain = NetworkKind::Rgat.layer(shape);
    assert!(needed(&plain).contains(&"product of destinations"));
    let less = needed(&reordered(plain));
    assert!(!less.contains(&"product of destinations") && less.contains(&"product of sources"));
    // A network without a chain of products stays as it is.
    let rgcn = NetworkKind::Rgcn.layer(shape);
    assert_eq!(reordered(rgcn.clone()), rgcn);
    let keys = needed(&reordered(NetworkKind::Hgt.layer(shape)));
    assert!(!keys.contains(&"keys") && !keys.contains(&"values") && keys.contains(&"queries"));
}
