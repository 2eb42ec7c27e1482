//! The catalogue and the published models, in a line each.

use graphs::settings::Evidence;
use graphs::{Graph, GraphSource};
use hw_models::catalogue::{Fabric, Gpu, LinkClass, LinkUnit, Nic, Node, Ssd, Topology};
use hw_models::framework::{Framework, UpdateStyle};
use hw_models::host::Cost;
use hw_models::provenance::Sources;
use indexmap::IndexMap;
use reports::quantity;
use scenarios::catalogue;
use workloads::model::layered::{LayeredExecution, LayeredModel, Optimizer};
use workloads::model::network::{NetworkKind, SUPPORT, Support};
use workloads::model::transformer::{AttentionKernel, Dtype, States, Step, Transformer};
use workloads::passes::TechniquePreset;

use super::list::Item;

/// Nodes.
pub(super) fn machines() -> Vec<Item> {
    items(&catalogue::devices().nodes, node_facts, |node| &node.sources)
}

/// GPUs.
pub(super) fn gpus() -> Vec<Item> {
    let known = &catalogue::devices().gpus;
    let detailed = |(item, gpu): (Item, &Gpu)| {
        let details = gpu.multiprocessor.as_ref().and_then(|sm| serde_json::to_value(sm).ok());
        Item { details: details.map(|sm| serde_json::json!({ "multiprocessor": sm })), ..item }
    };
    items(known, gpu_facts, |gpu| &gpu.sources).into_iter().zip(known.values()).map(detailed).collect()
}

/// Links inside a node.
pub(super) fn links() -> Vec<Item> {
    items(&catalogue::devices().links, link_facts, |link| &link.sources)
}

/// Network interfaces.
pub(super) fn nics() -> Vec<Item> {
    items(&catalogue::devices().nics, nic_facts, |nic| &nic.sources)
}

/// Networks between nodes.
pub(super) fn fabrics() -> Vec<Item> {
    items(&catalogue::devices().fabrics, fabric_facts, |fabric| &fabric.sources)
}

/// Drives.
pub(super) fn ssds() -> Vec<Item> {
    items(&catalogue::devices().ssds, ssd_facts, |ssd| &ssd.sources)
}

/// Presets of techniques, each with what it is short for.
pub(super) fn presets() -> Vec<Item> {
    let item = |(name, preset): (&String, &TechniquePreset)| Item {
        name: name.clone(),
        description: format!("{}: {}", preset.description, preset.settings),
        source: Some(preset.source.clone()),
        ..Item::default()
    };
    catalogue::technique_presets().iter().map(item).collect()
}

/// Frameworks: constants, the least confidence in one of them, and the source of each.
pub(super) fn frameworks() -> Vec<Item> {
    let item = |(name, framework): (&String, &Framework)| {
        let plain = framework.costs().map(|(name, cost)| (name.to_owned(), cost));
        let costs: Vec<(String, &Cost)> = plain.chain(framework.class_costs()).collect();
        let source = |(name, cost): &(String, &Cost)| {
            let known = &cost.provenance;
            format!("{name} {} us, {}: {}", cost.us, known.origin, known.source)
        };
        Item {
            name: name.clone(),
            description: framework_facts(framework),
            confidence: costs
                .iter()
                .map(|(_, cost)| cost.provenance.confidence)
                .max()
                .map(|it| it.to_string()),
            source: Some(costs.iter().map(source).collect::<Vec<_>>().join("; ")),
            ..Item::default()
        }
    };
    catalogue::frameworks().iter().map(item).collect()
}

/// Published transformers, then lists of layers.
pub(super) fn models() -> Vec<Item> {
    let presets = catalogue::presets().iter();
    presets
        .map(|(name, preset)| published(name, model_facts(&preset.model), &preset.source))
        .chain(layered_models())
        .collect()
}

/// Systems of graph networks: what each runs, forward or in training, and who says so.
pub(super) fn graph_systems() -> Vec<Item> {
    let words = |kinds: &[NetworkKind]| match kinds {
        [] => "nothing".to_owned(),
        kinds => kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", "),
    };
    let item = |support: &Support| {
        let (forward, training) = (words(support.forward), words(support.training));
        let passes = match forward == training {
            true => format!("{forward}: forward and training"),
            false => format!("{forward}: forward; training: {training}"),
        };
        let heads = if support.one_head { "; one head" } else { "" };
        Item {
            name: support.system.to_owned(),
            description: format!("{passes}{heads}"),
            source: Some(support.source.to_owned()),
            ..Item::default()
        }
    };
    SUPPORT.iter().map(item).collect()
}

