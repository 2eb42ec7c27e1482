//! The caching allocator: each rule with exact digits.

use hw_models::allocator::{
    DriverCalls, Fault, FrameworkMemory, MEMORY, Mistake, Request, Segments, Settings, StreamNumber, Usage,
    replay, sizes,
};
use hw_models::host::{HOST, HostCosts};
use hw_models::settings::{Bytes, Count};
use sim_core::time::Time;

const MIB: u64 = 1 << 20;
const EXPANDABLE: Settings =
    Settings { max_split_size: None, roundup_power2_divisions: None, expandable_segments: true };

#[test]
fn the_snapshot_of_a_linear_layer_is_as_published() {
    // discuss.pytorch.org/t/178671: `X @ W + b` in fp32 with W of 1000 x 10 and a cuBLAS workspace. The product, the
    // second tensor of 10 numbers, is freed once the sum is there.
    let list = [
        tensor(40_000),
        tensor(40),
        tensor(4_000),
        tensor(8_519_680),
        tensor(40),
        tensor(40),
        Request::Free(4),
    ];
    let usage = used(&list);
    let blocks = 40_448 + 512 + 4_096 + 512;
    assert_eq!(usage.peak_allocated.allocated, blocks + 512 + 8_519_680);
    assert_eq!(usage.peak_reserved.reserved, 2_097_152 + 20_971_520);
    // 45,568 of the small segment are in use at the end; 2,051,072 behind them fit exactly another two tensors.
    assert_eq!(blocks, 45_568);
    let mut list = list.to_vec();
    list.extend([tensor(1_048_576), tensor(2_051_072 - 1_048_576)]);
    assert_eq!(used(&list).peak_reserved.reserved, 23_068_672);
    list.push(tensor(513));
    assert_eq!(used(&list).peak_reserved.reserved, 23_068_672 + 2_097_152);
}

#[test]
fn sizes_of_blocks_and_segments() {
    let block = |bytes| sizes::block(bytes, &Settings::default());
    assert_eq!([1, 512, 513, 40_000].map(block), [512, 512, 1_024, 40_448]);
    let segments = [512, MIB, MIB + 512, 10 * MIB - 512, 10 * MIB, 10 * MIB + 512, 12 * MIB];
    let expected = [2, 2, 20, 20, 10, 12, 12].map(|mib| mib * MIB);
    assert_eq!(segments.map(sizes::segment), expected);
}

#[test]
fn sizes_are_rounded_up_to_steps_between_powers_of_two() {
    let settings = Settings { roundup_power2_divisions: Some(Count::literal(4)), ..Settings::default() };
    let block = |bytes| sizes::block(bytes, &settings);
    // Below 512 x 4 as ever; then steps of a quarter: 2,048, 2,560, 3,072, 3,584.
    assert_eq!([1_200, 2_048, 2_049, 2_561, 3_585].map(block), [1_536, 2_048, 2_560, 3_072, 4_096]);
    assert_eq!([33, 41, 64, 65].map(|mib| block(mib * MIB)), [40, 48, 64, 80].map(|mib| mib * MIB));
    // A multiple of 512 that is no step.
    assert_eq!(block(100 * MIB), 112 * MIB);
}

#[test]
fn nothing_is_taken_for_nothing() {
    assert_eq!(used(&[tensor(0), Request::Free(0)]).peak_reserved.reserved, 0);
}

#[test]
fn remainders_are_blocks_from_512_bytes_on_or_above_one_mebibyte() {
    // 1 MiB twice fills a small segment; with 512 B less each there is a block of 1,024 left.
    let small = [tensor(MIB - 512), tensor(MIB - 512), tensor(1_024)];
    assert_eq!(used(&small).peak_reserved.reserved, 2 * MIB);
    // 18 MiB of a free block of 19: the rest of exactly 1 MiB is lost with it; of one more block it is not.
    let lost = [tensor(20 * MIB), Request::Free(0), tensor(19 * MIB)];
    assert_eq!(used(&lost).peak_allocated.allocated, 20 * MIB);
    assert_eq!(last(&[tensor(20 * MIB), Request::Free(0), tensor(19 * MIB), tensor(MIB + 512)]), 40 * MIB);
    assert_eq!(
        last(&[tensor(20 * MIB), Request::Free(0), tensor(19 * MIB - 512), tensor(MIB + 512)]),
        20 * MIB
    );
}

#[test]
fn the_smallest_block_that_fits_is_taken() {
    // 40 and 24 MiB are free: 23 MiB go into the second, so that 40 MiB still fit the first.
    let list = [
        tensor(40 * MIB),
        tensor(24 * MIB),
        Request::Free(0),
        Request::Free(1),
        tensor(23 * MIB),
        tensor(40 * MIB),
    ];
    assert_eq!(last(&list), 64 * MIB);
}

