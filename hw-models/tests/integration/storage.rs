//! Drives, arrays and paths: what they give alone and together, in digits.

use hw_models::catalogue::{Catalogue, Ssd};
use hw_models::copies::{COPIES, CopyCatalogue};
use hw_models::machine::{Cluster, Machine, Parts};
use hw_models::settings::Count;
use hw_models::storage::{
    Array, DriveSet, Endurance, OffloadedStates, PATHS, PathCatalogue, PathParameters, Requests,
    SECONDS_PER_YEAR, Transfer, Way, arrays_of_node, seconds_at_once,
};
use serde::Deserialize;

use crate::catalogue::catalogue;

/// A DGX A100 whose eight drives read 6 and write 3 GB/s, with no limit of latency or operations.
fn machine(change: impl Fn(&mut Ssd)) -> Machine {
    let mut catalogue: Catalogue = catalogue();
    let drive = catalogue.ssds.get_mut("samsung-pm9a3-u2-3840gb").unwrap();
    (drive.read_gb_per_s, drive.write_gb_per_s) = (Some(6.0), Some(3.0));
    (drive.read_kiops, drive.write_kiops, drive.read_latency_us) = (None, None, None);
    change(drive);
    let spec = Cluster::new("dgx-a100-80g", 1);
    Machine::build(&catalogue, &spec).unwrap()
}

fn yaml<T: for<'de> Deserialize<'de>>(text: &str) -> T {
    serde_yaml::from_str(text).unwrap()
}

fn path(name: &str) -> PathParameters {
    yaml::<PathCatalogue>(PATHS).swap_remove(name).unwrap()
}

fn array(machine: &Machine, drives: impl IntoIterator<Item = u32>) -> Array {
    let names = DriveSet::Named(drives.into_iter().map(|drive| format!("ssd[{drive}]")).collect());
    arrays_of_node(machine, 0, [("scratch", Some(&names))]).unwrap().remove(0)
}

/// Bytes per second (GB/s) of transfers that begin together, each of so many bytes.
fn rates(
    machine: &Machine,
    transfers: &[(&Array, Way, &str)],
    path: &PathParameters,
    bytes: u64,
) -> Vec<f64> {
    let copies: CopyCatalogue = yaml(COPIES);
    let end = |name: &str| machine.part_named(&format!("node[0].{name}")).unwrap();
    let all = transfers.iter();
    let transfers: Vec<_> =
        all.map(|&(array, way, name)| Transfer { array, way, end: end(name), bytes, path }).collect();
    let seconds = seconds_at_once(machine, &copies, &transfers).unwrap();
    seconds.into_iter().map(|seconds| bytes as f64 / seconds / 1e9).collect()
}

fn close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a / b - 1.0).abs() < tolerance, "{found:?}, expected {expected:?}");
    }
}

const GB: u64 = 1_000_000_000;

/// A transfer goes over all members at once, the slowest counts, and a small one touches fewer: 1 MiB over chunks of 512 KiB is two
/// members' work.
#[test]
fn an_array_is_as_fast_as_its_members_together_until_a_link_is_full() {
    let machine = machine(|_| ());
    let to_gpu = path("gpu-direct");
    for (drives, read, write) in [(1, 6.0, 3.0), (2, 12.0, 6.0), (4, 24.0, 12.0)] {
        let array = array(&machine, 0..drives);
        close(&rates(&machine, &[(&array, Way::Read, "gpu[0]")], &to_gpu, 10 * GB), &[read], 1e-3);
        close(&rates(&machine, &[(&array, Way::Write, "gpu[0]")], &to_gpu, 10 * GB), &[write], 1e-3);
    }
    // Eight could read 48 GB/s: the GPU's link takes 26.24.
    let all = array(&machine, 0..8);
    let found = rates(&machine, &[(&all, Way::Read, "gpu[0]")], &to_gpu, 10 * GB)[0];
    assert!(found > 24.0 && found < 26.3, "{found}");
    assert_eq!(all.touched(1 << 20).len(), 2);
    assert_eq!(all.touched(1 << 30).len(), 8);
    assert_eq!(all.capacity(&machine), Some(8 * 3_840 * GB));
    close(&rates(&machine, &[(&all, Way::Write, "gpu[0]")], &to_gpu, 1 << 20), &[6.0], 1e-3);
}

/// A vendor's figure was measured over the drive's own link, of which GPUs reach less; an older slot gives what others reach of it.
#[test]
fn a_drive_reaches_its_own_rate_over_its_own_link() {
    let found = |class: Option<&str>| {
        let set = class.map_or(String::new(), |class| format!(", class: {class}"));
        let set = yaml(&format!("{{ model: solidigm-d7-p5520-7680gb{set} }}"));
        let spec = Cluster { set: [("ssd".to_owned(), set)].into(), ..Cluster::new("dgx-a100-80g", 1) };
        let machine = Machine::build(&catalogue(), &spec).unwrap();
        let array = array(&machine, 0..1);
        rates(&machine, &[(&array, Way::Read, "memory[0]")], &path("direct"), 10 * GB)
    };
    close(&found(None), &[7.1], 1e-3);
    close(&found(Some("pcie3")), &[3.0], 1e-3);
}

