//! Machines: parts, links, routes, slow parts, resources of the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use hw_models::catalogue::{Catalogue, LinkKind};
use hw_models::machine::{
    Cluster, Degrade, Hashed, Machine, PartId, PartKind, PartLink, Parts, ResourceKind, Route, RouteKind,
    Routing,
};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use sim_core::id::CauseId;

pub(crate) static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(super::catalogue::catalogue);

pub(crate) fn cluster(node: &str, count: u32) -> Cluster {
    Cluster::new(node, count)
}

pub(crate) fn machine(node: &str, count: u32) -> Machine {
    Machine::build(&CATALOGUE, &cluster(node, count)).unwrap()
}

/// Settings as a scenario writes them.
pub(crate) fn written<T: DeserializeOwned>(text: &str) -> T {
    serde_yaml::from_str(text).unwrap()
}

fn link(link: &str) -> Degrade {
    written(&format!("{{ link: '{link}', rate: 50 % }}"))
}

fn part(part: &str) -> Degrade {
    written(&format!("{{ part: '{part}', rate: 50 % }}"))
}

fn clock(part: &str, clock: &str) -> Degrade {
    written(&format!("{{ part: '{part}', clock: {clock} }}"))
}

pub(crate) fn errors(spec: &Cluster) -> Vec<String> {
    Machine::build(&CATALOGUE, spec).unwrap_err().iter().map(ToString::to_string).collect()
}

/// The names of the parts on the way, ends included.
fn stops(machine: &Machine, route: &Route) -> Vec<String> {
    let first = route.links.first().map(|&link| machine.link(link).from);
    let rest = route.links.iter().map(|&link| machine.link(link).to);
    first.into_iter().chain(rest).map(|part| machine.part(part).name).collect()
}

pub(crate) fn way(machine: &Machine, from: &str, to: &str) -> Vec<String> {
    let [from, to] = [from, to].map(|name| machine.part_named(name).unwrap());
    stops(machine, &machine.route(from, to).unwrap())
}

pub(crate) fn rate(machine: &Machine, link: &str) -> f64 {
    machine.link(machine.link_named(link).unwrap()).bytes_per_s
}

fn of_kind(machine: &Machine, kind: PartKind) -> usize {
    machine.parts().filter(|&part| machine.part(part).kind == kind).count()
}

#[test]
fn every_node_builds_and_joins_all_its_gpus_with_each_other_and_the_host() {
    for node in CATALOGUE.nodes.keys() {
        let machine = machine(node, 1);
        for a in 0..machine.gpus() {
            let gpu = machine.gpu(a);
            let memory = machine.memory_of(gpu).unwrap();
            assert_eq!(machine.route(gpu, memory).unwrap().kind, RouteKind::Host, "{node}");
            for b in 0..machine.gpus() {
                let route = machine.route(gpu, machine.gpu(b)).unwrap();
                assert_eq!(route.links.is_empty(), a == b, "{node}: {a} to {b}");
            }
        }
    }
}

#[test]
fn dgx_a100_has_an_nvswitch_and_pairs_of_gpus_and_nics_below_four_switches() {
    let machine = machine("dgx-a100-80g", 1);
    assert_eq!(
        (machine.gpus(), of_kind(&machine, PartKind::Switch), of_kind(&machine, PartKind::Nic)),
        (8, 4, 8)
    );
    for gpu in 0..8 {
        let up = machine.link_named(&format!("node[0].gpu[{gpu}] -> node[0].nvswitch")).unwrap();
        for link in [up, up.reverse()] {
            assert_eq!(machine.link(link).nominal_bytes_per_s, 300e9);
            assert_eq!(machine.link(link).bytes_per_s, 240e9);
        }
    }
    for switch in 0..4 {
        let switch = machine.part_named(&format!("node[0].switch[{switch}]")).unwrap();
        let below: Vec<PartKind> =
            machine.links_from(switch).map(|link| machine.part(machine.link(link).to).kind).collect();
        let count = |kind| below.iter().filter(|&&k| k == kind).count();
        assert_eq!((count(PartKind::Gpu), count(PartKind::Nic), count(PartKind::Socket)), (2, 2, 1));
    }
    assert_eq!(
        way(&machine, "node[0].gpu[0]", "node[0].gpu[7]"),
        ["node[0].gpu[0]", "node[0].nvswitch", "node[0].gpu[7]"]
    );
}

