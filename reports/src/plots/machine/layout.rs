//! Where boxes and lines lie: one row a kind of part, from host memory down to the network, so that every line goes down
//! from a row to a later one, beside the boxes between.

use std::collections::BTreeSet;

use super::super::WIDTH;
use super::paths::depth;
use super::tree::{Forest, Group, Wire};
use crate::summary::{DrawnPart, LinkKind, PartKind};

/// Room for the titles of the rows.
pub(super) const GUTTER: i32 = 176;
const BOX: i32 = 24;
/// A line of text below the first of a box.
const TEXT: i32 = 15;
/// Height of what joins many parts.
const BAR: i32 = 10;
const GAP: i32 = 30;
/// Width of a drive or interface where there is room; other parts are wider.
const UNIT_MAX: f64 = 52.0;
/// Room between parts that hang on different ones, in units.
const APART: f64 = 0.4;

/// The geometry of a node.
pub(super) struct Layout {
    pub(super) rows: Vec<Row>,
    pub(super) boxes: Vec<PartBox>,
    pub(super) lines: Vec<Line>,
    pub(super) height: i32,
}

/// All parts of a kind; switches below switches have rows of their own.
pub(super) struct Row {
    pub(super) kind: PartKind,
    pub(super) level: usize,
    pub(super) top: i32,
    pub(super) bottom: i32,
    pub(super) parts: Vec<usize>,
}

/// A part, or equal ones.
pub(super) struct PartBox {
    pub(super) parts: Vec<usize>,
    pub(super) left: i32,
    pub(super) right: i32,
    pub(super) top: i32,
    pub(super) bottom: i32,
}

/// A link as it is drawn, by corners.
pub(super) struct Line {
    pub(super) kind: LinkKind,
    pub(super) bytes_per_s: f64,
    pub(super) path: Vec<(i32, i32)>,
}

impl PartBox {
    pub(super) fn middle(&self) -> i32 {
        (self.left + self.right) / 2
    }
}

impl Layout {
    /// Lays out `parts`; a GPU's box has `lines` of text below its name.
    pub(super) fn new(parts: &[DrawnPart], wires: &[Wire], lines: usize) -> Self {
        let forest = Forest::new(parts, wires);
        let centres = Centres::new(&forest);
        let mut rows = rows(parts, &forest);
        let room = Room::of(parts, wires, &centres, &forest);
        let mut top = 4;
        for row in &mut rows {
            let height = match row.kind {
                PartKind::Gpu => BOX + TEXT * lines as i32,
                kind if joins_many(kind) => BAR,
                _ => BOX,
            };
            top += if row.kind == PartKind::Socket { room.above_sockets } else { 0 };
            (row.top, row.bottom) = (top, top + height);
            top += height + GAP + if row.kind == PartKind::Gpu { room.below_gpus } else { 0 };
        }
        let mut layout =
            Layout { height: (top - GAP + 8).max(BOX), rows, boxes: Vec::new(), lines: Vec::new() };
        layout.place(parts, wires, &forest, &centres);
        layout.join(parts, wires, &forest);
        layout
    }

    fn row(&self, kind: PartKind, level: usize) -> Option<&Row> {
        self.rows.iter().find(|row| row.kind == kind && row.level == level)
    }

    fn place(&mut self, parts: &[DrawnPart], wires: &[Wire], forest: &Forest, centres: &Centres) {
        for (group, centre) in forest.groups.iter().zip(&centres.of_group) {
            let half = (half_width(group.kind) * centres.unit - 1.5).max(3.0);
            self.add(group.parts.clone(), group.kind, row_level(group), (centre - half, centre + half));
        }
        self.place_memories(parts, wires);
        for kind in [PartKind::NvSwitch, PartKind::NetworkSwitch] {
            let hubs: Vec<usize> = (0..parts.len()).filter(|part| parts[*part].kind == kind).collect();
            let members = self.boxes.iter().filter(|known| {
                known.parts.iter().any(|part| {
                    wires.iter().any(|wire| wire.from(*part).is_some_and(|end| hubs.contains(&end)))
                })
            });
            let span = members.fold(None, |span: Option<(i32, i32)>, member| {
                let (left, right) = span.unwrap_or((member.left, member.right));
                Some((left.min(member.left), right.max(member.right)))
            });
            if let Some((left, right)) = span {
                self.add(hubs, kind, 0, (f64::from(left), f64::from(right)));
            }
        }
    }

    /// Each memory above its socket.
    fn place_memories(&mut self, parts: &[DrawnPart], wires: &[Wire]) {
        let mut places = Vec::new();
        for socket in &self.boxes {
            let own = |part: &usize| {
                let joined = wires.iter().find_map(|wire| wire.from(*part));
                parts[*part].kind == PartKind::HostMemory
                    && joined.is_some_and(|end| socket.parts.contains(&end))
            };
            let memories: Vec<usize> = (0..parts.len()).filter(own).collect();
            let width = f64::from(socket.right - socket.left);
            for (place, memory) in memories.iter().enumerate() {
                let aside = width * (place as f64 - (memories.len() as f64 - 1.0) / 2.0);
                let left = f64::from(socket.left) + aside;
                places.push((*memory, (left, left + width)));
            }
        }
        for (memory, span) in places {
            self.add(vec![memory], PartKind::HostMemory, 0, span);
        }
    }