#[test]
fn freed_blocks_merge_with_free_neighbours_on_both_sides() {
    let three = [tensor(6 * MIB), tensor(6 * MIB), tensor(6 * MIB)];
    let mut list = three.to_vec();
    list.extend([Request::Free(0), Request::Free(2), Request::Free(1), tensor(20 * MIB)]);
    assert_eq!(last(&list), 20 * MIB);
    // With the middle one in use neither side is enough for 9 MiB.
    let mut list = three.to_vec();
    list.extend([Request::Free(0), Request::Free(2), tensor(9 * MIB)]);
    assert_eq!(last(&list), 40 * MIB);
}

#[test]
fn streams_do_not_share_blocks_nor_do_small_and_large_ones() {
    let other = Request::Allocate { bytes: 40 * MIB, stream: StreamNumber(1), kind: "tensor" };
    assert_eq!(last(&[tensor(40 * MIB), Request::Free(0), other]), 80 * MIB);
    assert_eq!(last(&[tensor(40 * MIB), Request::Free(0), tensor(MIB)]), 42 * MIB);
}

#[test]
fn what_another_stream_uses_is_returned_when_it_is_done() {
    let lent = [tensor(40 * MIB), Request::Lend(0), Request::Free(0), tensor(40 * MIB)];
    let usage = used(&lent);
    assert_eq!((usage.peak_allocated.allocated, usage.peak_reserved.reserved), (40 * MIB, 80 * MIB));
    assert_eq!(usage.peak_reserved.lent, 40 * MIB);
    assert_eq!(usage.peak_reserved.reserved, 2 * usage.peak_reserved.allocated);
    let done = [tensor(40 * MIB), Request::Lend(0), Request::Free(0), Request::Done(0), tensor(40 * MIB)];
    assert_eq!(last(&done), 40 * MIB);
    let done_before =
        [tensor(40 * MIB), Request::Lend(0), Request::Done(0), Request::Free(0), tensor(40 * MIB)];
    assert_eq!(last(&done_before), 40 * MIB);
}

#[test]
fn offloading_without_a_limiter_frees_nothing_in_time() {
    // 48 layers leave 1 GiB each, which another stream copies out while the host goes on: it frees at once, but the
    // block is returned only when the copy is done. So many copies are `done` when the host allocates for a layer.
    let peak = |done: fn(u32) -> u32| {
        let mut list = Vec::new();
        for layer in 0..48 {
            list.extend([tensor(1024 * MIB), Request::Lend(layer), Request::Free(layer)]);
            list.extend((done(layer)..done(layer + 1)).map(Request::Done));
        }
        last(&list) / (1024 * MIB)
    };
    // A host ten times as fast as the device: a layer is computed in the time of ten, and copied in that of the next ten.
    assert_eq!(peak(|layer| (layer / 10).saturating_sub(1)), 45);
    // A limiter lets four layers be under way beside the one that is issued, or just one.
    assert_eq!(peak(|layer| layer.saturating_sub(4)), 5);
    assert_eq!(peak(|layer| layer.saturating_sub(1)), 2);
}

#[test]
fn free_segments_are_released_where_the_driver_has_no_more() {
    let list = [tensor(40 * MIB), Request::Lend(0), Request::Free(0), tensor(60 * MIB)];
    let usage = replay(&list, 64 * MIB, &Settings::default()).unwrap();
    // Waits for the other stream, releases 40 MiB and has room for 60.
    assert_eq!((usage.retries, usage.shortage), (1, None));
    assert_eq!((usage.peak_reserved.reserved, usage.peak_reserved.lent), (60 * MIB, 0));
}

/// Two segments of 40 and 30 MiB are given back for one of 60: what is asked of the driver is told
/// request by request.
#[test]
fn what_the_driver_is_asked_for_and_given_back() {
    let list = [
        tensor(40 * MIB),
        tensor(30 * MIB),
        tensor(512),
        Request::Free(0),
        Request::Free(1),
        tensor(60 * MIB),
        tensor(1024),
    ];
    let segments = |count, bytes| Segments { count, bytes };
    let asked = |request, bytes| DriverCalls { request, returned: segments(0, 0), asked: segments(1, bytes) };
    let usage = replay(&list, 80 * MIB, &Settings::default()).unwrap();
    let retried = DriverCalls { request: 5, returned: segments(2, 70 * MIB), asked: segments(1, 60 * MIB) };
    assert_eq!(usage.driver, [asked(0, 40 * MIB), asked(1, 30 * MIB), asked(2, 2 * MIB), retried]);
    // Pages of 20 MiB where segments grow.
    let usage = replay(&list, 100 * MIB, &EXPANDABLE).unwrap();
    assert_eq!(usage.driver[0].asked, segments(2, 40 * MIB));
    // 2 x 14 us and 70 MiB at 82 GB/s; 50 us and 60 MiB at 3,600 GB/s.
    let host: HostCosts = serde_yaml::from_str(HOST).unwrap();
    assert_eq!(host.release.time(retried.returned), Time(923_125_854));
    assert_eq!(host.allocation.time(retried.asked), Time(67_476_267));
}

