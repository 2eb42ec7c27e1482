//! Runs of passes over memory that follow each other, as compilers of graphs merge them
//! (`torch.compile`: Ansel et al., ASPLOS 2024, section 4): an operator joins the ones before it if
//! it reads what they make or read, tensor by tensor or row by row. Products, attention, sums over
//! columns and collectives stay what they are, and nothing is merged across them or between blocks.

use crate::graph::operator::Operator;

use super::groups::merges;

/// The groups of a list, each as long as it can be.
pub(super) fn runs(list: &[Operator]) -> Vec<Vec<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    while start < list.len() {
        let mut end = start + 1;
        while end < list.len() && joins(&list[start..end], &list[end]) {
            end += 1;
        }
        found.push((start..end).collect());
        start = end;
    }
    found
}

/// True if an operator is merged with those before it.
fn joins(group: &[Operator], next: &Operator) -> bool {
    let passes = |op: &Operator| !op.awaited && op.stream().is_some_and(|stream| merges(stream.class));
    group.iter().all(passes)
        && passes(next)
        && group.iter().all(|op| op.phase == next.phase)
        && next.reads.iter().any(|&tensor| group.iter().any(|op| op.knows(tensor)))
}
