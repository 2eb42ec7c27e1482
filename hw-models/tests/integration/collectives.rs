//! Collectives: measured tables are reproduced, sizes between are predicted, and the choice of algorithm is the library's.

#![expect(clippy::print_stdout, reason = "errors on what was held out, for who asks with --nocapture")]

use hw_models::collectives::{
    Algorithm, Between, COLLECTIVES, Collective, CollectiveCatalogue, CollectiveKind, CollectiveModel,
    CollectivePlan, Coupling, GroupShape, Inside, InsideLink, LogTable, PathKind, plan,
};
use proptest::prelude::*;

use crate::table::{Row, rows};

const SUPERBENCH: &str = include_str!("../../measurements/collectives/a100x8_superbench.csv");
const VTRAIN: &str = include_str!("../../measurements/collectives/allreduce_vtrain.csv");
const XLA: &str = include_str!("../../measurements/collectives/h100x8_xla.csv");

/// Of gathers, reduce-scatters and all-to-alls of 2, 4 and 8 B200: share of 900 GiB/s, us of a step, us of a call by ranks
/// (github.com/MooreThreads/SimuMax @ 4dcaae5, configs/system/b200_bf16_ceperm.json, Apache-2.0).
const SIMUMAX: [(f64, f64, [f64; 3]); 3] = [
    (0.6735, 9.1828, [23.1049; 3]),
    (0.6731, 8.0325, [25.5604; 3]),
    (0.5968, 7.3039, [51.0578, 19.2102, 0.0]),
];

/// A fit, read off.
fn simumax((share, step, call): (f64, f64, [f64; 3]), ranks: u32) -> Vec<[f64; 2]> {
    let others = f64::from(ranks - 1);
    let us = |bytes: f64| {
        let sent = bytes * others / f64::from(ranks);
        let rate = share * 900.0 * f64::from(1 << 30);
        call[ranks.ilog2() as usize - 1] + step * others + sent / rate * 1e6
    };
    [20, 24, 28, 32]
        .map(|log| 2_f64.powi(log))
        .map(|bytes| [bytes, (100.0 * us(bytes)).round() / 100.0])
        .to_vec()
}

use CollectiveKind::{AllGather, AllReduce, AllToAll, Broadcast, ReduceScatter};

#[test]
fn the_catalogue_has_the_measured_tables() {
    let tables = [
        table("ampere", InsideLink::NvSwitch, 8, AllReduce, superbench("allreduce")),
        table("ampere", InsideLink::NvSwitch, 8, AllGather, superbench("allgather")),
        table("ampere", InsideLink::NvSwitch, 8, AllToAll, superbench("alltoall")),
        table("ampere", InsideLink::NvSwitch, 8, Broadcast, superbench("broadcast")),
        table("ampere", InsideLink::NvSwitch, 8, ReduceScatter, superbench("reducescatter")),
        table("ampere", InsideLink::NvSwitch, 2, AllReduce, vtrain("A100", 2)),
        table("ampere", InsideLink::NvSwitch, 4, AllReduce, vtrain("A100", 4)),
        table("volta", InsideLink::CubeMesh, 2, AllReduce, vtrain("V100", 2)),
        table("volta", InsideLink::CubeMesh, 4, AllReduce, vtrain("V100", 4)),
        table("volta", InsideLink::CubeMesh, 8, AllReduce, vtrain("V100", 8)),
    ];
    let hopper = [
        (AllReduce, "all-reduce"),
        (AllGather, "all-gather"),
        (ReduceScatter, "reduce-scatter"),
        (AllToAll, "all-to-all"),
    ]
    .into_iter()
    .flat_map(|(kind, op)| {
        [2, 4, 8].map(|ranks| table("hopper", InsideLink::NvSwitch, ranks, kind, xla(op, ranks)))
    });
    let blackwell = [(AllGather, SIMUMAX[0]), (ReduceScatter, SIMUMAX[1]), (AllToAll, SIMUMAX[2])]
        .into_iter()
        .flat_map(|(kind, fit)| {
            let of = move |ranks| table("blackwell", InsideLink::NvSwitch, ranks, kind, simumax(fit, ranks));
            [2, 4, 8].map(of)
        });
    let expected: Vec<Expected> = tables.into_iter().chain(hopper).chain(blackwell).collect();
    let catalogue = catalogue();
    assert_eq!(catalogue.tables.len(), expected.len());
    for expected in expected {
        let committed = catalogue.tables.iter().find(|table| {
            (table.generation.as_str(), table.inside, table.ranks, table.kind)
                == (expected.generation, expected.inside, expected.ranks, expected.kind)
        });
        assert_eq!(committed.unwrap().points, LogTable::from(expected.points), "{}", expected.ranks);
    }
}

