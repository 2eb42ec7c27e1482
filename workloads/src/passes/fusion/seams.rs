//! Groups of a whole model: which operators each block executes for the one that follows in a pass,
//! so that they are in a kernel with its own.
//!
//! ```text
//!   A: ... add | B: norm, product, ... | C: ...
//!   handed:     A: ... (add, norm) | B: product, ... (add, norm) | C: ...
//! ```
//!
//! What may be handed over are operators at the front of a block, up to the last that a group with
//! some of the block before reaches. How many are is decided seam by seam: a block costs what its
//! list costs without those that it has handed over, and with those that it has taken, so that the
//! cheapest way along a chain of blocks is found exactly (Viterbi, 1967).

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::block::Block;
use crate::graph::cut::{Cut, Piece};

use super::groups::List;
use super::policy::Rules;
use super::{Chosen, Fusing};

/// Most operators that a block hands over.
const HEAD_MAX: usize = 8;

/// A block with operators of its neighbours, and the groups of its passes.
pub(super) struct Grouped {
    pub(super) block: Block,
    /// Groups of the forward pass, and of the backward pass.
    pub(super) groups: [Chosen; 2],
}

impl Grouped {
    /// Each pass with its groups.
    pub(super) fn passes(&self) -> [(List<'_>, &Chosen); 2] {
        let [forward, backward] = &self.groups;
        [(List::forward(&self.block), forward), (List::backward(&self.block), backward)]
    }
}

/// A pass of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Forward,
    Backward,
}

/// A block in a pass, with as much of its surroundings as changes its list: the number of its front
/// operators that a block before executes, and of those that it executes of a block behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    way: Way,
    own: usize,
    without: Option<(usize, usize)>,
    with: Option<(usize, usize)>,
}

impl Fusing {
    /// The groups of a model: its different blocks with what they execute of each other, and which of
    /// them is where.
    pub(super) fn grouped(&self, model: &Cut) -> (Vec<Grouped>, Vec<Vec<Piece>>) {
        let rules = self.settings.rules();
        let blocks: Vec<Block> = model.blocks.iter().map(|block| rules.folded(block)).collect();
        let crosses = rules.searches() && !model.gathered;
        let mut sewing =
            Sewing { fusing: self, rules, blocks, crosses, lists: BTreeMap::new(), heads: BTreeMap::new() };
        let (mut grouped, mut known) = (Vec::new(), BTreeMap::new());
        let positions = model.positions.iter().map(|pieces| {
            let own: Vec<usize> = pieces.iter().map(|piece| piece.block).collect();
            let back: Vec<usize> = own.iter().rev().copied().collect();
            let forward = sewing.cheapest(Way::Forward, &own);
            let backward = sewing.cheapest(Way::Backward, &back);
            let places = forward.into_iter().zip(backward.into_iter().rev());
            let placed = pieces.iter().zip(places).map(|(&piece, (forward, backward))| {
                let block = *known.entry((forward, backward)).or_insert_with(|| {
                    grouped.push(sewing.grouped(forward, backward));
                    grouped.len() - 1
                });
                Piece { block, ..piece }
            });
            placed.collect()
        });
        let positions = positions.collect();
        (grouped, positions)
    }

    /// Lists whose groups are looked at, with those that no list before had: the passes of each block,
    /// then those that go on with as much of the next block as can be taken.
    pub(super) fn each_list(&self, model: &Cut, mut visit: impl FnMut(&List<'_>, &dyn Fn(&[usize]) -> bool)) {
        let rules = self.settings.rules();
        let blocks: Vec<Block> = model.blocks.iter().map(|block| rules.folded(block)).collect();
        for block in &blocks {
            Way::BOTH.iter().for_each(|way| visit(&way.list(block), &|_| true));
        }
        let pairs = model.positions.iter().flat_map(|pieces| pieces.windows(2));
        let pairs: BTreeSet<(usize, usize)> = pairs.map(|pair| (pair[0].block, pair[1].block)).collect();
        for (block, next) in pairs.into_iter().filter(|_| rules.searches() && !model.gathered) {
            for (way, own, behind) in [(Way::Forward, block, next), (Way::Backward, next, block)] {
                let (own, behind) = (&blocks[own], &blocks[behind]);
                let count = reach(way, own, behind, &rules);
                if count > 0 {
                    let (mut both, at) = (own.clone(), way.end(own));
                    way.hand(&mut both, &mut behind.clone(), count);
                    visit(&way.list(&both), &|group| {
                        group[0] < at && group.iter().any(|&member| member >= at)
                    });
                }
            }
        }
    }
}

struct Sewing<'a> {
    fusing: &'a Fusing,
    rules: Rules,
    blocks: Vec<Block>,
    crosses: bool,
    /// Groups of lists that were looked at.
    lists: BTreeMap<Place, Chosen>,
    /// By two blocks that follow each other, most operators that the first can execute of the other.
    heads: BTreeMap<(Way, usize, usize), usize>,
}

