//! Critical-path accounts: how the time up to now divides by cause along the path that led here.
//!
//! A path is known by its sums alone, and which path matters is known at the end. To cut one off at a mark, a window of
//! every path is recorded piece by piece: from the first time at which a stream may reach that mark to the last time at
//! which one did. Before, sums start anew; after, they suffice.

use crate::id::{CauseId, StreamId};
use crate::outcome::{ByCause, PathStep};
use crate::program::CAUSES_MAX;
use crate::time::Time;

/// A share in a row of the [`Ledger`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account(u32);

/// Copy-on-write rows of durations by cause. A stream owns a share of one row; a message, a waiting job and whoever
/// takes over a path take a further share, so that handing a path on is one increment and only the next charge copies.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    rows: Vec<Row>,
    shares: Vec<u32>,
    free: Vec<u32>,
    trails: Trails,
    /// Paths that end before this time are recorded.
    record_before: Time,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    spent: ByCause,
    /// When the path ends.
    until: Time,
    /// The last piece of its trail; [`NO_PIECE`] before it has one.
    trail: u32,
}

impl Ledger {
    /// An account with nothing charged.
    pub(super) fn open(&mut self) -> Account {
        self.insert(Row { spent: [Time::ZERO; CAUSES_MAX], until: Time::ZERO, trail: NO_PIECE })
    }

    /// Records from now on what is charged.
    pub(super) fn record(&mut self) {
        self.record_before = Time::NEVER;
    }

    /// Nobody will ask for a path to be cut off after `time`.
    pub(super) fn record_until(&mut self, time: Time) {
        self.record_before = time.saturating_add(Time(1));
    }

    /// Tells if the next charge to a path is recorded.
    #[inline]
    pub(super) fn records(&self, account: Account) -> bool {
        self.rows[account.0 as usize].until < self.record_before
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
            let trail = self.rows[account.0 as usize].trail;
            if trail != NO_PIECE {
                self.trails.close(trail);
            }
        }
    }

    /// Adds time of a stream to one cause of a share, which becomes a path of its own; gives the
    /// account to use from now on.
    #[inline]
    #[must_use]
    pub(super) fn charge(
        &mut self,
        account: Account,
        stream: StreamId,
        cause: CauseId,
        duration: Time,
    ) -> Account {
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
        let row = &mut self.rows[own.0 as usize];
        if row.until < self.record_before {
            if row.trail == NO_PIECE {
                row.spent = [Time::ZERO; CAUSES_MAX];
            }
            row.trail = self.trails.extend(row.trail, Piece { begin: row.until, duration, cause, stream });
        }
        row.spent[cause.index()] += duration;
        row.until += duration;
        own
    }

    fn copy(&mut self, account: Account) -> Account {
        let row = &self.rows[account.0 as usize];
        if row.trail != NO_PIECE {
            self.trails.shares[row.trail as usize] += 1;
        }
        let Some(index) = self.free.pop() else { return self.insert(*row) };
        let from = account.0 as usize;
        self.rows.copy_within(from..=from, index as usize);
        self.shares[index as usize] = 1;
        Account(index)
    }

    /// The durations of a path: from the start, or where anything has been recorded from no later than the first time
    /// at which it may be cut off.
    pub(super) fn spent(&self, account: Account) -> ByCause {
        self.rows[account.0 as usize].spent
    }

    /// The durations of a path from `from` on, a time in the recorded window.
    pub(super) fn spent_from(&self, account: Account, from: Time) -> ByCause {
        let Row { mut spent, until, trail } = self.rows[account.0 as usize];
        if until <= from {
            return [Time::ZERO; CAUSES_MAX];
        }
        for piece in self.trails.pieces(trail) {
            let before = piece.duration.min(from.saturating_sub(piece.begin));
            spent[piece.cause.index()] = spent[piece.cause.index()] - before;
        }
        spent
    }

    /// The recorded steps of a path from `from` on, first to last.
    pub(super) fn steps_from(&self, account: Account, from: Time) -> Vec<PathStep> {
        let pieces = self.trails.pieces(self.rows[account.0 as usize].trail);
        let step = |&Piece { begin, duration, cause, stream }: &Piece| {
            let end = begin + duration;
            let begin = begin.max(from);
            (end > begin).then(|| PathStep { stream, cause, begin, duration: end - begin })
        };
        let mut steps: Vec<PathStep> = pieces.map_while(step).collect();
        steps.reverse();
        steps
    }

    fn insert(&mut self, row: Row) -> Account {
        self.rows.push(row);
        self.shares.push(1);
        Account(u32::try_from(self.rows.len() - 1).expect("fewer accounts than streams and messages"))
    }
}

/// No piece.
const NO_PIECE: u32 = u32::MAX;

/// The recorded pieces of all paths: a tree, as paths that split have the same past. Pieces that are no path's any more
/// are used again, so that only as much is kept as paths have not yet in common.
#[derive(Clone, Debug, Default)]
struct Trails {
    pieces: Vec<Piece>,
    /// The piece before each.
    before: Vec<u32>,
    /// Paths that end with a piece, and pieces that follow it.
    shares: Vec<u32>,
    free: Vec<u32>,
}

/// A stretch of a path with one cause, on one stream.
#[derive(Clone, Copy, Debug)]
struct Piece {
    begin: Time,
    duration: Time,
    cause: CauseId,
    /// The stream that spent it.
    stream: StreamId,
}

impl Trails {
    /// Adds a piece to the trail that ends with `last`; gives its last piece.
    fn extend(&mut self, last: u32, piece: Piece) -> u32 {
        if last != NO_PIECE && self.shares[last as usize] == 1 {
            let known = &mut self.pieces[last as usize];
            if known.cause == piece.cause && known.stream == piece.stream {
                known.duration += piece.duration;
                return last;
            }
        }
        if let Some(index) = self.free.pop() {
            self.pieces[index as usize] = piece;
            self.before[index as usize] = last;
            self.shares[index as usize] = 1;
            return index;
        }
        self.pieces.push(piece);
        self.before.push(last);
        self.shares.push(1);
        u32::try_from(self.pieces.len() - 1).expect("fewer pieces than 2^32")
    }

    /// Takes a share of a piece back.
    fn close(&mut self, mut piece: u32) {
        while piece != NO_PIECE {
            let shares = &mut self.shares[piece as usize];
            *shares -= 1;
            if *shares > 0 {
                return;
            }
            self.free.push(piece);
            piece = self.before[piece as usize];
        }
    }

    /// The pieces of a trail, last first.
    fn pieces(&self, last: u32) -> impl Iterator<Item = &Piece> {
        let known = |piece: u32| (piece != NO_PIECE).then_some(piece);
        let all = std::iter::successors(known(last), move |&piece| known(self.before[piece as usize]));
        all.map(|piece| &self.pieces[piece as usize])
    }
}
