//! Sharding, memory and techniques, as far as they go with what has been drawn before.

use serde_json::json;

use super::super::draw::{Draw, Settings};
use super::Scheduled;
use super::machine::Drawn;

/// What has been drawn before.
pub(super) struct Plan {
    pub(super) machine: Drawn,
    pub(super) stages: u64,
    /// Ranks that hold the same parameters.
    pub(super) copies: u64,
    pub(super) experts: bool,
    pub(super) scheduled: Scheduled,
    /// Whether a step is less than forward, backward and update.
    pub(super) partial: bool,
    /// All but adapters is frozen.
    pub(super) frozen: bool,
    /// Whether the model is a list of layers.
    pub(super) layered: bool,
}

/// What moves states of the optimizer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moves {
    Nothing,
    Offload,
    Infinity,
    Pages,
}

/// Writes what copies share, limits of memory, arrays of drives and techniques.
pub(super) fn fill(draw: &mut Draw, settings: &mut Settings, plan: &Plan) {
    let updates = !plan.partial && !plan.frozen;
    let moves = match draw.between(0, 19) {
        0 | 1 if updates => Moves::Offload,
        2 if updates => Moves::Infinity,
        3 if updates => Moves::Pages,
        _ => Moves::Nothing,
    };
    sharing(draw, settings, plan, moves);
    memory(draw, settings, plan);
    let infinity = moves == Moves::Infinity && states(draw, settings, plan);
    if moves == Moves::Offload {
        settings.set("techniques.zero_offload", json!({}));
        let choices = json!({
            "delayed_update": [true],
            "group": [1_000_000, 30_000_000, 500_000_000],
            "pinned": [false],
            "ratio": ["0 %", "40 %"],
        });
        settings.some(draw, 30, "techniques.zero_offload", &choices);
    }
    if moves == Moves::Pages {
        settings.set("techniques.paged_states", json!({}));
        let choices = json!({
            "group": [1_000_000, 30_000_000],
            "buffers": [1, 4],
            "pinned": [false],
            "ratio": ["0 %", "40 %"],
        });
        settings.some(draw, 30, "techniques.paged_states", &choices);
    }
    let activations = activations(draw, settings, plan);
    recompute(draw, settings, plan);
    if infinity || activations {
        // The drives are one array.
        settings.set("storage.nvme", json!({}));
        let paths = if activations { ["bounce", "gpu-direct"] } else { ["direct", "buffered"] };
        let choices = json!({
            "drives": [1, plan.machine.drives],
            "path": paths,
            "depth": [1, 8, 64],
            "block": ["4 KiB", "128 KiB", "2 MiB"],
        });
        settings.some(draw, 40, "storage.nvme", &choices);
    }
}

fn sharing(draw: &mut Draw, settings: &mut Settings, plan: &Plan, moves: Moves) {
    let sharding = match moves {
        Moves::Infinity | Moves::Offload if plan.stages > 1 => "optimizer",
        Moves::Infinity => "parameters",
        Moves::Offload => "gradients",
        Moves::Nothing | Moves::Pages if plan.partial => draw.one(&["none", "none", "optimizer"]),
        Moves::Nothing | Moves::Pages => draw.one(&["none", "none", "optimizer", "gradients", "parameters"]),
    };
    settings.set("parallelism.sharding", sharding);
    let overlaps = json!([{}, { "align": false }, { "bucket": "1 MB" }, { "bucket": "400 MB" }]);
    settings.some(draw, 35, "parallelism", &json!({ "overlap_gradient_reduce": overlaps }));
    if sharding == "parameters" {
        const GATHER: &str = "parallelism.overlap_parameter_gather";
        let prefetches = [0, 1, 3];
        let choices = json!({ "forward_prefetch": prefetches, "backward_prefetch": prefetches });
        settings.some(draw, 40, GATHER, &choices);
        if draw.between(0, 9) < 3 && !plan.frozen {
            settings.set("parallelism.overlap_parameter_gather.unit", "module");
        } else if moves == Moves::Nothing
            // A stage ends the backward pass of a micro-batch before the next forward pass.
            && (plan.scheduled.count == 1 || (plan.stages == 1 && plan.scheduled.is_1f1b()))
        {
            settings.some(draw, 30, GATHER, &json!({ "reshard_after_forward": [false] }));
        }
        if moves == Moves::Nothing && !plan.layered && !plan.experts && plan.copies >= 4 {
            settings.some(draw, 60, "parallelism", &json!({ "sharding_group": [2] }));
        }
    } else if sharding != "none" {
        settings.some(
            draw,
            20,
            "parallelism",
            &json!({ "overlap_parameter_gather": [{}, {}, { "align": false }] }),
        );
    }
}

fn memory(draw: &mut Draw, settings: &mut Settings, plan: &Plan) {
    match draw.between(0, 9) {
        0 => {
            let most = (1_000.0 * plan.machine.gpu.memory_gib) as u64;
            settings.set("memory.limit", format!("{} MB", draw.between(300, most)));
        }
        1 => settings.set("memory.footprint_ratio", draw.one(&[1.0, 1.1, 1.33, 2.0])),
        _ => {}
    }
    settings.some(draw, 10, "memory", &json!({ "reserved": ["0 MB", "500 MB", "2 GB"] }));
    if !plan.layered {
        let choices = json!({
            "allocator.expandable_segments": [true, false],
            "allocator.max_split_size": ["21 MiB", "100 MiB", "512 MiB"],
            "allocator.roundup_power2_divisions": [1, 2, 4, 8],
            "gradient_placeholders": ["none", "fresh", "kept"],
        });
        settings.some(draw, 12, "memory", &choices);
    }
}

