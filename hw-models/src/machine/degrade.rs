//! Slow parts: a link that lost lanes, a GPU that runs hot.

use std::collections::BTreeMap;

use super::part::PartKind;
use super::{Machine, MachineError};

/// Slows one part or one direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum Degrade {
    /// The rate of one direction of a link, `FROM -> TO`, times a factor.
    LinkRate(String, f64),
    /// The rates of all links of a part, both directions, times a factor.
    PartRate(String, f64),
    /// The clock of a GPU times a factor.
    Clock(String, f64),
}

impl Degrade {
    /// What it slows, as written.
    pub(super) fn of(&self) -> &str {
        let (Self::LinkRate(of, _) | Self::PartRate(of, _) | Self::Clock(of, _)) = self;
        of
    }
}

/// Factors below 1, by number of what they slow.
#[derive(Clone, Debug, Default)]
pub(super) struct Slowed {
    pub links: BTreeMap<u32, f64>,
    pub clocks: BTreeMap<u32, f64>,
}

impl Machine {
    /// Applies the lines in order; two lines on one target multiply.
    pub(super) fn degrade<'a>(&mut self, lines: impl IntoIterator<Item = &'a Degrade>) -> Vec<MachineError> {
        lines.into_iter().filter_map(|line| self.degrade_one(line).err()).collect()
    }

    fn degrade_one(&mut self, line: &Degrade) -> Result<(), MachineError> {
        let of = line.of();
        let (Degrade::LinkRate(_, factor) | Degrade::PartRate(_, factor) | Degrade::Clock(_, factor)) = line;
        let name = if matches!(line, Degrade::Clock(..)) { "clock" } else { "rate" };
        // The engine resolves a millionth of a link; a lost link is a missing one, not a factor 0.
        if !(1e-6..=1.0).contains(factor) {
            let expected = "a factor between 0.000001 and 1";
            return Err(MachineError::BadConstant { of: format!("`{of}`"), name, value: *factor, expected });
        }
        match line {
            Degrade::LinkRate(..) => {
                let link = self.link_named(of)?;
                self.slow_link(self.shared_direction(link).0, *factor);
            }
            Degrade::PartRate(..) => {
                let part = self.part_named(of)?;
                let links: Vec<_> = self.links_from(part).collect();
                for link in links {
                    let both = [self.shared_direction(link), self.shared_direction(link.reverse())];
                    self.slow_link(both[0].0, *factor);
                    if both[0] != both[1] {
                        self.slow_link(both[1].0, *factor);
                    }
                }
            }
            Degrade::Clock(..) => {
                let part = self.part_named(of)?;
                if self.part(part).kind != PartKind::Gpu {
                    return Err(MachineError::NoClock { part: of.to_owned() });
                }
                *self.slowed.clocks.entry(part.0).or_insert(1.0) *= factor;
            }
        }
        Ok(())
    }

    fn slow_link(&mut self, link: u32, factor: f64) {
        *self.slowed.links.entry(link).or_insert(1.0) *= factor;
    }
}
