//! What the groups of a node get of its links, alone and at once.

use std::collections::{BTreeMap, BTreeSet};

use hw_models::collectives::{Collective, CollectiveKind, InsideLink, plan};
use hw_models::machine::Cluster;
use hw_models::settings::Count;
use sim_core::fixed::Ratio;
use sim_core::id::FluidId;
use workloads::model::transformer::Group;
use workloads::passes::host_buffers::HostBuffers;
use workloads::placement::{Extent, Placement};
use workloads::site::{ChannelSpec, Drives, Job, RowPlaces, Site};
use workloads::transfer::Dispositions;

use super::World;

/// A node whose ranks form tensor groups of so many.
fn groups_of(node: &str, tensor: u32, check: impl Fn(&Job<'_>, &Site)) {
    let world = World::of(Cluster::new(node, 1));
    let machine = world.machine();
    let extent = Extent::new(tensor, 8 / tensor, 1);
    let job = Job {
        machine: &machine,
        extent,
        placement: &Placement::Sequential,
        limit: Some(1 << 34),
        drives: &Drives::NONE,
        buffers: HostBuffers::ENOUGH,
    };
    let spec = ChannelSpec { group: Group::Tensor, inside: 1.0, between: 0.0, hbm: 2.5, sms: 1 };
    check(
        &job,
        &job.site([], (&Dispositions::default(), false), &BTreeMap::new(), (&[spec], &RowPlaces::default()))
            .expect("all GPUs are joined"),
    );
}

/// Bytes per second that a group could send if its links and memories were all that limits it, and what it uses of them.
fn used(site: &Site, group: usize) -> (f64, BTreeSet<FluidId>) {
    let (_, route) = site.channels[0].groups[group];
    let demands = &site.platform.routes[route.index()].demands;
    let rate = |demand: &sim_core::platform::Demand| {
        let coefficient = f64::from(demand.coefficient.0) / f64::from(Ratio::ONE.0);
        site.platform.fluids[demand.fluid.index()].capacity.units_per_second() / coefficient
    };
    (
        demands.iter().map(rate).fold(f64::INFINITY, f64::min),
        demands.iter().map(|demand| demand.fluid).collect(),
    )
}

/// One link carries 25 GB/s; four of eight V100 have four rings, all of them six.
#[test]
fn rings_over_pairs_are_not_held_up_by_a_pair_with_a_single_link() {
    for (tensor, rings) in [(4, 4.0), (8, 6.0)] {
        groups_of("dgx-1v-32g", tensor, |job, site| {
            let shape = job.shape(Group::Tensor, |_| true).expect("all GPUs are joined");
            assert_eq!(shape.inside.link, InsideLink::CubeMesh);
            let (rate, _) = used(site, 0);
            assert!(rate >= rings * 24.9e9, "{tensor}: {rate}");
            assert!(shape.inside.bytes_per_s <= rate, "{tensor}: {shape:?}, links {rate}");
            // What the measured tables say is within what the links carry.
            let model = World::dgx_a100(1).collectives.model("volta").expect("a known generation");
            let call = Collective { kind: CollectiveKind::AllReduce, bytes: 1 << 30 };
            let planned = plan(&model, &shape, &call);
            assert!(planned.measured.is_some() && planned.bytes_per_s * planned.inside < rate, "{planned:?}");
        });
    }
    // GPUs 0 and 1 have one link, 2 and 3 have two.
    groups_of("dgx-1v-32g", 2, |_, site| {
        let rates = [0, 1].map(|group| (used(site, group).0 / 25e9).round());
        assert_eq!(rates, [1.0, 2.0]);
    });
}

/// Two rings lead over the two links to the fifth of five V100.
#[test]
fn a_group_without_a_closed_round_keeps_to_nvlinks() {
    groups_of("dgx-1v-32g", 5, |job, site| {
        let shape = job.shape(Group::Tensor, |_| true).expect("all GPUs are joined");
        assert_eq!(shape.inside.link, InsideLink::Relayed);
        assert!((shape.inside.bytes_per_s / 45.2e9 - 1.0).abs() < 1e-9, "{shape:?}");
        let (rate, links) = used(site, 0);
        assert!((rate / 50e9 - 1.0).abs() < 1e-3, "two links of 25 GB/s: {rate}");
        let names = links.iter().map(|fluid| site.platform.fluids[fluid.index()].name.as_str());
        let others = names.filter(|name| ["switch", "socket"].iter().any(|part| name.contains(part)));
        assert_eq!(others.collect::<Vec<_>>(), Vec::<&str>::new(), "all are NVLinks");
    });
}

/// Two groups of four or four of two at once take as long as one: OpenXLA's tables on 8 x H100 are of groups at once.
#[test]
fn groups_of_a_node_share_no_link() {
    for (node, tensor) in [("dgx-h100", 4), ("dgx-h100", 2), ("dgx-1v-32g", 4), ("dgx-1v-32g", 2)] {
        groups_of(node, tensor, |_, site| {
            let groups = site.channels[0].groups.len();
            let all: Vec<BTreeSet<FluidId>> = (0..groups).map(|group| used(site, group).1).collect();
            for (at, a) in all.iter().enumerate() {
                assert!(all[..at].iter().all(|b| a.is_disjoint(b)), "{node}, groups of {tensor}");
            }
        });
    }
}

/// The GPUs of every group of a kind, where ranks of two nodes are placed so.
fn gpus(extent: Extent, placement: &Placement, group: Group) -> Vec<Vec<u32>> {
    let machine = World::dgx_a100(2).machine();
    let (drives, buffers) = (&Drives::NONE, HostBuffers::ENOUGH);
    let job = Job { machine: &machine, extent, placement, limit: Some(1 << 34), drives, buffers };
    let members =
        |group: Vec<(u32, u32)>| group.into_iter().map(|(stage, rank)| job.gpu(stage, rank)).collect();
    job.groups(group).into_iter().map(members).collect()
}

/// Megatron-LM's two orders of 16 ranks: tensor 2, 4 copies, 2 stages.
#[test]
fn copies_or_stages_are_next_to_each_other() {
    let extent = Extent::new(2, 4, 2);
    let [sequential, copies] = [Placement::Sequential, Placement::CopyAfterCopy]
        .map(|placement| gpus(extent, &placement, Group::Data));
    assert_eq!(sequential, [[0, 2, 4, 6], [1, 3, 5, 7], [8, 10, 12, 14], [9, 11, 13, 15]]);
    assert_eq!(copies, [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]]);
    assert_eq!(gpus(extent, &Placement::CopyAfterCopy, Group::Tensor)[..2], [[0, 1], [4, 5]]);
    assert_eq!(extent.gpu(&Placement::CopyAfterCopy, 1, 0), 2);
}

/// Ranks 0 and 1 on one node, 2 and 3 on two: the pair that is apart takes longest, and stands for both.
#[test]
fn the_group_that_is_spread_most_stands_for_all() {
    let machine = World::dgx_a100(2).machine();
    let placement = Placement::Listed([0, 1, 2, 8].map(Count::literal).to_vec());
    let job = Job {
        machine: &machine,
        extent: Extent::new(2, 2, 1),
        placement: &placement,
        limit: Some(1 << 34),
        drives: &Drives::NONE,
        buffers: HostBuffers::ENOUGH,
    };
    let shape = job.shape(Group::Tensor, |_| true).expect("all GPUs are joined");
    assert_eq!((shape.ranks, shape.ranks_per_node, shape.between.is_some()), (2, 1, true));
}
