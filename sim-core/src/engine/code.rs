//! The program flattened into arenas, so that the interpreter follows offsets and no pointers.

use crate::id::{BindingId, BlockId, CostTableId};
use crate::program::{Activity, Op, Program, Role};

/// Operations, slots, activities and sizes of a program.
#[derive(Debug, Default)]
pub(super) struct Code {
    pub(super) ops: Vec<Op>,
    /// Per block, the index of its first operation; one more entry ends the last block.
    pub(super) first_op: Vec<u32>,
    pub(super) slots: Vec<u32>,
    /// Per binding.
    pub(super) bindings: Vec<Bound>,
    pub(super) activities: Vec<Activity>,
    pub(super) sizes: Vec<u64>,
    /// Per role, the blocks that it calls or posts.
    pub(super) executed: Vec<Vec<BlockId>>,
}

/// Offsets of one binding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) binding: BindingId,
    pub(super) slots: u32,
    pub(super) costs: Option<CostTableId>,
    pub(super) activities: (u32, u32),
    pub(super) sizes: (u32, u32),
}

impl Code {
    pub(super) fn new(program: &Program) -> Self {
        let mut code = Self { executed: executed(program), ..Self::default() };
        for block in &program.blocks {
            code.first_op.push(offset(code.ops.len()));
            code.ops.extend_from_slice(&block.ops);
        }
        code.first_op.push(offset(code.ops.len()));
        let mut tables = Vec::with_capacity(program.costs.len());
        for table in &program.costs {
            let activities = (offset(code.activities.len()), offset(table.activities.len()));
            let sizes = (offset(code.sizes.len()), offset(table.sizes.len()));
            code.activities.extend_from_slice(&table.activities);
            code.sizes.extend_from_slice(&table.sizes);
            tables.push((activities, sizes));
        }
        for (index, binding) in program.bindings.iter().enumerate() {
            let slots = offset(code.slots.len());
            code.slots.extend_from_slice(&binding.slots);
            let (activities, sizes) = binding.costs.map_or_else(Default::default, |c| tables[c.index()]);
            let (id, costs) = (BindingId::from(index), binding.costs);
            code.bindings.push(Bound { binding: id, slots, costs, activities, sizes });
        }
        code
    }

    /// The position of an activity of a binding among all.
    #[inline(always)]
    pub(super) fn position(&self, bound: &Bound, index: i64) -> Option<u32> {
        let (base, count) = bound.activities;
        u32::try_from(index).ok().filter(|&i| i < count).map(|index| base + index)
    }
}

/// Per role, the blocks that it calls, or posts, each once.
fn executed(program: &Program) -> Vec<Vec<BlockId>> {
    let mut last_role = vec![usize::MAX; program.blocks.len()];
    let mut executed = Vec::with_capacity(program.roles.len());
    for (role, Role { calls }) in program.roles.iter().enumerate() {
        let mut blocks = Vec::new();
        let mut find = |block: BlockId, blocks: &mut Vec<BlockId>| {
            if std::mem::replace(&mut last_role[block.index()], role) != role {
                blocks.push(block);
            }
        };
        for call in calls {
            find(call.block, &mut blocks);
        }
        let mut open = 0;
        while let Some(&block) = blocks.get(open) {
            open += 1;
            for op in &program.blocks[block.index()].ops {
                if let Op::Post { block, .. } = *op {
                    find(block, &mut blocks);
                }
            }
        }
        executed.push(blocks);
    }
    executed
}

/// A block and those that it posts, directly or not, each once.
pub(super) fn with_posted(program: &Program, block: BlockId) -> Vec<BlockId> {
    let mut blocks = vec![block];
    let mut open = 0;
    while let Some(&block) = blocks.get(open) {
        open += 1;
        for op in &program.blocks[block.index()].ops {
            if let Op::Post { block, .. } = *op
                && !blocks.contains(&block)
            {
                blocks.push(block);
            }
        }
    }
    blocks
}

fn offset(length: usize) -> u32 {
    u32::try_from(length).expect("an arena holds at most 2^32 entries")
}
