//! A plausible experiment on a machine: four nodes of eight GPUs, tensor 4 and pipeline 8, plain, with recomputation, and
//! with memory balanced between stages; beside it nodes of other shapes.

use indexmap::IndexMap;
use reports::Summary;
use reports::summary::{
    AllocatorPeak, CommunicationUse, ConstantOrigin, DevicePeak, DrawnLink, DrawnPart, Failure, FailureKind,
    LinkKind, LinkUse, MachineDrawing, Moment, PartKind, Remedy, RunSummary,
};

use crate::fixture::{bare, short, summary};

const CAPACITY: u64 = 84_000_000_000;

/// What hangs on each PCIe switch of a node, and how its GPUs are joined.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) sockets: usize,
    /// Switches of a socket; without any, devices hang on the socket.
    pub(crate) switches: usize,
    pub(crate) gpus: usize,
    pub(crate) nics: usize,
    pub(crate) ssds: usize,
    pub(crate) nvswitch: bool,
    /// GPUs joined directly.
    pub(crate) pairs: &'static [(usize, usize)],
}

pub(crate) const DGX: Shape = Shape {
    name: "dgx-a100-80g",
    sockets: 2,
    switches: 2,
    gpus: 2,
    nics: 2,
    ssds: 2,
    nvswitch: true,
    pairs: &[],
};

/// Other nodes: without NVLink, with pairs of it, with many GPUs, with one.
pub(crate) const OTHERS: [Shape; 4] = [
    Shape { name: "pcie-box", nics: 1, ssds: 0, nvswitch: false, ..DGX },
    Shape {
        name: "cube-mesh",
        nics: 1,
        ssds: 0,
        nvswitch: false,
        pairs: &[(0, 1), (0, 2), (0, 3), (0, 4), (1, 5), (2, 6), (3, 7), (4, 5), (4, 6), (4, 7), (6, 7)],
        ..DGX
    },
    Shape { name: "sixteen", switches: 4, nics: 1, ssds: 1, ..DGX },
    Shape { name: "workstation", sockets: 1, switches: 0, gpus: 1, nics: 0, ssds: 1, nvswitch: false, ..DGX },
];

struct Wiring {
    node: Vec<DrawnPart>,
    links: Vec<DrawnLink>,
}

impl Wiring {
    fn part(&mut self, kind: PartKind, name: String, label: &str) -> String {
        self.node.push(DrawnPart { name: name.clone(), kind, label: label.to_owned() });
        name
    }

    fn link(&mut self, from: &str, to: &str, kind: LinkKind, gb_per_s: f64) {
        let bytes_per_s = gb_per_s * 1e9;
        self.links.push(DrawnLink { from: from.to_owned(), to: to.to_owned(), kind, bytes_per_s });
    }

    fn device(&mut self, above: &str, kind: PartKind, label: &str, link: (LinkKind, f64)) -> String {
        let noun = match kind {
            PartKind::Gpu => "gpu",
            PartKind::Nic => "nic",
            _ => "ssd",
        };
        let index = self.node.iter().filter(|part| part.kind == kind).count();
        let name = self.part(kind, format!("{noun}[{index}]"), label);
        self.link(&name, above, link.0, link.1);
        name
    }

    /// What hangs on one switch or socket.
    fn branch(&mut self, above: &str, shape: &Shape, network: bool) {
        for _ in 0..shape.gpus {
            let gpu = self.device(above, PartKind::Gpu, "a100-sxm4-80gb", (LinkKind::Pcie, 26.1));
            if shape.nvswitch {
                self.link(&gpu, "nvswitch", LinkKind::NvLink, 240.0);
            }
        }
        for _ in 0..shape.nics {
            let nic = self.device(above, PartKind::Nic, "connectx-6-hdr200", (LinkKind::Pcie, 26.1));
            if network {
                self.link(&nic, "fabric.leaf[0]", LinkKind::Network, 24.3);
            }
        }
        for _ in 0..shape.ssds {
            self.device(above, PartKind::Ssd, "samsung-pm9a3-u2-3840gb", (LinkKind::SsdLink, 6.5));
        }
    }
}

