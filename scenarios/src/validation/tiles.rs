//! Kernels in tiles: spaces of implementations that were measured as a whole.
//!
//! Rows that constants were not fitted on are timed. Figures of a space are rows of their own: the
//! rank correlation, what a search would find among those that are estimated fastest, and what its
//! bound discards. Configurations that could not be launched are verdicts.

use calibration::{
    EpilogueSample, ImageSample, TileSample, clblast, divide, epilogues, image_convolutions, space_figures,
    triton,
};
use hw_models::kernels::Dtype;
use hw_models::kernels::tile::{Members, TileModel, TiledKernel};
use reports::validation::{Row, Unit};
use serde::Deserialize;

use super::{Judged, embedded};
use crate::catalogue;

/// A space of implementations.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TileSpace {
    /// File.
    pub(super) data: String,
    /// GPU of the catalogue that it was measured on.
    device: String,
    /// Kernels that it has.
    kernels: Kernels,
    /// Rows that ran are listed every n-th, by the hash of their inputs; figures are of all.
    #[serde(default = "all")]
    listed: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kernels {
    /// Products of CLBlast on ordinary lanes.
    Clblast,
    /// Products of Triton on tensor cores, with activations.
    Triton,
    /// Convolutions of an image, of which some could not be launched.
    Image,
}

const fn all() -> u64 {
    1
}

impl TileSpace {
    /// True of packed tables; a probe has other measurements too.
    pub(super) const fn is_table(&self) -> bool {
        !matches!(self.kernels, Kernels::Triton)
    }
}

/// The rows of a space.
pub(super) fn judged(space: &TileSpace) -> Vec<Judged> {
    let of_file = "a space that is embedded is read, which a test would find";
    let samples = match space.kernels {
        Kernels::Clblast => clblast(&embedded::packed_table(&space.data)).expect(of_file),
        Kernels::Triton => triton(embedded::PROBED_TILES).expect(of_file),
        Kernels::Image => {
            let rows = image_convolutions(&embedded::packed_table(&space.data)).expect(of_file);
            return verdicts(space, &rows);
        }
    };
    let [_, judged] = divide(samples);
    let model = catalogue::kernels_of(&space.device).expect(of_file);
    let dtype = judged.first().map_or(Dtype::Fp32, |sample| sample.kernel.anchor.dtype);
    let tiles = model.tiles(dtype, false).expect(of_file);
    let mut rows = times(space, &tiles, &judged);
    if matches!(space.kernels, Kernels::Triton) {
        rows.extend(activations(space, &tiles, &judged));
        rows.extend(of_library(space, &tiles));
    }
    rows.extend(figures(space, &tiles, &judged));
    rows
}

fn row(space: &TileSpace, part: &str, line: u64, inputs: &[(String, String)], row: Row) -> Judged {
    Judged {
        part: format!("{} {part}", space.device),
        place: format!("{}:{line}", space.data),
        inputs: inputs.iter().cloned().collect(),
        row: Ok(row),
    }
}

fn times(space: &TileSpace, tiles: &TileModel<'_>, judged: &[TileSample]) -> Vec<Judged> {
    let listed = judged.iter().filter(|sample| (sample.hash / 2).is_multiple_of(space.listed.max(1)));
    let of = |sample: &TileSample| {
        let (measured, predicted) = (sample.seconds, tiles.estimate(&sample.kernel).seconds);
        let times = Row { measured, predicted, ..Row::default() };
        row(space, "tiles", sample.line, &sample.inputs, times)
    };
    listed.map(of).collect()
}

/// Times with an activation over those of the same tile without.
fn activations(space: &TileSpace, tiles: &TileModel<'_>, judged: &[TileSample]) -> Vec<Judged> {
    let bare = |kernel: &TiledKernel| TiledKernel { after: Members::default(), ..*kernel };
    let of = |sample: &TileSample| {
        let without = bare(&sample.kernel);
        let measured = judged.iter().find(|other| other.kernel == without && without != sample.kernel)?;
        let seconds = |kernel: &TiledKernel| tiles.estimate(kernel).seconds;
        let ratio = Row {
            unit: Unit::Ratio,
            measured: sample.seconds / measured.seconds,
            predicted: seconds(&sample.kernel) / seconds(&without),
            ..Row::default()
        };
        Some(row(space, "activations", sample.line, &sample.inputs, ratio))
    };
    judged.iter().filter_map(of).collect()
}

/// Times of a library's products with an epilogue over those without.
fn of_library(space: &TileSpace, tiles: &TileModel<'_>) -> Vec<Judged> {
    let samples = epilogues(embedded::PROBED_TILES).expect("read before");
    let of = |sample: &EpilogueSample| {
        let (measured, predicted) = (sample.measured, sample.estimated(tiles));
        let ratio = Row { unit: Unit::Ratio, measured, predicted, ..Row::default() };
        row(space, "epilogues of the library", sample.line, &sample.inputs, ratio)
    };
    samples.iter().map(of).collect()
}

/// Figures of the space beside 1, which each of them is at best.
fn figures(space: &TileSpace, tiles: &TileModel<'_>, judged: &[TileSample]) -> Vec<Judged> {
    let found = space_figures(tiles, judged);
    let figures = [
        ("rank correlation", found.spearman),
        ("best of the first 5 %", found.best_tried),
        ("bounds below measurements", 1.0 - found.above),
        ("share discarded", found.discarded),
        ("best of what is kept", found.best_kept),
    ];
    let of = |(name, found): (&str, f64)| {
        let of_space = [("rows".to_owned(), judged.len().to_string())];
        let figure = Row { unit: Unit::Ratio, measured: 1.0, predicted: found, ..Row::default() };
        row(space, name, 1, &of_space, figure)
    };
    figures.into_iter().map(of).collect()
}

/// Configurations that ran, as far as they are listed, and all that could not.
fn verdicts(space: &TileSpace, rows: &[ImageSample]) -> Vec<Judged> {
    let facts = &catalogue::devices().gpus[&space.device];
    let Some(sm) = &facts.multiprocessor else { return Vec::new() };
    let of = |sample: &ImageSample| {
        let verdict = Row {
            unit: Unit::Verdict,
            measured: f64::from(u8::from(sample.ran)),
            predicted: f64::from(u8::from(sample.fits(sm))),
            ..Row::default()
        };
        let part = if sample.ran { "launched" } else { "not launched" };
        row(space, part, sample.line, &sample.inputs, verdict)
    };
    let listed = |sample: &&ImageSample| !sample.ran || sample.hash.is_multiple_of(space.listed.max(1));
    rows.iter().filter(listed).map(of).collect()
}
