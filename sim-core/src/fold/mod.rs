//! Folding: ranks that do the same at the same time are simulated once. A program goes in, a smaller program with an
//! equal timeline comes out; the engine only knows the integer [`multiplicity`](crate::platform::Demand::multiplicity)
//! of a demand.
//!
//! Ranks (bindings with their streams) and what they use (fluids, pools, stores, counters, cells, groups, queues) are the
//! nodes of a graph whose edges say which slot means what. Colour refinement finds the coarsest partition in which nodes
//! of a class have the same label and the same number of equal edges to each class. Then every class behaves as one:
//! by induction over events the state of a node is that of its representative, if in addition
//!
//! - what serves in order of arrival (pools, stores, queues, cells, counters that change in the middle of an instant,
//!   fluids with a bucket or ports) is used by at most one rank of a class. Ranks that share such an object form a
//!   *team*; a rank's label says where its streams stand in the team's order of streams, so that a team folds onto a
//!   whole team and ties are broken alike;
//! - a counter hears at most one rank of a class through a slot, as the representative counts once;
//! - a group's members are streams that each join it in every round, so that its representative waits for one of each
//!   class;
//! - a route meets each class of fluids in one way only;
//! - classes that meet at a counter, a group or a route do so in the same order of ids everywhere.
//!
//! Where one of these fails the object is taken for one that serves in order, its ranks become a team, and refinement
//! starts again. Programs with noise, reclaim tables or halts, and slots used as two kinds of object, stay unfolded.

mod conflicts;
mod graph;
mod labels;
mod quotient;
mod refine;
mod teams;
mod usage;

use crate::id::{FluidId, StoreId, StreamId};
use crate::outcome::{End, OutOfMemory, PathStep, Place, Run, Waiting};
use crate::platform::Platform;
use crate::program::{Program, StartState};
use crate::validate::validate;
use graph::Graph;
use teams::Classes;

/// A program with one representative of each class of ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct Folded {
    /// Its platform.
    pub platform: Platform,
    /// What runs.
    pub program: Program,
    /// What it starts from.
    pub start: StartState,
    /// For every original stream the stream that stands for it.
    pub streams: Vec<StreamId>,
    /// For every original store the store that stands for it.
    pub stores: Vec<StoreId>,
    /// For every original fluid the fluid that stands for it.
    pub fluids: Vec<FluidId>,
}

/// Refinements after which a program counts as irregular and stays unfolded: each one found objects that cannot be
/// shared, so regular programs need two or three.
const REFINEMENTS_MAX: usize = 16;

/// Folds a program: same timeline for every stream as for its representative, bit for bit. A program in which nothing
/// folds, or which is not valid, comes back as it is.
pub fn fold(platform: &Platform, program: &Program, start: &StartState) -> Folded {
    smaller(platform, program, start).unwrap_or_else(|| Folded::unfolded(platform, program, start))
}

/// The folded program; none when nothing folds.
fn smaller(platform: &Platform, program: &Program, start: &StartState) -> Option<Folded> {
    let regular = program.noise.is_silent() && program.reclaim.is_empty();
    if !regular || validate(platform, program, start).is_err() {
        return None;
    }
    let mut graph = Graph::new(platform, program, start)?;
    for _ in 0..REFINEMENTS_MAX {
        let classes = Classes::new(&graph);
        if !classes.fold_ranks(&graph) {
            return None;
        }
        let conflicts = conflicts::find(&graph, &classes);
        if conflicts.is_empty() {
            let folded = quotient::build(&graph, &classes, start)?;
            // A multiplicity may exceed what a fluid can weigh.
            return validate(&folded.platform, &folded.program, &folded.start).is_ok().then_some(folded);
        }
        graph.serve_in_order(conflicts);
    }
    None
}

impl Folded {
    /// A run of the folded program as one of the original: every stream, store and fluid is as its representative; in
    /// how it ended, each representative stands for the first of its class. Counts stay those of what was simulated.
    pub fn expand(&self, run: &Run) -> Run {
        // By representative, the first of its class.
        let mut first: Vec<StreamId> = (0..run.streams.len()).map(StreamId::from).collect();
        for (stream, folded) in self.streams.iter().enumerate().rev() {
            first[folded.index()] = StreamId::from(stream);
        }
        let original = |stream: StreamId| first[stream.index()];
        let place = |place: Place| Place { stream: original(place.stream), ..place };
        let store_use = |&store: &StoreId| {
            let mut held = run.stores[store.index()].clone();
            held.peak.place = held.peak.place.map(place);
            held
        };
        Run {
            end: match &run.end {
                End::OutOfMemory(oom) => End::OutOfMemory(OutOfMemory {
                    place: place(oom.place),
                    store: self
                        .stores
                        .iter()
                        .position(|&folded| folded == oom.store)
                        .map_or(oom.store, StoreId::from),
                    ..oom.clone()
                }),
                End::Deadlock(waiting) => End::Deadlock(
                    waiting
                        .iter()
                        .map(|w| Waiting {
                            place: place(w.place),
                            on: w.on.iter().copied().map(original).collect(),
                            ..w.clone()
                        })
                        .collect(),
                ),
                &End::Invalid { place: at, reason } => End::Invalid { place: place(at), reason },
                other => other.clone(),
            },
            time: run.time,
            streams: self.streams.iter().map(|stream| run.streams[stream.index()].clone()).collect(),
            stores: self.stores.iter().map(store_use).collect(),
            fluids: self.fluids.iter().map(|fluid| run.fluids[fluid.index()]).collect(),
            activities: run.activities,
            events: run.events,
            unsettled: run.unsettled,
            path: run.path.iter().map(|step| PathStep { stream: original(step.stream), ..*step }).collect(),
        }
    }

    /// The program as it is.
    pub fn unfolded(platform: &Platform, program: &Program, start: &StartState) -> Self {
        Self {
            platform: platform.clone(),
            program: program.clone(),
            start: start.clone(),
            streams: (0..program.streams.len()).map(StreamId::from).collect(),
            stores: (0..platform.stores.len()).map(StoreId::from).collect(),
            fluids: (0..platform.fluids.len()).map(FluidId::from).collect(),
        }
    }
}
