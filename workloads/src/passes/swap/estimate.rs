//! What a swap plan is expected to cost a GPU that has its links to itself: copies out one after the other and copies back
//! beside them, operators that wait for what they need and for room.

use std::collections::VecDeque;

use crate::cost::HostLinks;

use super::plan::SwapPlan;
use super::timeline::Timeline;

/// Seconds from the first operator to the end of the last.
pub(crate) fn seconds(plan: &SwapPlan, timeline: &Timeline, capacity: u64, links: HostLinks) -> f64 {
    let (mut out, mut left, mut back) = (Vec::new(), Vec::new(), Vec::new());
    for (number, (candidate, asked)) in timeline.candidates.iter().zip(&plan.asked).enumerate() {
        let Some(asked) = asked else { continue };
        for absence in &candidate.absences {
            out.push((absence.copied, number));
            left.push((absence.left, number));
            back.push((absence.needed, absence.returns + asked, number));
        }
    }
    out.sort_unstable();
    left.sort_unstable();
    back.sort_unstable();
    let (now, out_free, back_free, leaving) = Default::default();
    let mut run = Run { timeline, capacity, links, now, out_free, back_free, leaving, leaving_bytes: 0 };
    let there = plan.there(timeline);
    // By candidate, the ends of copies out: those that have not left, and those that have not come back.
    let mut sent: Vec<VecDeque<f64>> = vec![VecDeque::new(); timeline.candidates.len()];
    let mut away = sent.clone();
    let (mut out, mut back) = (out.into_iter().peekable(), back.into_iter().peekable());
    let mut left = left.into_iter().peekable();
    // By trip back, what it has been asked for at.
    let mut asked: Vec<f64> = Vec::with_capacity(timeline.steps.len());
    for (step, &bytes) in there.iter().enumerate() {
        run.room(bytes);
        asked.push(run.now);
        while let Some((_, at, number)) = back.next_if(|&(needed, ..)| needed == step) {
            let out = away[number].pop_front().unwrap_or(0.0);
            run.fetch(number, asked[at].max(out));
        }
        run.now += timeline.steps[step].seconds;
        while let Some((_, number)) = out.next_if(|&(copied, _)| copied == step) {
            sent[number].push_back(run.send(number));
        }
        while let Some((_, number)) = left.next_if(|&(left, _)| left == step) {
            let end = sent[number].pop_front().unwrap_or(run.now);
            run.leave(number, end);
            away[number].push_back(end);
        }
    }
    run.now
}

struct Run<'a> {
    timeline: &'a Timeline,
    capacity: u64,
    links: HostLinks,
    now: f64,
    out_free: f64,
    back_free: f64,
    /// Ends of copies out, and their bytes.
    leaving: VecDeque<(f64, u64)>,
    /// Their sum.
    leaving_bytes: u64,
}

impl Run<'_> {
    /// Waits until copies out have made room.
    fn room(&mut self, bytes: u64) {
        while let Some(&(end, left)) = self.leaving.front()
            && (end <= self.now || bytes + self.leaving_bytes > self.capacity)
        {
            self.leaving.pop_front();
            self.leaving_bytes -= left;
            self.now = self.now.max(end);
        }
    }

    /// A copy out, which begins when those before it have ended; its end.
    fn send(&mut self, number: usize) -> f64 {
        let bytes = self.timeline.candidates[number].bytes;
        self.out_free =
            self.out_free.max(self.now) + self.links.latency[0] + bytes as f64 / self.links.rate[0];
        self.out_free
    }

    /// What is needed no more is there until its copy out has ended.
    fn leave(&mut self, number: usize, end: f64) {
        let bytes = self.timeline.candidates[number].bytes;
        let at = self.leaving.partition_point(|&(other, _)| other <= end);
        self.leaving.insert(at, (end, bytes));
        self.leaving_bytes += bytes;
    }

    /// Waits for a copy back, which begins when those before it have ended.
    fn fetch(&mut self, number: usize, from: f64) {
        let bytes = self.timeline.candidates[number].bytes;
        self.back_free = self.back_free.max(from) + self.links.latency[1] + bytes as f64 / self.links.rate[1];
        self.now = self.now.max(self.back_free);
    }
}