#[test]
fn gpus_that_share_a_switch_have_nics_of_their_own() {
    let machine = machine("dgx-a100-80g", 2);
    let nics: BTreeSet<PartId> = (0..16).map(|gpu| machine.nic_of(machine.gpu(gpu)).unwrap()).collect();
    assert_eq!(nics.len(), 16);
    let expected = [
        "node[0].gpu[3]",
        "node[0].switch[1]",
        "node[0].nic[3]",
        "fabric.spine",
        "node[1].nic[6]",
        "node[1].switch[3]",
        "node[1].gpu[6]",
    ];
    assert_eq!(way(&machine, "node[0].gpu[3]", "node[1].gpu[6]"), expected);
    // Four PCIe links and two interfaces: NCCL's hop of 2.7 us.
    let route = machine.route(machine.gpu(3), machine.gpu(14)).unwrap();
    assert_eq!((route.kind, route.latency.0), (RouteKind::Network, 2_700_000));
    assert_eq!(machine.bytes_per_s(&route), 24e9);
}

#[test]
fn the_4029_servers_differ_in_what_the_ways_to_the_host_share() {
    // How many of the eight GPUs cross the busiest link on their way to host memory.
    let busiest = |node: &str| {
        let machine = machine(node, 1);
        let mut crossings: BTreeMap<_, u32> = BTreeMap::new();
        for gpu in 0..8 {
            let gpu = machine.gpu(gpu);
            let route = machine.route(gpu, machine.memory_of(gpu).unwrap()).unwrap();
            let pcie = route.links.iter().filter(|&&link| machine.link(link).kind == LinkKind::Pcie);
            for &link in pcie {
                *crossings.entry(link).or_default() += 1;
            }
        }
        crossings.values().copied().max().unwrap()
    };
    assert_eq!(busiest("supermicro-4029gp-trt"), 2);
    assert_eq!(busiest("supermicro-4029gp-trt2"), 4);
    assert_eq!(busiest("supermicro-4029gp-trt3"), 8);
    assert_eq!(busiest("epyc-pcie-8x"), 1);
    // Sixteen GPUs of a DGX-2 have four uplinks: 3 GB/s each (DeepSpeed issue 1137).
    assert_eq!(busiest("dgx-2"), 4);
}

#[test]
fn in_a_cube_mesh_only_neighbours_use_nvlink() {
    let machine = machine("dgx-1v-16g", 1);
    let kind = |a, b| machine.route(machine.gpu(a), machine.gpu(b)).unwrap().kind;
    for gpu in 0..8 {
        let neighbours = (0..8).filter(|&other| kind(gpu, other) == RouteKind::NvLink).count();
        assert_eq!(neighbours, 4);
        let nvlinks = machine.links_from(machine.gpu(gpu)).map(|link| machine.link(link));
        let rates = nvlinks.filter(|link| link.kind == LinkKind::NvLink).map(|link| link.nominal_bytes_per_s);
        assert_eq!(rates.sum::<f64>(), 150e9, "all six links of gpu[{gpu}] are wired");
    }
    assert_eq!(kind(0, 7), RouteKind::Peer);
    let route = way(&machine, "node[0].gpu[0]", "node[0].gpu[7]");
    assert!(route.contains(&"node[0].socket[1]".to_owned()), "{route:?}");
}

