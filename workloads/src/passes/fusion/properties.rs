//! Properties of groups of random lists of operators.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use crate::graph::Phase;
use crate::graph::block::Block;
use crate::graph::cut::{Cut, PartKind, Piece};
use crate::graph::handed::Handed;
use crate::graph::math::Member;
use crate::graph::operator::{
    Dtype, Gemm, Label, Layout, Math, Operator, Stream, StreamClass, Tensor, TensorId, Work,
};

use super::cover::cheapest;
use super::groups::{List, Permitted};
use super::policy::Policy;
use super::price::Cost;
use super::{Fusion, KernelTimes, Pass, Priced, Prices};

/// A time that no rule would guess: by bytes, and by what the kernel happens to be.
#[derive(Debug)]
struct Odd;

impl KernelTimes for Odd {
    fn seconds(&self, work: &Work) -> Option<f64> {
        let bytes = work.bytes();
        Some(bytes as f64 + (bytes.wrapping_mul(2_654_435_761) % 97) as f64)
    }

    fn least(&self, work: &Work) -> f64 {
        work.bytes() as f64
    }

    fn cached(&self, _: u64, _: u64) -> u64 {
        0
    }
}

#[derive(Clone, Copy, Debug)]
enum Drawn {
    Product,
    Pass(Math),
    InPlace(Math),
    Sum,
    Rows,
    Softmax,
    Awaited,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let math = prop_oneof![Just(Math::Bias), Just(Math::Relu), Just(Math::Add), Just(Math::Window)];
    prop_oneof![
        2 => Just(Drawn::Product),
        6 => math.clone().prop_map(Drawn::Pass),
        3 => math.prop_map(Drawn::InPlace),
        1 => Just(Drawn::Sum),
        1 => Just(Drawn::Rows),
        1 => Just(Drawn::Softmax),
        1 => Just(Drawn::Awaited),
    ]
}

/// A forward pass: each operator reads two of the tensors before it, all of one size.
fn block(list: &[(Drawn, usize, usize)]) -> Block {
    const BYTES: u64 = 64;
    let mut tensors = vec![Tensor { name: Label::Borrowed("input"), bytes: BYTES }];
    let mut forward = Vec::new();
    for &(drawn, a, b) in list {
        let one = TensorId((a % tensors.len()) as u32);
        let other = TensorId((b % tensors.len()) as u32);
        let stream = |class, rows| {
            Work::Stream(Stream {
                class,
                bytes_read: BYTES,
                bytes_written: BYTES,
                bytes_cached: 0,
                rows,
                looked_up: 0,
            })
        };
        let gemm = Gemm {
            batch: 1,
            m: 8,
            n: 4,
            k: 4,
            dtype: Dtype::Fp16,
            layout: Layout::Forward,
            accumulate: None,
        };
        let (work, math) = match drawn {
            Drawn::Product => (Work::Gemm(gemm), None),
            Drawn::Pass(math) | Drawn::InPlace(math) => (stream(StreamClass::Elementwise, None), Some(math)),
            Drawn::Sum => (stream(StreamClass::Reduction, None), None),
            Drawn::Rows => (stream(StreamClass::LayerNorm, Some(4)), None),
            // Of the 8 rows of the product.
            Drawn::Softmax => (stream(StreamClass::Softmax, Some(8)), None),
            Drawn::Awaited => (stream(StreamClass::Elementwise, None), Some(Math::Relu)),
        };
        let mut op = Operator { math, ..Operator::of("operator", Phase::Forward, work) };
        op.awaited = matches!(drawn, Drawn::Awaited);
        op.reads = vec![one];
        if math == Some(Math::Add) && other != one {
            op.reads.push(other);
            if let Work::Stream(stream) = &mut op.work {
                stream.bytes_read *= 2;
            }
        }
        if !matches!(drawn, Drawn::InPlace(_)) {
            op.writes = vec![TensorId(tensors.len() as u32)];
            tensors.push(Tensor { name: Label::Borrowed("made"), bytes: BYTES });
        }
        forward.push(op);
    }
    // Where everything was in place, it is the input.
    let output = forward.iter().rev().find_map(|op| op.writes.first().copied()).or(Some(TensorId(0)));
    Block {
        tensors,
        input: TensorId(0),
        output,
        output_gradient: None,
        input_gradient: None,
        forward,
        backward: Vec::new(),
        middle: None,
        handed: Handed::default(),
    }
}

