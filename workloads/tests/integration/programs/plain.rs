//! Random programs, and a plain interpreter of them.

use std::collections::BTreeMap;

use hw_models::framework::UpdateStyle;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sim_core::time::Time;
use workloads::program::base::{BlockOperators, Operator};
use workloads::program::path::{Region, What};
use workloads::program::statement::{Program, Runnable, Statement};

use super::{Case, written};

/// Blocks of the model.
pub(super) const BLOCKS: u32 = 3;

/// A case over three blocks and two fragments; kernels of each region have a time of their own.
pub(super) fn case(iteration: &str) -> Case {
    let mut case = Case::new(&[(2, 0), (1, 0), (3, 0)], iteration);
    let like = case.base.library.update[0].clone();
    for operators in [&mut case.base.library, &mut case.base.merged] {
        let of = |region: Region, count: usize| -> Vec<Operator> {
            let work = Time::from_us(kernel(region) * u64::from(each(region)));
            vec![Operator { work, members: each(region), ..like.clone() }; count]
        };
        for (block, number) in operators.blocks.iter_mut().zip(0..) {
            let count = block.forward.len();
            block.forward = of(Region::Forward(number), count);
            block.backward = of(Region::Backward(number), count);
        }
        operators.update = of(Region::Update, 2);
        let fragment = |number| BlockOperators {
            forward: of(Region::Fragment(number), 2),
            backward: of(Region::FragmentBackward(number), 1),
        };
        operators.fragments = vec![fragment(0), fragment(1)];
    }
    case.fragments = written(
        "{ extra: { operators: 2, backward: 1, bytes: 1 MB }, head: { operators: 2, backward: 1, bytes: 1 MB } }",
    );
    case.base.tensors = u64::from(each(Region::Update));
    let framework = &mut case.framework;
    framework.update = UpdateStyle::EachParameter;
    framework.message.us = 1.5;
    framework.trace.us = 0.5;
    framework.enter_region.us = 2.0;
    framework.build.us = 3.0;
    framework.capture.us = 1.0;
    case.host.synchronise.us = 1.0;
    case
}

/// Time of a kernel of a region (us).
pub(super) const fn kernel(region: Region) -> u64 {
    match region {
        Region::Forward(block) => 1 + block as u64,
        Region::Backward(block) => 11 + block as u64,
        Region::Update => 21,
        Region::Fragment(fragment) => 31 + fragment as u64,
        Region::FragmentBackward(fragment) => 41 + fragment as u64,
    }
}

/// Operators of an eager framework for each operator of a region.
pub(super) const fn each(region: Region) -> u32 {
    match region {
        Region::Update => 3,
        Region::Fragment(_) => 2,
        _ => 1,
    }
}

/// Programs; with what varies from one iteration to the next or without.
pub(super) fn programs(varying: bool) -> impl Strategy<Value = String> {
    let runs = prop::sample::select(vec![
        "run: forward",
        "run: forward 0..2",
        "run: [ forward 1..3, extra ]",
        "run: [ extra, extra, head ]",
        "run: backward",
        "run: [ forward, backward, update ]",
        "run: update",
        "run: head",
    ]);
    let others = prop::sample::select(vec![
        "python: 7 us",
        "third_party: { time: 9 us }",
        "third_party: { time: 9 us, holds_lock: false }",
        "mutate: state",
        "fetch: { tensor: loss }",
        "fetch: { tensor: gradients }",
        "fetch: { tensor: extra, when: every 3 }",
        "feed: { batch: true }",
        "feed: { batch: true, scalar: rate }",
        "feed: { scalar: rate }",
    ]);
    let leaf = prop_oneof![runs, others].prop_map(|text| format!("{{ {text} }}"));
    let statement = leaf.prop_recursive(3, 20, 3, move |inner| {
        let list = || {
            prop::collection::vec(inner.clone(), 0..4).prop_map(|list| format!("[ {} ]", list.join(", ")))
        };
        let probabilities: Vec<u32> = if varying { vec![0, 30, 70, 100] } else { vec![0, 100] };
        let trips = match varying {
            true => vec!["0", "1", "3", "[0, 2]", "[1, 3]"],
            false => vec!["1", "3"],
        };
        let branch =
            (prop::sample::select(vec!["host", "loss", "extra"]), prop::sample::select(probabilities))
                .prop_flat_map({
                    let list = (list(), list());
                    move |(by, share)| list.clone().prop_map(move |(then, other)| {
                        format!("{{ branch: {{ name: b, by: {by}, probability: {share} %, then: {then}, else: {other} }} }}")
                    })
                });
        let repeated = (prop::sample::select(trips), list())
            .prop_map(|(trips, body)| format!("{{ loop: {{ name: l, trips: {trips}, body: {body} }} }}"));
        let wrapped = (prop::sample::select(vec!["try", "generator"]), list())
            .prop_map(|(word, body)| format!("{{ {word}: {body} }}"));
        prop_oneof![3 => branch, 2 => repeated, 1 => wrapped]
    });
    prop::collection::vec(statement, 1..6).prop_map(|list| format!("[ {} ]", list.join(", ")))
}

