//! A recorded step as it was measured: what one of its devices did at each moment.

use super::host::marks;
use super::intervals::Intervals;
use super::recording::{ActivityKind, DeviceEvent, Recording};

/// Mean of recorded steps (s). `kernels`, `collectives`, `copies` and `nothing` add up to `step`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Number of steps.
    pub steps: u64,
    /// Time of a step.
    pub step: f64,
    /// Time in which kernels run that compute.
    pub kernels: f64,
    /// Time of collectives in which no such kernel runs.
    pub collectives: f64,
    /// Time of copies and fills in which neither does.
    pub copies: f64,
    /// Time in which nothing runs.
    pub nothing: f64,
    /// Time in which collectives run, whatever else does.
    pub all_collectives: f64,
}

impl Measured {
    /// The first device of a recording over its steps without the first, or over all there is where
    /// none is marked. `None`: no device did anything.
    pub fn of(recording: &Recording) -> Option<Self> {
        let marks = marks(recording);
        let measured = if marks.len() > 1 { &marks[1..] } else { &marks };
        let window = match (measured.first(), measured.last()) {
            (Some(first), Some(last)) => [first.begin, last.end],
            _ => [recording.begin()?, recording.end()?],
        };
        let device = recording.activities.iter().map(|event| event.stream.0).min()?;
        let within = recording.activities.iter().filter(|event| event.stream.0 == device);
        let busy = |counts: &dyn Fn(ActivityKind) -> bool| {
            let events = within.clone().filter(|event| counts(event.kind));
            covered(events.map(|event: &DeviceEvent| (event.begin, event.end)), window)
        };
        let is_collective = |kind| kind == ActivityKind::Collective;
        let kernels = busy(&|kind| kind == ActivityKind::Kernel);
        let and_collectives = busy(&|kind| kind == ActivityKind::Kernel || is_collective(kind));
        let all = busy(&|_| true);
        let span = window[1] - window[0];
        let steps = measured.len().max(1) as u64;
        let mean = |ns: i64| ns as f64 * 1e-9 / steps as f64;
        Some(Self {
            steps,
            step: mean(span),
            kernels: mean(kernels),
            collectives: mean(and_collectives - kernels),
            copies: mean(all - and_collectives),
            nothing: mean(span - all),
            all_collectives: mean(busy(&is_collective)),
        })
    }
}

/// Time (ns) of a window that spans cover, which come by begin.
fn covered(spans: impl Iterator<Item = (i64, i64)>, [from, to]: [i64; 2]) -> i64 {
    let mut intervals = Intervals::default();
    for (begin, end) in spans {
        let (begin, end) = (begin.max(from), end.min(to));
        if end > begin {
            intervals.add(begin, end);
        }
    }
    intervals.list.iter().map(|(begin, end)| end - begin).sum()
}