/// Blocks one after the other.
fn model(lists: &[Vec<(Drawn, usize, usize)>]) -> Cut {
    let mut model = Cut::default();
    let piece = |block| Piece {
        kind: PartKind::Layer,
        block,
        layer: None,
        owned: 0,
        trained: 0,
        read: 0,
        experts: 0,
    };
    let pieces = lists.iter().map(|list| piece(model.block(block(list)))).collect();
    model.positions = vec![pieces];
    model
}

/// Its blocks in the order of the forward pass.
fn in_order(model: &Cut) -> impl Iterator<Item = &Block> {
    model.positions.iter().flatten().map(|piece| &model.blocks[piece.block])
}

fn lists(most: usize) -> impl Strategy<Value = Vec<(Drawn, usize, usize)>> {
    prop::collection::vec((drawn(), 0_usize..32, 0_usize..32), 1..most)
}

fn everything() -> Permitted {
    let members = Member::ALL.to_vec();
    Permitted { passes: true, before: true, of_products: members.clone(), of_convolutions: members }
}

/// The least cost of all ways to cut a list into groups that are legal.
fn brute_force(list: &List<'_>, permitted: &Permitted, cost: &dyn Fn(&[usize]) -> f64) -> f64 {
    fn rest(left: &[usize], groups: &[Vec<Vec<usize>>], cost: &dyn Fn(&[usize]) -> f64) -> f64 {
        let Some(&first) = left.first() else { return 0.0 };
        let fits = groups[first].iter().filter(|group| group.iter().all(|member| left.contains(member)));
        let with = |group: &Vec<usize>| {
            let others: Vec<usize> = left.iter().copied().filter(|n| !group.contains(n)).collect();
            cost(group) + rest(&others, groups, cost)
        };
        fits.map(with).fold(f64::INFINITY, f64::min)
    }
    let count = list.operators.len();
    let groups: Vec<_> = (0..count).map(|first| all_from(list, first, permitted)).collect();
    rest(&(0..count).collect::<Vec<_>>(), &groups, cost)
}

/// Every subset that begins with an operator, and is legal: nothing outside it in between is bound
/// to a member.
fn all_from(list: &List<'_>, first: usize, permitted: &Permitted) -> Vec<Vec<usize>> {
    let behind: Vec<usize> = (first + 1..list.operators.len()).collect();
    let subsets = (0..1_u32 << behind.len()).map(|bits| {
        let chosen = behind.iter().enumerate().filter(|(n, _)| bits >> n & 1 == 1).map(|(_, &op)| op);
        std::iter::once(first).chain(chosen).collect::<Vec<usize>>()
    });
    subsets.filter(|group| list.is_legal(group, permitted)).collect()
}

