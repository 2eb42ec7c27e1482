//! A program executed: its iterations are drawn, written as lanes and simulated.

use sim_core::time::Time;
use thiserror::Error;

use super::execution::Execution;
use super::issuer::{Costs, Issuer, MARKS};
use super::modes::{Ran, Running};
use super::path::{Path, STEPS_MAX, draw};
use super::statement::{Program, Statement};
use crate::lanes::{self, LaneUse, Lanes, LanesError, Simulation};

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Mode.
    pub execution: Execution,
    /// Iterations, at least 1.
    pub iterations: u32,
    /// Seed of its paths.
    pub seed: u64,
    /// Launches that the device may have waiting.
    pub queue: u64,
}

/// A program after a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Executed {
    /// Iterations that were simulated, in order. The others repeat the last ones.
    pub iterations: Vec<Iteration>,
    /// Iterations that were asked for.
    pub asked: u32,
    /// Mean time of an iteration in the second half of those that were simulated.
    pub step: Time,
    /// Mean time of all that were asked for.
    pub mean: Time,
    /// Index of the lane that the critical path leads to.
    pub stepping: usize,
    /// The critical path of the second half by cause.
    pub critical: Vec<(String, Time)>,
    /// Time of threads and streams by cause.
    pub lanes: Vec<LaneUse>,
    /// Begin and end of the second half.
    pub settled: [Time; 2],
    /// Begin and end of an iteration to look at, the last but one.
    pub shown: [Time; 2],
    /// Activities of the engine.
    pub activities: u64,
}

/// An iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iteration {
    /// How it was executed.
    pub ran: Ran,
    /// From the end of the one before to its own end, when Python is through with it, and the
    /// device with all that was launched.
    pub time: Time,
}

/// A program that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SessionError {
    /// An iteration is too long.
    #[error("iteration {iteration} has more than {STEPS_MAX} steps: write loops with fewer trips")]
    TooLong {
        /// Counted from 0.
        iteration: u32,
    },
    /// All iterations are too long.
    #[error("{iterations} iterations have more than {ITEMS_MAX} operators: write fewer iterations")]
    TooMany {
        /// As asked for.
        iterations: u32,
    },
    /// Its lanes cannot be simulated: a mistake of this crate.
    #[error(transparent)]
    Lanes(#[from] LanesError),
}

/// Most operators of a run.
pub const ITEMS_MAX: u64 = 20_000_000;

/// Iterations of a program whose paths repeat, after which nothing changes any more.
const SETTLED: u32 = 48;

/// Draws, writes and simulates the iterations of a program.
///
/// # Errors
/// See [`SessionError`].
pub fn execute(program: Program<'_>, costs: Costs<'_>, session: &Session) -> Result<Executed, SessionError> {
    let written = Written::of(program, costs, session)?;
    Ok(written.executed(written.simulation().run()?))
}

/// The lanes of a program's iterations.
#[derive(Clone, Debug)]
pub struct Written {
    lanes: Lanes,
    ran: Vec<Ran>,
    session: Session,
}

impl Written {
    /// Draws and writes iterations.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn of(program: Program<'_>, costs: Costs<'_>, session: &Session) -> Result<Self, SessionError> {
        let count = match period(program.iteration) {
            Some(period) => {
                session.iterations.min(SETTLED.checked_next_multiple_of(period).unwrap_or(u32::MAX))
            }
            None => session.iterations,
        };
        Self::first(program, costs, session, count)
    }

    /// Draws and writes `count` iterations, whatever the session asks for.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn first(
        program: Program<'_>,
        costs: Costs<'_>,
        session: &Session,
        count: u32,
    ) -> Result<Self, SessionError> {
        let mut issuer = Issuer::new(costs, session.execution);
        let mut running = Running::of(&mut issuer);
        issuer.mark();
        let mut ran = Vec::new();
        let blocks = costs.base.library.blocks.len() as u32;
        for iteration in 0..count {
            let path: Option<Path> = draw(program, blocks, session.seed, iteration);
            let path = path.ok_or(SessionError::TooLong { iteration })?;
            ran.push(running.iteration(&mut issuer, &path));
            issuer.mark();
            if issuer.written() > ITEMS_MAX {
                return Err(SessionError::TooMany { iterations: session.iterations });
            }
        }
        Ok(Self { lanes: issuer.lanes(), ran, session: *session })
    }

    /// Its lanes.
    pub fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// How each of its iterations runs.
    pub fn ran(&self) -> &[Ran] {
        &self.ran
    }

    /// Its lanes, ready to be run.
    pub fn simulation(&self) -> Simulation<'_> {
        Simulation::new(&self.lanes, self.session.queue, Some(self.half()))
    }

    fn half(&self) -> u32 {
        self.ran.len() as u32 / 2
    }

    /// Findings of a run of them.
    pub fn executed(&self, run: lanes::Ran) -> Executed {
        let times = run.marks.windows(2).map(|pair| pair[1] - pair[0]);
        let iterations = self.ran.iter().zip(times).map(|(&ran, time)| Iteration { ran, time });
        let iterations: Vec<Iteration> = iterations.collect();
        let sum = |iterations: &[Iteration]| iterations.iter().map(|it| it.time.0).sum::<u64>();
        let settled = &iterations[(self.half() as usize).min(iterations.len())..];
        let step = sum(settled) / (settled.len() as u64).max(1);
        let asked = self.session.iterations;
        let all = sum(&iterations) + step * u64::from(asked).saturating_sub(iterations.len() as u64);
        let marks = format!("thread[{MARKS}]");
        let mark = |mark: usize| run.marks.get(mark).copied().unwrap_or_default();
        let shown = iterations.len().saturating_sub(2);
        Executed {
            step: Time(step),
            mean: Time(all / u64::from(asked.max(1))),
            asked,
            settled: [self.half() as usize, iterations.len()].map(mark),
            shown: [shown, shown + 1].map(mark),
            stepping: run.stepping,
            critical: run.critical,
            lanes: run.lanes.into_iter().filter(|lane| lane.name != marks).collect(),
            activities: run.activities,
            iterations,
        }
    }
}

/// Iterations after which paths repeat; `None` where something is drawn.
fn period(statements: &[Statement]) -> Option<u32> {
    statements.iter().try_fold(1_u32, |so_far, statement| {
        let own = match statement {
            Statement::Fetch(fetch) => Some(fetch.when.every),
            Statement::Branch(branch) if branch.may_take() == [true; 2] => None,
            Statement::Loop(it) if it.trips.least != it.trips.most => None,
            _ => Some(1),
        }?;
        let inner = super::path::inner(statement)
            .into_iter()
            .try_fold(own, |own, list| Some(lcm(own, period(list)?)));
        Some(lcm(so_far, inner?))
    })
}

/// Least common multiple; the largest number where there is none.
fn lcm(a: u32, b: u32) -> u32 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}
