//! Inputs of a run: nothing of them changes while it goes on.

use super::ahead::Ahead;
use super::code::Code;
use super::halt::Halts;
use super::segments::Plans;
use super::{NOBODY, Options};
use crate::observe::Watch;
use crate::platform::Platform;
use crate::program::{Program, StartState};

/// What is run, and what is known about it before.
#[derive(Debug)]
pub(super) struct Inputs<'a> {
    pub(super) platform: &'a Platform,
    pub(super) program: &'a Program,
    pub(super) start: &'a StartState,
    pub(super) options: Options,
    pub(super) code: Code,
    pub(super) plans: Plans,
    pub(super) halts: Halts,
    pub(super) ahead: Ahead,
    pub(super) noisy: bool,
    /// Per cell, the reclaim table it is a candidate of; empty without tables.
    pub(super) reclaim_of_cell: Vec<u32>,
}

impl<'a> Inputs<'a> {
    /// Inputs of a valid program that is watched by an `O`.
    pub(super) fn new<O: Watch>(
        platform: &'a Platform,
        program: &'a Program,
        start: &'a StartState,
        options: &Options,
    ) -> Self {
        let code = Code::new(program);
        let halts = Halts::new(platform, program, &code);
        let noisy = !program.noise.is_silent();
        let segments = options.segments && !noisy && !O::CURVES;
        let plans = Plans::new(segments, platform, program, &code);
        let ahead = Ahead::new(segments && !O::SPANS, platform, program, &code, &halts);
        let reclaim_of_cell = reclaim_of_cell(program);
        Self {
            platform,
            program,
            start,
            options: *options,
            code,
            plans,
            halts,
            ahead,
            noisy,
            reclaim_of_cell,
        }
    }

    /// What streams may use ahead of the clock in a run in which nobody may run ahead of it.
    pub(super) fn by_the_clock(&self) -> Ahead {
        Ahead::new(false, self.platform, self.program, &self.code, &self.halts)
    }
}

fn reclaim_of_cell(program: &Program) -> Vec<u32> {
    if program.reclaim.is_empty() {
        return Vec::new();
    }
    let mut table_of = vec![NOBODY; program.cells as usize];
    for (index, table) in program.reclaim.iter().enumerate() {
        for candidate in &table.candidates {
            table_of[candidate.cell.index()] = index as u32;
        }
    }
    table_of
}