/// Published graphs.
pub(super) fn graphs() -> Vec<Item> {
    let item = |name: &str| {
        let graph = GraphSource::Preset(name.to_owned()).graph().ok()?;
        let sources = graphs::preset_sources(name)?;
        let of = |(key, evidence): (&String, &Evidence)| {
            format!("{key}, {}: {}", evidence.confidence, evidence.source)
        };
        Some(Item {
            name: name.to_owned(),
            description: graph_facts(&graph),
            confidence: sources.values().map(|evidence| evidence.confidence).max().map(|it| it.to_string()),
            source: Some(sources.iter().map(of).collect::<Vec<_>>().join("; ")),
            ..Item::default()
        })
    };
    graphs::preset_names().filter_map(item).collect()
}

fn graph_facts(graph: &Graph) -> String {
    let types = match (graph.node_types.len(), graph.relations.len()) {
        (1, 1) => String::new(),
        (nodes, edges) => format!(" of {nodes} and {edges} types"),
    };
    let count = |number: u64| quantity::count(number as f64);
    let features = graph.feature_width.map_or_else(String::new, |width| format!(", {width} features"));
    format!("{} nodes, {} edges{types}{features}", count(graph.nodes()), count(graph.edges()))
}

/// Published models that are lists of layers.
fn layered_models() -> impl Iterator<Item = Item> {
    let on = LayeredExecution {
        micro_batch: 1,
        dtype: Dtype::Fp32,
        attention: AttentionKernel::Materialised,
        states: States::Full,
        optimizer: Optimizer::Adam,
        step: Step::Whole,
        in_operators: false,
        gelu: true,
        cudnn: false,
    };
    catalogue::layered_presets().iter().map(move |(name, preset)| {
        let model = LayeredModel::new(&preset.model, &on).ok();
        let told = model.map(|model| {
            let parameters = quantity::count(model.parameters() as f64);
            let products = quantity::count(model.forward_flops() / 2.0);
            format!("layers, {parameters} parameters, {products} multiplications a sample")
        });
        published(name, told.unwrap_or_default(), &preset.source)
    })
}

fn published(name: &str, description: String, source: &str) -> Item {
    Item { name: name.to_owned(), description, source: Some(source.to_owned()), ..Item::default() }
}

/// Entries of a map of the catalogue, with facts of each.
fn items<T>(
    entries: &IndexMap<String, T>,
    facts: fn(&T) -> String,
    sources: fn(&T) -> &Sources,
) -> Vec<Item> {
    let item = |(name, entry): (&String, &T)| {
        let known = &sources(entry).default;
        Item {
            name: name.clone(),
            description: facts(entry),
            confidence: Some(known.confidence.to_string()),
            source: Some(format!("{}: {}", known.origin, known.source)),
            ..Item::default()
        }
    };
    entries.iter().map(item).collect()
}