/// Of two transfers one way each gets half; against the other way each keeps its share; writes of two streams do not take more of a
/// drive's time than those of one.
#[test]
fn reads_and_writes_of_a_drive_share_its_time() {
    let to_memory = path("direct");
    let mixed = |share| machine(move |drive| drive.mixed_share = share);
    let [read, write] = [Way::Read, Way::Write];
    let at_once = |machine: &Machine, ways: &[Way]| {
        let array = array(machine, 0..1);
        let transfers: Vec<_> = ways.iter().map(|&way| (&array, way, "memory[0]")).collect();
        // Those that go on longest tell of all: each moves what it does while all are under way.
        rates(machine, &transfers, &to_memory, GB)
    };
    close(&at_once(&mixed(None), &[read, read]), &[3.0, 3.0], 1e-3);
    // A half each: the reads end after 1/3 s at 3 GB/s, the writes have moved half and go on at 3 GB/s.
    close(&at_once(&mixed(None), &[read, write]), &[3.0, 2.0], 1e-3);
    // Nothing is lost: 6 and 3.
    close(&at_once(&mixed(Some(1.0)), &[read, write]), &[6.0, 3.0], 1e-3);
    // Two writers have a quarter of the time each while there are reads: 0.75 GB/s for 1/3 s, then 1.5.
    close(&at_once(&mixed(None), &[read, write, write]), &[3.0, 1.0 / (1.0 / 3.0 + 0.75 / 1.5), 1.2], 1e-3);
}

/// A Samsung 980 PRO of 1 TB writes 4.0 GB/s until 113 GB have been written, then 1.5: 200 GB take 113 / 4.0 + 87 / 1.5 s.
#[test]
fn writes_are_fast_until_the_cache_is_full() {
    let machine = machine(|drive| {
        (drive.write_gb_per_s, drive.burst_write_gb_per_s) = (Some(1.5), Some(4.0));
        drive.write_cache_gb = Some(113.0);
    });
    let array = array(&machine, 0..1);
    let seconds = |gb: u64| {
        let rate = rates(&machine, &[(&array, Way::Write, "memory[0]")], &path("direct"), gb * GB)[0];
        gb as f64 / rate
    };
    close(&[seconds(100), seconds(113), seconds(200)], &[25.0, 28.25, 28.25 + 58.0], 1e-3);
}

#[test]
fn a_hot_drive_throttles_both_ways_and_cools_when_idle() {
    let (path, gb) = (path("direct"), GB);
    let hot_after = |after: f64| {
        machine(|drive| (drive.throttle_after_gb, drive.throttled_share) = (Some(after), Some(0.4)))
    };
    let one = |machine: &Machine, way, bytes: u64| {
        rates(machine, &[(&array(machine, [0]), way, "memory[0]")], &path, bytes)[0]
    };
    // 60 GB at 6 GB/s, then 60 GB at 2.4 GB/s; writes of as long a time, at half the rate.
    let drive = hot_after(60.0);
    close(&[one(&drive, Way::Read, 60 * gb), one(&drive, Way::Read, 120 * gb)], &[6.0, 120.0 / 35.0], 1e-3);
    close(&[one(&drive, Way::Write, 30 * gb), one(&drive, Way::Write, 60 * gb)], &[3.0, 60.0 / 35.0], 1e-3);
    // Reads and writes share the heat as they share the time.
    let both =
        [(&array(&drive, [0]), Way::Read, "memory[0]"), (&array(&drive, [0]), Way::Write, "memory[0]")];
    let shared = rates(&drive, &both, &path, 120 * gb);
    assert!(shared[0] < 120.0 / 35.0 && shared[1] < 1.2, "{shared:?}");
    // Hot from the start, and never hot.
    close(&[one(&hot_after(0.0), Way::Read, gb)], &[2.4], 1e-3);
    let cool = machine(|drive| (drive.throttle_after_gb, drive.throttled_share) = (Some(1.0), Some(1.0)));
    close(&[one(&cool, Way::Read, 60 * gb)], &[6.0], 1e-3);
}

