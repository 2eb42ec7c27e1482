//! Queues served by worker streams, and the cells that show the state of a ticket or an item.

use std::collections::VecDeque;

use super::ledger::Account;
use super::{Engine, Status};
use crate::id::{BindingId, BlockId, CellId, KindId};
use crate::observe::Watch;
use crate::program::{Candidate, Op, ReclaimTable, Rule, ticket};
use crate::time::Time;

/// One queue.
#[derive(Clone, Debug, Default)]
pub(super) struct QueueState {
    /// By (priority, arrival).
    jobs: VecDeque<Job>,
    /// Workers with nothing to do, ascending.
    pub(super) idle: VecDeque<u32>,
}

/// A posted block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) priority: u8,
    pub(super) block: BlockId,
    pub(super) args: [i32; 2],
    pub(super) binding: BindingId,
    /// Cell that shows its state.
    pub(super) ticket: Option<u32>,
    /// The poster's path when it posted.
    pub(super) account: Account,
}

/// One cell.
#[derive(Clone, Debug, Default)]
pub(super) struct CellState {
    pub(super) state: u8,
    /// When it was last set, for reclaim rules.
    pub(super) set_at: Time,
    /// When it came into its present state.
    pub(super) since: Time,
    waiters: Vec<u32>,
}

impl CellState {
    pub(super) fn new(state: u8) -> Self {
        Self { state, ..Self::default() }
    }
}