impl Sewing<'_> {
    /// By block of a pass, in the order of execution, what it hands over and takes so that all cost
    /// the least.
    fn cheapest(&mut self, way: Way, order: &[usize]) -> Vec<Place> {
        // By number of operators that the block before has taken, the least cost up to there.
        let mut costs: Vec<[f64; 2]> = vec![[0.0; 2]];
        // By block, then by number of operators that it takes: its best place, and what it hands over.
        let mut best: Vec<Vec<(Place, usize)>> = Vec::with_capacity(order.len());
        for (n, &own) in order.iter().enumerate() {
            let behind = order.get(n + 1).copied();
            let most = behind.map_or(0, |behind| self.head(way, own, behind));
            let ways = (0..=most).map(|taken| {
                let with = behind.filter(|_| taken > 0).map(|behind| (behind, taken));
                let place = |given: usize| {
                    let without = (given > 0).then(|| (order[n - 1], given));
                    Place { way, own, without, with }
                };
                let mut least = ([f64::INFINITY; 2], (place(0), 0));
                for (given, before) in costs.iter().enumerate() {
                    let here = self.list(place(given)).cost;
                    let cost = [before[0] + here[0], before[1] + here[1]];
                    least = if cost < least.0 { (cost, (place(given), given)) } else { least };
                }
                least
            });
            let (next, places) = ways.unzip();
            costs = next;
            best.push(places);
        }
        let mut taken = 0;
        let mut places: Vec<Place> = best
            .iter()
            .rev()
            .map(|places| {
                let (place, given) = places[taken];
                taken = given;
                place
            })
            .collect();
        places.reverse();
        places
    }

    /// Most operators that a block can execute of the one that follows it in a pass.
    fn head(&mut self, way: Way, own: usize, behind: usize) -> usize {
        if !self.crosses {
            return 0;
        }
        let Self { rules, blocks, heads, .. } = self;
        *heads.entry((way, own, behind)).or_insert_with(|| reach(way, &blocks[own], &blocks[behind], rules))
    }

    /// Groups of a block in its place.
    fn list(&mut self, place: Place) -> &Chosen {
        let Self { fusing, rules, blocks, lists, .. } = self;
        lists.entry(place).or_insert_with(|| {
            let Place { way, own, without, with } = place;
            let mut block = blocks[own].clone();
            if let Some((before, count)) = without {
                way.hand(&mut blocks[before].clone(), &mut block, count);
            }
            if let Some((behind, count)) = with {
                way.hand(&mut block, &mut blocks[behind].clone(), count);
            }
            fusing.chosen(&way.list(&block), rules)
        })
    }

    /// A block in its places of both passes, with its groups.
    fn grouped(&self, forward: Place, backward: Place) -> Grouped {
        let mut block = self.blocks[forward.own].clone();
        let of = |place: Option<(usize, usize)>, other: Option<(usize, usize)>| {
            let number = place.or(other).map(|(block, _)| block);
            let count = |place: Option<(usize, usize)>| place.map_or(0, |(_, count)| count);
            number.map(|number| (self.blocks[number].clone(), count(place), count(other)))
        };
        // One block is behind in the forward pass, and before in the backward pass.
        if let Some((mut before, given, taken)) = of(forward.without, backward.with) {
            before.take_forward(&mut block, given);
            block.take_backward(&mut before, taken);
        }
        if let Some((mut behind, taken, given)) = of(forward.with, backward.without) {
            block.take_forward(&mut behind, taken);
            behind.take_backward(&mut block, given);
        }
        Grouped { block, groups: [forward, backward].map(|place| self.lists[&place].clone()) }
    }
}

/// Most operators of a block that a group with some of the block before it can have, in a pass.
fn reach(way: Way, own: &Block, behind: &Block, rules: &Rules) -> usize {
    let movable = way.head(own, behind);
    if movable == 0 {
        return 0;
    }
    let at = way.end(own);
    let (mut both, mut rest) = (own.clone(), behind.clone());
    way.hand(&mut both, &mut rest, movable);
    let list = way.list(&both);
    let mut most = 0;
    for first in 0..at {
        for group in list.groups_from(first, &rules.permitted) {
            let taken = group.iter().rev().find(|&&member| (at..at + movable).contains(&member));
            most = most.max(taken.map_or(0, |member| member + 1 - at));
        }
    }
    most
}

impl Way {
    const BOTH: [Self; 2] = [Self::Forward, Self::Backward];

    /// Has a block execute the first operators of the one that follows.
    fn hand(self, own: &mut Block, behind: &mut Block, count: usize) {
        match self {
            Self::Forward => own.take_forward(behind, count),
            Self::Backward => own.take_backward(behind, count),
        }
    }

    /// Operators at the front of a block that the one before could execute: nothing is executed across
    /// what ranks or hosts wait for.
    fn head(self, own: &Block, behind: &Block) -> usize {
        let (list, follows) = match self {
            Self::Forward => (&behind.forward, own.output.is_some()),
            Self::Backward => (&behind.backward, own.input_gradient.and(behind.output_gradient).is_some()),
        };
        let front = list.iter().take(HEAD_MAX).take_while(|op| follows && !op.stops());
        front.count().min(list.len().saturating_sub(1))
    }

    /// Number of operators before those that a block takes of the one that follows.
    fn end(self, block: &Block) -> usize {
        match self {
            Self::Forward => block.forward.len(),
            Self::Backward => block.backward.len() - block.afterwards(),
        }
    }

    /// The pass of a block.
    fn list(self, block: &Block) -> List<'_> {
        match self {
            Self::Forward => List::forward(block),
            Self::Backward => List::backward(block),
        }
    }
}