/// All-reduces of 2, 4 and 8 V100 run at 22.6, 87 and 134 GB/s (vTrain): one, four and six links of 22.6.
#[test]
fn a_cube_mesh_has_as_many_rings_as_its_links_allow() {
    let machine = machine("dgx-1v-16g", 1);
    let rings = |gpus: &[u32]| machine.rings(&gpus.iter().map(|&gpu| machine.gpu(gpu)).collect::<Vec<_>>());
    let all: Vec<u32> = (0..8).collect();
    for (gpus, expected) in [(&[0, 1][..], 1), (&[0, 3], 2), (&all[..4], 4), (&all[4..], 4), (&all[..], 6)] {
        let found = rings(gpus);
        assert_eq!(found.rounds.len(), expected, "{gpus:?}");
        assert!((found.bytes_per_s / (22.6e9 * expected as f64) - 1.0).abs() < 1e-9, "{found:?}");
        // No link carries more rings in a direction than it has wires.
        for (&a, &b) in gpus.iter().flat_map(|a| gpus.iter().map(move |b| (a, b))).filter(|(a, b)| a != b) {
            let uses = found.rounds.iter().flat_map(|round| round.iter().zip(round.iter().cycle().skip(1)));
            let used = uses.filter(|&(&from, &to)| (gpus[from], gpus[to]) == (a, b)).count();
            let link = machine.link_between(machine.gpu(a), machine.gpu(b));
            let wires = link.map_or(0, |link| machine.link(link).nvlinks);
            assert!(used <= wires as usize, "{used} rings on {wires} links from {a} to {b}");
        }
    }
    // GPU 4 has two links to GPU 0 and none to the others: two rings lead to it over GPU 0.
    for (gpus, members, relayed) in [(&all[..5], 5, true), (&all[..6], 6, false)] {
        let found = rings(gpus);
        assert_eq!((found.rounds.len(), found.relayed(members)), (2, relayed), "{found:?}");
        assert!((found.bytes_per_s / 45.2e9 - 1.0).abs() < 1e-9, "{found:?}");
    }
    assert!(rings(&[0, 7]).rounds.is_empty(), "no link joins them");
    assert!(rings(&[0, 1, 6, 7]).rounds.is_empty(), "0 and 1 reach none of the others");
    assert!(rings(&[0]).rounds.is_empty());
    let (switched, gpus) = (self::machine("dgx-a100-80g", 1), [0, 1]);
    assert!(switched.rings(&gpus.map(|gpu| switched.gpu(gpu))).rounds.is_empty(), "switches are no pairs");
}

/// A ring for each pair of wires of a member at most, and a search that ends: 64 GPUs, each wired to all others.
#[test]
fn the_search_for_rings_ends() {
    let machine = machine("dgx-1v-16g", 1);
    let many: Vec<_> = (0..8).cycle().take(64).map(|gpu| machine.gpu(gpu)).collect();
    assert!(machine.rings(&many).rounds.len() <= 48);
}

#[test]
fn geforce_cards_pass_through_host_memory_twice() {
    let machine = machine("epyc-pcie-8x", 1);
    let route = machine.route(machine.gpu(0), machine.gpu(1)).unwrap();
    assert_eq!(route.kind, RouteKind::Staged);
    assert_eq!(
        stops(&machine, &route),
        ["node[0].gpu[0]", "node[0].socket[0]", "node[0].memory[0]", "node[0].socket[0]", "node[0].gpu[1]"]
    );
    let demands = machine.resources().demands(&route);
    let twice: Vec<f64> = demands.iter().map(|demand| f64::from(demand.coefficient.0) / 16384.0).collect();
    assert_eq!(twice, [1.0, 2.0, 1.0], "written and read on one memory");
}

#[test]
fn an_oversubscribed_tree_shares_uplinks_and_rails_keep_to_themselves() {
    let with = |fabric: &str, count| {
        let spec = Cluster { fabric: Some(fabric.to_owned()), ..cluster("dgx-a100-80g", count) };
        Machine::build(&CATALOGUE, &spec).unwrap()
    };
    let tree = with("hdr200-fat-tree-2to1", 4);
    assert!(!way(&tree, "node[0].gpu[0]", "node[2].gpu[0]").contains(&"fabric.spine".to_owned()));
    let far = way(&tree, "node[0].gpu[0]", "node[3].gpu[0]");
    assert_eq!(far[3..6], ["fabric.leaf[0]", "fabric.spine", "fabric.leaf[1]"]);
    // Three nodes of eight ports of 24 GB/s, halved; the last leaf has one node.
    assert_eq!(rate(&tree, "fabric.leaf[0] -> fabric.spine"), 288e9);
    assert_eq!(rate(&tree, "fabric.spine -> fabric.leaf[1]"), 96e9);

    let rails = with("hdr200-rail-optimised", 4);
    assert_eq!(way(&rails, "node[0].gpu[5]", "node[3].gpu[5]")[3], "fabric.rail[5]");
    assert_eq!(
        way(&rails, "node[0].gpu[5]", "node[3].gpu[4]")[3..6],
        ["fabric.rail[5]", "fabric.spine", "fabric.rail[4]"]
    );
}

