//! Critical-path accounts: how the time up to now divides by cause along the path that led here.

use crate::id::CauseId;
use crate::outcome::ByCause;
use crate::program::CAUSES_MAX;
use crate::time::Time;

/// A share in a row of the [`Ledger`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account(u32);

/// Copy-on-write rows of durations by cause. A stream owns a share of one row; a message, a waiting job and whoever
/// takes over a path take a further share, so that handing a path on is one increment and only the next charge copies.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    rows: Vec<ByCause>,
    shares: Vec<u32>,
    free: Vec<u32>,
}

impl Ledger {
    /// An account with nothing charged.
    pub(super) fn open(&mut self) -> Account {
        self.insert([Time::ZERO; CAUSES_MAX])
    }

    /// A further share of the same path.
    #[inline]
    pub(super) fn share(&mut self, account: Account) -> Account {
        self.shares[account.0 as usize] += 1;
        account
    }

    /// Gives a share back.
    #[inline]
    pub(super) fn close(&mut self, account: Account) {
        let shares = &mut self.shares[account.0 as usize];
        *shares -= 1;
        if *shares == 0 {
            self.free.push(account.0);
        }
    }

    /// Adds to one cause of a share, which becomes a path of its own; gives the account to use from now on.
    #[inline]
    #[must_use]
    pub(super) fn charge(&mut self, account: Account, cause: CauseId, duration: Time) -> Account {
        if duration == Time::ZERO {
            return account;
        }
        let shares = &mut self.shares[account.0 as usize];
        let own = if *shares == 1 {
            account
        } else {
            *shares -= 1;
            self.copy(account)
        };
        self.rows[own.0 as usize][cause.index()] += duration;
        own
    }

    fn copy(&mut self, account: Account) -> Account {
        let Some(index) = self.free.pop() else { return self.insert(self.rows[account.0 as usize]) };
        self.rows.copy_within(account.0 as usize..=account.0 as usize, index as usize);
        self.shares[index as usize] = 1;
        Account(index)
    }

    /// The durations of a path.
    pub(super) fn row(&self, account: Account) -> ByCause {
        self.rows[account.0 as usize]
    }

    fn insert(&mut self, row: ByCause) -> Account {
        self.rows.push(row);
        self.shares.push(1);
        Account(u32::try_from(self.rows.len() - 1).expect("fewer accounts than streams and messages"))
    }
}
