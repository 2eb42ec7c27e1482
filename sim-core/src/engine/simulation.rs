//! A run that can be stopped between two instants and forked.

use std::sync::Arc;

use super::inputs::Inputs;
use super::state::State;
use super::{Engine, Options};
use crate::observe::{Unobserved, Watch};
use crate::outcome::{End, Run};
use crate::platform::Platform;
use crate::program::{Program, StartState};
use crate::time::Time;
use crate::validate::{ProgramError, validate};

/// A run under way. A clone of it is a fork: both go on from here, each by itself, and come to the same end to the last
/// bit.
///
/// A fork shares what never changes and copies the state, in which streams may be inside a segment or ahead of the clock:
/// it may be taken between any two instants.
#[derive(Clone, Debug)]
pub struct Simulation<'a> {
    inputs: Arc<Inputs<'a>>,
    state: State,
}

impl<'a> Simulation<'a> {
    /// A run that has not begun.
    ///
    /// # Errors
    /// Everything that is wrong with the program; see [`ProgramError`].
    pub fn new(
        platform: &'a Platform,
        program: &'a Program,
        start: &'a StartState,
        options: &Options,
    ) -> Result<Self, Vec<ProgramError>> {
        validate(platform, program, start)?;
        let inputs = Inputs::new::<Unobserved>(platform, program, start, options);
        let state = State::new(&inputs, &inputs.ahead);
        Ok(Self { inputs: Arc::new(inputs), state })
    }

    /// Goes on through all instants up to `time`, that one included.
    #[must_use]
    pub fn run_until(self, time: Time) -> Self {
        let Self { inputs, state } = self;
        let mut observer = Unobserved;
        let mut engine = Engine::new(&inputs, state, &mut observer);
        engine.execute(time);
        let state = engine.state;
        Self { inputs, state }
    }

    /// Goes on to the end.
    pub fn finish(self) -> Run {
        finish(&self.inputs, self.state, &mut Unobserved)
    }
}

/// Goes on to the end of a run. One that ends early was nobody's to be ahead of: it is run again by the clock.
pub(super) fn finish<O: Watch>(inputs: &Inputs<'_>, state: State, observer: &mut O) -> Run {
    let run_from = |state, observer: &mut O| {
        let mut engine = Engine::new(inputs, state, observer);
        engine.execute(Time::NEVER);
        engine.into_run()
    };
    let run = run_from(state, observer);
    let early = !matches!(run.end, End::Completed | End::Deadlock(_)) || run.time > inputs.options.time_max;
    if inputs.ahead.on && early {
        return run_from(State::new(inputs, &inputs.by_the_clock()), observer);
    }
    run
}