/// Writes where states of the optimizer are; whether on drives.
fn states(draw: &mut Draw, settings: &mut Settings, plan: &Plan) -> bool {
    const INFINITY: &str = "techniques.zero_infinity";
    let places: &[&str] = if plan.machine.drives > 0 { &["gpu", "host", "drives"] } else { &["gpu", "host"] };
    // Stages of a pipeline keep theirs.
    let kept = if plan.stages > 1 { 1 } else { places.len() };
    let (states, parameters) = (draw.one(&places[1..]), draw.one(&places[..kept]));
    settings.set(INFINITY, json!({ "states": states, "parameters": parameters }));
    let choices = json!({
        "group": [1_000_000, 100_000_000, 1_000_000_000],
        "buffers": [1, 2, 4],
        "parameter_buffers": [1, 2, 4],
    });
    settings.some(draw, 35, INFINITY, &choices);
    if states == "host" {
        settings.some(draw, 25, INFINITY, &json!({ "ratio": ["0 %", "40 %"] }));
    } else {
        settings.some(draw, 40, INFINITY, &json!({ "gradients": ["whole"] }));
    }
    [states, parameters].contains(&"drives")
}

/// Writes what becomes of activations; whether they go to drives.
fn activations(draw: &mut Draw, settings: &mut Settings, plan: &Plan) -> bool {
    match draw.between(0, 9) {
        0 | 1 if !plan.scheduled.splits => return offload(draw, settings, plan),
        2 if !plan.scheduled.splits => {
            // Few plans that swap have one stage, without which copies are not shifted.
            let coordinations: &[&str] = match plan.stages {
                1 => &["shifted", "shifted", "synchronised", "automatic"],
                _ => &["oblivious", "disjoint", "automatic"],
            };
            let choices = json!({
                "engine": ["online", "greedy"],
                "coordination": coordinations,
                "prefetch": [0, 1, 20],
                "recompute": [true],
                "pinned": [false],
            });
            settings.set("techniques.swap", json!({}));
            settings.some(draw, 60, "techniques.swap", &choices);
            settings.some(draw, 50, "memory", &json!({ "limit": ["500 MB", "2 GB", "8 GB"] }));
        }
        3 if plan.scheduled.is_1f1b() && plan.stages > 1 && !plan.layered => {
            settings.set("techniques.bpipe", json!({}));
            settings.some(draw, 40, "techniques.bpipe", &json!({ "policy": ["every-micro-batch"] }));
        }
        _ => {}
    }
    false
}

fn offload(draw: &mut Draw, settings: &mut Settings, plan: &Plan) -> bool {
    const OFFLOAD: &str = "techniques.activation_offload";
    let on_drives = plan.machine.drives > 0 && draw.chance(60);
    settings.set(OFFLOAD, json!({ "to": if on_drives { "drives" } else { "host" } }));
    let mut keeps = vec![json!("last-layer"), json!({ "bytes": "300 MB" }), json!({ "layers": 2 })];
    if plan.scheduled.chunks == 1 {
        keeps.push(json!("adaptive"));
    }
    let choices = json!({
        "smallest": ["0 B", "1 MiB", "16 MiB"],
        "keep": keeps,
        "prefetch": [0, 1, 8, 65_536],
        "store": ["produced", "last-use"],
        "forwarding": [false],
    });
    settings.some(draw, 45, OFFLOAD, &choices);
    if !plan.layered {
        let modules = json!([["core-attention"], ["mlp", "attention-norm"], ["attention-projections"]]);
        settings.some(draw, 15, OFFLOAD, &json!({ "modules": modules, "in_flight": [0, 1, 4] }));
    }
    if !on_drives {
        settings.some(draw, 20, OFFLOAD, &json!({ "pinned": [false] }));
    }
    on_drives
}

fn recompute(draw: &mut Draw, settings: &mut Settings, plan: &Plan) {
    const RECOMPUTE: &str = "techniques.recompute";
    let modes: &[&str] =
        if plan.layered { &["full", "none"] } else { &["full", "selective", "operators", "none"] };
    if !settings.some(draw, 25, RECOMPUTE, &json!({ "mode": modes })) || plan.layered {
        return;
    }
    if draw.chance(15) {
        settings.set(RECOMPUTE, json!({ "every": draw.between(1, 3) }));
        return;
    }
    if draw.chance(15) {
        let modules = [json!(["core-attention", "layer-norm"]), json!(["mlp"]), json!(["activation"])];
        settings.set(RECOMPUTE, json!({ "modules": draw.one(&modules) }));
        return;
    }
    settings.some(draw, 20, RECOMPUTE, &json!({ "early_stop": [true] }));
    if settings.some(draw, 25, RECOMPUTE, &json!({ "layers": [1] })) {
        settings.some(draw, 50, RECOMPUTE, &json!({ "others": ["none", "selective"] }));
    }
}