/// Two nodes with eight interfaces each below a leaf. Of eight messages that leave it, each takes
/// any of its 16 uplinks: they are on 16 (1 - (15/16)^8) of them on average, of some variance below
/// 1.
#[test]
fn hashed_messages_meet_on_uplinks_as_their_seed_says() {
    let with = |seed: u64| {
        let routing = Routing::Hashed(Hashed { seed });
        let spec =
            Cluster { fabric: Some("hdr200-fat-tree".to_owned()), routing, ..cluster("dgx-a100-80g", 8) };
        Machine::build(&CATALOGUE, &spec).unwrap()
    };
    let machine = with(1);
    assert_eq!(rate(&machine, "fabric.leaf[0] -> fabric.spine"), 24e9, "an uplink is as fast as a port");
    assert!(!way(&machine, "node[0].gpu[0]", "node[1].gpu[0]").contains(&"fabric.spine".to_owned()));
    let gpu = |node: u32, gpu: u32| machine.gpu(8 * node + gpu);
    let route = |machine: &Machine, gpu_of_both| {
        machine.route(gpu(1, gpu_of_both), gpu(2, gpu_of_both)).unwrap().links
    };
    assert_eq!(route(&machine, 0), route(&with(1), 0), "the same way every time");
    let uplinks = |machine: &Machine| -> BTreeSet<_> { (0..8).map(|gpu| route(machine, gpu)[3]).collect() };
    let used = (0..400).map(|seed| uplinks(&with(seed)).len()).sum::<usize>() as f64 / 400.0;
    let expected = 16.0 * (1.0 - (15.0_f64 / 16.0).powi(8));
    assert!((used - expected).abs() < 3.0 / 20.0, "{used} uplinks, not {expected}");
}

#[test]
fn degrading_one_direction_halves_it_and_nothing_else() {
    let degraded = |line: Degrade| {
        Machine::build(&CATALOGUE, &Cluster { degrade: vec![line], ..cluster("dgx-a100-80g", 2) }).unwrap()
    };
    let whole = machine("dgx-a100-80g", 2);
    let slowed = |machine: &Machine| -> Vec<(String, f64)> {
        machine
            .links()
            .map(|link| {
                (machine.link_name(link), machine.link(link).bytes_per_s / whole.link(link).bytes_per_s)
            })
            .filter(|&(_, factor)| factor != 1.0)
            .collect()
    };
    let port = "node[1].nic[2] -> fabric.spine";
    let half = degraded(link(port));
    assert_eq!(slowed(&half), [(port.to_owned(), 0.5)]);
    let nic = degraded(part("node[1].nic[2]"));
    assert_eq!(slowed(&nic).len(), 4, "to and from the switch and the fabric");
    let memory = degraded(part("node[0].memory[1]"));
    assert_eq!(
        slowed(&memory),
        [
            ("node[0].socket[1] -> node[0].memory[1]".to_owned(), 0.5),
            ("node[0].memory[1] -> node[0].socket[1]".to_owned(), 0.5),
        ]
    );
    let hot = degraded(clock("node[0].gpu[3]", "80 %"));
    assert!(slowed(&hot).is_empty());
    assert_eq!(
        (0..16).map(|gpu| hot.clock(hot.gpu(gpu))).filter(|&clock| clock != 1.0).collect::<Vec<_>>(),
        [0.8]
    );
}

#[test]
fn a_link_between_two_slow_parts_has_the_rate_of_its_slower_end() {
    let slow = |gpu: u32, rate: &str| written(&format!("{{ part: 'node[0].gpu[{gpu}]', rate: {rate} }}"));
    let degrade = vec![slow(0, "50 %"), slow(1, "50 %"), slow(2, "80 %"), slow(2, "50 %")];
    let whole = machine("dgx-1v-32g", 1);
    let slow = Machine::build(&CATALOGUE, &Cluster { degrade, ..cluster("dgx-1v-32g", 1) }).unwrap();
    let left = |from: u32, to: u32| {
        let rate = |machine: &Machine| {
            let link = machine.link_between(machine.gpu(from), machine.gpu(to)).unwrap();
            machine.link(link).bytes_per_s
        };
        rate(&slow) / rate(&whole)
    };
    assert_eq!([left(0, 1), left(1, 2), left(3, 2), left(0, 3), left(6, 7)], [0.5, 0.4, 0.4, 0.5, 1.0]);
}

