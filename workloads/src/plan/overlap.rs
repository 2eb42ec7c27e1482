//! Exchanges that go with what data-parallel ranks share.

use crate::model::transformer::{DataParallel, GatherLimit, Overlap, Sharding};

use super::launch::Launch;

/// Reports what `data` cannot exchange beside passes. `one_at_a_time` says that a stage ends the backward pass of a
/// micro-batch before it begins the forward pass of the next.
pub(super) fn check(
    data: &DataParallel,
    one_at_a_time: bool,
    launch: Launch,
    wrong: &mut impl FnMut(&'static str, String),
) {
    let Overlap { bucket, gather } = data.overlap;
    if bucket == Some(0) {
        wrong("bucket", "a bucket of 0 B is never filled: give it some, such as 25 MB".to_owned());
    }
    if let Some(gather) = gather.filter(|gather| gather.limit != GatherLimit::Device) {
        if launch != Launch::Eager {
            let problem = "gathers take memory when the host issues them, but it does not issue operator by operator: \
                           let it, or let the device limit them";
            wrong("limit", problem.to_owned());
        }
        if data.sharding < Sharding::Parameters || gather.per_parameter {
            let problem = "the host takes memory only for parameters that ranks share, block by block as one flat tensor: \
                           let them do so, or let the device limit gathers";
            wrong("limit", problem.to_owned());
        }
    }
    match (data.sharding, gather) {
        (Sharding::None, Some(_)) => {
            let problem = "every rank has all parameters: leave it out, or let the ranks share something";
            wrong("gather", problem.to_owned());
        }
        (Sharding::Parameters, None) => {
            let problem = "ranks that share parameters gather them for every pass: say how";
            wrong("gather", problem.to_owned());
        }
        (Sharding::Parameters, Some(gather)) if !gather.reshard_after_forward && !one_at_a_time => {
            let problem = "a stage has several micro-batches under way, each of which would keep parameters of its own: \
                           reshard after the forward pass, or let the ranks share only gradients and optimizer states";
            wrong("reshard_after_forward", problem.to_owned());
        }
        _ => {}
    }
}
