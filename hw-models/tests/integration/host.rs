//! Copies and launches: the committed constants follow from the committed measurements.

#![expect(clippy::print_stdout, reason = "errors on what was held out, for who asks with --nocapture")]

use hw_models::copies::{COPIES, Copy, CopyCatalogue, Direction, DirectionParameters, HostMemory, fit_line};
use hw_models::host::{HOST, HostCosts, OpClass};
use sim_core::time::Time;

use crate::table::rows;

const V100: &str = include_str!("../../measurements/copies/memcpy_v100_pcie3_superbench.csv");
const PAIR: &str = include_str!("../../measurements/copies/two_gpus_nvlink3_pcie4_superbench.csv");

#[test]
fn the_two_constants_of_a_copy_follow_from_its_table() {
    let pcie3 = &catalogue()["pcie3"];
    for (name, committed) in [("h2d", pcie3.to_device), ("d2h", pcie3.from_device)] {
        let samples: Vec<(f64, f64)> = rows(V100)
            .iter()
            .filter(|row| row["direction"] == name)
            .map(|row| (row.number("bytes"), row.number("bytes") / (row.number("bandwidth_gb_per_s") * 1e9)))
            .collect();
        let every_second = |first| samples.iter().skip(first).step_by(2).copied().collect::<Vec<_>>();
        let (alpha, rate) = fit_line(&every_second(0));
        let judged = every_second(1);
        let errors = judged.iter().map(|(bytes, seconds)| ((alpha + bytes / rate) / seconds - 1.0).abs());
        let mean = errors.sum::<f64>() / judged.len() as f64;
        println!(
            "{name}: alpha {:.3} us, {:.2} GB/s, held out {:.1} %",
            alpha * 1e6,
            rate * 1e-9,
            mean * 100.0
        );
        assert!(mean < 0.08, "{name}: {mean}");
        let DirectionParameters { issue_us, fraction, .. } = committed;
        assert!((issue_us / (alpha * 1e6) - 1.0).abs() < 0.01, "{name}: {issue_us} against {alpha}");
        assert!((fraction * 15.75e9 / rate - 1.0).abs() < 0.01, "{name}: {fraction} against {rate}");
    }
}

#[test]
fn both_directions_at_once_reach_what_was_measured() {
    let measured = |test: &str| {
        rows(PAIR).iter().find(|row| row["test"] == test).map(|row| row.number("bandwidth_gb_per_s")).unwrap()
    };
    let pcie4 = &catalogue()["pcie4"];
    let both = pcie4.both_ways * (pcie4.to_device.fraction + pcie4.from_device.fraction) * 31.5;
    assert!((both / measured("cpu_and_gpu0_by_dma_under_numa1") - 1.0).abs() < 0.01, "{both}");
    assert!(
        (pcie4.to_device.fraction * 31.5 / measured("cpu_to_gpu0_by_dma_under_numa1") - 1.0).abs() < 0.01
    );
}

#[test]
fn pageable_memory_is_slower_and_crosses_host_memory_three_times() {
    let pinned = Copy { direction: Direction::ToDevice, memory: HostMemory::Pinned, synchronised: true };
    let cost = |copy| catalogue()["pcie5"].cost(copy, 63e9);
    let pageable = cost(Copy { memory: HostMemory::Pageable, ..pinned });
    assert!(pageable.bytes_per_s < cost(pinned).bytes_per_s / 4.0);
    assert_eq!((pageable.host_memory, cost(pinned).host_memory), (3.0, 1.0));
    assert!(cost(Copy { synchronised: false, ..pinned }).latency < cost(pinned).latency);
}

#[test]
fn a_graph_takes_the_host_off_the_path_of_kernels() {
    let host: HostCosts = serde_yaml::from_str(HOST).unwrap();
    let eager = host.issue(OpClass::Pointwise, 1);
    assert!(host.launch_graph(80) < Time(eager.0 * 80 / 20));
    assert!(host.issue(OpClass::Metadata, 0) < eager && eager < host.issue(OpClass::MatrixProduct, 1));
}

fn catalogue() -> CopyCatalogue {
    serde_yaml::from_str(COPIES).unwrap()
}
