//! Bounds and estimates of kernels in tiles, a second: what a search over implementations pays.
//!
//! `cargo bench -p hw-models --bench tiles`

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

use std::hint::black_box;
use std::time::Instant;

use hw_models::catalogue::Catalogue;
use hw_models::kernels::tile::{Anchor, Lanes, Members, Tile, TiledKernel, Units};
use hw_models::kernels::{Dtype, GpuFacts, KERNELS, KernelCatalogue, KernelModel};

/// Measurements; the best counts, as everything else is other load of the machine.
const REPEATS: usize = 5;
const EXTENTS: [u32; 4] = [32, 64, 128, 256];

fn main() {
    let catalogue = Catalogue::embedded(serde_yaml::Deserializer::from_str).expect("embedded");
    let kernels: KernelCatalogue = serde_yaml::from_str(KERNELS).expect("embedded");
    println!("tiles on               bounds, M/s   estimates, M/s");
    for (name, device, dtype) in
        [("lanes", "rtx-2080-ti", Dtype::Fp32), ("tensor cores", "h100-sxm5-80gb", Dtype::Fp16)]
    {
        let gpu = &catalogue.gpus[device];
        let parameters = kernels.parameters(device, &gpu.architecture).expect("known");
        let model = KernelModel::new(GpuFacts::of(gpu, 1.0), parameters);
        let tiles = model.tiles(dtype, false).expect("known");
        let space = space(dtype);
        let bounds = rate(&space, |kernel| tiles.bound(kernel));
        let estimates = rate(&space, |kernel| tiles.estimate(kernel).seconds);
        println!("{name:<20} {bounds:>13.1} {estimates:>16.1}");
    }
}

fn rate(space: &[TiledKernel], seconds: impl Fn(&TiledKernel) -> f64) -> f64 {
    let once = || {
        let begin = Instant::now();
        black_box(space.iter().map(|kernel| seconds(black_box(kernel))).sum::<f64>());
        begin.elapsed().as_secs_f64()
    };
    let best = (0..REPEATS).map(|_| once()).fold(f64::INFINITY, f64::min);
    space.len() as f64 / best / 1e6
}

fn space(dtype: Dtype) -> Vec<TiledKernel> {
    let extent = 4_096;
    let operand_bytes = 2 * extent * extent * dtype.bytes();
    let anchor = Anchor { m: extent, n: extent, k: extent, dtype, fp16_sums: false, operand_bytes };
    let mut space = Vec::new();
    let sides = EXTENTS.into_iter().flat_map(|m| EXTENTS.map(|n| [m, n]));
    for [m, n] in sides.cycle().take(16 * 2_000) {
        let warps = 4 << (space.len() % 2);
        let units = match dtype {
            Dtype::Fp32 => Units::Lanes(Lanes {
                across: 16,
                unroll: 2,
                vectors: [1 << (space.len() % 3), 2],
                copies: [Some(16), (space.len() % 5 > 1).then_some(8)],
            }),
            _ => Units::Tensor { fragment: [64, n], stages: 2 + (space.len() % 3) as u32 },
        };
        let tile = Tile { m, n, k: 32, warps, splits: 1, units };
        space.push(TiledKernel { anchor, tile, before: Members::default(), after: Members::default() });
    }
    space
}
