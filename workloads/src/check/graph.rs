//! The verifier of the graph: linear in its operators, after every pass that may change it.

use crate::graph::{Op, OpGraph, Phase};

use super::{Fault, Problem};

/// Checks a graph after `pass`: every operator is in at most one visit, and what a visit reads has been filled before it.
///
/// # Errors
/// Everything that is wrong, by stage and chunk.
pub fn graph(pass: &'static str, graph: &OpGraph) -> Result<(), Vec<Problem>> {
    let mut found = Vec::new();
    let mut in_visits = vec![false; graph.ops().len()];
    graph.visits().flat_map(|(_, ops)| ops).for_each(|op| in_visits[op.0 as usize] = true);
    // Exchanges fill storages whenever they come to it.
    let mut filled = vec![false; graph.storages().len()];
    let beside = graph.ops().iter().zip(in_visits).filter(|(_, in_visits)| !in_visits);
    beside.flat_map(|(op, _)| &op.writes).for_each(|storage| filled[storage.0 as usize] = true);
    let mut visited = vec![0_u32; graph.ops().len()];
    for phase in [Phase::Forward, Phase::Backward, Phase::BackwardInput, Phase::BackwardWeight] {
        for ((stage, chunk, of), ops) in graph.visits() {
            let place = || format!("{} of chunk {chunk} of stage {stage}", phase.name());
            for &op in ops.iter().filter(|_| of == phase) {
                visited[op.0 as usize] += 1;
                let Op { reads, writes, .. } = graph.get(op);
                let arriving = writes.iter().filter(|&&storage| graph.arrives(storage));
                arriving.for_each(|storage| filled[storage.0 as usize] = true);
                for storage in reads.iter().filter(|storage| !filled[storage.0 as usize]) {
                    let fault = Fault::NotResident(graph.describe(*storage));
                    found.push(Problem { pass, place: place(), micro_batch: 0, fault, times: 1 });
                }
                writes.iter().for_each(|storage| filled[storage.0 as usize] = true);
            }
        }
    }
    for (op, &times) in graph.ops().iter().zip(&visited).filter(|&(_, &times)| times > 1) {
        let name = format!("{} of chunk {} of stage {}", op.phase.name(), op.chunk, op.stage);
        let fault = Fault::Executions { op: name, times };
        found.push(Problem { pass, place: String::new(), micro_batch: 0, fault, times: 1 });
    }
    if found.is_empty() { Ok(()) } else { Err(found) }
}
