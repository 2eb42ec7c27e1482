//! Names of lines at their ends.

use plotters::prelude::*;

use super::{Anchor, Area, PlotError, fitted, write};

/// Width of the longest label.
pub(crate) const WIDTH_MAX: i32 = 200;
/// Distance of neighbouring labels.
const DISTANCE: i32 = 15;

/// Writes names with their heights at the ends of their lines, pushed apart until each can be read.
pub(crate) fn at_ends(
    area: &Area<'_>,
    mut ends: Vec<(i32, String, RGBAColor)>,
    (left, bottom): (i32, i32),
) -> Result<(), PlotError> {
    ends.sort_by_key(|(y, ..)| *y);
    let mut free_from = 8;
    for (y, ..) in &mut ends {
        *y = (*y).max(free_from);
        free_from = *y + DISTANCE;
    }
    let mut free_to = bottom;
    for (y, ..) in ends.iter_mut().rev() {
        *y = (*y).min(free_to);
        free_to = *y - DISTANCE;
    }
    for (y, name, colour) in ends {
        area.draw(&Circle::new((left + 4, y), 4, colour.filled()))?;
        write(area, (left + 12, y), &fitted(&name, WIDTH_MAX), Anchor::Start)?;
    }
    Ok(())
}
