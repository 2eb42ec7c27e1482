//! Groups of operators that may be one kernel.
//!
//! A group is executed where its last member stands. That is legal where nothing in between needs
//! what a member makes, or changes what a member reads: so members never depend on each other
//! through the outside, and groups that are legal one by one are legal together.

use crate::graph::block::Block;
use crate::graph::math::Member;
use crate::graph::operator::{
    Convolution, ConvolutionPass, FusedAnchor, Gemm, Label, Layout, Math, Operator, Stream, StreamClass,
    Tensor, TensorId, Work,
};

/// Members that kernels may have.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Permitted {
    /// Passes over memory are merged.
    pub(super) passes: bool,
    /// Members may be before products and convolutions as they may be behind them.
    pub(super) before: bool,
    /// Members behind matrix products.
    pub(super) of_products: Vec<Member>,
    /// Members behind convolutions.
    pub(super) of_convolutions: Vec<Member>,
}

/// Operators of a pass of a block, one after the other.
pub(super) struct List<'a> {
    pub(super) operators: &'a [Operator],
    pub(super) tensors: &'a [Tensor],
    /// Tensors that are read behind the list.
    outlives: Vec<bool>,
    /// By operator, those behind it that may not be executed before it.
    conflicts: Vec<Vec<usize>>,
}

/// Why an operator is no member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// They share no tensor.
    Unrelated,
    /// It belongs to another part of the step.
    Phase,
    /// Ranks exchange it, or the host waits for it.
    Waits,
    /// It sums over rows, columns or channels.
    Reduces,
    /// It reads its input at other places than it writes its result.
    ElsewherePlaced,
    /// It is no member that the policy allows.
    Policy,
    /// It is a product or a convolution itself.
    Anchor,
    /// It is one that takes something else than what the first one makes.
    Sequence,
    /// It would leave in shared memory what others read.
    Needed,
    /// It is a second reduction over rows, but not over those of the first.
    Rows,
    /// An operator in between needs a member, or changes what one reads.
    Between(Label),
}

/// Most members of a group.
const MEMBERS_MAX: usize = 24;
/// Most operators from the first member of a group to the last.
const SPAN_MAX: usize = 128;
/// Most groups that are looked at from one first member on, of lists longer than [`EXACT`].
const FROM_ONE_MAX: usize = 128;
/// Operators of a list of which all groups are looked at.
pub(super) const EXACT: usize = 20;

impl<'a> List<'a> {
    /// The forward pass of a block.
    pub(super) fn forward(block: &'a Block) -> Self {
        let read = |tensor| block.backward.iter().any(|op| op.reads.contains(&tensor));
        let left = |id| block.output == Some(id) || block.handed.forward.given.contains(&id);
        Self::new(&block.forward, &block.tensors, |id| left(id) || read(id))
    }

    /// Its backward pass.
    pub(super) fn backward(block: &'a Block) -> Self {
        let left = |id| block.input_gradient == Some(id) || block.handed.backward.given.contains(&id);
        Self::new(&block.backward, &block.tensors, left)
    }

    fn new(operators: &'a [Operator], tensors: &'a [Tensor], outlives: impl Fn(TensorId) -> bool) -> Self {
        let conflicts = |n: usize| {
            let behind = operators.iter().enumerate().skip(n + 1);
            behind.filter(|(_, other)| is_bound(&operators[n], other)).map(|(m, _)| m).collect()
        };
        Self {
            operators,
            tensors,
            outlives: (0..tensors.len()).map(|n| outlives(TensorId(n as u32))).collect(),
            conflicts: (0..operators.len()).map(conflicts).collect(),
        }
    }

    /// True if a tensor is read behind a group: whoever reads it before does not see what the group
    /// does to it.
    pub(super) fn is_needed(&self, tensor: TensorId, group: &[usize]) -> bool {
        let behind = group.last().map_or(0, |last| last + 1);
        let read = self.operators[behind..].iter().any(|op| op.reads.contains(&tensor));
        read || self.outlives[tensor.0 as usize]
    }

