//! The critical path of a stream as it goes on: written to the ledger only when somebody asks.

use super::ledger::{Account, Ledger};
use crate::id::{CauseId, StreamId};
use crate::time::Time;

/// Charges that wait to be written, at most.
const LATE_MAX: usize = 16;

/// A stream's own share of a row, and what it has been charged since. Most streams come to a join
/// and take over the path of its last arrival: then what they were charged before is never written.
#[derive(Clone, Debug)]
pub(super) struct OwnPath {
    account: Account,
    stream: StreamId,
    /// In order.
    late: Vec<(CauseId, Time)>,
}

impl OwnPath {
    /// A path of a stream with nothing charged.
    pub(super) fn new(stream: StreamId, ledger: &mut Ledger) -> Self {
        Self { account: ledger.open(), stream, late: Vec::new() }
    }

    /// Adds to one cause.
    #[inline(always)]
    pub(super) fn charge(&mut self, ledger: &mut Ledger, cause: CauseId, duration: Time) {
        if duration == Time::ZERO {
            return;
        }
        match self.late.last_mut() {
            Some((latest, sum)) if *latest == cause => *sum += duration,
            _ => {
                if self.late.len() == LATE_MAX {
                    self.write(ledger);
                }
                self.late.push((cause, duration));
            }
        }
    }

    /// Tells if what is charged next may be recorded.
    #[inline]
    pub(super) fn may_be_recorded(&self, ledger: &Ledger) -> bool {
        ledger.records(self.account)
    }

    /// The account of the path right up to its last charge.
    pub(super) fn write(&mut self, ledger: &mut Ledger) -> Account {
        for &(cause, duration) in &self.late {
            self.account = ledger.charge(self.account, self.stream, cause, duration);
        }
        self.late.clear();
        self.account
    }

    /// A share of the path for somebody else.
    pub(super) fn share(&mut self, ledger: &mut Ledger) -> Account {
        let account = self.write(ledger);
        ledger.share(account)
    }

    /// Goes on from `account`, a share of another path.
    #[inline]
    pub(super) fn take_over(&mut self, ledger: &mut Ledger, account: Account) {
        self.late.clear();
        ledger.close(std::mem::replace(&mut self.account, account));
    }
}
