//! Exchanges that go with the states that data-parallel ranks shard.

use crate::diagnostic::Diagnostic;
use crate::model::transformer::{DataParallel, Gather, GatherLimit, GatherUnit, Overlap, Sharding};

use super::launch::Launch;

const SHARDING: &str = "parallelism.sharding";
const DISTRIBUTED: &str = "parallelism.distributed_optimizer";
const GROUP: &str = "parallelism.sharding_group";
const BUCKET: &str = "parallelism.overlap_gradient_reduce.bucket";
const GATHER: &str = "parallelism.overlap_parameter_gather";
const UNIT: &str = "parallelism.overlap_parameter_gather.unit";
const LIMIT: &str = "parallelism.overlap_parameter_gather.limit";
const RESHARD: &str = "parallelism.overlap_parameter_gather.reshard_after_forward";
const PER_PARAMETER: &str = "parallelism.overlap_parameter_gather.per_parameter";

/// The reason for which gathers go with parameters that are shared.
pub const GATHERED: &str = "parameters that are shared are gathered for every pass";

/// Reports exchanges of `data` that cannot run beside passes. `one_at_a_time` says that a stage ends the backward pass of a
/// micro-batch before it begins the forward pass of the next.
pub fn check_overlap(
    data: &DataParallel,
    one_at_a_time: bool,
    launch: Launch,
    wrong: &mut impl FnMut(Diagnostic),
) {
    let Overlap { bucket, gather, .. } = data.overlap;
    if bucket == Some(0) {
        wrong(Diagnostic::new(BUCKET, format!("`{BUCKET}` is never filled"), "write for example `25 MiB`"));
    }
    if let Some(gather) = gather.filter(|gather| gather.limit != GatherLimit::Device) {
        if launch != Launch::Eager {
            let message = format!(
                "`{LIMIT}` is about what a host issues operator by operator, which this one does not"
            );
            let remedy = "write `launch: eager` or `execution: eager`, or `limit: device`";
            wrong(Diagnostic::new(LIMIT, message, remedy).with("software.launch", ""));
        }
        if data.sharding < Sharding::Parameters || gather.per_parameter {
            let message = format!(
                "`{LIMIT}` is about memory that the host takes for parameters which copies share, block by block as one \
                 flat tensor"
            );
            let remedy = "write `sharding: parameters` without `per_parameter`, or `limit: device`";
            wrong(Diagnostic::new(LIMIT, message, remedy).with_all(&[SHARDING, PER_PARAMETER]));
        }
    }
    if let Some(gather) = gather.filter(|gather| gather.unit == GatherUnit::Module) {
        let whole = Gather { unit: GatherUnit::Block, ..gather };
        let plain =
            Gather { limit: GatherLimit::Device, per_parameter: false, reshard_after_forward: true, ..whole };
        if whole != plain || !data.parts_parameters() {
            let message =
                format!("`{UNIT}` is about weights that copies share, each gathered for its products");
            let remedy =
                "write `sharding: parameters` and nothing but prefetches beside it, or `unit: block`";
            let involved = [SHARDING, LIMIT, PER_PARAMETER, RESHARD];
            wrong(Diagnostic::new(UNIT, message, remedy).with_all(&involved));
        }
    }
    match (data.sharding, gather) {
        (Sharding::None, Some(_)) => {
            let message = format!("`{GATHER}` gathers what every copy has");
            let remedy = "remove it, or let the copies share something: `sharding: optimizer`";
            wrong(Diagnostic::new(GATHER, message, remedy).with_all(&[SHARDING, DISTRIBUTED]));
        }
        (Sharding::Parameters, None) => {
            let remedy = "write `overlap_parameter_gather: {}`";
            wrong(Diagnostic::new(GATHER, GATHERED, remedy).with(SHARDING, ""));
        }
        (Sharding::Parameters, Some(gather)) if !gather.reshard_after_forward && !one_at_a_time => {
            let message = format!(
                "`{RESHARD}` is false, but a stage has several micro-batches under way, each of which would keep \
                 parameters of its own"
            );
            let remedy = "remove it, or write `sharding: gradients`, with which all have the same ones";
            let involved = ["parallelism.pipeline", "parallelism.schedule", "training.accumulate"];
            wrong(Diagnostic::new(RESHARD, message, remedy).with_all(&involved));
        }
        _ => {}
    }
}

/// Reports groups of `copies` that cannot shard by themselves (hybrid sharding); `expert` ranks share experts.
pub fn check_groups(
    (copies, group): (u32, u32),
    sharding: Sharding,
    expert: u32,
    wrong: &mut impl FnMut(Diagnostic),
) {
    if group < 2 || !copies.is_multiple_of(group) {
        let message = format!("{copies} copies cannot share by groups of {group}");
        let remedy = format!("use a divisor of {copies}, or leave it out so that all share");
        let involved = ["parallelism.data", "parallelism.context", "machine"];
        wrong(Diagnostic::new(GROUP, message, remedy).with_all(&involved));
    }
    if sharding == Sharding::None {
        let message = format!("`{GROUP}` is for copies that share something");
        let remedy = "remove it, or write `sharding: parameters`";
        wrong(Diagnostic::new(GROUP, message, remedy).with(SHARDING, ""));
    }
    if expert > 1 {
        let message =
            format!("`{GROUP}` does not go with ranks that share experts, which are groups of their own");
        wrong(Diagnostic::new(GROUP, message, "remove one of the two").with("parallelism.expert", ""));
    }
}

/// Refuses `expert` ranks that do not divide those that hold the same parameters otherwise.
pub fn check_experts(expert: u32, data: u32, context: u32) -> Option<Diagnostic> {
    let copies = data.saturating_mul(context);
    (!copies.is_multiple_of(expert)).then(|| {
        let of =
            if context > 1 { format!("data {data} x context {context}") } else { format!("data {data}") };
        let message = format!("{expert} ranks cannot share the experts out of the {copies} of {of}");
        let remedy =
            format!("use a divisor of {copies}, or split the model less so that there are more copies");
        let involved = ["parallelism.data", "parallelism.context", "machine"];
        Diagnostic::new("parallelism.expert", message, remedy).with_all(&involved)
    })
}

/// Refuses what is not modelled where all of a model but its adapters is frozen.
pub(super) fn check_frozen(data: &DataParallel) -> Option<Diagnostic> {
    const ADAPTERS: &str = "training.adapters";
    if data.hosted.is_some() {
        let message =
            format!("`{ADAPTERS}` leaves almost no states of the optimizer that hosts or drives could keep");
        let remedy = "remove the technique that moves them; `sharding: parameters` shares frozen weights";
        return Some(Diagnostic::new(ADAPTERS, message, remedy).with(SHARDING, ""));
    }
    let by_module = data.overlap.gather.is_some_and(|gather| gather.unit == GatherUnit::Module);
    by_module.then(|| {
        let message = format!("`{UNIT}: module` goes by gradients of weights, which frozen ones have not");
        Diagnostic::new(UNIT, message, "write `unit: block`").with(ADAPTERS, "")
    })
}
