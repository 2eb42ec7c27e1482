//! The run that is shown of an experiment that has many.

use super::Refusal;
use crate::experiment::{Experiment, Point, Resolved};

/// The first possible run of a variant.
#[derive(Clone, Debug)]
pub struct First<'e> {
    /// The variant.
    pub variant: &'e str,
    /// The point of the sweep.
    pub point: Point,
    /// The scenario.
    pub resolved: Resolved,
}

/// Finds the first run of a variant whose settings go together. `None`: of the first variant.
///
/// # Errors
/// A variant that the experiment does not have, or one of which no run is possible.
pub fn first<'e>(experiment: &'e Experiment, variant: Option<&str>) -> Result<First<'e>, Refusal> {
    let known: Vec<&str> = experiment.variants().collect();
    let found = known.iter().find(|name| variant.is_none_or(|variant| variant == **name));
    let variant = found.copied().ok_or_else(|| Refusal::UnknownVariant {
        name: variant.unwrap_or_default().to_owned(),
        known: known.into_iter().map(str::to_owned).collect(),
    })?;
    let mut reason = "no point of the sweep meets `where`".to_owned();
    for point in experiment.points() {
        match experiment.resolve(variant, &point) {
            Ok(resolved) => return Ok(First { variant, point, resolved }),
            Err(infeasible) => reason = infeasible.reason,
        }
    }
    Err(Refusal::NothingToShow { variant: variant.to_owned(), reason })
}
