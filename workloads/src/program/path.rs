//! Paths of iterations: branches, trips and fetches are drawn before a run from its seed, so that
//! nothing but time is left to the run.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sim_core::time::Time;

use super::statement::{Branch, HOST, Program, Runnable, Statement};

/// A path: steps in the order of Python.
pub type Path = Vec<Step>;

/// Something that Python does on its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where in the program.
    pub place: Place,
    /// Its action.
    pub what: What,
}

/// A place of a program: operators of a statement, and the trips of the loops around it, in mixed
/// radix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Number of the statement, in the order in which they are written.
    pub statement: u32,
    /// Position in its list of operators.
    pub position: u32,
    /// For a backward pass, the statement and position that ran forward.
    pub forward: Option<(u32, u32)>,
    /// Trips of loops that have always as many.
    pub trip: u64,
    /// Trips of loops whose number of trips varies.
    pub varying_trip: u64,
}

/// Something that Python does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// Issues operators.
    Run(Region),
    /// Hands over a batch.
    Batch,
    /// Hands over a number.
    Scalar,
    /// Reads the last result of a region.
    Fetch(Region),
    /// Reads it to decide a branch.
    Decide(Region),
    /// Works in the interpreter; a compiler traces it.
    Python(Time),
    /// Works in a library; with the interpreter lock or without.
    ThirdParty(Time, bool),
    /// Changes an attribute.
    Mutate,
    /// Yields, or enters a block that handles exceptions.
    Unwinds,
}

/// Operators that follow each other whatever path is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Region {
    /// Forward pass of a block of the model.
    Forward(u32),
    /// Its backward pass.
    Backward(u32),
    /// The update.
    Update,
    /// A fragment.
    Fragment(u32),
    /// Its backward pass.
    FragmentBackward(u32),
}

impl Region {
    /// True if it belongs to a backward pass.
    pub const fn is_backward(self) -> bool {
        matches!(self, Self::Backward(_) | Self::FragmentBackward(_))
    }

    /// Its backward pass, if it belongs to a forward pass.
    pub const fn backward(self) -> Option<Self> {
        match self {
            Self::Forward(block) => Some(Self::Backward(block)),
            Self::Fragment(fragment) => Some(Self::FragmentBackward(fragment)),
            _ => None,
        }
    }
}

impl What {
    /// True if the device executes something for it, or gets something: it is a node of traces.
    pub const fn is_traced(self) -> bool {
        matches!(self, Self::Run(_) | Self::Batch | Self::Scalar | Self::Fetch(_) | Self::Decide(_))
    }
}

/// Longest path of an iteration: a program that needs more is refused.
pub const STEPS_MAX: usize = 100_000;

/// The path of an iteration of a program over a model of `blocks` blocks; `None` if it has more
/// than [`STEPS_MAX`] steps.
pub fn draw(program: Program<'_>, blocks: u32, seed: u64, iteration: u32) -> Option<Path> {
    let mut words = ChaCha8Rng::seed_from_u64(seed);
    words.set_stream(u64::from(iteration));
    let mut walk = Walk {
        program,
        blocks,
        iteration,
        words,
        path: Path::new(),
        place: Place::default(),
        forward: Vec::new(),
        visits: 0,
        long: false,
    };
    walk.statements(program.iteration, &mut 0);
    (!walk.long).then_some(walk.path)
}

/// A walk through the statements of an iteration.
struct Walk<'a> {
    program: Program<'a>,
    blocks: u32,
    iteration: u32,
    words: ChaCha8Rng,
    path: Path,
    /// Trips so far.
    place: Place,
    /// Backward passes of what has run forward since the last one, with the places of that.
    forward: Vec<(Region, Place)>,
    /// Statements seen so far: loops whose bodies leave no step end, too.
    visits: usize,
    long: bool,
}