/// Parts that are there, with commas.
fn sentence(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn several(count: u32, what: Option<&String>) -> Option<String> {
    what.filter(|_| count > 0).map(|what| format!("{count} x {what}"))
}

fn node_facts(node: &Node) -> String {
    let count = |part: fn(&hw_models::catalogue::Branch) -> u32| node.pcie.tree.iter().map(part).sum::<u32>();
    let nvlink = match (node.nvlink.switches, node.nvlink.pairs.len()) {
        (0, 0) => "no NVLink",
        (0, _) => "NVLink pairs",
        _ => "NVSwitch",
    };
    sentence([
        several(count(|branch| branch.gpus), Some(&node.gpu)),
        Some(nvlink.to_owned()),
        Some(node.pcie.class.clone()),
        several(count(|branch| branch.nics), node.nic.as_ref()),
        node.fabric.clone(),
    ])
}

fn gpu_facts(gpu: &Gpu) -> String {
    let peaks = [
        ("bf16", gpu.peak_tflops.bf16),
        ("fp16", gpu.peak_tflops.fp16),
        ("fp32", Some(gpu.peak_tflops.fp32)),
    ];
    let peak = peaks.into_iter().find_map(|(name, peak)| Some(format!("{} TFLOP/s in {name}", peak?)));
    let sums = gpu.peak_tflops.fp16_accumulating_fp16.map(|peak| format!("{peak} summed in fp16"));
    let capability = gpu.compute_capability.as_ref().map(|known| format!(" {known}"));
    sentence([
        Some(gpu.architecture.clone() + &capability.unwrap_or_default()),
        Some(format!("{} SMs", gpu.sms)),
        peak,
        sums,
        Some(format!("{} GiB at {} GB/s", gpu.memory_gib, gpu.bandwidth_gb_per_s)),
        gpu.nvlink.as_ref().map(|nvlink| format!("{} x {}", nvlink.links, nvlink.class)),
        Some(format!("{} x{}", gpu.pcie.class, gpu.pcie.lanes)),
    ])
}

fn link_facts(link: &LinkClass) -> String {
    let of = match link.unit {
        LinkUnit::One => "",
        LinkUnit::SixteenLanes => " on 16 lanes",
    };
    let reads = link.reads.map_or_else(String::new, |reads| {
        let (in_flight, round_trip) = (reads.in_flight, reads.round_trip_us);
        format!(", {in_flight} reads in flight for {round_trip} us, {} GB/s", reads.payload_gb_per_s)
    });
    format!(
        "{} of {} GB/s per direction{of}, {} us{reads}",
        link.effective_gb_per_s, link.nominal_gb_per_s, link.latency_us
    )
}

fn nic_facts(nic: &Nic) -> String {
    format!(
        "{} Gb/s, of which large messages reach {} GB/s, {} us, {} lanes",
        nic.rate_gbit_per_s, nic.effective_gb_per_s, nic.latency_us, nic.lanes
    )
}

fn fabric_facts(fabric: &Fabric) -> String {
    let topology = match fabric.topology {
        Topology::FatTree => "fat tree",
        Topology::RailOptimised => "rails",
    };
    let blocking = match fabric.oversubscription {
        full if full <= 1.0 => "at full rate".to_owned(),
        times => format!("{times} to 1 oversubscribed"),
    };
    format!("{topology} of {} Gb/s ports, {blocking}", fabric.port_gbit_per_s)
}

fn ssd_facts(ssd: &Ssd) -> String {
    sentence([
        Some(format!("{} x{}", ssd.pcie, ssd.lanes)),
        ssd.capacity_tb.map(|capacity| format!("{capacity} TB")),
        ssd.read_gb_per_s.map(|rate| format!("reads {rate} GB/s")),
        ssd.write_gb_per_s.map(|rate| format!("writes {rate} GB/s")),
    ])
}

fn framework_facts(framework: &Framework) -> String {
    let costs = framework.costs().map(|(name, cost)| Some(format!("{name} {} us", cost.us)));
    let classes = framework.class_costs().count();
    let classes = (classes > 0).then(|| format!("dispatch of its own for {classes} classes"));
    let thread = framework.engine_thread.then(|| "engine on its own thread".to_owned());
    let update = match framework.update {
        UpdateStyle::Lists => "updates over lists",
        UpdateStyle::EachParameter => "updates by parameter",
    };
    sentence(costs.chain([classes, thread, Some(update.to_owned())]))
}

fn model_facts(model: &Transformer) -> String {
    let keys = (model.kv_heads != model.heads).then(|| format!("{} of keys and values", model.kv_heads));
    let billions = |count: u64| quantity::significant(count as f64 / 1e9);
    let experts = model.experts.as_ref().map(|experts| {
        let active = billions(model.active_parameters());
        format!("{} of {} experts for each token ({active} billion active)", experts.top_k, experts.count)
    });
    sentence([
        Some(format!("{} billion parameters", billions(model.parameters()))),
        Some(format!("{} layers", model.layers)),
        Some(format!("hidden {}", model.hidden)),
        Some(format!("{} heads", model.heads)),
        keys,
        experts,
        Some(format!("{} positions", model.max_positions)),
    ])
}
