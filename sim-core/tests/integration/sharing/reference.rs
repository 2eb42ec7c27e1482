//! Sharing from its definition, from scratch and without cleverness: what the fast solvers are compared with.

use sim_core::fixed::{RATIO_BITS, Rate};
use sim_core::platform::Demand;

/// An activity: what it demands and its rate cap.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Activity {
    /// At most one per fluid.
    pub(crate) demands: Vec<Demand>,
    /// Rate when alone.
    pub(crate) cap: Rate,
}

/// A fluid's prior or ordinary half: the place in lists of tiers.
type TierIndex = usize;

/// The rates of uniform activities on fluids of these capacities, by progressive filling. None if an activity
/// is not uniform, or if what prior demands leave comes back to them (then the condition alone decides, see
/// [`verify`]).
pub(crate) fn rates(capacities: &[Rate], activities: &[Activity]) -> Option<Vec<Rate>> {
    if !activities.iter().all(is_uniform) {
        return None;
    }
    let fluids = capacities.len();
    let priors = activities.iter().flat_map(|a| &a.demands).filter(|d| d.prior);
    let drained: Vec<bool> = priors.fold(vec![false; fluids], |mut drained, demand| {
        drained[demand.fluid.index()] = true;
        drained
    });
    let is_last = |a: &Activity| a.demands.iter().any(|d| !d.prior && drained[d.fluid.index()]);
    if activities.iter().any(|a| a.demands.len() > 1 && is_last(a)) {
        return None;
    }
    let mut room: Vec<u128> = capacities.iter().map(|c| u128::from(c.0) << RATIO_BITS).collect();
    room.extend(room.clone());
    let mut rates = vec![Rate(0); activities.len()];
    for last in [false, true] {
        let chosen: Vec<usize> = (0..activities.len()).filter(|&i| is_last(&activities[i]) == last).collect();
        let subset: Vec<&Activity> = chosen.iter().map(|&i| &activities[i]).collect();
        for (&i, rate) in chosen.iter().zip(fill(&room, &subset)) {
            rates[i] = rate;
            for demand in activities[i].demands.iter().filter(|d| d.prior) {
                room[demand.fluid.index()] -= load(demand, rate);
            }
        }
    }
    Some(rates)
}

/// Progressive filling: the lowest level that stops somebody stops all whom it stops; then the next.
fn fill(room: &[u128], activities: &[&Activity]) -> Vec<Rate> {
    let mut room = room.to_vec();
    let mut level: Vec<Option<u128>> = vec![None; activities.len()];
    let fluids = room.len() / 2;
    let tier =
        |demand: &Demand| -> TierIndex { demand.fluid.index() + if demand.prior { fluids } else { 0 } };
    let weight = |demand: &Demand| u128::from(demand.multiplicity) * u128::from(demand.weight.0);
    let ceiling = |activity: &Activity| match activity.demands.first() {
        None => u128::from(activity.cap.0) + 1,
        Some(d) => {
            (u128::from(activity.cap.0) * u128::from(d.coefficient.0)).div_ceil(u128::from(d.weight.0)) + 1
        }
    };
    loop {
        let mut free = vec![0; room.len()];
        for (_, activity) in level.iter().zip(activities).filter(|(level, _)| level.is_none()) {
            activity.demands.iter().for_each(|demand| free[tier(demand)] += weight(demand));
        }
        let overflow = |t: TierIndex| room[t].checked_div(free[t]).map_or(u128::MAX, |level| level + 1);
        let stops: Vec<u128> = activities
            .iter()
            .map(|a| a.demands.iter().map(|d| overflow(tier(d))).fold(ceiling(a), u128::min))
            .collect();
        let undecided = (0..activities.len()).filter(|&i| level[i].is_none());
        let Some(lowest) = undecided.clone().map(|i| stops[i]).min() else { break };
        for i in undecided.filter(|&i| stops[i] == lowest).collect::<Vec<_>>() {
            level[i] = Some(lowest);
            for demand in &activities[i].demands {
                // A saturated tier counts one quantum more than it has room for; nobody else is on it.
                room[tier(demand)] = room[tier(demand)].saturating_sub(weight(demand) * lowest);
            }
        }
    }
    let rate = |(activity, level): (&&Activity, Option<u128>)| {
        let below = level.map_or(0, |level| level - 1);
        let share = activity
            .demands
            .first()
            .map_or(below, |d| below * u128::from(d.weight.0) / u128::from(d.coefficient.0));
        activity.cap.min(Rate(u64::try_from(share).unwrap_or(u64::MAX)))
    };
    activities.iter().zip(level).map(rate).collect()
}

