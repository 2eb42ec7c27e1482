//! Machines for models: nodes of the catalogue, as many as the ranks need.

use serde_json::json;

use super::super::draw::{Draw, Settings};

/// A node of the catalogue, as far as scenarios must know it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    name: &'static str,
    gpus: u64,
    /// What its GPUs multiply in.
    pub(super) precisions: &'static [&'static str],
    /// Whether they multiply in 8 bits.
    pub(super) fp8: bool,
    /// Its drives.
    pub(super) drives: u64,
    /// Memory of a GPU in GB.
    pub(super) memory: u64,
    /// Its PCIe slots, as classes of links are called.
    slots: &'static str,
}

const SIXTEEN: &[&str] = &["fp16-mixed", "bf16-mixed", "bf16-mixed", "fp32"];
const HALF: &[&str] = &["fp16-mixed", "fp16-mixed", "fp32"];

const NODES: [Node; 10] = [
    node("dgx-a100-80g", SIXTEEN, false, 80, "pcie4"),
    node("dgx-a100-40g", SIXTEEN, false, 40, "pcie4"),
    node("dgx-h100", SIXTEEN, true, 80, "pcie5"),
    node("hgx-h200", SIXTEEN, true, 141, "pcie5"),
    node("hgx-b200", SIXTEEN, true, 180, "pcie5"),
    node("dgx-1v-32g", HALF, false, 32, "pcie3"),
    node("dgx-2", HALF, false, 32, "pcie3"),
    node("supermicro-4029gp-trt2", HALF, false, 32, "pcie3"),
    node("supermicro-4029gp-trt", HALF, false, 32, "pcie3"),
    node("epyc-pcie-8x", SIXTEEN, false, 24, "pcie4"),
];

const fn node(
    name: &'static str,
    precisions: &'static [&'static str],
    fp8: bool,
    memory: u64,
    slots: &'static str,
) -> Node {
    Node {
        name,
        gpus: if matches!(name.as_bytes(), b"dgx-2") { 16 } else { 8 },
        precisions,
        fp8,
        drives: 0,
        memory,
        slots,
    }
}

/// Writes a machine with at least so many GPUs; those left over are idle.
pub(super) fn fill(draw: &mut Draw, settings: &mut Settings, ranks: u64) -> Node {
    let mut node = draw.one(&NODES);
    let count = ranks.div_ceil(node.gpus);
    let place = if count == 1 && draw.chance(50) { "machine.node" } else { "machine.cluster" };
    if place == "machine.node" {
        settings.set("machine.node.name", node.name);
    } else {
        settings.set("machine.cluster", json!({ "node": node.name, "count": count }));
    }
    if count > 1 {
        settings.maybe(draw, 15, "machine.cluster.fabric", |draw| {
            draw.one(&["hdr200-fat-tree", "hdr200-fat-tree-2to1", "roce100-fat-tree"]).into()
        });
    }
    if draw.chance(25) {
        node.drives = draw.from_to(1, 8);
        let model = draw.one(&["samsung-pm9a3-u2-3840gb", "intel-p3700-800gb", "generic-gen3-nvme-tlc"]);
        settings.set(&format!("{place}.set.ssd"), json!({ "model": model, "count": node.drives }));
    }
    settings.maybe(
        draw,
        6,
        &format!("{place}.set.gpu"),
        |draw| json!({ "class": node.slots, "lanes": draw.one(&[4, 8, 16]) }),
    );
    settings.maybe(
        draw,
        6,
        &format!("{place}.degrade"),
        |draw| json!([{ "part": "node[0].gpu[0]", "clock": format!("{} %", draw.from_to(40, 99)) }]),
    );
    if ranks < count * node.gpus {
        settings.set("parallelism.idle", "allow");
    }
    settings.maybe(draw, 12, "parallelism.placement", |draw| {
        draw.one(&["sequential", "pair-adjacent", "copy-after-copy"]).into()
    });
    node
}
