//! Copies and launches: the committed constants follow from the committed measurements.

#![expect(clippy::print_stdout, reason = "errors on what was held out, for who asks with --nocapture")]

use hw_models::calibration::split;
use hw_models::copies::{COPIES, Copy, CopyCatalogue, Direction, HostMemory, fit_line};
use hw_models::host::{HOST, HostCosts, OpClass};
use sim_core::time::Time;

use crate::catalogue::catalogue;
use crate::table::rows;

const V100: &str = include_str!("../../measurements/copies/memcpy_v100_pcie3_superbench.csv");
const PAIR: &str = include_str!("../../measurements/copies/two_gpus_nvlink3_pcie4_superbench.csv");

/// Three quarters of a table are fitted, the rows of the test quarter judge (`foretrain validate copies`).
#[test]
fn starts_and_rates_of_copies_follow_from_a_table() {
    let (starts, rates) = (&copies()["pcie3"], catalogue().links["pcie3"].copies.unwrap());
    for (name, starts, rate) in
        [("h2d", starts.to_device, rates.to_device), ("d2h", starts.from_device, rates.from_device)]
    {
        let fitted = |row: &&crate::table::Row| {
            row["direction"] == name && !split::judges(split::hash(&[&row["direction"], &row["bytes"]]))
        };
        let sample = |row: &crate::table::Row| {
            let bytes = row.number("bytes");
            (bytes, bytes / (row.number("bandwidth_gb_per_s") * 1e9))
        };
        let samples: Vec<(f64, f64)> = rows(V100).iter().filter(fitted).map(sample).collect();
        let (alpha, fitted) = fit_line(&samples);
        println!("{name}: {} rows, alpha {:.3} us, {:.2} GB/s", samples.len(), alpha * 1e6, fitted * 1e-9);
        assert!((starts.issue_us / (alpha * 1e6) - 1.0).abs() < 0.01, "{name}: {starts:?} against {alpha}");
        assert!((rate.alone * 1e9 / fitted - 1.0).abs() < 0.01, "{name}: {rate:?} against {fitted}");
    }
}

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
    let eager = host.issue(OpClass::Pointwise, 1);
    assert!(host.launch_graph(80) < Time(eager.0 * 80 / 20));
    assert!(host.issue(OpClass::Metadata, 0) < eager && eager < host.issue(OpClass::MatrixProduct, 1));
}

fn copies() -> CopyCatalogue {
    serde_yaml::from_str(COPIES).unwrap()
}