    /// Legal groups that begin with an operator, itself the first of them.
    pub(super) fn groups_from(&self, first: usize, permitted: &Permitted) -> Vec<Vec<usize>> {
        let mut found = Vec::new();
        self.visit_from(first, permitted, &mut |group| found.push(group.to_vec()));
        found
    }

    /// Groups of several operators that are looked at; more than `most` are not counted.
    pub(super) fn space(&self, permitted: &Permitted, most: u64) -> u64 {
        let mut count = 0;
        for first in 0..self.operators.len() {
            self.visit_from(first, permitted, &mut |group| count += u64::from(group.len() > 1));
            if count > most {
                break;
            }
        }
        count
    }

    /// Most groups that a list of this length can have.
    pub(super) fn space_at_most(&self) -> u64 {
        let count = self.operators.len();
        if count <= EXACT { 1 << count } else { count as u64 * FROM_ONE_MAX as u64 }
    }

    /// Looks at legal groups that begin with an operator, itself the first of them.
    fn visit_from(&self, first: usize, permitted: &Permitted, visit: &mut dyn FnMut(&[usize])) {
        visit(&[first]);
        if self.operators[first].stops() {
            return;
        }
        let mut left = if self.operators.len() <= EXACT { usize::MAX } else { FROM_ONE_MAX - 1 };
        self.grow(&mut vec![first], first + 1, permitted, &mut left, visit);
    }

    /// Looks at up to `left` legal groups that begin with `group` and go on with operators from
    /// `next` on.
    fn grow(
        &self,
        group: &mut Vec<usize>,
        next: usize,
        permitted: &Permitted,
        left: &mut usize,
        visit: &mut dyn FnMut(&[usize]),
    ) {
        for candidate in next..self.operators.len().min(group[0] + SPAN_MAX) {
            if *left == 0 || group.len() >= MEMBERS_MAX || !self.goes_past(group, candidate) {
                return;
            }
            if self.admits(group, candidate, permitted).is_ok() {
                group.push(candidate);
                if self.is_connected(group) && self.is_complete(group) {
                    visit(group);
                    *left -= 1;
                }
                self.grow(group, candidate + 1, permitted, left, visit);
                group.pop();
            }
        }
    }

    /// True if operators are a group, told from its definition alone.
    #[cfg(test)]
    pub(super) fn is_legal(&self, group: &[usize], permitted: &Permitted) -> bool {
        let Some((&last, _)) = group.split_last() else { return false };
        let crossed = (group[0]..last).filter(|n| !group.contains(n)).any(|n| self.operators[n].stops());
        let admitted = |n: usize| self.admits(&group[..n], group[n], permitted).is_ok();
        let begun = group.len() == 1 || !self.operators[group[0]].stops();
        begun
            && !crossed
            && self.between(group, last).is_none()
            && (1..group.len()).all(admitted)
            && self.is_connected(group)
            && self.is_complete(group)
    }

    /// True if an operator reads what a group makes or reads, or an operator behind both does of
    /// both.
    fn meets(&self, group: &[usize], candidate: usize) -> bool {
        let reads =
            |reader: &Operator, of: usize| reader.reads.iter().any(|&it| self.operators[of].knows(it));
        let of_group = |reader: &Operator| group.iter().any(|&member| reads(reader, member));
        let mut behind = self.operators[candidate + 1..].iter().take(MEMBERS_MAX);
        of_group(&self.operators[candidate])
            || behind.any(|reader| reads(reader, candidate) && of_group(reader))
    }