#[test]
fn a_degraded_drive_is_slow_in_its_cache_too() {
    let mut catalogue: Catalogue = catalogue();
    let drive = catalogue.ssds.get_mut("samsung-pm9a3-u2-3840gb").unwrap();
    (drive.write_gb_per_s, drive.burst_write_gb_per_s) = (Some(1.0), Some(4.0));
    (drive.write_cache_gb, drive.write_kiops) = (Some(40.0), None);
    let (path, gb) = (path("direct"), GB);
    let write = |spec: &Cluster, bytes| {
        let machine = Machine::build(&catalogue, spec).unwrap();
        rates(&machine, &[(&array(&machine, [0]), Way::Write, "memory[0]")], &path, bytes)[0]
    };
    let whole = Cluster::new("dgx-a100-80g", 1);
    let line = yaml("{ part: 'node[0].ssd[0]', rate: 50 % }");
    let half = Cluster { degrade: vec![line], ..whole.clone() };
    for bytes in [20 * gb, 40 * gb, 80 * gb] {
        close(&[write(&half, bytes)], &[write(&whole, bytes) / 2.0], 1e-3);
    }
}

/// Little's law: one request of 64 KiB that takes 100 us and 64 KiB at 2 GB/s; many reach the rate of the drive, or its operations.
#[test]
fn outstanding_requests_limit_what_a_drive_gives() {
    let drive = |change: &dyn Fn(&mut Ssd)| {
        let mut drive = catalogue().ssds["samsung-pm9a3-u2-3840gb"].clone();
        (drive.read_latency_us, drive.one_read_gb_per_s, drive.read_kiops) = (Some(100.0), Some(2.0), None);
        change(&mut drive);
        drive
    };
    let rate = |drive: &Ssd, depth, members, chunk| {
        Requests { block: 65_536, depth, issue_s: 0.0 }.bytes_per_s(
            drive,
            Way::Read,
            6.5536e9,
            [members, chunk],
        ) / 1e9
    };
    let flash = drive(&|_| ());
    let alone = 100e-6 + 65_536.0 / 2e9;
    close(&[rate(&flash, 1, 1, 1 << 19)], &[65_536e-9 / alone], 1e-9);
    // 10 us each behind it.
    close(&[rate(&flash, 16, 1, 1 << 19)], &[16.0 * 65_536e-9 / (alone + 150e-6)], 1e-9);
    close(&[rate(&flash, 4096, 1, 1 << 19)], &[6.5536], 1e-2);
    // Sixteen over sixteen members are one each; a chunk of a quarter makes four requests of one.
    close(&[rate(&flash, 16, 16, 1 << 19)], &[65_536e-9 / alone], 1e-9);
    close(&[rate(&flash, 1, 4, 1 << 14)], &[16_384e-9 / (100e-6 + 16_384.0 / 2e9)], 1e-9);
    // 20,000 operations a second.
    close(
        &[rate(&drive(&|drive| drive.read_kiops = Some(20.0)), 4096, 1, 1 << 19)],
        &[20e3 * 65_536e-9],
        1e-2,
    );
}

/// A tensor that goes through a buffer of its size takes both hops in turn; through small ones the slower of them.
#[test]
fn a_bounce_buffer_adds_its_hop_unless_it_is_emptied_meanwhile() {
    let machine = machine(|_| ());
    let array = array(&machine, 0..2);
    let found = |name: &str| rates(&machine, &[(&array, Way::Read, "gpu[0]")], &path(name), 10 * GB)[0];
    close(&[found("direct")], &[1.0 / (1.0 / 12.0 + 1.0 / 26.24)], 2e-3);
    close(&[found("bounce")], &[12.0], 1e-2);
    close(&[found("gpu-direct")], &[12.0], 1e-3);
    // What is copied out of the page cache by one thread, and then to the GPU from pageable memory at 6 GB/s.
    close(&[found("buffered")], &[1.0 / (1.0 / 0.75 + 1.0 / 6.0)], 2e-3);
}

/// SSDTrain's projection: 4 x 600 TB x 2.5 x 86 = 516 PB, and 12.1 GB/s over half of each step are 2.70 years.
#[test]
fn the_published_lifetime_comes_out_to_its_digits() {
    let drive = &catalogue().ssds["samsung-980-pro-1tb"];
    let rated_bytes = 4.0 * Endurance::rated(drive).unwrap().rated_bytes;
    let endurance = Endurance { rated_bytes, rated_amplification: 2.5, amplification: 1.0, retention: 86.0 };
    assert_eq!(format!("{:.0}", endurance.bytes() / 1e15), "516");
    let step_s = 3.0;
    let years = endurance.years(12.1e9 * step_s / 2.0, step_s);
    assert_eq!(format!("{years:.2}"), "2.70");
    // Without a total: 0.33 drive writes a day over five years, 602 TB.
    let per_day = Endurance::rated(&Ssd { endurance_tb: None, ..drive.clone() }).unwrap();
    close(&[per_day.rated_bytes], &[0.33 * 1e12 * 365.0 * 5.0], 1e-12);
    // Twice the amplification is half the life; a drive without a rating has none.
    let worn = Endurance { amplification: 2.0, ..endurance };
    close(&[worn.years(1e9, 1.0)], &[endurance.bytes() / 2.0 / 1e9 / SECONDS_PER_YEAR], 1e-12);
    assert_eq!(Endurance::rated(&catalogue().ssds["solidigm-d7-ps1010"]), None);
}

