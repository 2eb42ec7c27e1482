//! Copies between host and device over another link, by the ratio of the rates that copies get.
//!
//! Copies of pageable memory are as recorded: the host's own copy to a pinned buffer decides them.

use hw_models::catalogue::CopyRates;

use super::{Effect, scaled};
use crate::lanes::{ActivityKind, Lanes};
use crate::trace::names::Names;

/// The rates of copies over the recorded link over those of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSwap {
    to_device: f64,
    from_device: f64,
}

impl LinkSwap {
    /// From the link that was recorded to another.
    pub fn between(recorded: CopyRates, new: CopyRates) -> Self {
        Self {
            to_device: recorded.to_device.alone / new.to_device.alone,
            from_device: recorded.from_device.alone / new.from_device.alone,
        }
    }
}

pub(super) fn swap(lanes: &mut Lanes, names: &Names, swap: LinkSwap) -> Effect {
    let (mut changed, mut pageable) = (0, 0);
    for item in lanes.streams.iter_mut().flat_map(|stream| &mut stream.items) {
        let name = names.name(item.name);
        let factor = match (name.contains("HtoD"), name.contains("DtoH")) {
            _ if item.kind != ActivityKind::Copy => continue,
            (true, _) => swap.to_device,
            (_, true) => swap.from_device,
            _ => continue,
        };
        if name.contains("Pageable") {
            pageable += 1;
            continue;
        }
        item.duration = scaled(item.duration, factor);
        changed += 1;
    }
    vec![("copies", changed), ("copies of pageable memory, as recorded", pageable)]
}
