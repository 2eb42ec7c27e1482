//! A node as a tree: sockets on top, what hangs on them below. What is no tree (NVLink, networks) comes on top later.

use std::collections::{BTreeMap, VecDeque};

use crate::summary::{DrawnLink, DrawnPart, LinkKind, PartKind};

/// GPUs up to this many are drawn one by one; of more, those below one switch are one box.
const GPUS_APART: usize = 16;

/// A link by the positions of its ends.
#[derive(Clone, Copy)]
pub(super) struct Wire {
    pub(super) ends: [usize; 2],
    pub(super) kind: LinkKind,
    pub(super) bytes_per_s: f64,
}

impl Wire {
    /// The other end.
    pub(super) fn from(&self, end: usize) -> Option<usize> {
        match self.ends {
            [a, b] if a == end => Some(b),
            [a, b] if b == end => Some(a),
            _ => None,
        }
    }
}

/// The links between known parts, one for both directions: the faster of the two.
pub(super) fn wires(parts: &[DrawnPart], links: &[DrawnLink]) -> Vec<Wire> {
    let at: BTreeMap<&str, usize> =
        parts.iter().enumerate().rev().map(|(index, part)| (part.name.as_str(), index)).collect();
    let mut wires: BTreeMap<([usize; 2], LinkKind), f64> = BTreeMap::new();
    for link in links {
        let (Some(&from), Some(&to)) = (at.get(link.from.as_str()), at.get(link.to.as_str())) else {
            continue;
        };
        if from != to {
            let rate = wires.entry(([from.min(to), from.max(to)], link.kind)).or_insert(link.bytes_per_s);
            *rate = rate.max(link.bytes_per_s);
        }
    }
    wires.into_iter().map(|((ends, kind), bytes_per_s)| Wire { ends, kind, bytes_per_s }).collect()
}

/// One box: a part, or equal ones that hang on the same part.
pub(super) struct Group {
    pub(super) parts: Vec<usize>,
    pub(super) kind: PartKind,
    /// Switches above it.
    pub(super) level: usize,
    /// Positions of the groups below it, from left to right.
    pub(super) children: Vec<usize>,
}

/// Everything that hangs on sockets; what hangs on nothing is a root beside them.
pub(super) struct Forest {
    pub(super) groups: Vec<Group>,
    pub(super) roots: Vec<usize>,
    /// Of every part the group above it.
    pub(super) parent: Vec<Option<usize>>,
}

impl Forest {
    pub(super) fn new(parts: &[DrawnPart], wires: &[Wire]) -> Self {
        let above = above(parts, wires);
        let mut below: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
        for (part, drawn) in parts.iter().enumerate().filter(|(_, part)| in_tree(part.kind)) {
            // Equal kinds stand together, drives left and network interfaces right of the GPUs.
            let children = below.entry(above[part]).or_default();
            let rank = |part: &usize| beside(parts[*part].kind);
            let place = children.partition_point(|other| rank(other) <= beside(drawn.kind));
            children.insert(place, part);
        }
        let mut forest = Forest { groups: Vec::new(), roots: Vec::new(), parent: vec![None; parts.len()] };
        let apart = parts.iter().filter(|part| part.kind == PartKind::Gpu).count() <= GPUS_APART;
        let equal = |a: usize, b: usize| {
            let grouped = match parts[a].kind {
                PartKind::Nic | PartKind::Ssd => true,
                PartKind::Gpu => !apart,
                _ => false,
            };
            let one = |part: usize| (parts[part].kind, &parts[part].label, joined(parts, wires, part));
            grouped && one(a) == one(b)
        };
        // From the top down, so that the group above exists when what hangs on it comes.
        let mut queue = VecDeque::from([(None, None, 0)]);
        while let Some((parent_part, parent, level)) = queue.pop_front() {
            for parts_of in below.remove(&parent_part).unwrap_or_default().chunk_by(|a, b| equal(*a, *b)) {
                let group = forest.groups.len();
                let kind = parts[parts_of[0]].kind;
                forest.groups.push(Group { parts: parts_of.to_vec(), kind, level, children: Vec::new() });
                match parent {
                    Some(parent) => {
                        let parent: &mut Group = &mut forest.groups[parent];
                        parent.children.push(group);
                    }
                    None => forest.roots.push(group),
                }
                for &part in parts_of {
                    forest.parent[part] = parent;
                    let deeper = level + usize::from(kind == PartKind::PcieSwitch);
                    queue.push_back((Some(part), Some(group), deeper));
                }
            }
        }
        forest
    }
}

/// What each part hangs on: the part one step closer to a socket.
fn above(parts: &[DrawnPart], wires: &[Wire]) -> Vec<Option<usize>> {
    let mut above = vec![None; parts.len()];
    let mut seen = vec![false; parts.len()];
    let of = |kind: PartKind| (0..parts.len()).filter(move |part| parts[*part].kind == kind);
    let mut starts: Vec<Vec<usize>> = vec![of(PartKind::Socket).collect()];
    starts.extend(of(PartKind::PcieSwitch).map(|switch| vec![switch]));
    for start in starts {
        let mut queue: VecDeque<usize> = start.into_iter().filter(|part| !seen[*part]).collect();
        for &part in &queue {
            seen[part] = true;
        }
        while let Some(part) = queue.pop_front() {
            for next in wires.iter().filter_map(|wire| wire.from(part)) {
                if !seen[next] && in_tree(parts[next].kind) {
                    seen[next] = true;
                    above[next] = Some(part);
                    if parts[next].kind == PartKind::PcieSwitch {
                        queue.push_back(next);
                    }
                }
            }
        }
    }
    above
}

/// What a part is joined to, without telling equal things apart.
fn joined(parts: &[DrawnPart], wires: &[Wire], part: usize) -> Vec<(PartKind, LinkKind, u64)> {
    let ends = wires.iter().filter_map(|wire| Some((wire.from(part)?, wire)));
    let mut ends: Vec<_> =
        ends.map(|(end, wire)| (parts[end].kind, wire.kind, wire.bytes_per_s.to_bits())).collect();
    ends.sort_unstable();
    ends
}

fn in_tree(kind: PartKind) -> bool {
    !matches!(kind, PartKind::HostMemory | PartKind::NvSwitch | PartKind::NetworkSwitch)
}

/// From left to right.
fn beside(kind: PartKind) -> u8 {
    match kind {
        PartKind::Ssd => 0,
        PartKind::Nic => 2,
        _ => 1,
    }
}