#[test]
fn all_mistakes_are_reported_with_their_remedies() {
    let spec = Cluster {
        degrade: vec![
            part("node[0].gpu[9]"),
            part("node[7].gpu[0]"),
            part("fabric.spin"),
            part("gpu"),
            link("node[0].gpu[0] -> node[0].gpu[1]"),
            link("node[0].gpu[0]"),
            clock("node[0].nic[0]", "50 %"),
            clock("node[0].gpu[0]", "0 %"),
            written("{ part: 'node[0].gpu[0]' }"),
        ],
        ..cluster("dgx-a100-80g", 2)
    };
    assert_eq!(
        errors(&spec),
        [
            "a slow part has one name and one share that is left: write `{ link: FROM -> TO, rate: 50 % }`, \
             `{ part: NAME, rate: 50 % }` or `{ part: NAME, clock: 80 % }`",
            "the machine has no part `node[0].gpu[9]`: did you mean `node[0].gpu[0]`?",
            "the machine has no part `node[7].gpu[0]`: its nodes are `node[0]` to `node[1]`",
            "the machine has no part `fabric.spin`: the only part of this fabric is `fabric.spine`",
            "the machine has no part `gpu`: write `node[0].gpu[0]`, or `fabric.spine`",
            "`node[0].gpu[0] -> node[0].gpu[1]` is no link of this machine: write `FROM -> TO`; `node[0].gpu[0]` is linked \
         to `node[0].switch[0]`, `node[0].nvswitch`",
            "`node[0].gpu[0]` is no link of this machine: write `FROM -> TO`, for example \
         `node[0].socket[0] -> node[0].memory[0]`",
            "`node[0].nic[0]` has no clock to slow: only GPUs have; slow its links with `rate`",
            "`clock` of `node[0].gpu[0]` is 0: a factor between 0.000001 and 1",
        ]
    );
    assert_eq!(
        errors(&cluster("dgx-a100", 1)),
        ["the catalogue has no node `dgx-a100`: did you mean `dgx-a100-80g`?"]
    );
    let pair = Cluster { gpu: Some("a100-pcie-80g".into()), ..cluster("dgx-a100-80g", 1) };
    assert!(errors(&pair)[0].contains("`a100-pcie-80gb`"), "{:?}", errors(&pair));
    let large = errors(&cluster("dgx-a100-80g", 16_385));
    assert_eq!(large, ["131080 GPUs are more than the 131072 a machine may have: lower `count`"]);
    let lonely = errors(&cluster("epyc-pcie-8x", 2));
    assert!(lonely[0].contains("network interfaces"), "{lonely:?}");
    let nothing = Cluster {
        gpu: Some("a100".into()),
        fabric: Some("hdr100-fat-tree".to_owned()),
        ..cluster("dgx-a100", 2)
    };
    assert_eq!(errors(&nothing).len(), 3, "node, GPU and fabric: {:?}", errors(&nothing));
    let strange = Cluster {
        fabric: Some("hdr100-fat-tree".to_owned()),
        degrade: vec![part("node[0].gpu[9]"), part("fabric.leaf[0]")],
        ..cluster("dgx-a100-80g", 2)
    };
    let both = errors(&strange);
    assert!(
        both[0].contains("node[0].gpu[9]") && both[1].contains("no fabric `hdr100-fat-tree`"),
        "{both:?}"
    );
    assert_eq!(both.len(), 2, "parts of an unknown fabric are unknown themselves: {both:?}");
    let rails = Cluster { routing: Routing::Hashed(Hashed { seed: 1 }), ..cluster("dgx-h100", 2) };
    let refused = errors(&rails);
    assert!(
        refused[0].contains("hashed routes are for fat trees, and `ndr400-rail-optimised` has rails"),
        "{refused:?}"
    );
    let bare = Cluster { gpu: Some("l4".into()), ..cluster("dgx-1v-16g", 1) };
    assert!(
        errors(&bare)[0].starts_with("gpu[0] (`l4`) has 0 NVLinks and is wired with 6"),
        "{:?}",
        errors(&bare)
    );
}

