//! Copies and launches: the committed constants follow from the committed measurements.

use hw_models::copies::{COPIES, Copy, CopyCatalogue, Direction, HostMemory};
use hw_models::host::{HOST, HostCosts, OpClass};

use crate::catalogue::catalogue;
use crate::table::rows;

const PAIR: &str = include_str!("../../measurements/copies/two_gpus_nvlink3_pcie4_superbench.csv");

#[test]
fn both_directions_at_once_reach_what_was_measured() {
    let measured = |test: &str| {
        rows(PAIR).iter().find(|row| row["test"] == test).map(|row| row.number("bandwidth_gb_per_s")).unwrap()
    };
    let rates = catalogue().links["pcie4"].copies.unwrap();
    let both = rates.to_device.against + rates.from_device.against;
    assert!((both / measured("cpu_and_gpu0_by_dma_under_numa1") - 1.0).abs() < 0.01, "{both}");
    let alone = rates.to_device.alone;
    assert!((alone / measured("cpu_to_gpu0_by_dma_under_numa1") - 1.0).abs() < 0.01, "{alone}");
}

#[test]
fn pageable_memory_is_slower_and_crosses_host_memory_three_times() {
    let pinned = Copy { direction: Direction::ToDevice, memory: HostMemory::Pinned, synchronised: true };
    let cost = |copy| copies()["pcie5"].cost(copy);
    let pageable = cost(Copy { memory: HostMemory::Pageable, ..pinned });
    assert_eq!((cost(pinned).at_most, pageable.at_most), (None, Some(10e9)));
    assert_eq!((cost(pinned).passes, pageable.passes), (1.0, 3.0));
    assert!(cost(Copy { synchronised: false, ..pinned }).latency < cost(pinned).latency);
}

#[test]
fn a_graph_takes_the_host_off_the_path_of_kernels() {
    let host: HostCosts = serde_yaml::from_str(HOST).unwrap();
    let [view, pass, product] =
        [OpClass::Metadata, OpClass::Pointwise, OpClass::MatrixProduct].map(|class| host.dispatch(class));
    let graph_us = host.graph_launch.us + 80.0 * host.graph_node.us;
    assert!(graph_us * 1e-6 < pass.as_secs() * 80.0 / 20.0);
    assert!(view < pass && pass < product);
}

fn copies() -> CopyCatalogue {
    serde_yaml::from_str(COPIES).unwrap()
}
