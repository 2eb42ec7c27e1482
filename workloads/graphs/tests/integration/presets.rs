//! Presets hold the figures that were published.

use graphs::{Graph, GraphSource, preset_names, preset_sources};

fn preset(name: &str) -> Graph {
    GraphSource::Preset(name.to_owned()).graph().unwrap_or_else(|problem| panic!("{name}: {problem}"))
}

#[test]
fn degrees_add_up() {
    for name in preset_names() {
        let graph = preset(name);
        assert!(!preset_sources(name).expect("a preset").is_empty(), "{name} has sources");
        for relation in &graph.relations {
            let place = format!("{name}: {}", relation.name);
            for (degrees, end, connected) in [
                (&relation.in_degrees, relation.destination, relation.destinations),
                (&relation.out_degrees, relation.source, relation.sources),
            ] {
                assert_eq!(degrees.edges(), relation.edges, "{place}");
                assert_eq!(degrees.nodes(), graph.node_types[end].nodes, "{place}");
                assert_eq!(degrees.connected(), connected, "{place}");
            }
        }
    }
}

#[test]
fn published_totals() {
    for (name, nodes, types, edges, relations) in [
        ("reddit", 232_965, 1, 114_615_892, 1),
        ("acm", 30_003, 3, 160_686, 6),
        ("aifb", 7_262, 7, 48_810, 104),
        ("biokg", 93_773, 5, 4_762_678, 51),
        ("fb15k-237", 14_541, 1, 620_232, 474),
        ("mag", 1_939_743, 4, 21_111_007, 4),
    ] {
        let graph = preset(name);
        let found = (graph.nodes(), graph.node_types.len(), graph.edges(), graph.relations.len());
        assert_eq!(found, (nodes, types, edges, relations), "{name}");
    }
}

#[test]
fn pairs_of_fb15k_are_those_counted() {
    let graph = preset("fb15k-237");
    assert_eq!(graph.distinct_pairs(), 161_922);
    assert!((graph.compaction_ratio() - 0.2611).abs() < 0.0001);
    assert_eq!(graph.relations.iter().map(|of| of.edges).max(), Some(16_391));
}