#[test]
fn plans_take_as_long_as_their_tables_say() {
    let catalogue = catalogue();
    for table in &catalogue.tables {
        let group = on_one_node(&table.generation, table.inside, table.ranks);
        let model = catalogue.model(&table.generation).unwrap();
        for &[bytes, us] in table.points.points() {
            let planned = plan(&model, &group, &Collective { kind: table.kind, bytes: bytes as u64 });
            let seconds = planned.alone().as_secs();
            assert!(
                (seconds / (us * 1e-6) - 1.0).abs() < 1e-4,
                "{:?} {bytes}: {seconds} against {us} us",
                table.kind
            );
            assert!(planned.measured.is_some());
        }
    }
}

#[test]
fn sizes_between_measured_ones_are_predicted() {
    // Every second point is left out and predicted from its neighbours; the limits are those of a table that is not
    // smoothed, in per cent of the mean.
    for (gpu, ranks, limit) in [
        ("A100", 2, 1.0),
        ("A100", 4, 2.3),
        ("A100", 8, 1.4),
        ("V100", 2, 0.7),
        ("V100", 4, 1.3),
        ("V100", 8, 1.2),
    ] {
        let error = held_out(vtrain(gpu, ranks));
        println!("{ranks} x {gpu} all-reduce, held out: {error:.2} %");
        assert!(error < limit, "{ranks} x {gpu}: {error:.2} %");
    }
    for op in ["allreduce", "allgather", "alltoall", "broadcast", "reducescatter"] {
        let error = held_out(superbench(op));
        println!("8 x A100 {op}, held out: {error:.2} %");
        assert!(error < 3.0, "8 x A100 {op}: {error:.2} %");
    }
}

#[test]
fn another_source_of_the_same_collective_is_predicted() {
    // vTrain's all-reduce on 8 A100 is not in the catalogue, which has that of SuperBench.
    let (ampere, group) = (model("ampere"), on_one_node("ampere", InsideLink::NvSwitch, 8));
    let points = vtrain("A100", 8);
    let errors = points.iter().map(|[bytes, us]| {
        let planned = plan(&ampere, &group, &Collective { kind: AllReduce, bytes: *bytes as u64 });
        planned.alone().as_secs() / (us * 1e-6) - 1.0
    });
    let errors: Vec<f64> = errors.collect();
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / points.len() as f64;
    let (absolute, bias) = (mean(&mut errors.iter().map(|e| e.abs())), mean(&mut errors.iter().copied()));
    println!("8 x A100 all-reduce, other source: {:.1} %, bias {:.1} %", absolute * 100.0, bias * 100.0);
    assert!(absolute < 0.05, "{absolute}");
}

/// nccl-tests on 8 x H200 and 8 x B200: bus bandwidths of large messages. Links: 18 of 20.6 and 40.1 GB/s.
#[test]
fn switches_sum_at_the_rates_of_nccl_tests() {
    let bus = |generation: &str, link: f64, switched: bool, kind: CollectiveKind| {
        let mut catalogue = CollectiveCatalogue { tables: Vec::new(), ..catalogue() };
        if !switched {
            catalogue.generations[generation].nvls = None;
        }
        let model = catalogue.model(generation).unwrap();
        let inside = Inside { link: InsideLink::NvSwitch, bytes_per_s: 18.0 * link };
        let group = GroupShape { inside, ..on_one_node("hopper", InsideLink::NvSwitch, 8) };
        let planned = plan(&model, &group, &Collective { kind, bytes: 8 << 30 });
        let passes = if kind == AllReduce { 14.0 / 8.0 } else { 7.0 / 8.0 };
        (planned.algorithm, passes * (8u64 << 30) as f64 / planned.alone().as_secs() / 1e9)
    };
    for (generation, link, switched, kind, algorithm, measured) in [
        ("hopper", 20.6e9, true, AllReduce, Algorithm::Nvls, 478.0),
        ("hopper", 20.6e9, false, AllReduce, Algorithm::Ring, 367.0),
        ("hopper", 20.6e9, true, AllGather, Algorithm::Ring, 361.0),
        ("hopper", 20.6e9, true, ReduceScatter, Algorithm::Ring, 363.0),
        ("blackwell", 40.1e9, true, AllReduce, Algorithm::Nvls, 838.0),
        ("blackwell", 40.1e9, false, AllReduce, Algorithm::Ring, 682.0),
    ] {
        let (chosen, found) = bus(generation, link, switched, kind);
        assert_eq!(chosen, algorithm);
        assert!((found / measured - 1.0).abs() < 0.055, "{generation} {kind:?}: {found} of {measured} GB/s");
    }
}