#[test]
fn a_segment_in_use_in_part_is_not_released() {
    // 6 + 6 MiB of a segment of 20 are free, as in `freed_blocks_merge_with_free_neighbours_on_both_sides`.
    let list = [
        tensor(6 * MIB),
        tensor(6 * MIB),
        tensor(6 * MIB),
        Request::Free(0),
        Request::Free(2),
        tensor(9 * MIB),
    ];
    let usage = replay(&list, 39 * MIB, &Settings::default()).unwrap();
    let shortage = usage.shortage.unwrap();
    assert_eq!((shortage.moment.request, shortage.bytes), (5, 9 * MIB));
    assert_eq!((shortage.moment.allocated, shortage.moment.reserved), (6 * MIB, 20 * MIB));
    assert_eq!(shortage.by_kind, [("tensor", 6 * MIB)]);
    assert_eq!((usage.retries, usage.peak_allocated.request), (1, 2));
}

#[test]
fn more_than_any_device_has_is_a_shortage() {
    for settings in [Settings::default(), EXPANDABLE] {
        for bytes in [u64::MAX, (1 << 50) + 1, 1 << 50] {
            let usage = replay(&[tensor(512), tensor(bytes)], u64::MAX, &settings).unwrap();
            assert_eq!(usage.shortage.unwrap().moment.request, 1, "{bytes}");
        }
    }
}

#[test]
fn blocks_of_max_split_size_are_not_split_and_serve_only_their_like() {
    let settings = Settings { max_split_size: Some(Bytes::new_bytes(100 * MIB)), ..Settings::default() };
    let reserved =
        |list: &[Request], capacity| replay(list, capacity, &settings).unwrap().peak_reserved.reserved;
    let free = [tensor(120 * MIB), Request::Free(0)];
    let then = |bytes| [&free[..], &[tensor(bytes)]].concat();
    // A smaller one may not have it, a large one may if it leaves less than 20 MiB, and has all of it.
    assert_eq!(reserved(&then(50 * MIB), u64::MAX), 170 * MIB);
    assert_eq!(reserved(&then(100 * MIB + 512), u64::MAX), 120 * MIB);
    assert_eq!(reserved(&then(100 * MIB), u64::MAX), 220 * MIB);
    let usage = replay(&then(100 * MIB + 512), u64::MAX, &settings).unwrap();
    assert_eq!(usage.peak_allocated.allocated, 120 * MIB);
    // Where there is no room the oversize segment goes, without waiting for the device.
    let usage = replay(&then(50 * MIB), 150 * MIB, &settings).unwrap();
    assert_eq!((usage.shortage, usage.retries), (None, 0));
}

#[test]
fn a_segment_grows_by_pages() {
    let reserved = |list: &[Request]| replay(list, u64::MAX, &EXPANDABLE).unwrap().peak_reserved.reserved;
    // Large pages of 20 MiB, small ones of 2.
    assert_eq!(reserved(&[tensor(25 * MIB)]), 40 * MIB);
    assert_eq!(reserved(&[tensor(25 * MIB), tensor(15 * MIB)]), 40 * MIB);
    assert_eq!(reserved(&[tensor(25 * MIB), tensor(15 * MIB + 512)]), 60 * MIB);
    assert_eq!(reserved(&[tensor(MIB), tensor(MIB), tensor(512)]), 4 * MIB);
    // Remainders are blocks whatever their size: nothing is lost with 39 of 40 MiB.
    assert_eq!(reserved(&[tensor(39 * MIB), tensor(MIB + 512)]), 60 * MIB);
    assert_eq!(
        replay(&[tensor(39 * MIB)], u64::MAX, &EXPANDABLE).unwrap().peak_allocated.allocated,
        39 * MIB
    );
}