#[test]
fn a_node_of_ones_own_is_checked_like_a_catalogue_file() {
    let mut catalogue = CATALOGUE.clone();
    let mut node = catalogue.nodes["epyc-pcie-8x"].clone();
    node.pcie.tree[0].under = "switch[0]".to_owned();
    node.pcie.tree[1].nics = 2;
    node.socket_link = None;
    node.nvlink.pairs = vec![[0, 0, 1]];
    node.host_memory.gb_per_s = f64::NAN;
    catalogue.gpus["rtx-3090"].sms = 0;
    catalogue.links["pcie4"].latency_us = -1.0;
    let mut huge = node.clone();
    huge.pcie.tree[1].gpus = u32::MAX;
    catalogue.nodes.insert("mine".to_owned(), node);
    catalogue.nodes.insert("huge".to_owned(), huge);
    let errors = |name: &str| -> BTreeSet<String> {
        let built = Machine::build(&catalogue, &cluster(name, 1));
        built.unwrap_err().iter().map(ToString::to_string).collect()
    };
    let expected = [
        "node `mine` has a branch under `switch[0]`: write `socket[0]` to `socket[1]`, or `switch[i]` of an earlier branch",
        "node `mine` has 2 nics and does not say which: set `nic` to a name of the catalogue",
        "node `mine` has several sockets and no `socket_link`: name its link class",
        "node `mine` has the NVLink pair [0, 0, 1]: write two different GPUs below 4 and at least one link",
        "`host_memory_gb_per_s` of mine is NaN: write a positive number up to 1,000,000",
        "`sms` of rtx-3090 is 0: write a positive number up to 1,000,000",
        "`latency_us` of pcie4 is -1: write a number from 0 to 1,000,000",
    ];
    assert_eq!(errors("mine"), expected.map(str::to_owned).into_iter().collect());
    assert!(errors("huge").first().unwrap().contains("more than the 4096"), "{:?}", errors("huge"));
}

#[test]
fn a_machine_of_16_384_gpus_stores_one_node() {
    let machine = machine("dgx-a100-80g", 2048);
    assert_eq!(machine.gpus(), 16_384);
    let small = self::machine("dgx-a100-80g", 1);
    // Every node, and the spine.
    assert_eq!(machine.parts().len(), 2048 * small.parts().len() + 1);
    assert_eq!(machine.links().len(), 2048 * (small.links().len() + 2 * 8));
    let route = machine.route(machine.gpu(0), machine.gpu(16_383)).unwrap();
    assert_eq!(stops(&machine, &route).last().unwrap(), "node[2047].gpu[7]");
}

#[test]
fn the_engine_gets_a_fluid_for_every_memory_and_direction() {
    let machine = machine("dgx-a100-40g", 1);
    let (platform, resources) = machine.platform(|kind| match kind {
        ResourceKind::GpuMemory => CauseId(1),
        ResourceKind::Link(_) => CauseId(2),
    });
    let two_memories_share = 2;
    assert_eq!(platform.fluids.len(), 8 + machine.links().len() - two_memories_share);
    let gpu = resources.gpus[3];
    let hbm = &platform.fluids[gpu.hbm.index()];
    assert_eq!((hbm.name.as_str(), hbm.cause), ("node[0].gpu[3].hbm", CauseId(1)));
    assert!((hbm.capacity.units_per_second() / 1555e9 - 1.0).abs() < 1e-9);
    assert_eq!(platform.pools[gpu.sms.index()].units, 108);
    assert_eq!(platform.stores[gpu.memory.index()].capacity, 39 << 30);
    for id in machine.links() {
        let fluid = &platform.fluids[resources.links[id.index()].index()];
        assert!((fluid.capacity.units_per_second() / machine.capacity(id) - 1.0).abs() < 1e-6);
    }
    assert_eq!(resources.stores.len(), 2, "two memories");
}

