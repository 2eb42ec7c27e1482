//! The scenarios that come with foretrain, embedded so that they run from any directory.

/// Name and text of each, in the order in which they are listed.
const LIBRARY: [(&str, &str); 66] = [
    ("bpipe-gpt3-96b", include_str!("../library/bpipe-gpt3-96b.yaml")),
    ("bpipe-gpt3-96b-flash", include_str!("../library/bpipe-gpt3-96b-flash.yaml")),
    ("bpipe-gpt3-134b", include_str!("../library/bpipe-gpt3-134b.yaml")),
    ("bpipe-fused-softmax", include_str!("../library/bpipe-fused-softmax.yaml")),
    ("bpipe-llama-65b", include_str!("../library/bpipe-llama-65b.yaml")),
    ("bpipe-pcie-box", include_str!("../library/bpipe-pcie-box.yaml")),
    ("megatron-22b", include_str!("../library/megatron-22b.yaml")),
    ("megatron-175b", include_str!("../library/megatron-175b.yaml")),
    ("plan-gpt3-175b-1024-a100", include_str!("../library/plan-gpt3-175b-1024-a100.yaml")),
    ("plan-llama-3-70b-64-h100", include_str!("../library/plan-llama-3-70b-64-h100.yaml")),
    ("plan-commodity-8x3090", include_str!("../library/plan-commodity-8x3090.yaml")),
    ("plan-mixed-a100-v100", include_str!("../library/plan-mixed-a100-v100.yaml")),
    ("bigcuts-defaults", include_str!("../library/bigcuts-defaults.yaml")),
    ("plan-time-or-price", include_str!("../library/plan-time-or-price.yaml")),
    ("fit-one-node", include_str!("../library/fit-one-node.yaml")),
    ("lora-llama-3-70b", include_str!("../library/lora-llama-3-70b.yaml")),
    ("goodput-16k", include_str!("../library/goodput-16k.yaml")),
    ("resnet-50-data-parallel", include_str!("../library/resnet-50-data-parallel.yaml")),
    ("two-kinds-of-nodes", include_str!("../library/two-kinds-of-nodes.yaml")),
    ("pipeline-schedules", include_str!("../library/pipeline-schedules.yaml")),
    ("moe-expert-parallel", include_str!("../library/moe-expert-parallel.yaml")),
    ("zero3-sharded", include_str!("../library/zero3-sharded.yaml")),
    ("zero-infinity-nvme", include_str!("../library/zero-infinity-nvme.yaml")),
    ("swap-single-gpu", include_str!("../library/swap-single-gpu.yaml")),
    ("lms-limit", include_str!("../library/lms-limit.yaml")),
    ("vdnn-vgg16", include_str!("../library/vdnn-vgg16.yaml")),
    ("swap-engines", include_str!("../library/swap-engines.yaml")),
    ("swap-or-recompute", include_str!("../library/swap-or-recompute.yaml")),
    ("swap-or-not", include_str!("../library/swap-or-not.yaml")),
    ("technique-map", include_str!("../library/technique-map.yaml")),
    ("swap-shared-pcie", include_str!("../library/swap-shared-pcie.yaml")),
    ("swap-spread", include_str!("../library/swap-spread.yaml")),
    ("swap-topologies", include_str!("../library/swap-topologies.yaml")),
    ("swap-loses", include_str!("../library/swap-loses.yaml")),
    ("bpipe-profiled", include_str!("../library/bpipe-profiled.yaml")),
    ("ssdtrain-a100", include_str!("../library/ssdtrain-a100.yaml")),
    ("ssdtrain-array-rate", include_str!("../library/ssdtrain-array-rate.yaml")),
    ("ssdtrain-adaptive-keep", include_str!("../library/ssdtrain-adaptive-keep.yaml")),
    ("offload-rok", include_str!("../library/offload-rok.yaml")),
    ("ssd-endurance", include_str!("../library/ssd-endurance.yaml")),
    ("replay-resnet50-v100", include_str!("../library/replay-resnet50-v100.yaml")),
    ("replay-dlrm-a100", include_str!("../library/replay-dlrm-a100.yaml")),
    ("terra-ten-programs", include_str!("../library/terra-ten-programs.yaml")),
    ("terra-phases", include_str!("../library/terra-phases.yaml")),
    ("graph-breaks", include_str!("../library/graph-breaks.yaml")),
    ("graphs-vs-eager", include_str!("../library/graphs-vs-eager.yaml")),
    ("loader-or-gpu", include_str!("../library/loader-or-gpu.yaml")),
    ("fusion-resnet50", include_str!("../library/fusion-resnet50.yaml")),
    ("fusion-efficientnet-loses", include_str!("../library/fusion-efficientnet-loses.yaml")),
    ("fusion-transformer", include_str!("../library/fusion-transformer.yaml")),
    ("fusion-or-graphs", include_str!("../library/fusion-or-graphs.yaml")),
    ("fusion-search-space", include_str!("../library/fusion-search-space.yaml")),
    ("pytorch-direct-graphs", include_str!("../library/pytorch-direct-graphs.yaml")),
    ("pytorch-direct-reddit", include_str!("../library/pytorch-direct-reddit.yaml")),
    ("zero-copy-row-sizes", include_str!("../library/zero-copy-row-sizes.yaml")),
    ("gnn-feature-placement", include_str!("../library/gnn-feature-placement.yaml")),
    ("gnn-feature-cache", include_str!("../library/gnn-feature-cache.yaml")),
    ("gnnlab-copies", include_str!("../library/gnnlab-copies.yaml")),
    ("gnnlab-epochs", include_str!("../library/gnnlab-epochs.yaml")),
    ("dgl-breakdown", include_str!("../library/dgl-breakdown.yaml")),
    ("gnn-multi-gpu-host", include_str!("../library/gnn-multi-gpu-host.yaml")),
    ("gnn-features-on-drives", include_str!("../library/gnn-features-on-drives.yaml")),
    ("gnn-striped-features", include_str!("../library/gnn-striped-features.yaml")),
    ("gnn-sharded-features", include_str!("../library/gnn-sharded-features.yaml")),
    ("hector-rgnn", include_str!("../library/hector-rgnn.yaml")),
    ("hgt-acm", include_str!("../library/hgt-acm.yaml")),
];

/// Name and bytes of each trace that scenarios of the library replay; a file beside them says
/// where they are from.
const TRACES: [(&str, &[u8]); 2] = [
    (
        "resnet50-v100",
        include_bytes!("../../workloads/tests/data/traces/trace_v100_resnet50_workers0.json.gz"),
    ),
    ("dlrm-a100", include_bytes!("../../workloads/tests/data/traces/trace_a100_dlrm_8rank_rank3.json.gz")),
];

/// Names of the traces.
pub(crate) fn trace_names() -> impl Iterator<Item = &'static str> {
    TRACES.iter().map(|(name, _)| *name)
}

/// The bytes of a trace.
pub(crate) fn trace(name: &str) -> Option<&'static [u8]> {
    TRACES.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
}

/// The names, in the order in which they are listed.
pub fn names() -> impl Iterator<Item = &'static str> {
    LIBRARY.iter().map(|(name, _)| *name)
}

/// The text of a scenario.
pub fn get(name: &str) -> Option<&'static str> {
    LIBRARY.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