    fn add(&mut self, parts: Vec<usize>, kind: PartKind, level: usize, (left, right): (f64, f64)) {
        if let Some(Row { top, bottom, .. }) = self.row(kind, level) {
            let (top, bottom, left, right) = (*top, *bottom, left.round() as i32, right.round() as i32);
            self.boxes.push(PartBox { parts, left, right, top, bottom });
        }
    }
}

/// What joins many parts is a bar as wide as all of them.
pub(super) fn joins_many(kind: PartKind) -> bool {
    matches!(kind, PartKind::NvSwitch | PartKind::NetworkSwitch)
}

/// The row of a group among those of its kind: only switches have several.
fn row_level(group: &Group) -> usize {
    if group.kind == PartKind::PcieSwitch { group.level } else { 0 }
}

/// The rows that have parts, from top to bottom.
fn rows(parts: &[DrawnPart], forest: &Forest) -> Vec<Row> {
    const ORDER: [PartKind; 8] = [
        PartKind::HostMemory,
        PartKind::Socket,
        PartKind::PcieSwitch,
        PartKind::Ssd,
        PartKind::Gpu,
        PartKind::NvSwitch,
        PartKind::Nic,
        PartKind::NetworkSwitch,
    ];
    let mut rows = Vec::new();
    for kind in ORDER {
        let in_forest = forest.groups.iter().filter(|group| group.kind == kind);
        let levels: BTreeSet<usize> = in_forest.map(row_level).chain([0]).collect();
        for level in levels {
            let here = |part: &usize| {
                let own = |group: &&Group| group.parts.contains(part);
                parts[*part].kind == kind && forest.groups.iter().find(own).map_or(0, row_level) == level
            };
            let parts: Vec<usize> = (0..parts.len()).filter(here).collect();
            if !parts.is_empty() {
                rows.push(Row { kind, level, top: 0, bottom: 0, parts });
            }
        }
    }
    rows
}

/// Where the middle of each group lies from left to right.
struct Centres {
    of_group: Vec<f64>,
    /// Pixels a unit.
    unit: f64,
}

impl Centres {
    fn new(forest: &Forest) -> Self {
        let mut centres = Centres { of_group: vec![0.0; forest.groups.len()], unit: 1.0 };
        let end = centres.spread(forest, &forest.roots, 0.0);
        centres.unit = (f64::from(WIDTH as i32 - GUTTER - 4) / end.max(1.0)).min(UNIT_MAX);
        for centre in &mut centres.of_group {
            *centre = f64::from(GUTTER) + *centre * centres.unit;
        }
        centres
    }

    /// Puts `groups` side by side from `left` on, each over the middle of what hangs on it; gives the right end.
    fn spread(&mut self, forest: &Forest, groups: &[usize], left: f64) -> f64 {
        let mut right = left;
        for (index, &group) in groups.iter().enumerate() {
            let below = &forest.groups[group].children;
            let parted = |group: usize| !forest.groups[group].children.is_empty();
            if index > 0 && (parted(group) || parted(groups[index - 1])) {
                right += APART;
            }
            let own = 2.0 * half_width(forest.groups[group].kind);
            let end = self.spread(forest, below, right).max(right + own);
            self.of_group[group] = match (below.first(), below.last()) {
                (Some(&first), Some(&last)) => {
                    ((self.of_group[first] + self.of_group[last]) / 2.0).max(right + own / 2.0)
                }
                _ => (right + end) / 2.0,
            };
            right = end;
        }
        right
    }
}

/// Half the width of a box in units.
fn half_width(kind: PartKind) -> f64 {
    match kind {
        PartKind::Nic | PartKind::Ssd => 0.5,
        PartKind::Gpu => 1.15,
        _ => 1.4,
    }
}

/// Room that arcs need.
struct Room {
    above_sockets: i32,
    below_gpus: i32,
}

