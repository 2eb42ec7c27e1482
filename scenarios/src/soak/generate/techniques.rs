//! Sharding, memory and techniques, as far as they go with what has been drawn before.

use serde_json::{Value, json};

use super::super::draw::{Draw, Settings};

/// What has been drawn before.
pub(super) struct Plan {
    /// Drives of a node.
    pub(super) drives: u64,
    /// Memory of a GPU in GB.
    pub(super) memory: u64,
    pub(super) stages: u64,
    /// Ranks that hold the same parameters.
    pub(super) copies: u64,
    pub(super) experts: bool,
    /// Whether the schedule cuts the backward pass in two.
    pub(super) splits: bool,
    pub(super) chunks: u64,
    /// Whether a stage ends the backward pass of a micro-batch before the next forward pass.
    pub(super) one_at_a_time: bool,
    pub(super) is_1f1b: bool,
    /// Whether a step is less than forward, backward and update.
    pub(super) partial: bool,
    /// Whether the model is a list of layers.
    pub(super) layered: bool,
}

/// What moves states of the optimizer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moves {
    Nothing,
    Offload,
    Infinity,
}

/// Writes what copies share, limits of memory, arrays of drives and techniques.
pub(super) fn fill(draw: &mut Draw, settings: &mut Settings, plan: &Plan) {
    let moves = match draw.between(0, 19) {
        0 | 1 if !plan.partial => Moves::Offload,
        2 if !plan.partial && plan.stages == 1 => Moves::Infinity,
        _ => Moves::Nothing,
    };
    sharing(draw, settings, plan, moves);
    memory(draw, settings, plan);
    let on_drives = plan.drives > 0;
    let infinity = moves == Moves::Infinity && states(draw, settings, on_drives);
    if moves == Moves::Offload {
        settings.set("techniques.zero_offload", json!({}));
        settings.maybe(draw, 30, "techniques.zero_offload.delayed_update", |_| true.into());
        settings.maybe(draw, 40, "techniques.zero_offload.group", |draw| {
            draw.between(1_000_000, 500_000_000).into()
        });
        settings.maybe(draw, 20, "techniques.zero_offload.pinned", |_| false.into());
    }
    let activations = activations(draw, settings, plan);
    recompute(draw, settings, plan);
    if infinity || activations {
        arrays(draw, settings, plan, activations);
    }
}

fn sharing(draw: &mut Draw, settings: &mut Settings, plan: &Plan, moves: Moves) {
    let sharding = match moves {
        Moves::Infinity => "parameters",
        Moves::Offload if plan.stages > 1 => "optimizer",
        Moves::Offload => "gradients",
        Moves::Nothing if plan.partial => draw.one(&["none", "none", "optimizer"]),
        Moves::Nothing => draw.one(&["none", "none", "optimizer", "gradients", "parameters"]),
    };
    settings.set("parallelism.sharding", sharding);
    settings.maybe(draw, 35, "parallelism.overlap_gradient_reduce", |draw| match draw.chance(50) {
        true => json!({}),
        false => json!({ "bucket": format!("{} MB", draw.between(1, 400)) }),
    });
    if sharding == "parameters" {
        const GATHER: &str = "parallelism.overlap_parameter_gather";
        settings.maybe(draw, 40, &format!("{GATHER}.forward_prefetch"), |draw| draw.between(0, 3).into());
        settings.maybe(draw, 40, &format!("{GATHER}.backward_prefetch"), |draw| draw.between(0, 3).into());
        if plan.one_at_a_time && moves == Moves::Nothing {
            settings.maybe(draw, 30, &format!("{GATHER}.reshard_after_forward"), |_| false.into());
        }
        if moves == Moves::Nothing && !plan.layered && !plan.experts && plan.copies >= 4 {
            settings.maybe(draw, 60, "parallelism.sharding_group", |_| json!(2));
        }
    } else if sharding != "none" && draw.chance(20) {
        settings.set("parallelism.overlap_parameter_gather", json!({}));
    }
}

fn memory(draw: &mut Draw, settings: &mut Settings, plan: &Plan) {
    match draw.between(0, 9) {
        0 => settings.set("memory.limit", format!("{} MB", draw.between(300, 1_000 * plan.memory))),
        1 => settings.set("memory.footprint_ratio", json!(draw.one(&[1.0, 1.1, 1.33, 2.0]))),
        _ => {}
    }
    settings.maybe(draw, 10, "memory.reserved", |draw| format!("{} MB", draw.between(0, 2_000)).into());
    if !plan.layered {
        settings.maybe(draw, 20, "memory.allocator.expandable_segments", |draw| draw.chance(50).into());
        settings.maybe(draw, 10, "memory.allocator.max_split_size", |draw| {
            format!("{} MiB", draw.between(21, 512)).into()
        });
        settings.maybe(draw, 10, "memory.allocator.roundup_power2_divisions", |draw| {
            draw.one(&[1, 2, 4, 8]).into()
        });
        settings.maybe(draw, 10, "memory.gradient_placeholders", |draw| {
            draw.one(&["none", "fresh", "kept"]).into()
        });
    }
}