/// Checks the condition of [`sim_core::sharing`]: no fluid carries more than its capacity, and every activity runs at its
/// cap or has the largest share relative to its weight on a saturated fluid, each within the part
/// `tolerance`.
///
/// # Errors
/// The first violation, in words.
pub(crate) fn verify(
    capacities: &[Rate],
    activities: &[Activity],
    rates: &[Rate],
    tolerance: f64,
) -> Result<(), String> {
    let through = |demand: &Demand| {
        let demands = activities.iter().flat_map(|a| &a.demands).filter(|d| d.port == demand.port);
        demands.map(|d| u64::from(d.multiplicity)).sum::<u64>()
    };
    let relative_share = |demand: &Demand, rate: Rate| {
        let weight = u64::from(demand.weight.0);
        let weight = if demand.port.is_some() { (weight / through(demand)).max(1) } else { weight };
        f64::from(demand.coefficient.0) * rate.0 as f64 / weight as f64
    };
    let fluids = capacities.len();
    // Per tier: capacity, load, largest relative share, quanta of rounding.
    let mut tiers: Vec<(f64, u128, f64, f64)> = vec![(0.0, 0, 0.0, 0.0); 2 * fluids];
    for (activity, rate) in activities.iter().zip(rates) {
        for demand in &activity.demands {
            let tier = &mut tiers[demand.fluid.index() + if demand.prior { fluids } else { 0 }];
            tier.1 += load(demand, *rate);
            tier.2 = tier.2.max(relative_share(demand, *rate));
            tier.3 += f64::from(demand.multiplicity)
                * (f64::from(demand.weight.0) + f64::from(demand.coefficient.0));
        }
    }
    for (fluid, capacity) in capacities.iter().enumerate() {
        let whole = u128::from(capacity.0) << RATIO_BITS;
        let prior = tiers[fluids + fluid].1;
        if tiers[fluid].1 + prior > whole {
            return Err(format!("fluid {fluid} carries {} of {whole}", tiers[fluid].1 + prior));
        }
        tiers[fluid].0 = (whole - prior) as f64;
        tiers[fluids + fluid].0 = whole as f64;
    }
    for (index, (activity, rate)) in activities.iter().zip(rates).enumerate() {
        let held = activity.demands.iter().any(|demand| {
            let whole = capacities[demand.fluid.index()].0 as f64 * f64::from(1 << RATIO_BITS);
            let (capacity, load, largest, rounding) =
                tiers[demand.fluid.index() + if demand.prior { fluids } else { 0 }];
            let share = relative_share(demand, *rate);
            let quantum = f64::from(demand.coefficient.0) + 1.0;
            (load as f64) >= capacity - whole * tolerance - rounding
                && share >= largest * (1.0 - tolerance) - quantum
        });
        if (rate.0 as f64) < activity.cap.0 as f64 * (1.0 - tolerance) && !held {
            return Err(format!("activity {index} runs at {} below its cap, and no fluid holds it", rate.0));
        }
    }
    Ok(())
}

/// Load of a demand at a rate, 2^-54 unit/ps.
fn load(demand: &Demand, rate: Rate) -> u128 {
    u128::from(demand.multiplicity) * u128::from(demand.coefficient.0) * u128::from(rate.0)
}

fn is_uniform(activity: &Activity) -> bool {
    let ratio = |d: &Demand, e: &Demand| u64::from(d.weight.0) * u64::from(e.coefficient.0);
    let first = activity.demands.first();
    activity.demands.iter().all(|d| d.port.is_none() && first.is_none_or(|e| ratio(d, e) == ratio(e, d)))
}
