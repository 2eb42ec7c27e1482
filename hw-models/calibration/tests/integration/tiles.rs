//! Kernels in tiles: constants follow from the fitted rows, and the others are predicted.

#![expect(clippy::print_stdout, reason = "errors on what was held out, for who asks with --nocapture")]

use calibration::{
    SpaceFigures, Table, TileSample, clblast, divide, epilogues, fit_tiles, image_convolutions,
    space_figures, triton,
};
use hw_models::kernels::Dtype;
use hw_models::kernels::tile::{TileModel, TileParameters};

use crate::known::model;

/// Packed spaces: CLBlast's products, Kernel Tuner's convolution.
const PRODUCTS: &[u8] = include_bytes!("../../../measurements/tiles/products_clblast_rtx2080ti.csv.gz");
const IMAGES: &[u8] = include_bytes!("../../../measurements/tiles/convolution_image_a100.csv.gz");
const PROBE: &str = include_str!("../../../measurements/probes/fusion.jsonl");

/// CLBlast's products, fitted and judged.
fn products() -> [Vec<TileSample>; 2] {
    divide(clblast(&Table::packed("products_clblast_rtx2080ti.csv.gz", PRODUCTS).unwrap()).unwrap())
}

/// Triton's products, fitted and judged.
fn probed() -> [Vec<TileSample>; 2] {
    divide(triton(PROBE).unwrap())
}

/// The constants of a GPU follow from rows; figures and mean error of the others.
fn judged(device: &str, [fitted, judged]: &[Vec<TileSample>; 2]) -> (SpaceFigures, f64) {
    let model = model(device);
    let found = fit_tiles(&model, fitted).unwrap();
    let tiles = model.tiles(judged[0].kernel.anchor.dtype, false).unwrap();
    println!("{device}: {found:?}");
    let committed = tiles.parameters();
    let figures = |of: &TileParameters| [of.clock, of.serial, of.latency, of.spill, of.l2, of.start_us];
    for (found, committed) in figures(&found).into_iter().zip(figures(committed)) {
        assert!((found / committed - 1.0).abs() < 0.01, "{device}: {found}, committed {committed}");
    }
    let error = |sample: &TileSample| (seconds(&tiles, sample) / sample.seconds - 1.0).abs();
    let mean = judged.iter().map(error).sum::<f64>() / judged.len() as f64;
    let of_space = space_figures(&tiles, judged);
    println!("{device}: {of_space:?}, mean error {mean:.4}");
    (of_space, mean)
}

fn seconds(tiles: &TileModel<'_>, sample: &TileSample) -> f64 {
    tiles.estimate(&sample.kernel).seconds
}

#[test]
fn tiles_of_clblast_are_in_order_and_most_need_not_be_tried() {
    let rows = products();
    assert_eq!(rows.each_ref().map(Vec::len), [8_978, 8_978]);
    let (found, error) = judged("rtx-2080-ti", &rows);
    assert!(error < 0.08 && found.spearman > 0.98, "{error} {found:?}");
    assert!(found.best_tried < 1.05 && found.best_kept < 1.03, "{found:?}");
    assert!(found.above == 0.0 && found.discarded > 0.8, "{found:?}");
}

#[test]
fn tiles_of_triton_are_in_order_on_tensor_cores() {
    let rows = probed();
    assert_eq!(rows.each_ref().map(Vec::len), [200, 161]);
    let (found, error) = judged("h100-sxm5-80gb", &rows);
    assert!(error < 0.17 && found.spearman > 0.8, "{error} {found:?}");
    assert!(found.best_tried < 1.05 && found.best_kept < 1.03, "{found:?}");
    // Half of the space is what should be discarded. What the bound lacks are the clock that a board
    // of 700 W holds under products, the start of a kernel (3 us of 31), and the rate of the L2 cache.
    assert!(found.above == 0.0 && found.discarded > 0.3, "{found:?}");
}

#[test]
fn bounds_are_below_all_measurements_and_estimates() {
    for (device, rows) in [("rtx-2080-ti", products()), ("h100-sxm5-80gb", probed())] {
        let model = model(device);
        for sample in rows.iter().flatten() {
            let tiles = model.tiles(sample.kernel.anchor.dtype, false).unwrap();
            let bound = tiles.bound(&sample.kernel);
            assert!(bound <= sample.seconds && bound <= seconds(&tiles, sample), "{device} {sample:?}");
        }
    }
}

#[test]
fn registers_are_near_those_that_were_compiled() {
    let model = model("h100-sxm5-80gb");
    let mut off = Vec::new();
    for sample in probed().iter().flatten() {
        let tiles = model.tiles(sample.kernel.anchor.dtype, false).unwrap();
        let (found, Some([registers, spills])) = (tiles.estimate(&sample.kernel), sample.compiled) else {
            continue;
        };
        if sample.kernel.after.ordinary + sample.kernel.after.special == 0.0 {
            assert_eq!(found.spilled > 0.0, spills > 0, "{sample:?}: {found:?}");
            off.push((f64::from(found.registers) / f64::from(registers) - 1.0).abs());
        }
    }
    off.sort_by(f64::total_cmp);
    println!("registers: median {:.3}, worst {:.3}", off[off.len() / 2], off[off.len() - 1]);
    assert!(off.len() == 237 && off[off.len() / 2] < 0.1 && off[off.len() - 1] < 0.3);
}

#[test]
fn epilogues_of_a_library_cost_little() {
    let model = model("h100-sxm5-80gb");
    let tiles = model.tiles(Dtype::Bf16, false).unwrap();
    let samples = epilogues(PROBE).unwrap();
    assert_eq!(samples.len(), 24);
    let mut off = 0.0;
    for sample in &samples {
        let (measured, ours) = (sample.measured, sample.estimated(&tiles));
        println!("{:?}: measured {measured:.3}, ours {ours:.3}", sample.inputs);
        // It never saves time, and never costs a tenth.
        assert!((1.0..1.25).contains(&ours), "{sample:?}: {ours}");
        off += (measured - ours).abs() / samples.len() as f64;
    }
    println!("epilogues: {off:.4} off");
    assert!(off < 0.1, "{off}");
}

#[test]
fn convolutions_that_cannot_be_launched_are_recognised() {
    let rows = image_convolutions(&Table::packed("convolution_image_a100.csv.gz", IMAGES).unwrap()).unwrap();
    let a100 = model("a100-pcie-40gb");
    let sm = a100.facts.multiprocessor.as_ref().unwrap();
    let count =
        |ran: bool, fits: bool| rows.iter().filter(|row| row.ran == ran && row.fits(sm) == fits).count();
    let [recognised, missed, false_alarms] = [count(false, false), count(false, true), count(true, false)];
    println!("{recognised} recognised, {missed} missed, {false_alarms} of {} false", rows.len());
    assert_eq!(recognised + missed, 161);
    assert!(recognised >= 153 && false_alarms * 100 <= rows.len());
}