    /// True if each member of a group shares a tensor with another.
    fn is_connected(&self, group: &[usize]) -> bool {
        let mut known = vec![group[0]];
        let mut left: Vec<usize> = group[1..].to_vec();
        while !left.is_empty() {
            let shares = |&n: &usize| {
                let Operator { reads, writes, .. } = &self.operators[n];
                let is_known = |&tensor: &TensorId| known.iter().any(|&n| self.operators[n].knows(tensor));
                reads.iter().chain(writes).any(is_known)
            };
            let Some(next) = left.iter().position(shares) else { return false };
            known.push(left.remove(next));
        }
        true
    }

    /// True unless rows that a product makes are summed without a second one: those need all of its
    /// columns, which blocks of a single product share among each other.
    fn is_complete(&self, group: &[usize]) -> bool {
        let mut open = false;
        for &member in group {
            let op = &self.operators[member];
            open = match op.stream() {
                None => false,
                Some(stream) => {
                    open || (stream.class == StreamClass::Softmax && anchored(group, member, self))
                }
            };
        }
        !open
    }

    /// True if a group can be executed at `candidate` or behind it.
    fn goes_past(&self, group: &[usize], candidate: usize) -> bool {
        self.between(group, candidate).is_none() && {
            let before = candidate - 1;
            group.contains(&before) || !self.operators[before].stops()
        }
    }

    /// The operator that keeps a group from being executed at `last`.
    fn between(&self, group: &[usize], last: usize) -> Option<usize> {
        let conflicts = group.iter().flat_map(|&member| &self.conflicts[member]);
        conflicts.copied().find(|other| *other < last && !group.contains(other))
    }

    /// True if an operator can be the next member of a group.
    pub(super) fn admits(
        &self,
        group: &[usize],
        candidate: usize,
        permitted: &Permitted,
    ) -> Result<(), Refusal> {
        let (first, next) = (&self.operators[group[0]], &self.operators[candidate]);
        let members: Vec<&Operator> = group.iter().map(|&n| &self.operators[n]).collect();
        if !self.meets(group, candidate) {
            return Err(Refusal::Unrelated);
        }
        if next.stops() {
            return Err(Refusal::Waits);
        }
        if next.phase != first.phase {
            return Err(Refusal::Phase);
        }
        if let Some(other) = self.between(group, candidate) {
            return Err(Refusal::Between(self.operators[other].name.clone()));
        }
        let anchors: Vec<usize> = (0..members.len()).filter(|&n| anchor(members[n]).is_some()).collect();
        match (&anchors[..], anchor(next)) {
            ([], None) => admits_pass(&members, next, permitted),
            ([], Some(anchor)) => self.admits_prologue(&anchor, &members, next, permitted),
            (&[.., last], None) => self.admits_behind(&members[last..], anchors.len(), next, permitted),
            (&[only], Some(second)) => {
                self.admits_second(&second, (&members[only..], group), candidate, permitted)
            }
            _ => Err(Refusal::Anchor),
        }
    }

    /// True if members can be applied to elements of a product's or a convolution's first operand
    /// as it loads them: each does something to what the one before makes.
    fn admits_prologue(
        &self,
        anchor: &FusedAnchor,
        members: &[&Operator],
        next: &Operator,
        permitted: &Permitted,
    ) -> Result<(), Refusal> {
        if !permitted.before {
            return Err(Refusal::Anchor);
        }
        let mut value = None;
        for op in members {
            let member = permitted.member(anchor, op)?;
            let own = op.writes.first().or(op.reads.first()).copied();
            // Blocks that load the same element each apply it: none may find it changed, or leave
            // something beside.
            let in_place = op.writes.is_empty() && value != own;
            let goes_on = value.is_none_or(|value| op.reads.contains(&value));
            if in_place || !goes_on || member == Member::Dropout {
                return Err(Refusal::ElsewherePlaced);
            }
            value = own;
        }
        let whole = value.is_some_and(|value| self.size(value) == anchor.operand_bytes());
        if whole && next.reads.first().copied() == value { Ok(()) } else { Err(Refusal::ElsewherePlaced) }
    }

