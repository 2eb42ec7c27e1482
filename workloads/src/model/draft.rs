//! Writing lists of operators.

use crate::graph::Phase;

use crate::graph::operator::{
    Collective, CollectiveKind, Dtype, Gemm, Group, GroupedGemm, Layout, Operator, Stream, StreamClass,
    Tensor, Work,
};

/// A list of operators under construction.
pub(crate) struct Draft {
    pub(crate) operators: Vec<Operator>,
    /// What the next operators belong to.
    pub(crate) phase: Phase,
}

/// How a collective runs beside what follows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Issue {
    /// What follows waits.
    Waiting,
    /// What follows runs beside it until it needs the result.
    Beside,
}

impl Draft {
    pub(crate) const fn new(phase: Phase) -> Self {
        Self { operators: Vec::new(), phase }
    }

    /// Appends an operator; `writes` are names and bytes.
    pub(crate) fn push(
        &mut self,
        name: &'static str,
        work: Work,
        reads: &[&'static str],
        writes: &[(&'static str, u64)],
    ) -> &mut Operator {
        let writes = writes.iter().map(|&(name, bytes)| Tensor { name, bytes }).collect();
        let operator = Operator {
            name,
            phase: self.phase,
            work,
            reads: reads.to_vec(),
            writes,
            workspace: 0,
            choice: None,
            awaited: false,
        };
        self.operators.push(operator);
        let last = self.operators.len() - 1;
        &mut self.operators[last]
    }

    /// Appends a pass over memory that reads and writes so many bytes.
    pub(crate) fn stream(
        &mut self,
        name: &'static str,
        class: StreamClass,
        (bytes_read, bytes_written): (u64, u64),
        reads: &[&'static str],
        writes: &[(&'static str, u64)],
    ) -> &mut Operator {
        let bytes_cached = 0;
        let stream = Stream { class, bytes_read, bytes_written, bytes_cached, rows: None, looked_up: 0 };
        self.push(name, Work::Stream(stream), reads, writes)
    }

    /// Appends a pass over memory that walks over so many rows one by one.
    pub(crate) fn walk(
        &mut self,
        name: &'static str,
        (class, rows): (StreamClass, u64),
        (bytes_read, bytes_written): (u64, u64),
        reads: &[&'static str],
        writes: &[(&'static str, u64)],
    ) -> &mut Operator {
        let walk = self.stream(name, class, (bytes_read, bytes_written), reads, writes);
        if let Work::Stream(stream) = &mut walk.work {
            stream.rows = Some(rows);
        }
        walk
    }

    /// Appends a pass that looks up so many elements in a table.
    pub(crate) fn look_up(
        &mut self,
        name: &'static str,
        elements: u64,
        traffic: (u64, u64),
        reads: &[&'static str],
        writes: &[(&'static str, u64)],
    ) -> &mut Operator {
        let pass = self.stream(name, StreamClass::Embedding, traffic, reads, writes);
        if let Work::Stream(stream) = &mut pass.work {
            stream.looked_up = elements;
        }
        pass
    }

    /// Appends what adds gradients of `tokens` (bytes) to the rows of a `table` that they were looked up in: all of them other
    /// rows as far as the table has as many. Sums of each row go to memory in fp32 and back (PyTorch's
    /// `embedding_backward_cuda_kernel`).
    pub(crate) fn add_to_rows(
        &mut self,
        name: &'static str,
        dtype: Dtype,
        (tokens, table): (u64, u64),
        reads: &[&'static str],
    ) -> &mut Operator {
        let rows = tokens.min(table);
        let sums = rows / dtype.bytes() * Dtype::Fp32.bytes();
        let traffic = (tokens + sums, sums + rows);
        self.stream(name, StreamClass::EmbeddingGradient, traffic, reads, &[])
    }

    /// Appends a matrix product of `batch`, `m`, `n`, `k`.
    pub(crate) fn gemm(
        &mut self,
        name: &'static str,
        (batch, m, n, k): (u64, u64, u64, u64),
        (dtype, layout): (Dtype, Layout),
        reads: &[&'static str],
        writes: &[(&'static str, u64)],
    ) -> &mut Operator {
        let gemm = Gemm { batch, m, n, k, dtype, layout, accumulate: None };
        self.push(name, Work::Gemm(gemm), reads, writes)
    }

    /// Appends a grouped matrix product of so many groups of `m`, `n`, `k`.
    pub(crate) fn grouped(
        &mut self,
        name: &'static str,
        (batch, m, n, k): (u64, u64, u64, u64),
        (dtype, layout, accumulate): (Dtype, Layout, Option<Dtype>),
        reads: &[&'static str],
        writes: &[(&'static str, u64)],
    ) {
        let groups = Gemm { batch, m, n, k, dtype, layout, accumulate };
        self.push(name, Work::Grouped(GroupedGemm { groups }), reads, writes);
    }

    /// Appends a collective over `bytes`, those of the whole tensor; one that writes nothing works in place.
    pub(crate) fn collective(
        &mut self,
        name: &'static str,
        (kind, group, bytes): (CollectiveKind, Group, u64),
        issue: Issue,
        reads: &[&'static str],
        writes: &[(&'static str, u64)],
    ) {
        let overlaps_next = issue == Issue::Beside;
        let work = Collective { kind, group, bytes, overlaps_next, copied: false };
        self.push(name, Work::Collective(work), reads, writes);
    }

    /// Appends, in another part of the step, what `write` does.
    pub(crate) fn within<R>(&mut self, phase: Phase, write: impl FnOnce(&mut Self) -> R) -> R {
        let outer = std::mem::replace(&mut self.phase, phase);
        let written = write(self);
        self.phase = outer;
        written
    }
}
