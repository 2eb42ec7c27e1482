//! Figures of a space of implementations: are those that are predicted fast fast, and what may be
//! discarded without being tried.

use hw_models::kernels::tile::{Anchor, TileModel};

use super::TileSample;

/// Share of a space that is tried, those that are predicted fastest.
const TRIED: f64 = 0.05;

/// Figures of a space, means over its contractions by their rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpaceFigures {
    /// Implementations that were measured.
    pub rows: usize,
    /// Rank correlation of estimates and measurements (Spearman).
    pub spearman: f64,
    /// Best of the twentieth that is estimated fastest, over the best of all.
    pub best_tried: f64,
    /// Share whose bound is above the measurement.
    pub above: f64,
    /// Share whose bound is above the best measurement, which a search need not try.
    pub discarded: f64,
    /// Best of those that are not discarded, over the best of all.
    pub best_kept: f64,
}

/// Figures of samples.
pub fn space_figures(model: &TileModel<'_>, samples: &[TileSample]) -> SpaceFigures {
    let mut by_anchor: Vec<(Anchor, Vec<&TileSample>)> = Vec::new();
    for sample in samples {
        let anchor = sample.kernel.anchor;
        match by_anchor.iter_mut().find(|(known, _)| *known == anchor) {
            Some((_, rows)) => rows.push(sample),
            None => by_anchor.push((anchor, vec![sample])),
        }
    }
    let of_one: Vec<_> = by_anchor.iter().map(|(_, rows)| of_contraction(model, rows)).collect();
    let mean = |figure: fn(&SpaceFigures) -> f64| {
        of_one.iter().map(|of| figure(of) * of.rows as f64).sum::<f64>() / samples.len().max(1) as f64
    };
    SpaceFigures {
        rows: samples.len(),
        spearman: mean(|of| of.spearman),
        best_tried: mean(|of| of.best_tried),
        above: mean(|of| of.above),
        discarded: mean(|of| of.discarded),
        best_kept: mean(|of| of.best_kept),
    }
}

fn of_contraction(model: &TileModel<'_>, samples: &[&TileSample]) -> SpaceFigures {
    let rows = samples.len();
    let measured: Vec<f64> = samples.iter().map(|sample| sample.seconds).collect();
    let estimated: Vec<f64> = samples.iter().map(|sample| model.estimate(&sample.kernel).seconds).collect();
    let bounds: Vec<f64> = samples.iter().map(|sample| model.bound(&sample.kernel)).collect();
    let best = least(measured.iter().copied());
    let mut order: Vec<usize> = (0..rows).collect();
    order.sort_by(|&a, &b| estimated[a].total_cmp(&estimated[b]));
    order.truncate(((rows as f64 * TRIED) as usize).max(1));
    let share = |of: &dyn Fn(usize) -> bool| (0..rows).filter(|&row| of(row)).count() as f64 / rows as f64;
    let kept = (0..rows).filter(|&row| bounds[row] <= best).map(|row| measured[row]);
    SpaceFigures {
        rows,
        spearman: correlation(&ranks(&estimated), &ranks(&measured)),
        best_tried: least(order.into_iter().map(|row| measured[row])) / best,
        above: share(&|row| bounds[row] > measured[row]),
        discarded: share(&|row| bounds[row] > best),
        best_kept: least(kept) / best,
    }
}

fn least(of: impl Iterator<Item = f64>) -> f64 {
    of.fold(f64::INFINITY, f64::min)
}

/// Ranks of numbers; equal ones share the mean of theirs.
fn ranks(of: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..of.len()).collect();
    order.sort_by(|&a, &b| of[a].total_cmp(&of[b]));
    let mut ranks = vec![0.0; of.len()];
    let mut from = 0;
    for equal in order.chunk_by(|&a, &b| of[a] == of[b]) {
        let rank = from as f64 + (equal.len() - 1) as f64 / 2.0;
        equal.iter().for_each(|&at| ranks[at] = rank);
        from += equal.len();
    }
    ranks
}

/// Pearson's correlation.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let (of_a, of_b) = (mean(a), mean(b));
    let product = |x: &[f64], y: &[f64], of_x: f64, of_y: f64| {
        x.iter().zip(y).map(|(x, y)| (x - of_x) * (y - of_y)).sum::<f64>()
    };
    product(a, b, of_a, of_b) / (product(a, a, of_a, of_a) * product(b, b, of_b, of_b)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_correlation_of_five_by_hand() {
        // Ranks 0, 1, 2.5, 2.5, 4 and 1, 0, 2, 3, 4: deviations' products sum to 8.5, squares to 9.5 and 10.
        let found = correlation(&ranks(&[1.0, 2.0, 5.0, 5.0, 9.0]), &ranks(&[2.0, 1.0, 3.0, 4.0, 5.0]));
        assert!((found - 8.5 / 95f64.sqrt()).abs() < 1e-12, "{found}");
    }
}