#[test]
fn batches_that_grow_leave_slivers_in_segments_but_not_in_one_that_grows() {
    // Steps of tensors that are one MiB larger each time, all freed after each step.
    let mut list = Vec::new();
    for step in 0..8 {
        let first = list.iter().filter(|request| matches!(request, Request::Allocate { .. })).count() as u32;
        list.extend([30, 50, 70].map(|mib| tensor((mib + step) * MIB)));
        list.extend((first..first + 3).map(Request::Free));
    }
    // 30, 50 and 70 MiB have grown to 37, 57 and 77; a MiB that is too little for a block is lost with one of them.
    let usage = used(&list);
    assert_eq!((usage.peak_allocated.allocated, usage.peak_reserved.reserved), (172 * MIB, 450 * MIB));
    let usage = replay(&list, u64::MAX, &EXPANDABLE).unwrap();
    assert_eq!((usage.peak_allocated.allocated, usage.peak_reserved.reserved), (171 * MIB, 180 * MIB));
}

#[test]
fn free_pages_are_released_and_their_addresses_used_again() {
    // Pages 0 to 4; 50 MiB from 10 on are free, which are pages 1 and 2: another stream can have them.
    let other = |bytes| Request::Allocate { bytes, stream: StreamNumber(1), kind: "tensor" };
    let list = [tensor(10 * MIB), tensor(50 * MIB), tensor(40 * MIB), Request::Free(1), other(40 * MIB)];
    let usage = replay(&list, 100 * MIB, &EXPANDABLE).unwrap();
    assert_eq!((usage.shortage.clone(), usage.retries), (None, 1));
    assert_eq!(usage.peak_reserved.reserved, 100 * MIB);
    // What is left of the 50 MiB are 10 MiB, at the front.
    let fits = [&list[..], &[tensor(10 * MIB)]].concat();
    assert_eq!(replay(&fits, 100 * MIB, &EXPANDABLE).unwrap().shortage, None);
    // Then 45 MiB need both pages again, together with the 10 MiB in front of them.
    let again = [&list[..], &[Request::Free(3), tensor(45 * MIB), tensor(5 * MIB)]].concat();
    let usage = replay(&again, 100 * MIB, &EXPANDABLE).unwrap();
    assert_eq!((usage.shortage, usage.retries), (None, 2));
}

#[test]
fn the_peak_says_when_and_what() {
    let of = |bytes, kind| Request::Allocate { bytes, stream: StreamNumber(0), kind };
    let list = [
        of(30 * MIB, "weights"),
        of(20 * MIB, "activations"),
        of(40 * MIB, "activations"),
        Request::Free(1),
        of(20 * MIB, "gradients"),
        Request::Free(2),
    ];
    let usage = used(&list);
    // The gradients reach the same height again; the first time counts.
    assert_eq!((usage.peak_allocated.request, usage.peak_allocated.allocated), (2, 90 * MIB));
    assert_eq!(usage.by_kind, [("activations", 60 * MIB), ("weights", 30 * MIB)]);
}

#[test]
fn every_mistake_of_a_list_is_told() {
    let list =
        [Request::Free(0), tensor(1), Request::Free(0), Request::Free(0), Request::Done(0), Request::Lend(7)];
    let settings = Settings {
        max_split_size: Some(Bytes::new_bytes(20 * MIB)),
        roundup_power2_divisions: Some(Count::literal(3)),
        expandable_segments: false,
    };
    let expected = [
        Mistake::Settings(Fault::MaxSplitSize(20 * MIB)),
        Mistake::Settings(Fault::Divisions(3)),
        Mistake::Request(0, Fault::Unknown(0)),
        Mistake::Request(3, Fault::Freed(0)),
        Mistake::Request(4, Fault::NotLent(0)),
        Mistake::Request(5, Fault::Unknown(7)),
    ];
    assert_eq!(replay(&list, u64::MAX, &settings).unwrap_err(), expected);
    assert_eq!(
        expected[3].to_string(),
        "request 3: tensor 0 has been freed: leave it out, or free the tensor later"
    );
}

#[test]
fn workspaces_of_matrix_products_are_the_documented_ones() {
    let memory: FrameworkMemory = serde_yaml::from_str(MEMORY).unwrap();
    let bytes = |architecture| memory.matrix_workspace.of(architecture).bytes;
    assert_eq!(["volta", "ampere", "hopper"].map(bytes), [8_519_680, 8_519_680, 32 * MIB]);
}

fn tensor(bytes: u64) -> Request {
    Request::Allocate { bytes, stream: StreamNumber(0), kind: "tensor" }
}

fn used(list: &[Request]) -> Usage {
    replay(list, u64::MAX, &Settings::default()).unwrap()
}

/// Most bytes of segments, which without a limit are never released.
fn last(list: &[Request]) -> u64 {
    used(list).peak_reserved.reserved
}