    /// True if an operator can follow an anchor, one of `count`, and members behind it: it does
    /// something to each element of what they make, or to whole rows before a second anchor.
    fn admits_behind(
        &self,
        members: &[&Operator],
        count: usize,
        next: &Operator,
        permitted: &Permitted,
    ) -> Result<(), Refusal> {
        let anchor = anchor(members[0]).ok_or(Refusal::Anchor)?;
        let stream = next.stream().ok_or(Refusal::Anchor)?;
        let value = running(members).ok_or(Refusal::ElsewherePlaced)?;
        let of_rows = match anchor {
            FusedAnchor::Gemm(gemm) if count == 1 && stream.class == StreamClass::Softmax => {
                stream.rows == Some(gemm.batch * gemm.m) && permitted.words(&anchor).contains(&Member::Anchor)
            }
            _ => false,
        };
        if !of_rows {
            permitted.member(&anchor, next)?;
        }
        let commutes = matches!(next.math, Some(Math::Add | Math::Multiply)) && !next.writes.is_empty();
        let taken = if commutes { next.reads.contains(&value) } else { next.reads.first() == Some(&value) };
        let made = next.writes.first().copied().unwrap_or(value);
        if taken && self.size(made) == self.size(value) { Ok(()) } else { Err(Refusal::ElsewherePlaced) }
    }

    /// True if a second anchor can find in shared memory what the first one, the first of
    /// `members`, and those behind it make: nobody else reads that.
    fn admits_second(
        &self,
        second: &FusedAnchor,
        (members, group): (&[&Operator], &[usize]),
        candidate: usize,
        permitted: &Permitted,
    ) -> Result<(), Refusal> {
        let first = anchor(members[0]).ok_or(Refusal::Anchor)?;
        if !permitted.words(&first).contains(&Member::Anchor) {
            return Err(Refusal::Anchor);
        }
        let fits = match (&first, second) {
            (FusedAnchor::Gemm(first), FusedAnchor::Gemm(second)) => {
                (first.batch, first.m, first.n, first.dtype)
                    == (second.batch, second.m, second.k, second.dtype)
            }
            (FusedAnchor::Convolution(first), FusedAnchor::Convolution(second)) => {
                first.groups.max(second.groups) == 1
                    && (first.batch, first.out_channels, first.output())
                        == (second.batch, second.in_channels, second.input)
            }
            _ => false,
        };
        let value = running(members);
        let taken = self.operators[candidate].reads.first().copied() == value;
        let whole = value.is_some_and(|value| self.size(value) == second.operand_bytes());
        if !(fits && taken && whole) {
            return Err(Refusal::Sequence);
        }
        let both: Vec<usize> = group.iter().copied().chain([candidate]).collect();
        let needed = |op: &&Operator| op.writes.iter().any(|&tensor| self.is_needed(tensor, &both));
        if members.iter().any(needed) { Err(Refusal::Needed) } else { Ok(()) }
    }

    fn size(&self, tensor: TensorId) -> u64 {
        self.tensors[tensor.0 as usize].bytes
    }
}

impl Permitted {
    /// Members around an anchor.
    fn words(&self, anchor: &FusedAnchor) -> &[Member] {
        match anchor {
            FusedAnchor::Gemm(_) => &self.of_products,
            FusedAnchor::Convolution(_) => &self.of_convolutions,
        }
    }

    /// The member that an operator can be before or behind an anchor.
    fn member(&self, anchor: &FusedAnchor, op: &Operator) -> Result<Member, Refusal> {
        let stream = op.stream().ok_or(Refusal::Anchor)?;
        if stream.class != StreamClass::Elementwise {
            return Err(Refusal::Reduces);
        }
        let member = op.math.and_then(Math::member).ok_or(Refusal::ElsewherePlaced)?;
        if self.words(anchor).contains(&member) { Ok(member) } else { Err(Refusal::Policy) }
    }
}

