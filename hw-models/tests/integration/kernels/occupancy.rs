//! Occupancy against cases of NVIDIA's occupancy calculator, computed by hand.

use hw_models::kernels::{BlockResources, Limit, Occupancy};

use super::model;

/// Device, threads, registers a thread, shared bytes a block; blocks an SM and what binds.
const CASES: [(&str, u32, u32, u32, u32, Limit); 14] = [
    // 8 warps of 64; 1,024 registers a warp: 16 of each scheduler, 64 in all.
    ("v100-sxm2-16gb", 256, 32, 0, 8, Limit::Threads),
    // 2,048 registers a warp: 8 of each scheduler, 32 in all.
    ("v100-sxm2-16gb", 256, 64, 0, 4, Limit::Registers),
    // 1,184 registers a warp, which are given as 1,280: 12 of each scheduler, 48 in all.
    ("v100-sxm2-16gb", 128, 37, 0, 12, Limit::Registers),
    ("v100-sxm2-16gb", 32, 16, 0, 32, Limit::Blocks),
    // All of the shared memory may be one block's.
    ("v100-sxm2-16gb", 128, 32, 98_304, 1, Limit::SharedMemory),
    ("rtx-2080-ti", 256, 32, 20_480, 3, Limit::SharedMemory),
    // 2,304 registers a warp are 73,728 a block.
    ("rtx-2080-ti", 1_024, 72, 0, 0, Limit::Registers),
    // 49,152 and 1,024 bytes of the system's, of 167,936.
    ("a100-sxm4-80gb", 128, 64, 49_152, 3, Limit::SharedMemory),
    ("a100-sxm4-80gb", 128, 64, 166_913, 0, Limit::SharedMemory),
    // 1,536 threads; 1,280 registers a warp: 12 of each scheduler.
    ("rtx-3070", 256, 40, 0, 6, Limit::Threads),
    // 8,160 registers a warp, which are given as 8,192: 2 of each scheduler.
    ("l4", 128, 255, 0, 2, Limit::Registers),
    ("l4", 128, 256, 0, 0, Limit::Registers),
    // 5,376 registers a warp: 3 of each scheduler; the shared memory holds one as well.
    ("h100-sxm5-80gb", 384, 168, 204_800, 1, Limit::Registers),
    ("p100-sxm2-16gb", 64, 32, 49_153, 0, Limit::SharedMemory),
];

#[test]
fn blocks_are_those_of_the_occupancy_calculator() {
    for (device, threads, registers, shared_bytes, blocks, limit) in CASES {
        let sm = model(device).facts.multiprocessor.expect("of known capability");
        let found = Occupancy::of(&sm, &BlockResources { threads, registers, shared_bytes });
        let case = format!("{device}: {threads} threads, {registers} registers, {shared_bytes} bytes");
        assert_eq!(found, Occupancy { blocks, limit }, "{case}");
    }
}

#[test]
fn more_of_anything_never_lets_more_blocks_in() {
    let sm = &model("rtx-3070").facts.multiprocessor.expect("of known capability");
    for threads in [32, 96, 256, 1_024] {
        for registers in (8..=255).step_by(13) {
            for shared_bytes in (0..100_000).step_by(7_919) {
                let of = |threads, registers, shared_bytes| {
                    Occupancy::of(sm, &BlockResources { threads, registers, shared_bytes }).blocks
                };
                let blocks = of(threads, registers, shared_bytes);
                assert!(of(threads + 32, registers, shared_bytes) <= blocks);
                assert!(of(threads, registers + 1, shared_bytes) <= blocks);
                assert!(of(threads, registers, shared_bytes + 1) <= blocks);
                // What is resident fits.
                assert!(blocks * threads <= sm.threads && blocks * threads * registers <= sm.registers);
                assert!(blocks * shared_bytes <= sm.shared_bytes);
            }
        }
    }
}
