//! What sharing relies on, checked before a run.

use super::terms::load_weight;
use crate::fixed::{RATIO_BITS, Rate};
use crate::platform::{Demand, Platform};

/// Checks what sharing relies on: every demand names a fluid and a port of the platform, at most one demand
/// per fluid and route, positive numbers, capacities of at most [`Rate::MAX_CAPACITY`], and weight times
/// multiplicity of at most 2^20.
///
/// # Errors
/// What is wrong and how to mend it, for every fluid and route concerned.
pub fn validate(platform: &Platform) -> Result<(), Vec<String>> {
    let mut wrong = Vec::new();
    for fluid in &platform.fluids {
        let burst = fluid.bucket.map_or(fluid.capacity, |bucket| bucket.burst);
        for capacity in [fluid.capacity, burst] {
            if capacity.0 == 0 || capacity > Rate::MAX_CAPACITY {
                wrong.push(format!(
                    "fluid `{}` has a capacity of {:e} units/s: give one above 0 and up to 1e15, or choose a larger unit",
                    fluid.name,
                    capacity.units_per_second()
                ));
                break;
            }
        }
    }
    for (index, route) in platform.routes.iter().enumerate() {
        let mut fluids: Vec<u32> = route.demands.iter().map(|demand| demand.fluid.0).collect();
        fluids.sort_unstable();
        if fluids.windows(2).any(|pair| pair[0] == pair[1]) {
            wrong.push(format!("route {index} demands one fluid twice: add the coefficients in one demand"));
        }
        wrong.extend(
            route.demands.iter().filter_map(|d| fault(platform, d)).map(|why| format!("route {index} {why}")),
        );
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// The largest weight times multiplicity of one demand: the weights of 2^24 such flows and a level add up
/// within `u64`.
const WEIGHT_MAX: u64 = 1 << (20 + RATIO_BITS);

fn fault(platform: &Platform, demand: &Demand) -> Option<String> {
    let fluids = platform.fluids.len();
    if demand.fluid.index() >= fluids {
        return Some(format!("demands fluid {}: the platform has {fluids}", demand.fluid.0));
    }
    if let Some(port) = demand.port.filter(|port| port.0 >= platform.ports) {
        return Some(format!("goes through port {}: the platform has {}", port.0, platform.ports));
    }
    if demand.coefficient.0 == 0 || load_weight(demand) == 0 {
        return Some("has a coefficient, weight or multiplicity of zero: leave the demand out".to_owned());
    }
    (load_weight(demand) > WEIGHT_MAX)
        .then(|| "has a weight times multiplicity above 2^20: scale the weights of its fluid down".to_owned())
}
