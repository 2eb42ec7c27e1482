//! The simplex search of Nelder and Mead (Computer Journal, 1965): deterministic, and in no need of derivatives of a
//! model full of ceilings.

/// Most steps of a search.
const STEPS: usize = 400;
/// A simplex of this extent, and of heights that differ by as much of them, has found its point.
const COLLAPSED: f64 = 1e-10;

/// The lowest point that the search finds from `start` with a first simplex of `edge`; coefficients 1, 2, 1/2, 1/2.
pub fn minimise(start: &[f64], edge: f64, f: &impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let mut simplex: Vec<(f64, Vec<f64>)> = vec![(f(start), start.to_vec())];
    for i in 0..start.len() {
        let mut corner = start.to_vec();
        corner[i] += edge;
        simplex.push((f(&corner), corner));
    }
    let last = start.len();
    for _ in 0..STEPS {
        simplex.sort_by(|a, b| a.0.total_cmp(&b.0));
        if collapsed(&simplex) {
            break;
        }
        let centre: Vec<f64> = (0..last)
            .map(|i| simplex[..last].iter().map(|corner| corner.1[i]).sum::<f64>() / last as f64)
            .collect();
        let along = |t: f64| {
            let point: Vec<f64> =
                centre.iter().zip(&simplex[last].1).map(|(c, worst)| c + t * (c - worst)).collect();
            (f(&point), point)
        };
        let reflected = along(1.0);
        if reflected.0 < simplex[0].0 {
            let expanded = along(2.0);
            simplex[last] = if expanded.0 < reflected.0 { expanded } else { reflected };
        } else if reflected.0 < simplex[last - 1].0 {
            simplex[last] = reflected;
        } else {
            let contracted = along(if reflected.0 < simplex[last].0 { 0.5 } else { -0.5 });
            if contracted.0 < simplex[last].0.min(reflected.0) {
                simplex[last] = contracted;
            } else {
                shrink(&mut simplex, f);
            }
        }
    }
    simplex.sort_by(|a, b| a.0.total_cmp(&b.0));
    simplex.swap_remove(0).1
}

/// True if the corners of a sorted simplex are one point to all that matters.
fn collapsed(simplex: &[(f64, Vec<f64>)]) -> bool {
    let [(lowest, best), others @ ..] = simplex else { return true };
    let near = |corner: &[f64]| corner.iter().zip(best).all(|(x, b)| (x - b).abs() < COLLAPSED);
    others.iter().all(|(height, corner)| height - lowest <= COLLAPSED * lowest.abs() && near(corner))
}

fn shrink(simplex: &mut [(f64, Vec<f64>)], f: &impl Fn(&[f64]) -> f64) {
    let best = simplex[0].1.clone();
    for corner in &mut simplex[1..] {
        for (x, b) in corner.1.iter_mut().zip(&best) {
            *x = b + 0.5 * (*x - b);
        }
        corner.0 = f(&corner.1);
    }
}