#[test]
fn constants_of_a_machine_are_listed_once_with_their_sources() {
    let machine = machine("dgx-a100-80g", 2);
    let names: Vec<(&str, &str)> = machine.constants().map(|c| (c.of.as_str(), c.name)).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    for expected in [
        ("a100-sxm4-80gb", "streaming_fraction"),
        ("nvlink3", "effective_gb_per_s"),
        ("connectx-6-hdr200", "effective_gb_per_s"),
        ("dgx-a100-80g", "host_memory_gb_per_s"),
        ("hdr200-fat-tree", "oversubscription"),
    ] {
        assert!(names.contains(&expected), "{expected:?} is not in {names:?}");
    }
}

#[test]
fn parts_can_be_spelled_out() {
    let spec: Parts = written(
        "
        gpus: { left: rtx-3090, right: a100-pcie-40gb }
        sockets: [cpu0, cpu1]
        memories:
          ram0: { socket: cpu0, memory: 64 GiB, rate: 50 GB/s }
          ram1: { socket: cpu1, memory: 64 GiB, rate: 50 GB/s }
        nics: { nic0: roce-100gbe, nic1: roce-100gbe }
        network_switches: [net]
        ssds: { disk: intel-optane-p4800x-375gb }
        links:
          - { between: [left, cpu0], class: pcie4, lanes: 16 }
          - { between: [right, cpu1], class: pcie4, lanes: 8 }
          - { between: [nic0, cpu0], class: pcie4, lanes: 16 }
          - { between: [nic1, cpu1], class: pcie4, lanes: 16 }
          - { between: [nic0, net] }
          - { between: [net, nic1] }
          - { between: [disk, cpu0], class: pcie3, lanes: 4 }
        ",
    );
    let machine = Machine::from_parts(&CATALOGUE, &spec).unwrap();
    assert_eq!(
        way(&machine, "left", "right"),
        ["left", "cpu0", "ram0", "cpu0", "nic0", "net", "nic1", "cpu1", "right"]
    );
    assert_eq!(way(&machine, "disk", "left"), ["disk", "cpu0", "ram0", "cpu0", "left"]);
    // PCIe 3.0 x4 gives 3 GB/s; the drive reads 2.4 and writes 2.
    assert_eq!((rate(&machine, "disk -> cpu0"), rate(&machine, "cpu0 -> disk")), (2.4e9, 2e9));

    let mut wrong = spec;
    wrong.links.extend(written::<Vec<PartLink>>(
        "
        - { between: [left, cpu0], class: pcie4, lanes: 16 }
        - { between: [left, cpu2], class: pcie4, lanes: 16 }
        - { between: [left, net], lanes: 16 }
        ",
    ));
    wrong.switches.push("net".to_owned());
    let errors: Vec<String> =
        Machine::from_parts(&CATALOGUE, &wrong).unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "two parts are called `net`: names are unique",
            "`left` and `cpu0` are linked twice: write one link with more lanes",
            "the machine has no part `cpu2`: did you mean `cpu0`?",
            "no link joins `left` and `net`: write its `class`; only a nic and a network switch need none",
        ]
    );
}

proptest! {
    #[test]
    fn routes_are_connected_and_as_long_in_both_directions(
        node in 0..CATALOGUE.nodes.len(), count in 1u32..5, from: prop::sample::Index, to: prop::sample::Index,
        rails: bool,
    ) {
        let (name, node) = CATALOGUE.nodes.get_index(node).unwrap();
        let count = if node.nic.is_some() { count } else { 1 };
        let fabric = rails.then(|| "hdr200-rail-optimised".to_owned());
        let machine = Machine::build(&CATALOGUE, &Cluster { fabric, ..cluster(name, count) }).unwrap();
        let ends: Vec<PartId> = machine
            .parts()
            .filter(|&part| !matches!(machine.part(part).kind, PartKind::NvSwitch | PartKind::NetworkSwitch))
            .collect();
        let (from, to) = (*from.get(&ends), *to.get(&ends));
        let route = machine.route(from, to).unwrap();
        let mut at = from;
        for &link in &route.links {
            prop_assert_eq!(machine.link(link).from, at);
            prop_assert_eq!(machine.link(link.reverse()).to, at);
            at = machine.link(link).to;
        }
        prop_assert_eq!(at, to);
        let back = machine.route(to, from).unwrap();
        prop_assert_eq!((back.links.len(), back.latency, back.kind), (route.links.len(), route.latency, route.kind));
    }
}