impl Room {
    fn of(parts: &[DrawnPart], wires: &[Wire], centres: &Centres, forest: &Forest) -> Self {
        let at = |part: usize| {
            let group = forest.groups.iter().position(|group| group.parts.contains(&part))?;
            Some(centres.of_group[group] as i32)
        };
        let deepest = |kind: PartKind| {
            let within = wires.iter().filter(|wire| wire.ends.iter().all(|end| parts[*end].kind == kind));
            let depths = within.filter_map(|wire| Some(depth(at(wire.ends[0])?, at(wire.ends[1])?)));
            depths.max().unwrap_or_default()
        };
        let sockets = parts.iter().filter(|part| part.kind == PartKind::Socket).count();
        Room {
            above_sockets: if sockets > 2 { deepest(PartKind::Socket) } else { 0 },
            below_gpus: deepest(PartKind::Gpu),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::machine::tree;
    use crate::summary::DrawnLink;

    /// A node of `sockets` with two switches each, of which the second hangs on the first where `deep`.
    fn node(sockets: usize, devices: [usize; 3], deep: bool) -> (Vec<DrawnPart>, Vec<Wire>) {
        let (mut parts, mut links) = (Vec::new(), Vec::new());
        let mut add = |kind: PartKind, name: String, above: &str, link: LinkKind| {
            parts.push(DrawnPart { name: name.clone(), kind, label: String::new() });
            links.push(DrawnLink { from: name, to: above.to_owned(), kind: link, bytes_per_s: 1e9 });
        };
        add(PartKind::NvSwitch, "nvswitch".to_owned(), "gpu 0 0 0", LinkKind::NvLink);
        add(PartKind::NetworkSwitch, "network".to_owned(), "nic 0 0 0", LinkKind::Network);
        for socket in 0..sockets {
            let next = format!("socket {}", (socket + 1) % sockets);
            add(PartKind::Socket, format!("socket {socket}"), &next, LinkKind::SocketLink);
            add(
                PartKind::HostMemory,
                format!("memory {socket}"),
                &format!("socket {socket}"),
                LinkKind::Memory,
            );
            for switch in 0..2 {
                let name = format!("switch {socket} {switch}");
                let above = format!("socket {socket}");
                let above = if deep && switch == 1 { format!("switch {socket} 0") } else { above };
                add(PartKind::PcieSwitch, name.clone(), &above, LinkKind::Pcie);
                let kinds = [PartKind::Gpu, PartKind::Nic, PartKind::Ssd];
                for (kind, count) in kinds.into_iter().zip(devices) {
                    for index in 0..count {
                        let device = format!("{} {socket} {switch} {index}", kind.noun(1).to_lowercase());
                        add(kind, device, &name, LinkKind::Pcie);
                    }
                }
            }
        }
        let wires = tree::wires(&parts, &links);
        (parts, wires)
    }

    fn each_node(check: impl Fn(&[DrawnPart], &[Wire], &Layout)) {
        for sockets in 1..=4 {
            for devices in [[1, 0, 0], [2, 2, 2], [2, 1, 0], [4, 1, 3], [5, 5, 5]] {
                for deep in [false, true] {
                    let (parts, wires) = node(sockets, devices, deep);
                    check(&parts, &wires, &Layout::new(&parts, &wires, 2));
                }
            }
        }
    }

    #[test]
    fn boxes_lie_apart_inside_the_picture_and_hold_every_part_once() {
        each_node(|parts, _, layout| {
            let mut held: Vec<usize> = layout.boxes.iter().flat_map(|one| one.parts.clone()).collect();
            held.sort_unstable();
            let joined = parts.iter().any(|part| part.kind == PartKind::Nic);
            let all = (0..parts.len()).filter(|part| joined || parts[*part].kind != PartKind::NetworkSwitch);
            assert_eq!(held, all.collect::<Vec<_>>());
            for (index, a) in layout.boxes.iter().enumerate() {
                assert!(a.left < a.right && a.right <= WIDTH as i32 && a.bottom <= layout.height);
                assert!(a.left >= GUTTER - 1, "beside the titles");
                for b in &layout.boxes[..index] {
                    let apart =
                        a.right <= b.left || b.right <= a.left || a.bottom < b.top || b.bottom < a.top;
                    assert!(apart, "{:?} on {:?}", a.parts, b.parts);
                }
            }
        });
    }

    #[test]
    fn lines_down_pass_beside_the_boxes_between_their_ends() {
        each_node(|parts, wires, layout| {
            assert!(layout.lines.len() <= wires.len() && !layout.lines.is_empty());
            for line in &layout.lines {
                for legs in line.path.windows(2).filter(|legs| legs[0].0 == legs[1].0) {
                    let (x, from, to) = (legs[0].0, legs[0].1, legs[1].1);
                    for one in layout.boxes.iter().filter(|one| !joins_many(parts[one.parts[0]].kind)) {
                        let between = one.left < x && x < one.right && from < one.top && one.bottom < to;
                        assert!(!between, "a line at {x} through {:?}", one.parts);
                    }
                }
            }
        });
    }

    #[test]
    fn equal_drives_and_interfaces_below_one_switch_share_a_box() {
        let (parts, wires) = node(2, [2, 2, 2], false);
        let layout = Layout::new(&parts, &wires, 0);
        let sizes = |kind: PartKind| {
            let boxes = layout.boxes.iter().filter(|one| parts[one.parts[0]].kind == kind);
            boxes.map(|one| one.parts.len()).collect::<Vec<_>>()
        };
        assert_eq!(sizes(PartKind::Ssd), [2; 4]);
        assert_eq!(sizes(PartKind::Gpu), [1; 8]);
        // One interface has a way to the network, so it differs from its neighbour.
        assert_eq!(sizes(PartKind::Nic), [1, 1, 2, 2, 2]);
    }
}