fn cut(list: &List<'_>, permitted: &Permitted, cost: &dyn Fn(&[usize]) -> f64) -> (f64, Vec<Vec<usize>>) {
    let groups = (0..list.operators.len()).flat_map(|first| list.groups_from(first, permitted));
    let groups: Vec<Priced> = groups.map(|members| Priced { cost: [cost(&members), 0.0], members }).collect();
    let chosen = cheapest(list.operators.len(), &groups);
    let members: Vec<Vec<usize>> = chosen.iter().map(|&n| groups[n].members.clone()).collect();
    (chosen.iter().map(|&n| groups[n].cost[0]).sum(), members)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// The search is exact on short lists.
    #[test]
    fn covers_are_as_cheap_as_the_cheapest_of_all(list in lists(9)) {
        let block = block(&list);
        let list = List::forward(&block);
        let (permitted, rules) = (everything(), Policy::Searched.rules());
        let prices = Prices(Arc::new(Odd));
        let cost = Cost::fastest(&prices);
        let cost = |group: &[usize]| cost.of(&list, group, &rules)[0];
        let (found, groups) = cut(&list, &permitted, &cost);
        prop_assert!((found - brute_force(&list, &permitted, &cost)).abs() < 1e-9);
        let mut members: Vec<usize> = groups.concat();
        members.sort_unstable();
        prop_assert_eq!(members, (0..list.operators.len()).collect::<Vec<_>>());
    }

    /// Permissions that are nested have results that are: more members never cost more.
    #[test]
    fn more_that_is_permitted_never_costs_more(list in lists(14)) {
        let block = block(&list);
        let list = List::forward(&block);
        let rules = Policy::Searched.rules();
        let prices = Prices(Arc::new(Odd));
        let cost = Cost::fastest(&prices);
        let cost = |group: &[usize]| cost.of(&list, group, &rules)[0];
        let permitted = |passes, members: &[Member]| {
            let (of_products, of_convolutions) = (members.to_vec(), members.to_vec());
            Permitted { passes, before: false, of_products, of_convolutions }
        };
        let costs = [
            permitted(false, &[]),
            permitted(true, &[]),
            permitted(true, &[Member::Bias]),
            permitted(true, &[Member::Bias, Member::Activation]),
            everything(),
        ]
        .map(|permitted| cut(&list, &permitted, &cost).0);
        prop_assert!(costs.windows(2).all(|pair| pair[1] <= pair[0] + 1e-9), "{:?}", costs);
    }

    /// Whatever the policy: every tensor is there before it is read, the same results are left,
    /// work is kept, and no kernel moves more bytes than its members did.
    #[test]
    fn groups_do_what_their_members_did(lists in prop::collection::vec(lists(12), 1..4)) {
        let model = model(&lists);
        for policy in [Policy::None, Policy::Passes, Policy::Epilogues, Policy::Inductor, Policy::Xla, Policy::Searched] {
            let fusion = Fusion { policy, ..Fusion::default() };
            let mut fused = model.clone();
            fusion.pass(Some(Prices(Arc::new(Odd)))).rewrite(&mut fused);
            let mut left = Vec::new();
            for block in in_order(&fused) {
                let given: Vec<bool> = std::mem::take(&mut left);
                let taken = block.handed.forward.taken.iter().zip(given).filter(|(_, there)| *there);
                let mut there: BTreeSet<TensorId> = taken.map(|(tensor, _)| *tensor).collect();
                there.insert(block.input);
                for op in &block.forward {
                    prop_assert!(op.reads.iter().all(|tensor| there.contains(tensor)), "{policy}: {op:?}");
                    there.extend(&op.writes);
                }
                prop_assert!(block.output.is_none_or(|output| there.contains(&output)));
                left.extend(block.handed.forward.given.iter().map(|tensor| there.contains(tensor)));
            }
            let sum = |of: fn(&Operator) -> f64, model: &Cut| -> f64 {
                in_order(model).flat_map(|block| &block.forward).map(of).sum()
            };
            let flops: fn(&Operator) -> f64 = |op| op.work.flops();
            let bytes: fn(&Operator) -> f64 = |op| op.work.bytes() as f64;
            let members: fn(&Operator) -> f64 = |op| f64::from(op.members);
            prop_assert_eq!(sum(flops, &fused), sum(flops, &model));
            prop_assert_eq!(sum(members, &fused), sum(members, &model));
            prop_assert!(sum(bytes, &fused) <= sum(bytes, &model));
        }
    }

    /// Of all ways to hand operators from block to block the cheapest is found.
    #[test]
    fn blocks_hand_over_what_is_cheapest(lists in prop::collection::vec(lists(7), 2..4)) {
        let model = model(&lists);
        let prices = Prices(Arc::new(Odd));
        let pass = Fusion::default().pass(Some(prices.clone()));
        let mut fused = model.clone();
        pass.rewrite(&mut fused);
        let cost = |blocks: &[Block]| -> f64 {
            let operators = blocks.iter().flat_map(|block| &block.forward);
            operators.map(|op| Odd.seconds(&op.work).unwrap()).sum()
        };
        let found = cost(&in_order(&fused).cloned().collect::<Vec<_>>());
        let blocks: Vec<Block> = in_order(&model).cloned().collect();
        let mut least = f64::INFINITY;
        // Operators that the second and the third block hand over.
        for first in 0..blocks[1].forward.len() {
            for second in 0..blocks.get(2).map_or(1, |block| block.forward.len()) {
                let mut blocks = blocks.clone();
                for (at, count) in [(0, first), (1, second)] {
                    if let [own, next, ..] = &mut blocks[at..] {
                        own.take_forward(next, count);
                    }
                }
                let fused: Vec<Block> = blocks.iter().map(|block| pass.fused(block)).collect();
                least = least.min(cost(&fused));
            }
        }
        prop_assert!(found <= least + 1e-9, "{found} {least}");
    }
}
