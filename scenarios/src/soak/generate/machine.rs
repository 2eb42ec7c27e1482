//! Machines for models: nodes of the catalogue, as many as the ranks need.

use serde_json::json;

use super::super::draw::{Draw, Settings};

/// A node of the catalogue, as far as scenarios must know it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    name: &'static str,
    gpus: u64,
    /// Precisions that its GPUs multiply in.
    pub(super) precisions: &'static [&'static str],
    /// Whether they multiply in 8 bits.
    pub(super) fp8: bool,
    /// Memory of a GPU in GB.
    pub(super) memory: u64,
    /// Its PCIe slots, as classes of links are called.
    slots: &'static str,
    /// Whether it has network interfaces.
    joined: bool,
    /// Whether it has places for drives.
    stores: bool,
    /// Its drives, once they have been drawn.
    pub(super) drives: u64,
}

const WITH_BF16: &[&str] = &["fp16-mixed", "bf16-mixed", "bf16-mixed", "fp32"];
const WITHOUT_BF16: &[&str] = &["fp16-mixed", "fp16-mixed", "fp32"];

const AMPERE: Node = Node {
    name: "dgx-a100-80g",
    gpus: 8,
    precisions: WITH_BF16,
    fp8: false,
    memory: 80,
    slots: "pcie4",
    joined: true,
    stores: true,
    drives: 0,
};
const VOLTA: Node = Node {
    name: "dgx-1v-32g",
    precisions: WITHOUT_BF16,
    memory: 32,
    slots: "pcie3",
    stores: false,
    ..AMPERE
};
const HOPPER: Node = Node { name: "dgx-h100", fp8: true, slots: "pcie5", ..AMPERE };

const NODES: [Node; 10] = [
    AMPERE,
    Node { name: "dgx-a100-40g", memory: 40, ..AMPERE },
    HOPPER,
    Node { name: "hgx-h200", memory: 141, stores: false, ..HOPPER },
    Node { name: "hgx-b200", memory: 180, stores: false, ..HOPPER },
    VOLTA,
    Node { name: "dgx-2", gpus: 16, stores: true, ..VOLTA },
    Node { name: "supermicro-4029gp-trt2", joined: false, ..VOLTA },
    Node { name: "supermicro-4029gp-trt", joined: false, ..VOLTA },
    Node { name: "epyc-pcie-8x", memory: 24, joined: false, stores: false, ..AMPERE },
];

/// Writes a machine with at least so many GPUs; those left over are idle.
pub(super) fn fill(draw: &mut Draw, settings: &mut Settings, ranks: u64) -> Node {
    let mut node = draw.one(&NODES);
    if ranks > node.gpus && !node.joined {
        node = AMPERE;
    }
    let count = ranks.div_ceil(node.gpus);
    let place = if count == 1 && draw.chance(50) { "machine.node" } else { "machine.cluster" };
    if place == "machine.node" {
        settings.set("machine.node.name", node.name);
    } else {
        settings.set("machine.cluster", json!({ "node": node.name, "count": count }));
    }
    if count > 1 {
        let fabrics = json!(["hdr200-fat-tree", "hdr200-fat-tree-2to1", "roce100-fat-tree"]);
        settings.some(draw, 15, "machine.cluster", &json!({ "fabric": fabrics }));
    }
    if node.stores && draw.chance(40) {
        node.drives = draw.between(1, 8);
        let model = draw.one(&["samsung-pm9a3-u2-3840gb", "intel-p3700-800gb", "generic-gen3-nvme-tlc"]);
        settings.set(&format!("{place}.set.ssd"), json!({ "model": model, "count": node.drives }));
    }
    let [narrow, wide] = [4, 16].map(|lanes| json!({ "class": node.slots, "lanes": lanes }));
    let [slow, slower] = ["95 %", "40 %"].map(|clock| json!([{ "part": "node[0].gpu[0]", "clock": clock }]));
    let changes = json!({ "set.gpu": [narrow, wide], "degrade": [slow, slower] });
    settings.some(draw, 6, place, &changes);
    if ranks < count * node.gpus {
        settings.set("parallelism.idle", "allow");
    }
    let orders = json!({ "placement": ["sequential", "pair-adjacent", "copy-after-copy"] });
    settings.some(draw, 12, "parallelism", &orders);
    node
}