#[test]
fn rings_of_small_groups_lose_the_steps_at_their_ends() {
    let rate = |ranks: u32| {
        let mut catalogue = catalogue();
        catalogue.tables.clear();
        let group = on_one_node("ampere", InsideLink::NvSwitch, ranks);
        let planned = plan(
            &catalogue.model("ampere").unwrap(),
            &group,
            &Collective { kind: AllReduce, bytes: 8 << 30 },
        );
        2.0 * f64::from(ranks - 1) / f64::from(ranks) * (8u64 << 30) as f64 / planned.alone().as_secs() / 1e9
    };
    // Slopes of vTrain's tables on A100.
    for (ranks, measured) in [(2, 200.0), (4, 223.0), (8, 232.0)] {
        assert!((rate(ranks) / measured - 1.0).abs() < 0.05, "{ranks}: {} of {measured} GB/s", rate(ranks));
    }
}

/// Five V100 have two rings of 22.6 GB/s, of which hops over a third GPU leave 0.82: 54 us of steps,
/// as over PCI Express, and 1.6 GiB at 37.064 GB/s. vTrain measured 46.223 ms.
#[test]
fn rings_over_third_members_are_as_fast_as_their_reads() {
    let group = GroupShape {
        inside: Inside { link: InsideLink::Relayed, bytes_per_s: 45.2e9 },
        ..on_one_node("volta", InsideLink::NvSwitch, 5)
    };
    let seconds =
        |kind| plan(&model("volta"), &group, &Collective { kind, bytes: 1 << 30 }).alone().as_secs();
    let sent = |share: f64| share * f64::from(1 << 30) / 37.064e9;
    assert!((seconds(AllReduce) - (54e-6 + sent(1.6))).abs() < 1e-9, "{}", seconds(AllReduce));
    assert!((seconds(AllReduce) / 46.223e-3 - 1.0).abs() < 0.01);
    // A ring gathers in half of the steps and sends half.
    assert!((seconds(AllGather) - (31.2e-6 + sent(0.8))).abs() < 1e-9, "{}", seconds(AllGather));
    let direct = GroupShape { inside: Inside { link: InsideLink::CubeMesh, ..group.inside }, ..group };
    let planned = plan(&model("volta"), &direct, &Collective { kind: AllReduce, bytes: 1 << 30 });
    assert!(planned.alone().as_secs() < seconds(AllReduce), "{planned:?}");
}

#[test]
fn between_points_a_table_grows_as_the_model_does() {
    let table = LogTable::from(vec![[1e6, 30.0], [2e6, 26.0], [10e6, 110.0]]);
    let mean = (30.0f64 * 26.0).sqrt();
    assert!((table.points()[0][1] - mean).abs() < 1e-9 && table.points()[0][1] == table.points()[1][1]);
    // 5 us and 10 us a megabyte; the table's start is another.
    let model = |bytes: f64| 5e-6 + bytes * 1e-11;
    let at = |bytes: f64| table.seconds(bytes, model) * 1e6;
    assert!((at(6e6) - (mean + 110.0) / 2.0).abs() < 1e-9, "half of what the model adds");
    assert!((at(20e6) - 210.0).abs() < 1e-9, "beyond it what the model adds");
    assert!((at(5e5) - mean * 10.0 / 15.0).abs() < 1e-9, "below it the model, scaled");
    assert!((LogTable::default().seconds(1e6, model) - 15e-6).abs() < 1e-12);
}

#[test]
fn the_choice_is_the_library_s() {
    let hopper = model("hopper");
    let chosen = |ranks, bytes| {
        plan(
            &hopper,
            &on_one_node("hopper", InsideLink::NvSwitch, ranks),
            &Collective { kind: AllReduce, bytes },
        )
        .algorithm
    };
    // nccl-tests on 8 x H200: rings with flags up to 1 MiB, the switches from 2 MiB, and never on four GPUs or fewer.
    assert_eq!(
        (chosen(8, 1 << 16), chosen(8, 4 << 20), chosen(8, 1 << 30)),
        (Algorithm::Ring, Algorithm::Nvls, Algorithm::Nvls)
    );
    assert!([2, 4].iter().all(|&ranks| chosen(ranks, 1 << 30) == Algorithm::Ring));
    let ampere =
        plan(&model("ampere"), &across("ampere", 64), &Collective { kind: AllReduce, bytes: 1 << 16 });
    assert_eq!(ampere.algorithm, Algorithm::Tree, "a ring of 64 has 126 steps");
}

