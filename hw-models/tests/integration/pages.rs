//! Pages of drives that threads of a GPU or of the host read.

use hw_models::catalogue::Ssd;
use hw_models::machine::{Cluster, Machine};
use hw_models::reads::{PageReaders, PageReads};
use hw_models::settings::Count;
use hw_models::storage::{Array, DriveSet, arrays_of_node};
use proptest::prelude::*;

use crate::catalogue::catalogue;

/// A DGX A100 with eight drives of a model, as changed.
fn machine(model: &str, change: impl Fn(&mut Ssd)) -> Machine {
    let mut catalogue = catalogue();
    change(catalogue.ssds.get_mut(model).expect("a drive of the catalogue"));
    let mut spec = Cluster::new("dgx-a100-80g", 1);
    let ssd = serde_yaml::from_str(&format!("{{ model: {model}, count: 8 }}")).expect("a change");
    spec.set.insert("ssd".to_owned(), ssd);
    Machine::build(&catalogue, &spec).expect("a machine")
}

fn array(machine: &Machine, drives: u64) -> Array {
    let first = DriveSet::First(Count::new(drives).expect("some drives"));
    arrays_of_node(machine, 0, [("array", Some(&first))]).expect("they are there").remove(0)
}

/// Seconds for pages of 4 KiB.
fn seconds(machine: &Machine, drives: u64, pages: u64, by: PageReaders) -> f64 {
    let (reads, gpu) = (PageReads { pages, page: 4_096, by }, machine.gpu(0));
    let rate = reads.bytes_per_s(machine, &array(machine, drives), gpu).expect("all is joined");
    reads.bytes() as f64 / rate
}

const MODEL: &str = "micron-7450-pro-7680gb";

/// A drive that reads 4.096 GB/s after 80 us, with nothing else to limit it: a page takes 1 us.
fn by_hand() -> Machine {
    machine(MODEL, |drive| {
        (drive.read_gb_per_s, drive.read_latency_us, drive.read_kiops) = (Some(4.096), Some(80.0), None);
    })
}

#[test]
fn one_request_in_flight_takes_all_its_latencies() {
    let machine = by_hand();
    let close = |found: f64, expected: f64| {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} s, expected {expected} s");
    };
    // A fault takes the host 5 us beside the drive.
    close(seconds(&machine, 1, 1_000, PageReaders::Host(1)), 1_000.0 * 86e-6);
    close(seconds(&machine, 1, 1, PageReaders::Gpu(108)), 81e-6);
    // Fewer pages than warps: all are in flight, and the drive serves one after the other.
    close(seconds(&machine, 1, 100, PageReaders::Gpu(108)), 180e-6);
    // Warps of a multiprocessor that find the drive busy: each of 32 waits for 31 others.
    close(seconds(&machine, 1, 32_000, PageReaders::Gpu(1)), 1_000.0 * 112e-6);
}

/// A drive answers a page in less time than the host takes for four: more drives leave one reader
/// as it was.
#[test]
fn one_reader_gains_nothing_from_more_drives() {
    let machine = machine(MODEL, |drive| {
        (drive.read_gb_per_s, drive.read_latency_us, drive.read_kiops) = (Some(4.096), Some(1.0), None);
    });
    for drives in 1..=8 {
        let found = seconds(&machine, drives, 1, PageReaders::Host(1));
        assert!((found / 7e-6 - 1.0).abs() < 1e-9, "{drives} drives: {found} s");
    }
}

/// Logs of BaM's artifact (github.com/ZaidQureshi/bam, asplosaoe/nvm_block_bench_{1,2}_sam.log):
/// random reads of 4 KiB by 262,144 threads of an A100. Drives reach 80 % of the operations of
/// their data sheet, on which the prediction rests.
#[test]
fn drives_of_bam_are_a_quarter_slower_than_their_data_sheet() {
    let machine = machine("samsung-980-pro-1tb", |_| {});
    for (drives, measured) in [(1, 0.328_288), (2, 0.172_061)] {
        let ratio = seconds(&machine, drives, 262_144, PageReaders::Gpu(108)) / measured;
        assert!((0.75..1.0).contains(&ratio), "{drives} drives: {ratio}");
    }
}

proptest! {
    /// More drives, multiprocessors, threads or faster drives never take longer; more pages never
    /// take less.
    #[test]
    fn faster_parts_are_never_slower(
        drives in 1_u64..8,
        pages in 1_u64..1_000_000,
        readers in 1_u32..120,
        on_gpu: bool,
        latency in 1.0..500.0_f64,
    ) {
        let drive = |latency| machine(MODEL, |drive| drive.read_latency_us = Some(latency));
        let (slow, fast) = (drive(latency), drive(latency / 2.0));
        let by = |count| if on_gpu { PageReaders::Gpu(count) } else { PageReaders::Host(count) };
        let found = seconds(&slow, drives, pages, by(readers));
        let least = 1.0 + 1e-9;
        prop_assert!(seconds(&slow, drives + 1, pages, by(readers)) <= found * least);
        prop_assert!(seconds(&slow, drives, pages, by(readers + 1)) <= found * least);
        prop_assert!(seconds(&fast, drives, pages, by(readers)) <= found * least);
        prop_assert!(seconds(&slow, drives, pages + 1, by(readers)) * least >= found);
    }
}