/// A drawing of `nodes` nodes of a shape; GPUs hold a stage each of tensor groups of four.
pub(crate) fn machine(shape: &Shape, nodes: u32) -> MachineDrawing {
    let mut wiring = Wiring { node: Vec::new(), links: Vec::new() };
    let mut switches = 0;
    for socket in 0..shape.sockets {
        let name = wiring.part(PartKind::Socket, format!("socket[{socket}]"), "");
        let memory = wiring.part(PartKind::HostMemory, format!("memory[{socket}]"), "1.10 TB");
        wiring.link(&name, &memory, LinkKind::Memory, 164.0);
        for other in 0..socket {
            wiring.link(&format!("socket[{other}]"), &name, LinkKind::SocketLink, 36.0);
        }
        for _ in 0..shape.switches {
            let switch = wiring.part(PartKind::PcieSwitch, format!("switch[{switches}]"), "");
            switches += 1;
            wiring.link(&switch, &name, LinkKind::Pcie, 26.1);
            wiring.branch(&switch, shape, nodes > 1);
        }
        if shape.switches == 0 {
            wiring.branch(&name, shape, nodes > 1);
        }
    }
    if shape.nvswitch {
        wiring.part(PartKind::NvSwitch, "nvswitch".to_owned(), "");
    }
    if nodes > 1 {
        wiring.part(PartKind::NetworkSwitch, "fabric.leaf[0]".to_owned(), "");
    }
    for (a, b) in shape.pairs {
        wiring.link(&format!("gpu[{a}]"), &format!("gpu[{b}]"), LinkKind::NvLink, 40.0);
    }
    let gpus = wiring.node.iter().filter(|part| part.kind == PartKind::Gpu).map(|part| part.name.clone());
    let held = |(index, gpu): (usize, String)| (gpu, format!("stage {}, tensor {}", index / 4, index % 4));
    MachineDrawing {
        name: shape.name.to_owned(),
        nodes,
        placement: gpus.enumerate().map(held).collect(),
        network: (nodes > 1).then(|| "hdr200-fat-tree".to_owned()),
        node: wiring.node,
        links: wiring.links,
        placement_of: None,
        others: Vec::new(),
    }
}

/// The experiment.
pub(crate) fn cluster() -> Summary {
    let runs = vec![
        too_big(),
        RunSummary {
            allocator: (0..8).map(allocator).collect(),
            ..run("plain-recompute", 15.9, &[2.31, 0.402, 0.118, 0.0], [12.0, 3.1])
        },
        RunSummary {
            allocator_unknown: Some("activations move to other stages".to_owned()),
            ..run("bpipe", 12.1, &[1.62, 0.402, 0.118, 0.203], [13.4, 19.8])
        },
    ];
    Summary {
        machine: Some(machine(&DGX, 4)),
        constants: constants(),
        expectations: Vec::new(),
        published: Vec::new(),
        ..summary("bpipe-gpt3-96b", &[], runs)
    }
}

fn run(variant: &str, step: f64, exposed: &[f64], gigabytes: [f64; 2]) -> RunSummary {
    let kinds = ["tensor all-reduce", "tensor all-gather", "pipeline message", "transfer to a partner"];
    let one = |(index, exposed_s): (usize, &f64)| CommunicationUse {
        kind: kinds[index].to_owned(),
        bytes: 5_400_000_000 >> index,
        exposed_s: *exposed_s,
        count: 1_280 >> (2 * index),
    };
    let link = |index: u32| {
        let (name, kind) = match index % 3 {
            0 => (format!("node[0].gpu[{index}] -> node[0].nvswitch"), LinkKind::NvLink),
            1 => (format!("node[{index}].nic[3] -> fabric.leaf[0]"), LinkKind::Network),
            _ => (format!("node[1].switch[{index}] -> node[1].socket[1]"), LinkKind::Pcie),
        };
        LinkUse {
            name,
            kind,
            bytes: 320_000_000_000 >> index,
            utilisation: short(0.5f64.powi(index as i32 + 1)),
        }
    };
    let mut breakdown: IndexMap<String, f64> = IndexMap::new();
    let communication: f64 = exposed.iter().sum();
    breakdown.insert("compute".to_owned(), short(step * 0.7));
    breakdown.insert("communication".to_owned(), short(communication));
    breakdown.insert("pipeline bubble".to_owned(), short(step * 0.3 - communication));
    RunSummary {
        tokens_per_s: Some(short(262_144.0 / step)),
        mfu: Some(short(6.0 / step)),
        time_breakdown_s: breakdown,
        peak_memory_bytes: (0..8).map(|stage| peak(stage, gigabytes)).collect(),
        communication: exposed.iter().enumerate().map(one).collect(),
        links: (0..12).map(link).collect(),
        provenance: [
            ("data sheet".to_owned(), 0.3),
            ("measured elsewhere".to_owned(), 0.62),
            ("estimate".to_owned(), 0.08),
        ]
        .into(),
        ..bare(variant, step)
    }
}

