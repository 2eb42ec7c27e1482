//! Trace graphs against a plain oracle: the set of all steps that follow each other.

use std::collections::BTreeSet;

use proptest::prelude::*;
use workloads::program::execution::Loops;
use workloads::program::path::{Place, Step, What, draw};
use workloads::program::trace_graph::TraceGraph;

use super::plain::{BLOCKS, case, programs};

type Node = Option<(Place, What)>;

/// Steps that follow each other in a trace, from its begin to its end.
fn pairs(trace: &[Step], loops: Loops) -> Vec<(Node, Node)> {
    let node = |step: &Step| {
        let rolled = Place { varying_trip: 0, ..step.place };
        (if loops == Loops::Rolled { rolled } else { step.place }, step.what)
    };
    let mut nodes: Vec<Node> = vec![None];
    nodes.extend(trace.iter().map(|step| Some(node(step))));
    nodes.push(None);
    nodes.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

/// Traces of iterations of a program.
fn traces(program: &str, seed: u64, count: u32) -> Vec<Vec<Step>> {
    let case = case(program);
    let trace = |iteration| {
        let path = draw(case.program(), BLOCKS, seed, iteration).expect("a short path");
        path.into_iter().filter(|step| step.what.is_traced()).collect()
    };
    (0..count).map(trace).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_graph_of_traces_accepts_what_follows_in_some_trace(
        program in programs(true),
        seed in 0..100_u64,
        rolled: bool,
        merged in 0..8_usize,
    ) {
        let loops = if rolled { Loops::Rolled } else { Loops::Unrolled };
        let traces = traces(&program, seed, 12);
        let mut graph = TraceGraph::new(loops);
        let mut known: BTreeSet<(Node, Node)> = BTreeSet::new();
        for trace in &traces[..merged] {
            let before = known.len();
            known.extend(pairs(trace, loops));
            prop_assert_eq!(graph.merge(trace), known.len() > before);
            prop_assert!(!graph.merge(trace), "merging twice adds something");
        }
        let mut reversed = TraceGraph::new(loops);
        traces[..merged].iter().rev().for_each(|trace| {
            reversed.merge(trace);
        });
        for (number, trace) in traces.iter().enumerate() {
            let expected = pairs(trace, loops).iter().position(|pair| !known.contains(pair));
            prop_assert_eq!(graph.departs(trace), expected);
            prop_assert_eq!(reversed.departs(trace), expected);
            prop_assert!(number >= merged || expected.is_none());
            for at in 0..=trace.len() {
                let before = pairs(trace, loops)[at].0;
                let followers = known.iter().filter(|pair| pair.0 == before).count();
                prop_assert_eq!(graph.is_divided_before(trace, at), followers > 1);
            }
        }
        let nodes: BTreeSet<_> = known.iter().filter_map(|pair| pair.0).collect();
        prop_assert_eq!(graph.nodes(), nodes.len());
    }

    /// Only decisions divide a graph: where nothing varies, each step has one that follows.
    #[test]
    fn a_program_that_always_does_the_same_is_one_trace(program in programs(false), seed in 0..100_u64) {
        let program = program.replace("every 3", "always");
        let traces = traces(&program, seed, 3);
        let mut graph = TraceGraph::new(Loops::Rolled);
        graph.merge(&traces[0]);
        for trace in &traces {
            prop_assert_eq!(graph.departs(trace), None);
            for at in 0..=trace.len() {
                prop_assert!(!graph.is_divided_before(trace, at), "{program}: {:?}", trace.get(at));
            }
        }
    }
}