/// Work of an iteration, by an interpreter that goes through the statements.
pub(super) fn interpret(program: Program<'_>, seed: u64, iteration: u32) -> Vec<What> {
    let mut words = ChaCha8Rng::seed_from_u64(seed);
    words.set_stream(u64::from(iteration));
    let (tape, last, done) = Default::default();
    let mut plain = Plain { program, iteration, words, tape, last, done };
    plain.list(program.iteration);
    plain.done
}

struct Plain<'a> {
    program: Program<'a>,
    iteration: u32,
    words: ChaCha8Rng,
    /// Backward regions of what has run forward.
    tape: Vec<Region>,
    /// Region that made a tensor last.
    last: BTreeMap<String, Region>,
    done: Vec<What>,
}

impl Plain<'_> {
    fn list(&mut self, statements: &[Statement]) {
        statements.iter().for_each(|statement| self.statement(statement));
    }

    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Feed(feed) => {
                self.done.extend(feed.batch.then_some(What::Batch));
                self.done.extend(feed.scalar.iter().map(|_| What::Scalar));
            }
            Statement::Run(runs) => runs.0.iter().for_each(|run| self.run(run)),
            Statement::Python(time) => self.done.push(What::Python(Time(time.picoseconds()))),
            Statement::ThirdParty(it) => {
                self.done.push(What::ThirdParty(Time(it.time.picoseconds()), it.holds_lock));
            }
            Statement::Mutate(_) => self.done.push(What::Mutate),
            Statement::Fetch(fetch) => {
                let is_due = self.iteration % fetch.when.every == fetch.when.every - 1;
                let made = self.last.get(&fetch.tensor).filter(|_| is_due);
                self.done.extend(made.map(|&region| What::Fetch(region)));
            }
            Statement::Branch(branch) => {
                let drawn: u64 = self.words.random_range(0..1_000_000_000);
                self.done.extend(self.last.get(&branch.by).map(|&region| What::Decide(region)));
                match drawn < branch.probability.billionths() {
                    true => self.list(&branch.then),
                    false => self.list(&branch.otherwise),
                }
            }
            Statement::Loop(it) => {
                let trips = self.words.random_range(it.trips.least..=it.trips.most);
                (0..trips).for_each(|_| self.list(&it.body));
            }
            Statement::Try(body) | Statement::Generator(body) => {
                self.done.push(What::Unwinds);
                self.list(body);
            }
        }
    }

    fn run(&mut self, run: &Runnable) {
        match run {
            Runnable::Forward(range) => {
                let (from, to) = range.unwrap_or((0, BLOCKS));
                (from..to).for_each(|block| self.region("loss", Region::Forward(block)));
            }
            Runnable::Backward => {
                while let Some(region) = self.tape.pop() {
                    self.region("gradients", region);
                }
            }
            Runnable::Update => self.region("", Region::Update),
            Runnable::Fragment(name) => {
                let number = self.program.fragments.get_index_of(name).expect("it is there");
                self.region(name, Region::Fragment(number as u32));
            }
        }
    }

    fn region(&mut self, tensor: &str, region: Region) {
        self.last.insert(tensor.to_owned(), region);
        self.done.push(What::Run(region));
        match region {
            Region::Forward(block) => self.tape.push(Region::Backward(block)),
            Region::Fragment(fragment) => self.tape.push(Region::FragmentBackward(fragment)),
            _ => {}
        }
    }
}