#[test]
fn a_slow_link_slows_a_ring_but_not_the_others_of_an_all_to_all() {
    let (ampere, group) = (model("ampere"), on_one_node("ampere", InsideLink::NvSwitch, 8));
    let ring = plan(&ampere, &group, &Collective { kind: AllGather, bytes: 1 << 30 });
    let exchange = plan(&ampere, &group, &Collective { kind: AllToAll, bytes: 1 << 30 });
    assert_eq!((ring.coupling, exchange.coupling), (Coupling::Group, Coupling::Source));
    // The demands fill the link, so that half of it is half the speed.
    assert!(ring.inside * ring.bytes_per_s > 0.85 * group.inside.bytes_per_s);
    assert!(exchange.inside * exchange.bytes_per_s > 0.85 * group.inside.bytes_per_s);
}

#[test]
fn between_nodes_every_card_carries_its_part_of_the_ring() {
    let group = across("ampere", 32);
    let ring = plan(&model("ampere"), &group, &Collective { kind: ReduceScatter, bytes: 1 << 30 });
    assert_eq!((ring.inside, ring.between), (1.0, 1.0 / 8.0));
    let card = group.between.unwrap().bytes_per_s;
    assert!(
        (ring.between * ring.bytes_per_s / card - 1.0).abs() < 1e-6,
        "cards are the bottleneck, at their full rate"
    );
    let one_each = GroupShape {
        ranks: 4,
        ranks_per_node: 1,
        between: Some(Between { bytes_per_s: 24e9, nics: 1 }),
        ..group
    };
    let ring = plan(&model("ampere"), &one_each, &Collective { kind: ReduceScatter, bytes: 1 << 30 });
    assert_eq!((ring.inside, ring.between), (0.0, 1.0));
}

#[test]
fn messages_pay_for_their_path() {
    let ampere = model("ampere");
    let near = ampere.point_to_point(PathKind::NvLink, 240e9);
    let far = ampere.point_to_point(PathKind::Network, 24e9);
    assert!(near.latency < far.latency && near.bytes_per_s > far.bytes_per_s);
}

#[test]
fn an_unknown_generation_is_answered_with_the_known_ones() {
    let error = catalogue().model("kepler").unwrap_err().to_string();
    assert!(error.contains("kepler") && error.contains("volta") && error.contains("turing"), "{error}");
}

proptest! {
    #[test]
    fn more_bytes_never_take_less_time(
        (which, kind) in (0usize..4, kinds()), bytes in 1u64..1 << 32, more in 1u64..1 << 30,
    ) {
        let (generation, group) = groups(which);
        let model = model(generation);
        let time = |bytes| plan(&model, &group, &Collective { kind, bytes }).alone();
        // One rounding of a rate to the nearest float in a whole duration.
        prop_assert!(time(bytes).0 <= time(bytes + more).0 + 10);
    }

    #[test]
    fn no_plan_beats_its_links((which, kind) in (0usize..4, kinds()), bytes in 0u64..1 << 40) {
        let (generation, group) = groups(which);
        let planned: CollectivePlan = plan(&model(generation), &group, &Collective { kind, bytes });
        // Measured rings reach up to an eighth more than the library assumes of its links.
        let link = group.inside.bytes_per_s * 1.13;
        prop_assert!(planned.inside * planned.bytes_per_s <= link, "{:?}", planned);
        if let Some(cards) = group.between {
            prop_assert!(planned.between * planned.bytes_per_s <= cards.bytes_per_s * 1.0001, "{:?}", planned);
        }
        prop_assert!(planned.sms >= 1 && planned.sms <= 32);
    }
}

struct Expected {
    generation: &'static str,
    inside: InsideLink,
    ranks: u32,
    kind: CollectiveKind,
    points: Vec<[f64; 2]>,
}

fn table(
    generation: &'static str,
    inside: InsideLink,
    ranks: u32,
    kind: CollectiveKind,
    points: Vec<[f64; 2]>,
) -> Expected {
    Expected { generation, inside, ranks, kind, points }
}

fn points(text: &str, keep: impl Fn(&Row) -> bool, bytes: &str, us: &str) -> Vec<[f64; 2]> {
    rows(text).iter().filter(|row| keep(row)).map(|row| [row.number(bytes), row.number(us)]).collect()
}

fn superbench(op: &str) -> Vec<[f64; 2]> {
    points(SUPERBENCH, |row| row["op"] == op, "bytes", "time_us_out_of_place")
}