impl<O: Watch> Engine<'_, O> {
    /// Puts a job in a queue, or hands it to the idle worker with the smallest id.
    pub(super) fn post(&mut self, by: u32, queue: usize, job: Job) {
        if let Some(cell) = job.ticket {
            self.set_cell(by, cell as usize, ticket::QUEUED);
        }
        if let Some(worker) = self.state.queues[queue].idle.pop_front() {
            self.take_over(worker, job.account);
            self.assign(worker, job);
            self.next_round.push(worker);
        } else {
            let jobs = &mut self.state.queues[queue].jobs;
            let at = jobs.partition_point(|j| j.priority <= job.priority);
            jobs.insert(at, job);
        }
    }

    /// A worker has nothing to execute: takes the next job, or idles. False when it idles.
    pub(super) fn serve_queue(&mut self, worker: u32, queue: usize) -> bool {
        let Some(job) = self.state.queues[queue].jobs.pop_front() else {
            let idle = &mut self.state.queues[queue].idle;
            let at = idle.partition_point(|&w| w < worker);
            idle.insert(at, worker);
            self.state.streams[worker as usize].status = Status::Idle;
            return false;
        };
        // The job waited for the worker, whose own path is the critical one.
        self.state.ledger.close(job.account);
        self.assign(worker, job);
        true
    }

    /// A worker has executed its job.
    pub(super) fn finish_job(&mut self, worker: u32) {
        if let Some(cell) = self.state.streams[worker as usize].ticket.take() {
            self.set_cell(worker, cell as usize, ticket::DONE);
        }
    }

    /// [`Op::Cancel`].
    pub(super) fn cancel(&mut self, s: u32, cell: usize) {
        if self.state.cells[cell].state != ticket::QUEUED {
            return;
        }
        for queue in &mut self.state.queues {
            if let Some(at) = queue.jobs.iter().position(|j| j.ticket == Some(cell as u32)) {
                if let Some(job) = queue.jobs.remove(at) {
                    self.state.ledger.close(job.account);
                }
                break;
            }
        }
        self.set_cell(s, cell, ticket::CANCELLED);
    }

    /// [`Op::Set`], by stream `s`: lets go who awaits the state, and evicts more where reclaimers wait for the cell.
    pub(super) fn set_cell(&mut self, s: u32, cell: usize, state: u8) {
        let now = self.state.now;
        let target = &mut self.state.cells[cell];
        if target.state != state {
            target.since = now;
        }
        target.state = state;
        target.set_at = now;
        if !target.waiters.is_empty() {
            let waiters = std::mem::take(&mut target.waiters);
            for waiter in waiters {
                match *self.op_of(waiter) {
                    Op::Await { state: wanted, cause, .. } if wanted <= state => {
                        self.let_go(waiter, s, cause);
                    }
                    _ => self.state.cells[cell].waiters.push(waiter),
                }
            }
        }
        if let Some(&table) = self.inputs.reclaim_of_cell.get(cell)
            && table != super::NOBODY
        {
            let store = self.inputs.program.reclaim[table as usize].store.index();
            self.reclaim(s, store);
        }
    }

    /// [`Op::Await`]: true when the stream may go on at once.
    pub(super) fn await_cell(&mut self, s: u32, cell: usize, state: u8) -> bool {
        if self.state.cells[cell].state >= state {
            return true;
        }
        let stream = &mut self.state.streams[s as usize];
        stream.status = Status::OnCell;
        stream.since = self.state.now;
        self.state.cells[cell].waiters.push(s);
        false
    }

    /// Takes a halted stream out of the waiters of a cell.
    pub(super) fn stop_awaiting(&mut self, s: u32, cell: usize) {
        self.state.cells[cell].waiters.retain(|&w| w != s);
    }

    fn assign(&mut self, worker: u32, job: Job) {
        if let Some(cell) = job.ticket {
            self.set_cell(worker, cell as usize, ticket::RUNNING);
        }
        let stream = &mut self.state.streams[worker as usize];
        stream.ticket = job.ticket;
        stream.args = job.args;
        stream.status = Status::Ready;
        self.bind(worker, job.binding);
        self.enter(worker, job.block);
    }

    /// Makes room in a store for those that wait with reclaim: evicts candidates by the table's rule until what is free
    /// or being freed suffices. `s` posts the evictions.
    pub(super) fn reclaim(&mut self, s: u32, store: usize) {
        let Some(table) = self.inputs.program.reclaim.iter().find(|t| t.store.index() == store) else {
            return;
        };
        let mut lacking = self.reclaim_shortage(store);
        if lacking == 0 {
            return;
        }
        let being_evicted = |c: &&Candidate| self.state.cells[c.cell.index()].state == c.evicting;
        for candidate in table.candidates.iter().filter(being_evicted) {
            lacking = lacking.saturating_sub(candidate.bytes);
        }
        if let Some(clock) = table.clock {
            self.arrive(clock.index());
        }
        while lacking > 0 {
            let Some(candidate) = self.next_candidate(table) else { return };
            lacking = lacking.saturating_sub(candidate.bytes);
            let account = self.path_of(s);
            let job = Job {
                priority: 0,
                block: candidate.block,
                args: candidate.args,
                binding: candidate.binding,
                ticket: None,
                account,
            };
            self.set_cell_quietly(candidate.cell, candidate.evicting);
            self.post(s, table.queue.index(), job);
        }
    }

    fn set_cell_quietly(&mut self, cell: CellId, state: u8) {
        let cell = &mut self.state.cells[cell.index()];
        cell.state = state;
        cell.since = self.state.now;
    }

    /// The resident candidate the rule picks; a tie goes to the earlier entry.
    fn next_candidate<'t>(&self, table: &'t ReclaimTable) -> Option<&'t Candidate> {
        let clock = table.clock.map_or(0, |c| self.state.counters[c.index()].value());
        let resident = table
            .candidates
            .iter()
            .filter(|c| self.state.cells[c.cell.index()].state == c.resident && c.bytes > 0);
        resident.min_by_key(|c| {
            let cell = &self.state.cells[c.cell.index()];
            match table.rule {
                Rule::LeastRecentlyUsed => cell.set_at.0,
                Rule::FirstProduced => cell.since.0,
                Rule::Largest => u64::MAX - c.bytes,
                Rule::FarthestNextUse => {
                    let next = c.uses.iter().find(|&&u| u > clock).copied().unwrap_or(u64::MAX);
                    u64::MAX - next
                }
            }
        })
    }
}

/// Bytes and units a stream holds, kept only in programs that halt streams.
#[derive(Clone, Debug, Default)]
pub(super) struct Holdings {
    pub(super) bytes: Vec<(u32, KindId, u64)>,
    pub(super) units: Vec<(u32, u32)>,
}
