//! Machines for models: nodes of the catalogue, as many as the ranks need.

use hw_models::catalogue::{Gpu, Node};
use serde_json::json;

use super::super::draw::{Draw, Settings};
use crate::catalogue;

/// A drawn machine, as far as the rest of a scenario must know it.
pub(super) struct Drawn {
    pub(super) gpu: &'static Gpu,
    /// Drives of a node.
    pub(super) drives: u64,
}

impl Drawn {
    /// A precision that its GPUs multiply in.
    pub(super) fn precision(&self, draw: &mut Draw) -> &'static str {
        let half = self.gpu.peak_tflops.bf16.map_or("fp16-mixed", |_| "bf16-mixed");
        draw.one(&["fp16-mixed", half, half, "fp32"])
    }
}

/// Writes a machine with at least so many GPUs; those left over are idle.
pub(super) fn fill(draw: &mut Draw, settings: &mut Settings, ranks: u64) -> Drawn {
    let devices = catalogue::devices();
    let has_room = |(_, node): &(&String, &Node)| node.nic.is_some() || ranks <= node.gpus();
    let (name, node) = draw.one(&devices.nodes.iter().filter(has_room).collect::<Vec<_>>());
    let count = ranks.div_ceil(node.gpus());
    let place = if count == 1 && draw.chance(50) { "machine.node" } else { "machine.cluster" };
    if place == "machine.node" {
        settings.set("machine.node.name", name.as_str());
    } else {
        settings.set("machine.cluster", json!({ "node": name, "count": count }));
    }
    if count > 1 {
        let fabrics = json!(["hdr200-fat-tree", "hdr200-fat-tree-2to1", "roce100-fat-tree"]);
        settings.some(draw, 15, "machine.cluster", &json!({ "fabric": fabrics }));
    }
    let drives = if node.ssd.is_some() && draw.chance(60) { draw.between(1, 8) } else { 0 };
    if drives > 0 {
        let model = draw.one(&["samsung-pm9a3-u2-3840gb", "intel-p3700-800gb", "generic-gen3-nvme-tlc"]);
        settings.set(&format!("{place}.set.ssd"), json!({ "model": model, "count": drives }));
    }
    let [narrow, wide] = [4, 16].map(|lanes| json!({ "class": node.pcie.class, "lanes": lanes }));
    let [slow, slower] = ["95 %", "40 %"].map(|clock| json!([{ "part": "node[0].gpu[0]", "clock": clock }]));
    let changes = json!({ "set.gpu": [narrow, wide], "degrade": [slow, slower] });
    settings.some(draw, 6, place, &changes);
    if ranks < count * node.gpus() {
        settings.set("parallelism.idle", "allow");
    }
    let orders = json!({ "placement": ["sequential", "pair-adjacent", "copy-after-copy"] });
    settings.some(draw, 12, "parallelism", &orders);
    Drawn { gpu: &devices.gpus[&node.gpu], drives }
}

/// Sends messages over some fat trees by a hash.
pub(super) fn routing(draw: &mut Draw, settings: &mut Settings) {
    if settings.get("machine.cluster.fabric").is_some() && draw.chance(30) {
        let seed = draw.between(1, 3);
        settings.set("machine.cluster.routing", json!({ "hashed": { "seed": seed } }));
    }
}