fn vtrain(gpu: &str, ranks: u32) -> Vec<[f64; 2]> {
    points(VTRAIN, |row| row["gpu"] == gpu && row.count("num_gpus") == u64::from(ranks), "bytes", "time_us")
}

/// From 1 MiB: below it the launches of whole executables dominate.
fn xla(op: &str, ranks: u32) -> Vec<[f64; 2]> {
    let keep = |row: &Row| {
        row["op"] == op
            && row.count("devices_per_group") == u64::from(ranks)
            && row.count("tensor_bytes_full") >= 1 << 20
    };
    points(XLA, keep, "tensor_bytes_full", "time_us_derived")
}

/// Mean error [%] of every second point, from a table of the others.
fn held_out(points: Vec<[f64; 2]>) -> f64 {
    let sorted = LogTable::from(points).points().to_vec();
    let kept = LogTable::from(sorted.iter().copied().step_by(2).collect::<Vec<_>>());
    let inner = sorted.iter().skip(1).step_by(2).filter(|point| point[0] < kept.points().last().unwrap()[0]);
    let errors: Vec<f64> =
        inner.map(|[bytes, us]| (kept.seconds(*bytes, |_| f64::NAN) * 1e6 / us - 1.0).abs()).collect();
    100.0 * errors.iter().sum::<f64>() / errors.len() as f64
}

/// In a channel a connection has 9,408 KiB, of which 8,896 KiB are at both ends between nodes.
#[test]
fn buffers_are_counted_by_connections() {
    const CONNECTION: u64 = 9_408 << 10;
    const SENT: u64 = 8_896 << 10;
    let model = catalogue().model("ampere").unwrap();
    let group = |ranks, ranks_per_node, nics| GroupShape {
        ranks,
        ranks_per_node,
        inside: Inside { link: InsideLink::NvSwitch, bytes_per_s: 240e9 },
        between: (ranks > ranks_per_node).then_some(Between { bytes_per_s: 25e9, nics }),
    };
    assert_eq!(model.collective_buffers(&group(1, 1, 0)), 0);
    assert_eq!(model.collective_buffers(&group(2, 2, 0)), 24 * CONNECTION);
    assert_eq!(model.collective_buffers(&group(8, 8, 0)), 24 * 2 * CONNECTION);
    assert_eq!(model.collective_buffers(&group(64, 8, 8)), 16 * 2 * (CONNECTION + SENT / 8));
    assert_eq!(model.collective_buffers(&group(8, 1, 1)), 2 * 2 * (CONNECTION + SENT));
    // Messages to two neighbours at the switch; beside other nodes two channels are enough, and those have 16 x 128 KiB in
    // each channel and direction.
    assert_eq!(model.message_buffers(&group(8, 8, 0), 2, false), 2 * 32 * CONNECTION);
    assert_eq!(model.message_buffers(&group(8, 4, 4), 1, true), 2 * CONNECTION + 2 * 8 * (16 << 17));
    assert_eq!(model.message_buffers(&group(8, 1, 1), 0, true), 2 * 2 * (16 << 17));
}

fn catalogue() -> CollectiveCatalogue {
    serde_yaml::from_str(COLLECTIVES).unwrap()
}

fn model(generation: &str) -> CollectiveModel {
    catalogue().model(generation).unwrap()
}

fn on_one_node(generation: &str, link: InsideLink, ranks: u32) -> GroupShape {
    // NCCL's rates of NVLinks: 20 GB/s each on Volta (six) and Ampere (twelve), 20.6 on Hopper (eighteen).
    let bytes_per_s = match generation {
        "volta" => 120e9,
        "hopper" => 370.8e9,
        _ => 240e9,
    };
    GroupShape { ranks, ranks_per_node: ranks, inside: Inside { link, bytes_per_s }, between: None }
}

fn across(generation: &str, ranks: u32) -> GroupShape {
    GroupShape {
        ranks,
        between: Some(Between { bytes_per_s: 24e9, nics: 8 }),
        ..on_one_node(generation, InsideLink::NvSwitch, 8)
    }
}

fn groups(which: usize) -> (&'static str, GroupShape) {
    match which {
        0 => ("ampere", on_one_node("ampere", InsideLink::NvSwitch, 8)),
        1 => ("ampere", across("ampere", 32)),
        2 => ("hopper", across("hopper", 64)),
        _ => ("ampere", on_one_node("ampere", InsideLink::NvSwitch, 4)),
    }
}

fn kinds() -> impl Strategy<Value = CollectiveKind> {
    prop::sample::select(vec![AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast])
}
