//! Critical paths leg by leg, and messages with the waits that they end, against what the engine adds up.

use sim_core::fixed::Rate;
use sim_core::id::{CauseId, StreamId};
use sim_core::observe::{Handover, Message, Observer, Unobserved};
use sim_core::outcome::{End, Place};
use sim_core::platform::Platform;
use sim_core::program::{Body, Op, Program, StartState};
use sim_core::record::{Handovers, Messages, Recorder, Selection};
use sim_core::time::Time;
use sim_core::{Options, simulate_observed};

use crate::ahead::random_network;
use crate::folded_runs::cluster;
use crate::random_programs::random_program;

fn all_streams(program: &Program) -> impl Iterator<Item = StreamId> {
    (0..program.streams.len()).map(StreamId::from)
}

fn observed(platform: &Platform, program: &Program, observer: &mut dyn Observer) -> sim_core::outcome::Run {
    simulate_observed(platform, program, &StartState::default(), &Options::default(), observer)
        .expect("a valid program")
}

/// Without contention every moment of a path is an activity of its leg, or something under way between two legs: legs
/// have no cause for longer than the engine counts on the path, and what they lack of it was under way.
#[test]
fn legs_of_a_path_add_up_to_what_the_engine_counts() {
    let mut elsewhere = 0;
    for seed in 0..1_500 {
        let (platform, mut program) = random_network(seed);
        for number in program.causes.len()..16 {
            program.cause(&format!("cause {number}"));
        }
        for table in &mut program.costs {
            for (number, activity) in table.activities.iter_mut().enumerate() {
                activity.cause = CauseId(number as u32 % 16);
                // Nothing is shared.
                (activity.route, activity.cap) = (None, activity.cap.min(Rate::per_second(1e9)));
            }
        }
        program.groups.iter_mut().for_each(|group| group.route = None);
        let mut recorder = Recorder::new(Selection::spans_of(all_streams(&program)));
        let run = observed(&platform, &program, &mut recorder);
        let mut handovers = Handovers::since(Time::ZERO);
        assert_eq!(run.streams, observed(&platform, &program, &mut handovers).streams);
        for (stream, used) in all_streams(&program).zip(&run.streams) {
            let Some(end) = used.finished.filter(|&end| end > Time::ZERO) else { continue };
            let legs = handovers.path(stream, end);
            assert!(legs.windows(2).all(|pair| pair[0].to <= pair[1].from), "seed {seed}: {legs:?}");
            let under_way = end.0 - legs.iter().map(|leg| (leg.to - leg.from).0).sum::<u64>();
            let mut on_legs = [0; 16];
            for leg in &legs {
                elsewhere += u32::from(leg.stream != stream);
                let own = recorder.spans.iter().filter(|span| span.place.stream == leg.stream);
                for span in own.filter(|span| span.start < leg.to && span.end > leg.from) {
                    let Op::Run { activity } = span.op else { continue };
                    let binding = &program.bindings[program.streams[leg.stream.index()].binding.index()];
                    let table = &program.costs[binding.costs.expect("it has activities").index()];
                    let cause = table.activities[activity.at(span.place.args) as usize].cause;
                    on_legs[cause.index()] += (span.end.min(leg.to) - span.start.max(leg.from)).0;
                }
            }
            let lacking = used.critical.iter().zip(on_legs).map(|(counted, own)| counted.0.checked_sub(own));
            let lacking: Option<u64> = lacking.sum();
            assert_eq!(lacking, Some(under_way), "seed {seed}, {stream:?}: {legs:?}");
        }
    }
    assert!(elsewhere > 1_000, "only {elsewhere} legs on other streams");
}

/// A window cuts the path off, wherever it is then.
#[test]
fn a_path_through_a_window_is_the_end_of_the_whole_one() {
    for seed in 0..200 {
        for (platform, program) in [random_program(seed), cluster(seed)] {
            let mut whole = Handovers::since(Time::ZERO);
            let run = observed(&platform, &program, &mut whole);
            let from = Time(run.time.0 / 2);
            let mut late = Handovers::since(from);
            observed(&platform, &program, &mut late);
            for (stream, used) in all_streams(&program).zip(&run.streams) {
                let Some(end) = used.finished else { continue };
                let mut legs = whole.path(stream, end);
                legs.retain(|leg| leg.to > from);
                legs.iter_mut().for_each(|leg| leg.from = leg.from.max(from));
                assert_eq!(late.path(stream, end), legs, "seed {seed}");
            }
        }
    }
}

/// Compares the sender of every message with whom the engine says that a wait was ended by.
struct Comparing<'a> {
    program: &'a Program,
    messages: Messages<'a>,
    handover: Option<(StreamId, Handover)>,
    waited: u32,
    at_once: u32,
}

impl Observer for Comparing<'_> {
    fn handover(&mut self, stream: StreamId, handover: Handover, _: Time) {
        self.handover = Some((stream, handover));
    }

    fn message(&mut self, message: &Message) {
        self.messages.send(message);
    }

    fn span(&mut self, place: Place, op: &Op, start: Time, _: Time, end: Time) {
        let handover = self.handover.take();
        let is_role = matches!(self.program.streams[place.stream.index()].body, Body::Role(_));
        if !is_role || !matches!(op, Op::Wait { .. }) {
            return;
        }
        let sent = self.messages.received(&place, op, end);
        match handover {
            Some((stream, handover)) if stream == place.stream => {
                let sent = sent.expect("a wait ends with a message");
                assert_eq!((sent.by, sent.departure), (handover.by, handover.departure));
                self.waited += 1;
            }
            _ => {
                assert_eq!(start, end, "nobody ended a wait");
                self.at_once += 1;
            }
        }
    }
}

#[test]
fn every_wait_has_the_message_that_ends_it() {
    let (mut waited, mut at_once) = (0, 0);
    for seed in 0..1_000 {
        for (platform, program) in [random_network(seed), random_program(seed), cluster(seed)] {
            // A run that ends early is simulated twice.
            if observed(&platform, &program, &mut Unobserved).end != End::Completed {
                continue;
            }
            let messages = Messages::new(&program, &StartState::default());
            let mut comparing =
                Comparing { program: &program, messages, handover: None, waited: 0, at_once: 0 };
            observed(&platform, &program, &mut comparing);
            (waited, at_once) = (waited + comparing.waited, at_once + comparing.at_once);
        }
    }
    assert!(waited > 1_000 && at_once > 1_000, "{waited} waits, and {at_once} that were over at once");
}
