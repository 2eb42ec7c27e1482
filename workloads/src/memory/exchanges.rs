//! Tensors of what ranks that share parameters and gradients gather and sum, in the order of the host as PyTorch's fully
//! sharded data parallelism (FSDP) allocates and frees them.
//!
//! A gather fills memory of the stream that gathers. Where ranks share each parameter by itself (FSDP2) that is a buffer, from
//! which parameters are copied to memory of the stream of the operators: in a forward pass it goes when the next one is copied
//! (`AllGatherState`), in a backward pass when it is copied itself. In a backward pass the next gather is issued right after.
//! Parameters go after the last operator that reads them. Where the host takes memory for gathers it is lent to the operators
//! (`record_stream`): the allocator has it again when the device has executed them, as a run tells.
//!
//! Gradients are made one by one, in the type of the parameters. Those of a block are copied to the buffer that is summed when
//! all are there; those of a bucket are copied one by one, to a buffer that is there from the first one on (DeepSpeed's
//! `contiguous_gradients`). A buffer goes when the next sum is launched (`ReduceScatterState`). One that leaves for the host is
//! lent to the lane that copies it.

use std::collections::BTreeMap;

use crate::graph::{OpId, StorageId};
use crate::model::transformer::Group;
use crate::names::kind;

use super::shared::{Gather, Gradient, Shared, Sum};
use super::walk::{Tensor, TensorIndex, Walk};
use super::{Executed, GATHERS, Requester};

/// Exchanges under way.
#[derive(Default)]
pub(super) struct UnderWay {
    /// Whole parameters, by storage and micro-batch.
    whole: BTreeMap<(StorageId, u32), TensorIndex>,
    /// The steps of the visit at which what was gathered is there: those that follow are issued then.
    there: Vec<usize>,
    /// The buffer of the last gather of the forward pass.
    buffer: Option<TensorIndex>,
    /// Buffers that gradients are copied to one by one, by storage and micro-batch.
    buffers: BTreeMap<(StorageId, u32), TensorIndex>,
    /// Gradients to be summed.
    gradients: Vec<(Group, TensorIndex)>,
    /// The buffer of the last sum.
    sum: Option<TensorIndex>,
}

impl Walk {
    /// Gathers what an operator is the first to read.
    pub(super) fn begin_exchanges(&mut self, shared: &Shared, op: OpId, execution: Executed) {
        for gather in shared.gathers.get(&op).into_iter().flatten() {
            self.gather(gather, execution);
        }
    }

    /// Frees what an operator was the last to read, and sums gradients that it completes, of which it may have `filled` one.
    pub(super) fn follow_exchanges(
        &mut self,
        shared: &Shared,
        op: OpId,
        execution: Executed,
        filled: Option<TensorIndex>,
    ) {
        let now = self.steps.len() - 1;
        for &storage in shared.last_uses.get(&op).into_iter().flatten() {
            if let Some(whole) = self.under_way.whole.remove(&(storage, execution.micro_batch)) {
                self.tensors[whole].last_step = now;
            }
        }
        for &(storage, bytes) in shared.buffers.get(&op).into_iter().flatten() {
            let buffer = self.unreduced(bytes, now, execution);
            self.under_way.buffers.insert((storage, execution.micro_batch), buffer);
        }
        for &Gradient { group, bytes, of_product } in shared.completed.get(&op).into_iter().flatten() {
            let filled = filled.filter(|_| of_product);
            let gradient = filled.unwrap_or_else(|| self.unreduced(bytes, now, execution));
            self.tensors[gradient].kind = Some(kind::UNREDUCED);
            self.tensors[gradient].last_step = now;
            self.under_way.gradients.push((group, gradient));
        }
        for sum in shared.sums.get(&op).into_iter().flatten() {
            self.sum(sum, shared.leaves, execution);
        }
    }

    /// Ends a visit: the host waits for its sums, and nothing is gathered for the next.
    pub(super) fn end_exchanges(&mut self) {
        let now = self.steps.len().saturating_sub(1);
        let UnderWay { there, buffer, sum, .. } = &mut self.under_way;
        there.clear();
        for ended in [buffer.take(), sum.take()].into_iter().flatten() {
            self.tensors[ended].last_step = now;
        }
    }

    fn gather(&mut self, gather: &Gather, execution: Executed) {
        let &Gather { storage, bytes, ahead, is_forward, is_copied, is_lent } = gather;
        let execution = Executed { operator: Requester::Framework("gather parameters"), ..execution };
        let here = self.steps.len();
        self.step(execution, 0, &[], &[]);
        let there = &self.under_way.there;
        let issued = match ahead {
            0 => here,
            _ => there.get(there.len().saturating_sub(ahead)).copied().unwrap_or(here),
        };
        let gathered = self.note(bytes, issued, execution);
        let noted = &mut self.tensors[gathered];
        (noted.kind, noted.stream, noted.is_lent) = (Some(kind::GATHERED), GATHERS, is_lent);
        let whole = if is_copied { self.copied(gathered, is_forward, execution) } else { gathered };
        self.tensors[whole].last_step = usize::MAX;
        self.under_way.whole.insert((storage, execution.micro_batch), whole);
        self.under_way.there.push(self.steps.len());
        self.step(execution, 0, &[], &[]);
    }

    /// Copies what was gathered to parameters.
    fn copied(&mut self, buffer: TensorIndex, is_forward: bool, execution: Executed) -> TensorIndex {
        let now = self.steps.len();
        if is_forward && let Some(before) = self.under_way.buffer.replace(buffer) {
            self.tensors[before].last_step = now - 1;
        }
        let bytes = self.tensors[buffer].bytes;
        let copy = Executed { operator: Requester::Framework("copy gathered parameters"), ..execution };
        let whole = self.step(copy, 0, &[], &[bytes])[0];
        self.tensors[whole].kind = Some(kind::GATHERED);
        self.tensors[buffer].last_step = if is_forward { usize::MAX } else { now };
        whole
    }

    fn sum(&mut self, &Sum { group, bytes, buffer }: &Sum, leaves: bool, execution: Executed) {
        if let Some(before) = self.under_way.sum.take() {
            self.tensors[before].last_step = self.steps.len() - 1;
        }
        let gradients: Vec<_> = self.under_way.gradients.extract_if(.., |(of, _)| *of == group).collect();
        let buffer =
            buffer.and_then(|storage| self.under_way.buffers.remove(&(storage, execution.micro_batch)));
        let sum = buffer.unwrap_or_else(|| {
            let now = self.steps.len();
            self.step(
                Executed { operator: Requester::Framework("reduce gradients"), ..execution },
                0,
                &[],
                &[],
            );
            for (_, gradient) in gradients {
                self.tensors[gradient].last_step = now;
            }
            self.unreduced(bytes, now, execution)
        });
        if leaves {
            let last_step = self.steps.len() - 1;
            self.tensors[sum] = Tensor { last_step, is_lent: true, ..self.tensors[sum] };
        } else {
            self.under_way.sum = Some(sum);
        }
    }

    /// Notes gradients that stay until they are summed.
    fn unreduced(&mut self, bytes: u64, first_step: usize, execution: Executed) -> TensorIndex {
        let tensor = self.note(bytes, first_step, execution);
        let noted = &mut self.tensors[tensor];
        (noted.last_step, noted.kind) = (usize::MAX, Some(kind::UNREDUCED));
        tensor
    }
}
