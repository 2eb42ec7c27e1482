//! Sets of flows whose levels swing for long before they settle.

use sim_core::fixed::{Rate, Ratio};
use sim_core::id::FluidId;
use sim_core::platform::Demand;

use super::reference::{self, Activity};
use super::{Pair, TOLERANCE};

fn demand((fluid, weight): (u32, u32)) -> Demand {
    Demand { weight: Ratio(weight), ..Demand::on(FluidId(fluid)) }
}

/// The smallest of `swap-topologies`: two copies to GPUs below one link meet one that comes back, on two switches in
/// a row that carry less both ways than each way alone. Ports have divided the weights.
#[test]
fn copies_that_meet_on_two_switches_in_a_row_settle() {
    let (link, switch) = (Rate(15_151_270_231), Rate(25_695_586_741));
    let mut pair = Pair::new(&[link, switch, link, switch]);
    for _ in 0..2 {
        let demands = [(0, 16_384), (1, 4_360), (2, 8_192), (3, 4_360)].map(demand).to_vec();
        pair.start(Activity { demands, cap: link });
    }
    let demands = [(1, 7_663), (3, 7_663)].map(demand).to_vec();
    pair.start(Activity { demands, cap: Rate(13_304_090_696) });

    let rates = pair.rates();
    assert_eq!(pair.network.unsettled(), 0);
    reference::verify(&pair.capacities, &pair.activities(), &rates, TOLERANCE).unwrap();
    // The switches hold all three, by weight; the links have room left.
    let part = |weight: u64| switch.0 * weight / (2 * 4_360 + 7_663);
    for (rate, weight) in rates.iter().zip([4_360, 4_360, 7_663]) {
        assert!(rate.0.abs_diff(part(weight)) <= 1, "{rate:?} for {weight}");
    }
}