/// Reads of 24 and writes of 12 GB/s, one after the other with the update between them; at once the writes are the longest. Gradients
/// are written while others are copied, and while the GPU computes.
#[test]
fn states_on_drives_take_their_turns_or_overlap() {
    let machine = machine(|drive| drive.mixed_share = Some(1.0));
    let array = array(&machine, 0..4);
    let states = OffloadedStates {
        array: &array,
        memory: machine.part_named("node[0].memory[0]").unwrap(),
        parameters: 4_000_000_000,
        group: 40_000_000,
        buffers: 1,
        requests: path("direct").requests(),
        update_bytes_per_s: None,
        gradient_bytes_per_s: None,
    };
    let update = |states: OffloadedStates<'_>| states.update_s(&machine).unwrap();
    let of_memory = 30.0 / (204.8e9 * 0.8);
    close(&[update(states)], &[4e9 * (16.0 / 24e9 + 12.0 / 12e9 + of_memory)], 1e-3);
    let slow = OffloadedStates { update_bytes_per_s: Some(15e9), ..states };
    close(&[update(slow)], &[4e9 * (16.0 / 24e9 + 12.0 / 12e9 + 30.0 / 15e9)], 1e-3);
    close(&[update(OffloadedStates { buffers: 3, ..states })], &[4e9 * 12.0 / 12e9], 2e-2);
    close(&[update(OffloadedStates { buffers: 3, ..slow })], &[4e9 * 30.0 / 15e9], 2e-2);

    let backward = |states: OffloadedStates<'_>, compute| states.backward_s(&machine, compute).unwrap();
    close(&[backward(states, 0.0), backward(states, 2.5)], &[16.0 / 12.0, 2.5], 2e-2);
    let slow = OffloadedStates { gradient_bytes_per_s: Some(4e9), ..states };
    close(&[backward(slow, 2.5)], &[4.0], 2e-2);
}

#[test]
fn an_array_says_what_is_wrong_with_it() {
    let machine = machine(|_| ());
    let named = |names: &[&str]| DriveSet::Named(names.iter().map(|&name| name.to_owned()).collect());
    let errors = |members: &[DriveSet]| {
        let arrays = ["scratch", "states"].into_iter().zip(members.iter().map(Some));
        let errors = arrays_of_node(&machine, 0, arrays).unwrap_err();
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let error = |names: &[&str]| errors(&[named(names)]);
    assert!(error(&[]).contains("has no drives: name some"), "{}", error(&[]));
    let unknown = error(&["ssd[11]"]);
    assert!(unknown.contains("`scratch`") && unknown.contains("did you mean `ssd[1]`"), "{unknown}");
    assert!(error(&["drive7"]).contains("the drives here are `ssd[0]`"), "{}", error(&["drive7"]));
    assert!(error(&["gpu[1]"]).contains("`gpu[1]`, which is a gpu"), "{}", error(&["gpu[1]"]));
    assert!(error(&["ssd[1]", "ssd[1]"]).contains("each of its drives once"));
    assert!(
        errors(&[DriveSet::First(Count::literal(9))]).contains("asks for 9 drives of a node, which has 8")
    );
    // Both arrays are told, each of what is wrong with it.
    let both = errors(&[named(&["gpu[1]"]), named(&["nic[0]"])]);
    assert!(both.contains("`scratch`") && both.contains("`states`"), "{both}");
    let shared = errors(&[DriveSet::First(Count::literal(4)), named(&["ssd[3]", "ssd[4]"])]);
    assert!(shared.contains("`ssd[3]`, which `scratch` has, too"), "{shared}");
}

/// Each member has the same: of unlike drives as much as the smallest.
#[test]
fn an_array_holds_as_much_of_each_member_as_the_smallest_has() {
    let spec: Parts = yaml(
        "
        gpus: { gpu: a40 }
        sockets: [cpu]
        ssds: { large: samsung-pm9a3-u2-3840gb, small: samsung-980-pro-1tb }
        links:
          - { between: [gpu, cpu], class: pcie4, lanes: 16 }
          - { between: [large, cpu], class: pcie4, lanes: 4 }
          - { between: [small, cpu], class: pcie4, lanes: 4 }
        ",
    );
    let machine = Machine::from_parts(&catalogue(), &spec).unwrap();
    let arrays = arrays_of_node(&machine, 0, [("both", None)]).unwrap();
    assert_eq!((&*arrays[0].name, arrays[0].capacity(&machine)), ("both", Some(2_000_000_000_000)));
}
