//! A program that was executed: its mode, its iterations, and what its threads did.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::LaneTime;
use crate::quantity;

/// Execution of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecutedProgram {
    /// How it was executed, as a file says it: `co-execution`, `co-execution: { overlap: false }`.
    pub execution: String,
    /// Its framework.
    pub framework: String,
    /// Iterations of the run.
    pub iterations: u64,
    /// Iterations that were simulated; the others repeat the last ones.
    pub simulated: u64,
    /// Mean time of all iterations, with what is captured, compiled or traced once. The step is
    /// that of the second half.
    pub mean_iteration_s: f64,
    /// Least and most of the mean over all seeds.
    pub mean_iteration_spread_s: Option<[f64; 2]>,
    /// Share of the iterations that ran from a graph, 0 to 1.
    pub coverage: f64,
    /// Number of iterations by how they were executed.
    pub ran: IndexMap<String, u64>,
    /// Iterations from which on they were executed otherwise, counted from 1, and how.
    pub phases: Vec<Phase>,
    /// Times of the first iterations.
    pub iteration_s: Vec<f64>,
    /// Python's thread, other threads of the host, then the GPU: time of an iteration by cause,
    /// mean over the later half of those that were simulated.
    pub lanes: Vec<LaneTime>,
}

impl ExecutedProgram {
    /// Most phases, and times of iterations.
    pub const TOLD_MAX: usize = 200;
    /// Meaning of the times in a table of runs.
    pub(crate) const TIMES: &str = "all iterations, from a graph: from the first one on, with tracing, capturing and compiling; the other columns: the later half of the simulated iterations";
    /// Titles of a table of runs; those of numbers begin with `>`.
    pub(crate) const TITLES: [&str; 7] =
        ["variant", "execution", ">step", ">all iterations", ">from a graph", "Python waits", ">GPU busy"];

    /// `terra in pytorch-2: 48 iterations simulated of 200, the rest repeat`.
    pub(crate) fn title(&self, run: &str) -> String {
        let Self { framework, iterations, simulated, .. } = self;
        let counted = match (iterations, simulated) {
            (1, _) => "1 iteration".to_owned(),
            (all, some) if some < all => format!("{some} iterations simulated of {all}, the rest repeat"),
            (all, _) => format!("{all} iterations"),
        };
        format!("{run} in {framework}: {counted}")
    }

    /// `1-2 tracing, 3-40 co-executed`, and counts where phases are left out.
    pub(crate) fn phase_words(&self) -> String {
        /// Phases that are told one by one.
        const PHASES_MAX: usize = 8;
        let ends = self.phases.iter().skip(1).map(|next| next.from - 1).chain([self.simulated]);
        let phase = |(phase, end): (&Phase, u64)| match phase.from {
            from if from >= end => format!("{from} {}", phase.ran),
            from => format!("{from}-{end} {}", phase.ran),
        };
        let told: Vec<String> = self.phases.iter().zip(ends).map(phase).take(PHASES_MAX).collect();
        let told = told.join(", ");
        let more = match self.phases.len() {
            all if all >= Self::TOLD_MAX => "many more".to_owned(),
            all if all > PHASES_MAX => format!("{} more", all - PHASES_MAX),
            _ => return told,
        };
        let counts: Vec<String> = self.ran.iter().map(|(ran, count)| format!("{count} {ran}")).collect();
        format!("{told} and {more}; together {}", counts.join(", "))
    }

    /// Mean time of all iterations, with the least and the most of all seeds.
    pub(crate) fn mean_words(&self) -> String {
        let mean = quantity::seconds(self.mean_iteration_s);
        match self.mean_iteration_spread_s {
            Some(spread) => {
                let [least, most] = spread.map(quantity::seconds);
                format!("{mean} ({least} to {most})")
            }
            None => mean,
        }
    }

    /// Share of an iteration in which Python's thread waits, 0 to 1.
    pub(crate) fn python_waits(&self) -> f64 {
        self.lanes.first().map_or(0.0, |python| python.waits_s() / python.all_s())
    }

    /// That share and its largest cause: `24.1 %, most waiting for a feed`.
    pub(crate) fn python_waits_words(&self) -> String {
        let share = quantity::percent(self.python_waits());
        match self.lanes.first().and_then(LaneTime::longest_wait) {
            Some(cause) => format!("{share}, most {cause}"),
            None => share,
        }
    }

    /// Share of an iteration in which the GPU works, 0 to 1.
    pub(crate) fn gpu_busy(&self) -> f64 {
        self.lanes.last().map_or(0.0, |gpu| gpu.works_s() / gpu.all_s())
    }
}

/// Iterations that follow each other and were executed alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// The first of them, counted from 1.
    pub from: u64,
    /// How they were executed.
    pub ran: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(phases: &[(u64, &str)], simulated: u64, iterations: u64) -> ExecutedProgram {
        let phase = |(from, ran): &(u64, &str)| Phase { from: *from, ran: (*ran).to_owned() };
        ExecutedProgram {
            framework: "pytorch-2".to_owned(),
            phases: phases.iter().map(phase).collect(),
            simulated,
            iterations,
            ..ExecutedProgram::default()
        }
    }

    #[test]
    fn phases_end_where_the_next_begins() {
        let few = program(&[(1, "tracing"), (3, "co-executed"), (9, "fell back"), (10, "tracing")], 10, 10);
        assert_eq!(few.phase_words(), "1-2 tracing, 3-8 co-executed, 9 fell back, 10 tracing");
        assert_eq!(few.title("terra"), "terra in pytorch-2: 10 iterations");
        let repeated = program(&[(1, "eager")], 48, 200);
        assert_eq!(
            repeated.title("eager"),
            "eager in pytorch-2: 48 iterations simulated of 200, the rest repeat"
        );
        assert_eq!(repeated.phase_words(), "1-48 eager");
    }

    #[test]
    fn many_phases_are_counted() {
        let words = ["captured", "capturing"];
        let phases: Vec<(u64, &str)> = (1..=20).map(|from| (from, words[(from % 2) as usize])).collect();
        let mut many = program(&phases, 20, 20);
        many.ran = [("capturing".to_owned(), 10), ("captured".to_owned(), 10)].into();
        let told = many.phase_words();
        let expected = "8 captured and 12 more; together 10 capturing, 10 captured";
        assert!(told.starts_with("1 capturing, 2 captured, ") && told.ends_with(expected), "{told}");
    }
}