/// True if an anchor of a group stands before one of its members.
fn anchored(group: &[usize], member: usize, list: &List<'_>) -> bool {
    let before = group.iter().take_while(|&&other| other < member);
    before.into_iter().any(|&other| anchor(&list.operators[other]).is_some())
}

/// True if a pass can be merged with those before it.
fn admits_pass(members: &[&Operator], next: &Operator, permitted: &Permitted) -> Result<(), Refusal> {
    let pass = |op: &Operator| {
        let stream = op.stream().ok_or(Refusal::Anchor)?;
        if merges(stream.class) { Ok(*stream) } else { Err(Refusal::Reduces) }
    };
    if !permitted.passes {
        return Err(Refusal::Policy);
    }
    pass(members[0])?;
    let made = |tensor: &TensorId| members.iter().any(|op| op.changes().any(|other| other == tensor));
    if next.math == Some(Math::Window) && next.reads.iter().any(made) {
        return Err(Refusal::ElsewherePlaced);
    }
    let rows = |stream: &Stream| stream.rows.filter(|_| stream.class != StreamClass::Elementwise);
    let others = members.iter().filter_map(|op| op.stream()).find_map(rows);
    let own = rows(&pass(next)?);
    // A second reduction goes over the rows of the first, of what the first has made.
    let goes_on = |(others, own)| others == own && next.reads.iter().any(made);
    if others.zip(own).is_none_or(goes_on) { Ok(()) } else { Err(Refusal::Rows) }
}

/// True if passes of a class work tensor by tensor or row by row.
pub(super) const fn merges(class: StreamClass) -> bool {
    matches!(
        class,
        StreamClass::Elementwise | StreamClass::Softmax | StreamClass::LayerNorm | StreamClass::RmsNorm
    )
}

/// The anchor that an operator can be: a product that is stored, a convolution forward.
pub(super) const fn anchor(op: &Operator) -> Option<FusedAnchor> {
    match op.work {
        Work::Gemm(gemm @ Gemm { accumulate: None, layout: Layout::Forward | Layout::InputGradient, .. }) => {
            Some(FusedAnchor::Gemm(gemm))
        }
        Work::Convolution(
            convolution @ Convolution { pass: ConvolutionPass::Forward, algorithm: None, .. },
        ) => Some(FusedAnchor::Convolution(convolution)),
        _ => None,
    }
}

/// Last result of an anchor and the members behind it.
fn running(members: &[&Operator]) -> Option<TensorId> {
    let mut made = members.first()?.writes.first().copied()?;
    for member in &members[1..] {
        made = member.writes.first().copied().unwrap_or(made);
    }
    Some(made)
}

/// True if `later` must stay behind `earlier`: it touches what that fills or changes, or changes
/// what that reads.
fn is_bound(earlier: &Operator, later: &Operator) -> bool {
    earlier.changes().any(|&tensor| later.knows(tensor))
        || later.changes().any(|&tensor| earlier.knows(tensor))
}

impl Operator {
    /// Tensors that it fills, or changes in place: a pass that of its first input, a collective
    /// all.
    pub(super) fn changes(&self) -> impl Iterator<Item = &TensorId> {
        let in_place = match (self.writes.is_empty(), &self.work) {
            (false, _) => 0,
            (true, Work::Stream(_)) => 1,
            (true, _) => self.reads.len(),
        };
        self.writes.iter().chain(self.reads.iter().take(in_place))
    }

    /// True if it reads or fills a tensor.
    pub(super) fn knows(&self, tensor: TensorId) -> bool {
        self.reads.contains(&tensor) || self.writes.contains(&tensor)
    }

    /// True if nothing is executed across it: the host waits, or ranks meet.
    pub(super) fn stops(&self) -> bool {
        self.awaited || matches!(self.work, Work::Collective(_) | Work::Opaque { .. })
    }

    /// The pass over memory that it is.
    pub(super) const fn stream(&self) -> Option<&Stream> {
        match &self.work {
            Work::Stream(stream) => Some(stream),
            _ => None,
        }
    }
}
