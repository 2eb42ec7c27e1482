//! Messages with the waits that they end, against what the engine says of each wait.

use sim_core::observe::{Message, Observer, Unobserved};
use sim_core::outcome::{End, Place};
use sim_core::platform::Platform;
use sim_core::program::{Body, Op, Program, StartState};
use sim_core::record::Messages;
use sim_core::time::Time;
use sim_core::{Options, simulate_observed};

use crate::ahead::random_network;
use crate::folded_runs::cluster;
use crate::random_programs::random_program;

fn observed(platform: &Platform, program: &Program, observer: &mut dyn Observer) -> sim_core::outcome::Run {
    simulate_observed(platform, program, &StartState::default(), &Options::default(), observer)
        .expect("a valid program")
}

/// Compares when every message departed with when the engine says that its wait was let go.
struct Comparing<'a> {
    program: &'a Program,
    messages: Messages<'a>,
    waited: u32,
    at_once: u32,
}

impl Observer for Comparing<'_> {
    fn message(&mut self, message: &Message) {
        self.messages.send(message);
    }

    fn span(&mut self, place: Place, op: &Op, start: Time, ready: Time, end: Time) {
        let is_role = matches!(self.program.streams[place.stream.index()].body, Body::Role(_));
        if !is_role || !matches!(op, Op::Wait { .. }) {
            return;
        }
        let sent = self.messages.received(&place, op, end);
        if start < end {
            let sent = sent.expect("a wait ends with a message");
            assert_eq!(sent.departure.max(start), ready);
            self.waited += 1;
        } else {
            assert!(sent.is_none_or(|sent| sent.departure <= start));
            self.at_once += 1;
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
            let mut comparing = Comparing { program: &program, messages, waited: 0, at_once: 0 };
            observed(&platform, &program, &mut comparing);
            (waited, at_once) = (waited + comparing.waited, at_once + comparing.at_once);
        }
    }
    assert!(waited > 1_000 && at_once > 1_000, "{waited} waits, and {at_once} that were over at once");
}