/// The memory of a stage: GB of activations of one micro-batch, and of those held for a partner.
fn peak(stage: u64, [activation, partner]: [f64; 2]) -> DevicePeak {
    let gb = |value: f64| (value * 1e9) as u64;
    let resident = (8 - stage).min(5);
    let last = f64::from(u32::from(stage == 0 || stage == 7));
    let mut kinds = vec![
        ("parameters", gb(6.04 + 0.26 * last)),
        ("gradients", gb(6.04 + 0.26 * last)),
        ("optimizer states", gb(36.2)),
        ("activations", gb(activation / 5.0) * resident),
        ("workspace", gb(1.21 + 1.6 * last)),
        ("communication buffers", gb(0.52)),
        ("reserved", gb(1.33)),
    ];
    if stage >= 4 && partner > 5.0 {
        kinds.push(("activations held for a partner", gb(partner / 5.0) * (stage - 3)));
    }
    DevicePeak {
        device: format!("stage {stage}"),
        capacity_bytes: Some(CAPACITY),
        peak_bytes: kinds.iter().map(|(_, bytes)| bytes).sum(),
        at_s: 1.25 + stage as f64,
        operation: Some("forward of micro-batch 7".to_owned()),
        by_kind_bytes: kinds.into_iter().map(|(kind, bytes)| (kind.to_owned(), bytes)).collect(),
        resident_micro_batches: Some(resident),
    }
}

/// What the allocator takes for a stage, a little less for each.
fn allocator(stage: u64) -> AllocatorPeak {
    let by_kind = [("optimizer states", 36_200_000_000), ("activations", 21_700_000_000 - (stage << 30))];
    let tensors = by_kind.iter().map(|(_, bytes)| bytes).sum();
    let moment = |operator: &str, of: &str| Some(Moment { operator: operator.to_owned(), of: of.to_owned() });
    AllocatorPeak {
        device: format!("stage {stage}"),
        capacity_bytes: CAPACITY,
        outside_bytes: 1_850_000_000,
        peak_allocated_bytes: tensors,
        peak_reserved_bytes: tensors + 1_100_000_000,
        fragmentation: short(1.1e9 / (tensors as f64 + 1.1e9)),
        by_kind_bytes: by_kind.map(|(kind, bytes)| (kind.to_owned(), bytes)).into(),
        allocated_in: moment("value gradient", "backward of micro-batch 0, block 10"),
        reserved_in: moment("cast logits", "forward of micro-batch 3, block 11"),
        retries: stage % 2,
    }
}

/// The variant that does not fit.
pub(crate) fn too_big() -> RunSummary {
    let holders = [
        ("optimizer states", 36_200_000_000),
        ("activations", 31_700_000_000),
        ("parameters", 6_300_000_000),
        ("gradients", 6_300_000_000),
        ("workspace", 1_210_000_000),
        ("reserved", 1_330_000_000),
    ];
    let failure = Failure {
        kind: FailureKind::OutOfMemory,
        message: "stage 0 cannot hold the activations of one more micro-batch".to_owned(),
        time_s: Some(1.07),
        stream: Some("stage 0".to_owned()),
        operation: Some("forward of micro-batch 6".to_owned()),
        store: Some("gpu-memory of stage 0".to_owned()),
        requested_kind: Some("activations".to_owned()),
        requested_bytes: Some(5_280_000_000),
        short_bytes: Some(4_320_000_000),
        capacity_bytes: Some(CAPACITY),
        holders_bytes: holders.into_iter().map(|(kind, bytes)| (kind.to_owned(), bytes)).collect(),
        remedies: vec![Remedy::untried("use `techniques: { bpipe: {} }`")],
        ..Failure::default()
    };
    RunSummary { variant: "plain".to_owned(), failure: Some(failure), ..RunSummary::default() }
}

fn constants() -> Vec<ConstantOrigin> {
    let constant = |(of, name, value, unit, origin, source, confidence): Row| ConstantOrigin {
        of: of.to_owned(),
        name: name.to_owned(),
        value,
        unit: unit.to_owned(),
        origin: origin.to_owned(),
        source: source.to_owned(),
        confidence: confidence.to_owned(),
    };
    [
        ("a100-sxm4-80gb", "bandwidth", 2039.0, "GB/s", "data sheet", "NVIDIA A100 data sheet", "high"),
        (
            "a100-sxm4-80gb",
            "streaming fraction",
            0.87,
            "",
            "measured elsewhere",
            "BabelStream on an A100",
            "high",
        ),
        (
            "nvlink3",
            "effective rate",
            20.0,
            "GB/s",
            "measured elsewhere",
            "NCCL src/graph/topo.h SM80_NVLINK_BW",
            "high",
        ),
        (
            "nvlink3",
            "latency",
            0.3,
            "µs",
            "estimate",
            "half of the NVLink hop in NCCL src/graph/tuning.cc",
            "low",
        ),
        (
            "pcie4",
            "effective rate",
            26.1,
            "GB/s",
            "measured elsewhere",
            "SuperBench gpu-copy-bw on an A100-class pair: 26.2 to the GPU, 26.1 from it (NCCL assumes 24)",
            "high",
        ),
        (
            "dgx-a100-80g",
            "host memory streaming fraction",
            0.8,
            "",
            "estimate",
            "eight channels DDR4-3200 a socket, 0.8 of it",
            "medium",
        ),
    ]
    .map(constant)
    .into()
}

type Row = (&'static str, &'static str, f64, &'static str, &'static str, &'static str, &'static str);
