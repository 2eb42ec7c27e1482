//! Statistics as they are written, and what is wrong with them.

use graphs::Statistics;

fn problems(text: &str) -> String {
    match Statistics::read(text) {
        Err(problem) => problem.to_string(),
        Ok(statistics) => statistics.problems().iter().map(|problem| format!("{problem}\n")).collect(),
    }
}

#[test]
fn faults_have_a_setting_and_a_remedy() {
    for (text, expected) in [
        ("edges: 5\n", "`nodes` must be given"),
        ("nodes: 0\nedges: 5\n", "`nodes` must be from 1"),
        ("nodes: 5\nnode_types: { a: 5 }\nedges: 5\n", "stands beside `node_types`"),
        ("nodes: 5\n", "`edges` must stand alone"),
        ("nodes: 5\nedges: 0\n", "`edges` must be from 1"),
        ("nodes: 5\nedges: 5\ncolour: red\n", "unknown field `colour`"),
        (
            "nodes: 5\nedges: 5\nin_degrees: { histogram: [[1, 4]] }\n",
            "has 4 nodes and 4 edges, the graph 5 and 5",
        ),
        ("nodes: 5\nedges: 5\nin_degrees: { power_law: { connected: 9 } }\n", "must be from 1 to 5"),
        ("nodes: 5\nedges: 5\nin_degrees: { power_law: { exponent: 0.5 } }\n", "must be above 1"),
        (
            "nodes: 5\nedges: 50\nin_degrees: { power_law: { largest: 2 } }\n",
            "must be from the mean degree, 10,",
        ),
        ("nodes: 5\nedges: 5\nsymmetric: true\nboth_ways: true\n", "adds what `symmetric` says"),
        ("nodes: 5\nedges: 5\nreciprocal: 36\n", "must be a share from 0 to 1, not 36"),
        ("nodes: 5\nedges: 5\nreciprocal: 1\nboth_ways: true\n", "says how many edges have a reverse"),
        ("nodes: 5\nedges: 5\nisolated: 3\n", "`isolated` must be from 0 to 0"),
        ("nodes: 5\nedges: 5\nreach: 2\n", "`reach` must be a share"),
        ("nodes: 5\nedges: 5\ntraining_nodes: 9\n", "write `training_nodes: 5`"),
        ("node_types: { a: 5, b: 5 }\nedges: 5\n", "does not say which of the node types"),
        (
            "node_types: { a: 5 }\nrelations: [{ name: r, from: a, to: b, edges: 5 }]\n",
            "`relations[0].to` `b` is no node type",
        ),
        (
            "node_types: { a: 5 }\nrelations: [{ name: r, from: a, to: a, edges: 0 }]\n",
            "`relations[0].edges` must be from 1",
        ),
        ("nodes: 5\nestimated_relations: { count: 9, edges: 5 }\n", "types with an edge each"),
        (
            "nodes: 5\nestimated_relations: { edges_each: [3, 2], distinct_pairs: 9 }\n",
            "from the 2 types to 5",
        ),
    ] {
        let found = problems(text);
        assert!(found.contains(expected), "{found} for {expected}");
    }
    let two = problems("nodes: 5\nedges: 5\nreach: 2\nfeatures: 0\n");
    assert_eq!(two.lines().count(), 2, "all at once: {two}");
}

#[test]
fn what_is_written_can_be_read() {
    let text = "nodes: 5\nestimated_relations: { edges_each: [3, 2], distinct_pairs: 4 }\nreach: 0.5\n";
    let statistics = Statistics::read(text).unwrap();
    assert_eq!(Statistics::read(&statistics.write()), Ok(statistics));
}
