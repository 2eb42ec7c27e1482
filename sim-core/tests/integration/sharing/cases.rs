//! The cases of the fairness rule, each with its digits: tests that fail under wrong rules.

use sim_core::fixed::{Rate, Ratio};
use sim_core::id::{CauseId, FluidId, PortId};
use sim_core::platform::{Demand, Platform};
use sim_core::sharing::{FlowId, Network, cap_load, validate};

/// Fluids of these capacities in GB/s.
fn fluids<const N: usize>(capacities: [f64; N]) -> (Platform, [FluidId; N]) {
    let mut platform = Platform { ports: 2, ..Platform::default() };
    let ids = capacities.map(|capacity| platform.fluid("fluid", capacity * 1e9, CauseId(0)));
    (platform, ids)
}

/// A flow: its demands and its cap in GB/s, if it has one.
type Flow<'a> = (&'a [Demand], Option<f64>);

fn cap(gb: Option<f64>) -> Rate {
    gb.map_or(Rate::UNLIMITED, |gb| Rate::per_second(gb * 1e9))
}

/// Rates in GB/s, to 6 decimals, of flows that start together.
fn rates(platform: &Platform, flows: &[Flow<'_>]) -> Vec<String> {
    let mut network = Network::new(platform);
    let ids: Vec<FlowId> = flows.iter().map(|(demands, gb)| network.start(demands, cap(*gb))).collect();
    network.reshare();
    ids.iter().map(|flow| gb(network.rate(*flow))).collect()
}

fn gb(rate: Rate) -> String {
    format!("{:.6}", rate.units_per_second() / 1e9)
}

const FIRST: PortId = PortId(0);
const SECOND: PortId = PortId(1);

#[test]
fn who_asks_for_less_than_his_part_of_every_fluid_is_never_slowed() {
    let (platform, [a, b]) = fluids([100.0, 40.0]);
    let modest = [Demand::on(a).coefficient(2.5), Demand::on(b)];
    let crowd = [Demand::on(a)];
    let other_crowd = [Demand::on(b)];
    let mut flows: Vec<Flow<'_>> = vec![(&modest, Some(4.0))];
    flows.extend([(&crowd[..], None); 9]);
    flows.extend([(&other_crowd[..], None); 9]);
    let rates = rates(&platform, &flows);
    assert_eq!(rates[..2], ["4.000000", "10.000000"]);
    assert_eq!(rates[10], "4.000000");
}

#[test]
fn a_small_transfer_beside_a_large_one_gets_half_the_link() {
    let (platform, [link]) = fluids([100.0]);
    let transfer = [Demand::on(link)];
    assert_eq!(rates(&platform, &[(&transfer, None), (&transfer, None)]), ["50.000000", "50.000000"]);
}

#[test]
fn splitting_a_transfer_takes_from_others_only_where_sharing_is_flow_fair() {
    let (platform, [link]) = fluids([90.0]);
    let flow_fair = [Demand::on(link)];
    assert_eq!(rates(&platform, &[(&flow_fair[..], None); 2]), ["45.000000"; 2]);
    assert_eq!(rates(&platform, &[(&flow_fair[..], None); 3]), ["30.000000"; 3]);
    let (split, whole) = ([Demand::on(link).port(FIRST)], [Demand::on(link).port(SECOND)]);
    assert_eq!(rates(&platform, &[(&split, None), (&whole, None)]), ["45.000000"; 2]);
    assert_eq!(
        rates(&platform, &[(&split, None), (&split, None), (&whole, None)]),
        ["22.500000", "22.500000", "45.000000"]
    );
}

#[test]
fn two_flows_of_a_port_against_one_of_another_get_25_25_50() {
    let (platform, [uplink]) = fluids([100.0]);
    let (first, second) = ([Demand::on(uplink).port(FIRST)], [Demand::on(uplink).port(SECOND)]);
    assert_eq!(
        rates(&platform, &[(&first, None), (&first, None), (&second, None)]),
        ["25.000000", "25.000000", "50.000000"]
    );
}

#[test]
fn the_unit_of_an_activity_changes_nothing() {
    let (platform, [a, b]) = fluids([100.0, 30.0]);
    let in_bytes = [Demand::on(a), Demand::on(b)];
    let in_lines = [Demand::on(a).coefficient(64.0), Demand::on(b).coefficient(64.0)];
    let other = [Demand::on(a)];
    let bytes = rates(&platform, &[(&in_bytes, None), (&in_bytes, None), (&other, None)]);
    let lines = rates(&platform, &[(&in_lines, None), (&in_bytes, None), (&other, None)]);
    assert_eq!(bytes, ["15.000000", "15.000000", "70.000000"]);
    assert_eq!(lines, ["0.234375", "15.000000", "70.000000"]);
}

#[test]
fn an_asymmetric_duplex_gives_25_alone_and_24_and_12_together() {
    let (platform, [read_link, write_link, duplex]) = fluids([25.0, 25.0, 36.0]);
    let read = [Demand::on(read_link), Demand::on(duplex).weight(2.0).port(FIRST)];
    let write = [Demand::on(write_link), Demand::on(duplex).port(SECOND)];
    assert_eq!(rates(&platform, &[(&read, None)]), ["25.000000"]);
    assert_eq!(rates(&platform, &[(&write, None)]), ["25.000000"]);
    assert_eq!(rates(&platform, &[(&read, None), (&write, None)]), ["24.000000", "12.000000"]);
    assert_eq!(rates(&platform, &[(&read, None), (&read, None), (&write, None)]), ["12.000000"; 3]);
    assert_eq!(
        rates(&platform, &[(&read, None), (&write, None), (&write, None)]),
        ["24.000000", "6.000000", "6.000000"]
    );
}

#[test]
fn a_gemm_that_uses_a_hundredth_of_the_memory_keeps_its_speed_beside_ten_streaming_kernels() {
    let (platform, [hbm]) = fluids([1000.0]);
    // Its work is counted in something it does a hundred times as much of as it moves bytes.
    let gemm = [Demand { coefficient: Ratio(164), ..Demand::on(hbm) }];
    let streaming = [Demand::on(hbm)];
    let mut flows: Vec<Flow<'_>> = vec![(&gemm, Some(1000.0))];
    flows.extend([(&streaming[..], None); 10]);
    let rates = rates(&platform, &flows);
    assert_eq!(rates[0], "1000.000000");
    assert_eq!(rates[1], "98.999023", "the rest, 1000 (1 - 164 / 2^14), shared by ten");
}

#[test]
fn a_hierarchical_all_reduce_gets_its_fair_share_of_a_crowded_nic() {
    // An eighth of its bytes leave the node. The level of plain max-min would be 25 / (15 + 1/8) = 1.65.
    let (platform, [nic, nvlink]) = fluids([25.0, 300.0]);
    let all_reduce = [Demand::on(nic).coefficient(0.125), Demand::on(nvlink)];
    let other = [Demand::on(nic)];
    let mut flows: Vec<Flow<'_>> = vec![(&all_reduce, None)];
    flows.extend([(&other[..], None); 15]);
    let rates = rates(&platform, &flows);
    assert_eq!(rates[..2], ["12.500000", "1.562500"]);
}

#[test]
fn prior_demands_are_not_slowed_and_the_others_share_what_is_left() {
    let (platform, [hbm, nic]) = fluids([100.0, 40.0]);
    let collective = [Demand::on(nic), Demand::on(hbm).coefficient(2.0).prior()];
    let kernel = [Demand::on(hbm)];
    assert_eq!(
        rates(&platform, &[(&kernel, None), (&collective, None), (&kernel, None)]),
        ["10.000000", "40.000000", "10.000000"]
    );
    let greedy = [Demand::on(hbm).prior()];
    assert_eq!(rates(&platform, &[(&kernel, None), (&greedy, None)]), ["0.000000", "100.000000"]);
}

#[test]
fn prior_demands_that_feed_back_through_their_victims_settle() {
    // A zero-copy kernel reads over PCIe and takes what the copies, which it slows there, leave of the
    // memory.
    let (platform, [pcie, hbm]) = fluids([20.0, 25.0]);
    let copy = [Demand::on(pcie), Demand::on(hbm).prior()];
    let kernel = [Demand::on(pcie), Demand::on(hbm).coefficient(2.0)];
    assert_eq!(rates(&platform, &[(&copy, None), (&kernel, None)]), ["15.000000", "5.000000"]);
}

#[test]
fn kernels_that_come_and_go_beside_copies_both_ways_do_not_have_them_solved_again() {
    // A GPU behind a switch: two links of one speed in a row, and less for both directions than for each alone.
    let (platform, [hbm, up, up_too, down, down_too, both]) = fluids([900.0, 12.0, 12.0, 12.0, 12.0, 18.0]);
    let copy = |links: [FluidId; 2], port| {
        let meeting = Demand::on(both).weight(1.25).port(port);
        [Demand::on(links[0]), Demand::on(links[1]), meeting, Demand::on(hbm).prior()]
    };
    let mut network = Network::new(&platform);
    let out = network.start(&copy([up, up_too], FIRST), Rate::UNLIMITED);
    network.reshare();
    assert_eq!(gb(network.rate(out)), "12.000000");
    assert!(network.rounds() <= 4, "one flow took {} rounds", network.rounds());
    let back = network.start(&copy([down, down_too], SECOND), Rate::UNLIMITED);
    network.reshare();
    assert_eq!([out, back].map(|flow| gb(network.rate(flow))), ["9.000000"; 2]);
    assert!(network.rounds() <= 8, "two flows took {} rounds", network.rounds());

    let before = network.rounds();
    for _ in 0..3 {
        let kernel = network.start(&[Demand::on(hbm)], Rate::UNLIMITED);
        assert_eq!(network.reshare(), [kernel]);
        assert_eq!(gb(network.rate(kernel)), "882.000000");
        network.stop(kernel);
        assert_eq!(network.reshare(), []);
    }
    assert_eq!(network.rounds(), before);
    // One that reads over the link as well concerns them.
    network.start(&[Demand::on(hbm), Demand::on(down)], Rate::UNLIMITED);
    assert_eq!(network.reshare().len(), 3);
    assert!(network.rounds() > before);
}

#[test]
fn a_change_reaches_those_it_concerns_and_names_their_bottleneck() {
    let (platform, [up, down, far]) = fluids([100.0, 60.0, 10.0]);
    let mut network = Network::new(&platform);
    let first = network.start(&[Demand::on(up), Demand::on(down)], Rate::UNLIMITED);
    let alone = network.start(&[Demand::on(far)], cap(Some(8.0)));
    assert_eq!(network.reshare(), [first, alone]);
    assert_eq!((gb(network.rate(first)).as_str(), network.bottleneck(first)), ("60.000000", Some(down)));
    assert_eq!((gb(network.rate(alone)).as_str(), network.bottleneck(alone)), ("8.000000", None));

    let second = network.start(&[Demand::on(up)], Rate::UNLIMITED);
    assert!(network.is_changed());
    assert_eq!(network.reshare(), [first, second]);
    assert!(!network.is_changed());
    assert_eq!((gb(network.rate(first)).as_str(), network.bottleneck(first)), ("50.000000", Some(up)));
    assert_eq!((gb(network.load(up)).as_str(), network.users(up)), ("100.000000", 2));

    network.set_cap(first, cap(Some(30.0)));
    network.reshare();
    assert_eq!(
        (gb(network.rate(first)).as_str(), gb(network.rate(second)).as_str()),
        ("30.000000", "70.000000")
    );
    network.set_capacity(down, Rate::per_second(20e9));
    network.reshare();
    assert_eq!(
        (gb(network.rate(first)).as_str(), gb(network.rate(second)).as_str()),
        ("20.000000", "80.000000")
    );

    network.stop(alone);
    assert!(network.is_changed(), "a load has changed, if no rate");
    assert_eq!(network.reshare(), []);
    network.stop(first);
    assert_eq!(network.reshare(), [second]);
    assert_eq!((gb(network.load(down)).as_str(), network.users(down)), ("0.000000", 0));
    assert_eq!(
        network.start(&[Demand::on(down), Demand::on(far)], Rate::UNLIMITED),
        first,
        "ids are used again"
    );
}

#[test]
fn caps_that_fit_exactly_are_reached_exactly() {
    let (platform, [link]) = fluids([50.0]);
    let mut network = Network::new(&platform);
    let half = Rate(platform.fluids[0].capacity.0 / 2);
    let demand = Demand::on(link);
    assert!(network.fits(&demand, Rate(half.0 - 1), cap_load(&demand, Rate(half.0 - 1))));
    assert!(!network.fits(&demand, Rate(half.0 + 1), cap_load(&demand, Rate(half.0 + 1))));
    let flows = [network.start(&[demand], half), network.start(&[demand], half)];
    network.reshare();
    assert_eq!(flows.map(|flow| network.rate(flow)), [half; 2]);
    assert_eq!(flows.map(|flow| network.bottleneck(flow)), [None; 2]);
}

#[test]
fn what_sharing_cannot_hold_is_refused_with_a_remedy() {
    let (mut platform, [link]) = fluids([50.0]);
    assert_eq!(validate(&platform), Ok(()));
    platform.route([Demand::on(link), Demand::on(link)]);
    platform.route([Demand::on(FluidId(7))]);
    platform.route([Demand { coefficient: Ratio(0), ..Demand::on(link) }]);
    platform.route([Demand { multiplicity: u32::MAX, ..Demand::on(link) }]);
    platform.route([Demand::on(link).port(PortId(2))]);
    platform.fluid("memory", 1e18, CauseId(0));
    let wrong = validate(&platform).unwrap_err();
    let expected = [
        "fluid `memory` has a capacity of 1e18 units/s: give one above 0 and up to 1e15, or choose a larger unit",
        "route 0 demands one fluid twice: add the coefficients in one demand",
        "route 1 demands fluid 7: the platform has 2",
        "route 2 has a coefficient, weight or multiplicity of zero: leave the demand out",
        "route 3 has a weight times multiplicity above 2^20: scale the weights of its fluid down",
        "route 4 goes through port 2: the platform has 2",
    ];
    assert_eq!(wrong, expected);
}
