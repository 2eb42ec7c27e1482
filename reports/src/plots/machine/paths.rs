//! How the lines run between the boxes.

use std::collections::BTreeSet;
use std::f64::consts::PI;

use super::layout::{Layout, Line, PartBox, joins_many};
use super::tree::{Forest, Wire};
use crate::summary::{DrawnPart, LinkKind, PartKind};

impl Layout {
    /// The lines; those of equal parts in one box are one.
    pub(super) fn join(&mut self, parts: &[DrawnPart], wires: &[Wire], forest: &Forest) {
        let mut drawn = BTreeSet::new();
        for wire in wires {
            let at = |part: usize| self.boxes.iter().position(|known| known.parts.contains(&part));
            let (Some(mut upper), Some(mut lower)) = (at(wire.ends[0]), at(wire.ends[1])) else { continue };
            let [mut above, mut below] = wire.ends;
            if self.boxes[upper].top > self.boxes[lower].top {
                (upper, lower) = (lower, upper);
                (above, below) = (below, above);
            }
            if upper == lower || !drawn.insert((upper, lower, wire.kind)) {
                continue;
            }
            let (a, b) = (&self.boxes[upper], &self.boxes[lower]);
            let hangs = forest.parent[below].is_some_and(|group| forest.groups[group].parts.contains(&above));
            let path = match (parts[above].kind, parts[below].kind) {
                (PartKind::Gpu, PartKind::Gpu) => arc((a.middle(), a.bottom), b.middle(), 1),
                _ if a.top == b.top && self.neighbours(a, b) => side_by_side(a, b),
                _ if a.top == b.top => arc((a.middle(), a.top), b.middle(), -1),
                (_, below) if joins_many(below) => vec![(a.middle(), a.bottom), (a.middle(), b.top)],
                _ if hangs => hanging(a, b, wire.kind),
                _ => vec![(a.middle(), a.bottom), (b.middle(), b.top)],
            };
            self.lines.push(Line { kind: wire.kind, bytes_per_s: wire.bytes_per_s, path });
        }
    }

    /// Whether nothing stands between two boxes of a row.
    fn neighbours(&self, a: &PartBox, b: &PartBox) -> bool {
        let (left, right) = (a.left.min(b.left), a.left.max(b.left));
        !self.boxes.iter().any(|other| other.top == a.top && left < other.left && other.left < right)
    }
}

/// How far an arc between two places of a row leaves it.
pub(super) fn depth(a: i32, b: i32) -> i32 {
    (12 + (a - b).abs() / 8).min(84)
}

/// Half an ellipse from one place of a row to another, below it or (`sign` -1) above it.
fn arc((x, y): (i32, i32), to: i32, sign: i32) -> Vec<(i32, i32)> {
    const STEPS: i32 = 32;
    let (middle, radius) = (f64::from(x + to) / 2.0, f64::from(to - x) / 2.0);
    let depth = f64::from(sign * depth(x, to));
    let point = |step: i32| {
        let turn = PI * f64::from(step) / f64::from(STEPS);
        ((middle - radius * turn.cos()).round() as i32, y + (depth * turn.sin()).round() as i32)
    };
    (0..=STEPS).map(point).collect()
}

fn side_by_side(a: &PartBox, b: &PartBox) -> Vec<(i32, i32)> {
    let (left, right) = if a.left < b.left { (a, b) } else { (b, a) };
    let middle = (left.top + left.bottom) / 2;
    vec![(left.right, middle), (right.left, middle)]
}

/// Down from a part, along, and down to what hangs on it; drives leave on the left and above the others, so that the two
/// do not cross.
fn hanging(upper: &PartBox, lower: &PartBox, kind: LinkKind) -> Vec<(i32, i32)> {
    let (aside, turn) = if kind == LinkKind::SsdLink { (-10, 9) } else { (0, 18) };
    let (from, to, y) = (upper.middle() + aside, lower.middle(), upper.bottom + turn);
    vec![(from, upper.bottom), (from, y), (to, y), (to, lower.top)]
}
