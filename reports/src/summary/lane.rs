//! Time of a thread or a stream of a device, by cause.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::state;

/// A thread, or a stream of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneTime {
    /// Its name.
    pub name: String,
    /// Time by cause.
    pub time_s: IndexMap<String, f64>,
}

impl LaneTime {
    /// Time of all causes.
    pub(crate) fn all_s(&self) -> f64 {
        self.time_s.values().sum()
    }

    /// Time in which the lane works.
    pub(crate) fn works_s(&self) -> f64 {
        self.time_s.iter().filter(|(cause, _)| state::is_work(cause)).map(|(_, time)| time).sum()
    }

    /// Time in which the lane waits for something, which idling at the end is not.
    pub(crate) fn waits_s(&self) -> f64 {
        self.waits().map(|(_, time)| time).sum()
    }

    /// The cause that the lane waits for longest. `None`: it never waits.
    pub(crate) fn longest_wait(&self) -> Option<&str> {
        self.waits()
            .filter(|(_, time)| *time > 0.0)
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(cause, _)| cause)
    }

    /// Causes and their times, longest first.
    pub(crate) fn by_time(&self) -> Vec<(&str, f64)> {
        let mut causes: Vec<(&str, f64)> =
            self.time_s.iter().map(|(cause, time)| (&**cause, *time)).collect();
        causes.sort_by(|a, b| b.1.total_cmp(&a.1));
        causes
    }

    fn waits(&self) -> impl Iterator<Item = (&str, f64)> {
        let waits = |cause: &str| !state::is_work(cause) && state::word(cause) != state::IDLE;
        self.time_s.iter().filter(move |(cause, _)| waits(cause)).map(|(cause, time)| (&**cause, *time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idling_at_the_end_is_neither_work_nor_a_wait() {
        let times = [
            (state::PYTHON, 4.0),
            (state::IDLE, 10.0),
            (state::WAITING_FOR_DEVICE, 2.0),
            (state::QUEUE_FULL, 3.0),
        ];
        let time_s = times.map(|(cause, time)| (cause.to_owned(), time)).into();
        let lane = LaneTime { name: "thread[python]".to_owned(), time_s };
        assert_eq!([lane.all_s(), lane.works_s(), lane.waits_s()], [19.0, 4.0, 5.0]);
        assert_eq!(lane.longest_wait(), Some(state::QUEUE_FULL));
        assert_eq!(LaneTime::default().longest_wait(), None);
    }
}
