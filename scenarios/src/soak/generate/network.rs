//! Graph networks: published graphs and drawn ones, whole or sampled, with features on any way.

use serde_json::{Value, json};

use super::super::draw::{Draw, Settings};
use super::{machine, percent};

const MODEL: &str = "model.graph";
/// Graphs of one type, and of several types of edges.
const PLAIN: [&str; 4] = ["reddit", "ogbn-products", "papers100M", "wiki-en"];
const TYPED: [&str; 4] = ["aifb", "mutag", "fb15k-237", "biokg"];

/// Writes the model, its machine, training, parallelism and features.
pub(super) fn fill(draw: &mut Draw, settings: &mut Settings) {
    let data = draw.one(&[1, 1, 1, 2, 4]);
    let machine = machine::fill(draw, settings, data);
    settings.set("parallelism.data", data);
    settings.set("training.precision", machine.precision(draw));
    settings.some(draw, 20, "training", &json!({ "step": ["gradients", "forward"] }));
    let is_typed = draw.chance(50);
    let graph = match (draw.chance(40), is_typed) {
        (true, true) => json!({ "preset": draw.one(&TYPED) }),
        (true, false) => json!({ "preset": draw.one(&PLAIN) }),
        (false, _) => json!({ "statistics": drawn(draw, is_typed) }),
    };
    settings.set(&format!("{MODEL}.data"), graph);
    let layers = draw.between(1, 3);
    let heads = draw.one(&[1, 1, 4]);
    let sizes = json!({
        "layers": layers, "hidden": heads * draw.between(1, 64), "heads": heads, "outputs": heads * draw.between(1, 16),
    });
    let kinds: &[&str] = if is_typed { &["rgcn", "rgat", "hgt"] } else { &["gcn", "sage", "gat"] };
    settings.set(&format!("{MODEL}.network"), json!({ draw.one(kinds): sizes }));
    let [reorder, compact] = [50, 50].map(|chance| draw.chance(chance));
    let hector = json!({ "hector": { "reorder": reorder, "compact": compact } });
    let of_kind = if is_typed { hector } else { json!("dgl-0.8") };
    settings.set(&format!("{MODEL}.system"), draw.one(&[json!("dgl"), json!("pyg"), of_kind]));
    settings.set("features.width", draw.between(1, 1_024));
    if !is_typed || draw.chance(30) {
        sampled(draw, settings, layers);
    }
}

/// Statistics of a graph that nobody published.
fn drawn(draw: &mut Draw, is_typed: bool) -> Value {
    let nodes = draw.between(1_000, 2_000_000);
    let edges = nodes * draw.between(1, 60);
    let training_nodes = nodes.div_ceil(draw.between(1, 50));
    if is_typed {
        let relations = json!({ "count": draw.between(2, 60), "edges": edges });
        return json!({ "nodes": nodes, "estimated_relations": relations, "training_nodes": training_nodes });
    }
    let reciprocal = draw.one(&[0.0, 0.0, 0.3, 1.0]);
    json!({ "nodes": nodes, "edges": edges, "reciprocal": reciprocal, "training_nodes": training_nodes })
}

/// Writes mini-batches, and the way of their features.
fn sampled(draw: &mut Draw, settings: &mut Settings, layers: u64) {
    let fan_out: Vec<u64> = (0..layers).map(|_| draw.between(1, 25)).collect();
    let place = draw.one(&["host", "host", "gpu", "gpu-pinned"]);
    let mut sampling = json!({ "batch": draw.between(1, 4_000), "fan_out": fan_out, "where": place });
    if place == "host" {
        sampling["workers"] = draw.between(0, 4).into();
    }
    settings.set(&format!("{MODEL}.sampling"), sampling);
    let access = draw.one(&["host-gather", "zero-copy", "managed", "gpu"]);
    if access == "gpu" {
        settings.set("features.home", "gpu");
        return;
    }
    settings.set("features.access", access);
    let ways = match access {
        "zero-copy" => {
            json!({ "align": [true], "order": ["sorted"], "process": ["separate", { "mps": "10 %" }] })
        }
        _ => json!({ "threads": [1, 4, 16], "prefetch": [1, 3] }),
    };
    settings.some(draw, 60, "features", &ways);
    if draw.chance(40) {
        let policy = draw.one(&["random", "degree", "presample"]);
        settings.set("features.cache", json!({ "share": percent(draw.between(0, 30)), "policy": policy }));
    }
}
