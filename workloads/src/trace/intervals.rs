//! Spans of time of a thread: intervals that follow each other.

/// Intervals without overlap, ascending (ns).
#[derive(Default)]
pub(super) struct Intervals {
    pub(super) list: Vec<(i64, i64)>,
    /// The first that may cover what is asked for next.
    next: usize,
}

impl Intervals {
    /// Adds an interval that begins no earlier than those before it.
    pub(super) fn add(&mut self, begin: i64, end: i64) {
        match self.list.last_mut() {
            Some((_, last)) if begin <= *last => *last = end.max(*last),
            _ => self.list.push((begin, end)),
        }
    }

    /// How much of a span is covered; spans come in the order of time.
    pub(super) fn covered(&mut self, begin: i64, end: i64) -> i64 {
        while self.list.get(self.next).is_some_and(|&(_, last)| last <= begin) {
            self.next += 1;
        }
        let within = self.list[self.next..].iter().take_while(|(first, _)| *first < end);
        within.map(|&(first, last)| last.min(end) - first.max(begin)).sum()
    }
}
