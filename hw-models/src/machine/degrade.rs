//! Slow parts: a link that lost lanes, a GPU that runs hot.

use std::collections::BTreeMap;

use super::part::{PartId, PartKind};
use super::{Degrade, Machine, MachineError};
use crate::settings::Share;

/// Target of a line of `degrade`.
#[derive(Clone, Copy)]
enum Slow<'a> {
    /// The rate of one direction of a link.
    Link(&'a str),
    /// The rates of all links of a part, both directions.
    Part(&'a str),
    /// The clock of a GPU.
    Clock(&'a str),
}

impl Degrade {
    /// Name of the link or part, as written.
    pub(super) fn name(&self) -> &str {
        self.link.as_deref().or(self.part.as_deref()).unwrap_or_default()
    }

    /// The target and the factor. `None`: the line is unclear.
    fn read(&self) -> Option<(Slow<'_>, f64)> {
        let Self { link, part, rate, clock } = self;
        match (link, part, rate.map(Share::as_f64), clock.map(Share::as_f64)) {
            (Some(link), None, Some(rate), None) => Some((Slow::Link(link), rate)),
            (None, Some(part), Some(rate), None) => Some((Slow::Part(part), rate)),
            (None, Some(part), None, Some(clock)) => Some((Slow::Clock(part), clock)),
            _ => None,
        }
    }
}

/// Reports lines that do not say clearly what is slow and how slow.
pub(super) fn unclear(lines: &[Degrade]) -> Vec<MachineError> {
    let unclear = lines.iter().enumerate().filter(|(_, line)| line.read().is_none());
    let text = "a slow part has one name and one share that is left: write `{ link: FROM -> TO, rate: 50 % }`, \
        `{ part: NAME, rate: 50 % }` or `{ part: NAME, clock: 80 % }`";
    unclear.map(|(line, _)| MachineError::of_setting(format!("degrade.{line}"), text)).collect()
}

/// Factors below 1, by number of what they slow.
#[derive(Clone, Debug, Default)]
pub(super) struct Slowed {
    pub links: BTreeMap<u32, f64>,
    pub clocks: BTreeMap<u32, f64>,
}

impl Machine {
    /// Applies the clear lines in order; two lines on one target multiply. A link between two slow
    /// parts has the rate of its slower end.
    pub(super) fn degrade<'a>(&mut self, lines: impl IntoIterator<Item = &'a Degrade>) -> Vec<MachineError> {
        let clear = lines.into_iter().filter_map(Degrade::read);
        let mut parts = BTreeMap::new();
        let errors =
            clear.filter_map(|(slow, factor)| self.degrade_one(slow, factor, &mut parts).err()).collect();
        for (link, factor) in self.slowest_ends(&parts) {
            self.slow_link(link, factor);
        }
        errors
    }

    /// Applies a line; the factors of all links of a part go to `parts`.
    fn degrade_one(
        &mut self,
        slow: Slow<'_>,
        factor: f64,
        parts: &mut BTreeMap<PartId, f64>,
    ) -> Result<(), MachineError> {
        let (of, name) = match slow {
            Slow::Link(of) | Slow::Part(of) => (of, "rate"),
            Slow::Clock(of) => (of, "clock"),
        };
        // The engine resolves a millionth of a link; a lost link is a missing one, not a factor 0.
        if !(1e-6..=1.0).contains(&factor) {
            let expected = "a factor between 0.000001 and 1";
            return Err(MachineError::bad_constant(&format!("`{of}`"), name, factor, expected));
        }
        match slow {
            Slow::Link(_) => {
                let link = self.link_named(of)?;
                self.slow_link(self.shared_direction(link).0, factor);
            }
            Slow::Part(_) => {
                *parts.entry(self.part_named(of)?).or_insert(1.0) *= factor;
            }
            Slow::Clock(_) => {
                let part = self.part_named(of)?;
                if self.part(part).kind != PartKind::Gpu {
                    let text =
                        format!("`{of}` has no clock to slow: only GPUs have; slow its links with `rate`");
                    return Err(MachineError::of(of, text));
                }
                *self.slowed.clocks.entry(part.0).or_insert(1.0) *= factor;
            }
        }
        Ok(())
    }

    /// Factors of the links of slow parts, both directions.
    fn slowest_ends(&self, parts: &BTreeMap<PartId, f64>) -> BTreeMap<u32, f64> {
        let mut links = BTreeMap::new();
        for (&part, &factor) in parts {
            for link in self.links_from(part).flat_map(|link| [link, link.reverse()]) {
                let slowest: &mut f64 = links.entry(self.shared_direction(link).0).or_insert(1.0);
                *slowest = slowest.min(factor);
            }
        }
        links
    }

    fn slow_link(&mut self, link: u32, factor: f64) {
        *self.slowed.links.entry(link).or_insert(1.0) *= factor;
    }
}
