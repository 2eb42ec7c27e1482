//! Layout of pictures with a row for each of some things, its name on the left.

use super::{Anchor, Area, PlotError, fitted, text_width, write};

/// Height of a row, and of a bar in it.
const ROW: i32 = 30;
pub(crate) const BAR: i32 = 18;
/// Space between what stands beside each other.
pub(crate) const MARGIN: i32 = 8;
/// Space above the first row.
const HEAD: i32 = 4;
const NAME_MAX: i32 = 230;

/// Rows of names.
pub(crate) struct Rows<'a> {
    names: Vec<&'a str>,
    /// Where names end.
    width: i32,
}

impl<'a> Rows<'a> {
    pub(crate) fn of(names: impl Iterator<Item = &'a str>) -> Self {
        let names: Vec<&str> = names.collect();
        let width = names.iter().map(|name| text_width(name)).max().unwrap_or_default().min(NAME_MAX);
        Self { names, width: width + MARGIN }
    }

    /// Where names end and something else may begin.
    pub(crate) fn left(&self) -> i32 {
        self.width + MARGIN
    }

    /// Height of a picture of them, with room for one more row where there is a foot.
    pub(crate) fn height(&self, foot: bool) -> u32 {
        self.names.len() as u32 * ROW as u32 + if foot { ROW as u32 } else { 2 * HEAD as u32 }
    }

    /// Upper edge of the bar of each row.
    pub(crate) fn tops(&self) -> impl Iterator<Item = i32> + use<> {
        (0..self.names.len() as i32).map(|row| row * ROW + (ROW - BAR) / 2 + HEAD)
    }

    /// Vertical ends of a mark across the row whose bar begins at `top`.
    pub(crate) fn across(top: i32) -> [i32; 2] {
        [top - (ROW - BAR) / 2, top + BAR + (ROW - BAR) / 2]
    }

    /// Writes the names, each in the middle of its row.
    pub(crate) fn write_names(&self, area: &Area<'_>) -> Result<(), PlotError> {
        self.names.iter().zip(self.tops()).try_for_each(|(name, top)| {
            write(area, (self.width, top + BAR / 2), &fitted(name, NAME_MAX), Anchor::End)
        })
    }
}