/// Writes where states of the optimizer are; whether on drives.
fn states(draw: &mut Draw, settings: &mut Settings, on_drives: bool) -> bool {
    const INFINITY: &str = "techniques.zero_infinity";
    let states = if on_drives && draw.chance(70) { "drives" } else { "host" };
    let parameters = draw.one(if on_drives { &["gpu", "host", "drives"] } else { &["gpu", "host"] });
    settings.set(&format!("{INFINITY}.states"), states);
    settings.set(&format!("{INFINITY}.parameters"), parameters);
    settings
        .maybe(draw, 50, &format!("{INFINITY}.group"), |draw| draw.between(1_000_000, 1_000_000_000).into());
    settings.maybe(draw, 30, &format!("{INFINITY}.buffers"), |draw| draw.between(1, 4).into());
    settings.maybe(draw, 30, &format!("{INFINITY}.parameter_buffers"), |draw| draw.between(1, 4).into());
    states == "drives" || parameters == "drives"
}

/// Writes what becomes of activations; whether they go to drives.
fn activations(draw: &mut Draw, settings: &mut Settings, plan: &Plan) -> bool {
    match draw.between(0, 9) {
        0 | 1 if !plan.splits => offload(draw, settings, plan),
        2 if !plan.splits => {
            const SWAP: &str = "techniques.swap";
            settings.set(SWAP, json!({}));
            settings
                .maybe(draw, 50, &format!("{SWAP}.engine"), |draw| draw.one(&["online", "greedy"]).into());
            let pair: &[&str] = if plan.stages == 1 {
                &["oblivious", "disjoint", "bidirectional"]
            } else {
                &["oblivious", "disjoint"]
            };
            settings.maybe(draw, 40, &format!("{SWAP}.coordination"), |draw| draw.one(pair).into());
            settings.maybe(draw, 40, &format!("{SWAP}.prefetch"), |draw| draw.between(0, 20).into());
            settings.maybe(draw, 30, &format!("{SWAP}.recompute"), |_| true.into());
            settings.maybe(draw, 20, &format!("{SWAP}.pinned"), |_| false.into());
            settings
                .maybe(draw, 50, "memory.limit", |draw| format!("{} MB", draw.between(500, 8_000)).into());
            false
        }
        3 if plan.is_1f1b && plan.stages > 1 && !plan.layered => {
            settings.set("techniques.bpipe", json!({}));
            settings.maybe(draw, 40, "techniques.bpipe.policy", |_| "every-micro-batch".into());
            false
        }
        _ => false,
    }
}

fn offload(draw: &mut Draw, settings: &mut Settings, plan: &Plan) -> bool {
    const OFFLOAD: &str = "techniques.activation_offload";
    let on_drives = plan.drives > 0 && draw.chance(60);
    settings.set(OFFLOAD, json!({ "to": if on_drives { "drives" } else { "host" } }));
    settings
        .maybe(draw, 60, &format!("{OFFLOAD}.smallest"), |draw| draw.one(&["0 B", "1 MiB", "16 MiB"]).into());
    let adaptive = plan.chunks == 1;
    settings.maybe(draw, 60, &format!("{OFFLOAD}.keep"), |draw| keep(draw, adaptive));
    settings.maybe(draw, 40, &format!("{OFFLOAD}.prefetch"), |draw| draw.one(&[0, 1, 8, 65_536]).into());
    settings.maybe(draw, 40, &format!("{OFFLOAD}.store"), |draw| draw.one(&["produced", "last-use"]).into());
    settings.maybe(draw, 30, &format!("{OFFLOAD}.forwarding"), |_| false.into());
    if !on_drives {
        settings.maybe(draw, 20, &format!("{OFFLOAD}.pinned"), |_| false.into());
    }
    on_drives
}

fn keep(draw: &mut Draw, adaptive: bool) -> Value {
    match draw.between(0, 3) {
        0 => json!("last-layer"),
        1 if adaptive => json!("adaptive"),
        2 => json!({ "bytes": format!("{} MB", draw.between(0, 900)) }),
        _ => json!({ "layers": draw.between(0, 3) }),
    }
}

fn recompute(draw: &mut Draw, settings: &mut Settings, plan: &Plan) {
    let modes: &[&str] =
        if plan.layered { &["full", "none"] } else { &["full", "selective", "operators", "none"] };
    const RECOMPUTE: &str = "techniques.recompute";
    let mode = format!("{RECOMPUTE}.mode");
    if !settings.maybe(draw, 25, &mode, |draw| draw.one(modes).into()) || plan.layered {
        return;
    }
    settings.maybe(draw, 20, &format!("{RECOMPUTE}.early_stop"), |_| true.into());
    if draw.chance(25) {
        settings.set(&format!("{RECOMPUTE}.layers"), 1);
        let others = format!("{RECOMPUTE}.others");
        settings.maybe(draw, 50, &others, |draw| draw.one(&["none", "selective"]).into());
    }
}

/// Declares the drives as one array.
fn arrays(draw: &mut Draw, settings: &mut Settings, plan: &Plan, activations: bool) {
    const ARRAY: &str = "storage.nvme";
    settings.set(ARRAY, json!({}));
    settings.maybe(draw, 50, &format!("{ARRAY}.drives"), |draw| draw.between(1, plan.drives).into());
    let paths: &[&str] = if activations { &["bounce", "gpu-direct"] } else { &["direct", "buffered"] };
    settings.maybe(draw, 40, &format!("{ARRAY}.path"), |draw| draw.one(paths).into());
    settings.maybe(draw, 30, &format!("{ARRAY}.depth"), |draw| draw.between(1, 64).into());
    settings
        .maybe(draw, 30, &format!("{ARRAY}.block"), |draw| format!("{} KiB", draw.between(4, 2_048)).into());
}
