//! Tensors that the host has freed while another lane still uses them: the allocator has their memory again when the device has
//! returned it, as a run tells.

use hw_models::allocator::{Request, StreamNumber};

use super::{GATHERS, Recorded};

/// Lent tensors of a step.
pub(super) struct Lending<'a> {
    gathers: Queue<'a>,
    sums: Queue<'a>,
}

impl<'a> Lending<'a> {
    pub(super) fn new(Recorded { gathers, sums, .. }: &'a Recorded) -> Self {
        let queue = |returned| Queue { returned, allocated: 0, freed: Vec::new(), done: 0 };
        Self { gathers: queue(gathers), sums: queue(sums) }
    }

    /// Tensors of a stream that the device has returned before the next one is allocated.
    pub(super) fn done(&mut self, stream: StreamNumber) -> Vec<Request> {
        self.of(stream).done()
    }

    /// Notes that the host has freed a tensor.
    pub(super) fn free(&mut self, stream: StreamNumber, tensor: u32) {
        self.of(stream).freed.push(tensor);
    }

    /// All that is left: the host ends a step when the device has.
    pub(super) fn end(self) -> impl Iterator<Item = Request> {
        [self.gathers, self.sums]
            .into_iter()
            .flat_map(|queue| queue.freed.into_iter().skip(queue.done).map(Request::Done))
    }

    fn of(&mut self, stream: StreamNumber) -> &mut Queue<'a> {
        if stream == GATHERS { &mut self.gathers } else { &mut self.sums }
    }
}

/// Tensors that one lane returns in the order in which the host frees them.
struct Queue<'a> {
    /// See [`Recorded`].
    returned: &'a [u32],
    /// Tensors allocated so far.
    allocated: usize,
    freed: Vec<u32>,
    /// Number of freed tensors that the allocator knows to be returned.
    done: usize,
}

impl Queue<'_> {
    fn done(&mut self) -> Vec<Request> {
        let returned = self.returned.get(self.allocated).map_or(usize::MAX, |&count| count as usize);
        let until = returned.min(self.freed.len()).max(self.done);
        let done = self.freed[self.done..until].iter().map(|&tensor| Request::Done(tensor)).collect();
        (self.allocated, self.done) = (self.allocated + 1, until);
        done
    }
}