impl Walk<'_> {
    /// Statements of which the first has the number `next`, which is then that of the one behind
    /// them.
    fn statements(&mut self, statements: &[Statement], next: &mut u32) {
        for statement in statements {
            let number = *next;
            *next += 1;
            self.statement(statement, number, next);
        }
    }

    fn statement(&mut self, statement: &Statement, number: u32, next: &mut u32) {
        self.visits += 1;
        self.long |= self.visits > STEPS_MAX;
        match statement {
            Statement::Feed(feed) => {
                if feed.batch {
                    self.step(number, What::Batch);
                }
                if feed.scalar.is_some() {
                    self.step(number, What::Scalar);
                }
            }
            Statement::Run(runs) => {
                (0..).zip(&runs.0).for_each(|(position, run)| self.run(run, number, position));
            }
            Statement::Python(time) => self.step(number, What::Python(Time(time.picoseconds()))),
            Statement::ThirdParty(call) => {
                self.step(number, What::ThirdParty(Time(call.time.picoseconds()), call.holds_lock));
            }
            Statement::Mutate(_) => self.step(number, What::Mutate),
            Statement::Fetch(fetch) => {
                let due = (self.iteration + 1).is_multiple_of(fetch.when.every);
                if let Some(region) = self.made(&fetch.tensor).filter(|_| due) {
                    self.step(number, What::Fetch(region));
                }
            }
            Statement::Branch(branch) => self.branch(branch, number, next),
            Statement::Loop(it) => {
                let trips = self.words.random_range(it.trips.least..=it.trips.most);
                let (outer, body) = (self.place, *next);
                *next += count(&it.body);
                for trip in 0..trips {
                    // One more than the trips there may be: places of different loops stay apart.
                    let radix = u64::from(it.trips.most) + 1;
                    let within = |outer: u64| outer.wrapping_mul(radix).wrapping_add(u64::from(trip) + 1);
                    self.place = match it.trips.least == it.trips.most {
                        true => Place { trip: within(outer.trip), ..outer },
                        false => Place { varying_trip: within(outer.varying_trip), ..outer },
                    };
                    self.statements(&it.body, &mut body.clone());
                    if self.long {
                        break;
                    }
                }
                self.place = outer;
            }
            Statement::Try(body) | Statement::Generator(body) => {
                self.step(number, What::Unwinds);
                self.statements(body, next);
            }
        }
    }

    fn branch(&mut self, branch: &Branch, number: u32, next: &mut u32) {
        // Drawn in any case: what one branch does leaves the others as they are.
        let taken = self.words.random_range(0..Branch::WHOLE) < branch.probability.billionths();
        if branch.by != HOST
            && let Some(region) = self.made(&branch.by)
        {
            self.step(number, What::Decide(region));
        }
        let (then, otherwise) = (*next, *next + count(&branch.then));
        *next = otherwise + count(&branch.otherwise);
        match taken {
            true => self.statements(&branch.then, &mut then.clone()),
            false => self.statements(&branch.otherwise, &mut otherwise.clone()),
        }
    }

    fn run(&mut self, run: &Runnable, statement: u32, position: u32) {
        let place = Place { statement, position, ..self.place };
        match run {
            Runnable::Forward(range) => {
                let (from, to) = range.unwrap_or((0, self.blocks));
                (from..to.min(self.blocks)).for_each(|block| self.ran(Region::Forward(block), place));
            }
            Runnable::Backward => {
                for (region, of) in std::mem::take(&mut self.forward).into_iter().rev() {
                    let place = Place {
                        forward: Some((of.statement, of.position)),
                        trip: both(place.trip, of.trip),
                        varying_trip: both(place.varying_trip, of.varying_trip),
                        ..place
                    };
                    self.push(Step { place, what: What::Run(region) });
                }
            }
            Runnable::Update => self.push(Step { place, what: What::Run(Region::Update) }),
            Runnable::Fragment(name) => {
                if let Some(fragment) = self.program.fragments.get_index_of(name) {
                    self.ran(Region::Fragment(fragment as u32), place);
                }
            }
        }
    }

    fn ran(&mut self, region: Region, place: Place) {
        self.forward.extend(region.backward().map(|backward| (backward, place)));
        self.push(Step { place, what: What::Run(region) });
    }

    /// The region that makes a tensor: the last one that did on this path.
    fn made(&self, tensor: &str) -> Option<Region> {
        let fragment = self.program.fragments.get_index_of(tensor).map(|fragment| fragment as u32);
        let makes = |region: Region| match tensor {
            LOSS => matches!(region, Region::Forward(_)),
            GRADIENTS => region.is_backward(),
            _ => fragment.is_some_and(|fragment| region == Region::Fragment(fragment)),
        };
        let runs = self.path.iter().rev().filter_map(|step| match step.what {
            What::Run(region) => Some(region),
            _ => None,
        });
        runs.into_iter().find(|&region| makes(region))
    }

    fn step(&mut self, statement: u32, what: What) {
        self.push(Step { place: Place { statement, ..self.place }, what });
    }

    fn push(&mut self, step: Step) {
        self.long |= self.path.len() >= STEPS_MAX;
        if !self.long {
            self.path.push(step);
        }
    }
}

/// Trips of a backward pass and of what it follows.
const fn both(backward: u64, forward: u64) -> u64 {
    // Odd: no trip is lost, however deep loops are nested.
    const RADIX: u64 = (1 << 32) + 1;
    backward.wrapping_mul(RADIX).wrapping_add(forward)
}

/// Result of the forward pass.
pub const LOSS: &str = "loss";

/// Results of the backward pass.
pub const GRADIENTS: &str = "gradients";

/// Statements in a list, those within others included.
pub fn count(statements: &[Statement]) -> u32 {
    statements.iter().map(|statement| 1 + inner(statement).into_iter().map(count).sum::<u32>()).sum()
}

/// Lists of statements within one.
pub fn inner(statement: &Statement) -> Vec<&[Statement]> {
    statement.lists().into_iter().map(|(_, list)| list).collect()
}
