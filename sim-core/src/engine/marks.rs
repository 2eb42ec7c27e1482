//! Marks, and the critical paths between them.
//!
//! The critical path of a stream from one mark to another is followed backward from the later one, through whoever let
//! it go, to the time of the earlier one. It passes through other streams, whose own marks are at other times; so the
//! ledger records all paths while some stream may still come to the mark they are cut off at.

use super::Engine;
use crate::id::BlockId;
use crate::observe::Watch;
use crate::outcome::{ByCause, PathStep};
use crate::program::{Body, CAUSES_MAX, Op, Program};
use crate::time::Time;

/// The mark at which critical paths are cut off.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// Its number on every stream; `None`: paths are whole.
    pub(super) mark: Option<usize>,
    /// Streams that have not come to it yet.
    ahead_of_it: usize,
    /// The last time at which a stream came to it.
    latest: Time,
}

impl Cut {
    pub(super) fn new(mark: Option<u32>, program: &Program) -> Self {
        let mark = mark.map(|mark| mark as usize);
        let in_block = |block: BlockId| {
            program.blocks[block.index()].ops.iter().filter(|op| matches!(op, Op::Mark)).count()
        };
        // A halted stream may repeat calls, and their marks.
        let ops = || program.blocks.iter().flat_map(|block| &block.ops);
        let before = mark.map(|mark| if ops().any(|op| matches!(op, Op::Halt { .. })) { 0 } else { mark });
        let comes = |body: Body| {
            let (Body::Role(role), Some(before)) = (body, before) else { return false };
            let calls = program.roles[role.index()].calls.iter();
            calls.map(|call| call.repeat as usize * in_block(call.block)).sum::<usize>() > before
        };
        let ahead_of_it = program.streams.iter().filter(|stream| comes(stream.body)).count();
        Self { mark, ahead_of_it, latest: Time::ZERO }
    }

    /// Whether some stream comes to it.
    pub(super) fn is_made(&self) -> bool {
        self.ahead_of_it > 0
    }
}

impl<O: Watch> Engine<'_, O> {
    /// [`Op::Mark`].
    pub(super) fn mark(&mut self, s: u32) {
        let (now, spent) = (self.state.now, self.state.spent[s as usize]);
        let stream = &mut self.state.streams[s as usize];
        let number = stream.marks.len();
        stream.marks.push(now);
        stream.spent_at_marks.push(spent);
        let Some(first) = self.state.cut.mark.filter(|&first| number >= first) else { return };
        if matches!(self.inputs.program.streams[s as usize].body, Body::Serve(_)) {
            return;
        }
        let path = stream.path.share(&mut self.state.ledger);
        if let Some(earlier) = stream.path_at_mark.replace(path) {
            self.state.ledger.close(earlier);
        }
        if number == first && self.state.cut.is_made() {
            self.state.cut.latest = self.state.cut.latest.max(now);
            self.state.cut.ahead_of_it -= 1;
            if self.state.cut.is_made() || self.inputs.options.path_of.is_some() {
                self.state.ledger.record();
            } else {
                self.state.ledger.record_until(self.state.cut.latest);
            }
        }
    }

    /// The steps of the path that [`Engine::critical`] adds up, for the stream that is asked for.
    pub(super) fn path(&mut self) -> Vec<PathStep> {
        let Some(stream) = self.inputs.options.path_of else { return Vec::new() };
        let Some(stream) = self.state.streams.get_mut(stream.index()) else { return Vec::new() };
        match self.state.cut.mark {
            None => {
                let whole = stream.path.write(&mut self.state.ledger);
                self.state.ledger.steps_from(whole, Time::ZERO)
            }
            Some(first) => match (stream.marks.get(first), stream.path_at_mark) {
                (Some(&from), Some(path)) => self.state.ledger.steps_from(path, from),
                _ => Vec::new(),
            },
        }
    }

    /// The critical path of a stream: to its end, or between the mark at which paths are cut off and its last one.
    pub(super) fn critical(&mut self, s: usize) -> ByCause {
        let stream = &mut self.state.streams[s];
        let Some(first) = self.state.cut.mark else {
            let whole = stream.path.write(&mut self.state.ledger);
            return self.state.ledger.spent(whole);
        };
        match (stream.marks.get(first), stream.path_at_mark) {
            (Some(&from), Some(path)) => self.state.ledger.spent_from(path, from),
            _ => [Time::ZERO; CAUSES_MAX],
        }
    }
}
