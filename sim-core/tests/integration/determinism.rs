//! The same inputs give the same run: again, on other threads, in other build profiles, with segments on and off.

use std::collections::BTreeSet;

use sim_core::id::StreamId;
use sim_core::noise::{Noise, Pause};
use sim_core::outcome::{End, Run};
use sim_core::platform::Platform;
use sim_core::program::{Program, StartState};
use sim_core::record::EventLog;
use sim_core::time::Time;
use sim_core::{Options, simulate, simulate_observed};

use crate::random_programs::random_program;

fn logged(platform: &Platform, program: &Program, segments: bool) -> (Run, EventLog) {
    let mut log = EventLog::default();
    let options = Options { segments, ..Options::default() };
    let run = simulate_observed(platform, program, &StartState::default(), &options, &mut log)
        .expect("a valid program");
    (run, log)
}

#[test]
fn segments_change_nothing() {
    let mut saved = 0;
    let mut ends = BTreeSet::new();
    for seed in 0..3_000 {
        let (platform, program) = random_program(seed);
        let (on, log_on) = logged(&platform, &program, true);
        let (off, log_off) = logged(&platform, &program, false);
        assert_eq!(Run { events: 0, ..on.clone() }, Run { events: 0, ..off.clone() }, "seed {seed}");
        assert_eq!(log_on, log_off, "seed {seed}");
        let options = Options::default();
        let ahead = simulate(&platform, &program, &StartState::default(), &options).expect("a valid program");
        assert_eq!(Run { events: 0, ..on.clone() }, Run { events: 0, ..ahead }, "seed {seed}, unobserved");
        saved += off.events.saturating_sub(on.events);
        ends.insert(match on.end {
            End::Completed => "completed",
            End::OutOfMemory(_) => "out of memory",
            End::Deadlock(_) => "deadlock",
            End::Limit(_) => "limit",
            End::Invalid { .. } => "invalid",
        });
    }
    assert!(saved > 10_000, "segments were used: {saved} events saved");
    assert!(ends.contains("completed") && ends.contains("out of memory"), "{ends:?}");
    assert!(!ends.contains("invalid"), "{ends:?}");
}

#[test]
fn time_adds_up_on_every_stream() {
    for seed in 0..500 {
        let (platform, program) = random_program(seed);
        let (run, _) = logged(&platform, &program, true);
        for stream in &run.streams {
            if let Some(finished) = stream.finished {
                let sum = |by_cause: &[Time]| Time(by_cause.iter().map(|t| t.0).sum());
                assert_eq!(sum(&stream.spent), finished, "spent, seed {seed}");
                assert_eq!(sum(&stream.critical), finished, "critical path, seed {seed}");
            }
        }
    }
}

/// Hashes over the logs of 200 random programs, without and with noise: the same in every build profile, on every
/// machine, and on any number of threads.
#[test]
fn event_logs_are_the_same_everywhere() {
    let combined = |noise: Noise| {
        let hash = move |seed: u64| {
            let (platform, mut program) = random_program(seed);
            program.noise = noise;
            let (run, log) = logged(&platform, &program, true);
            (0..run.streams.len()).map(|s| log.of(StreamId::from(s))).fold(seed, |a, b| a.rotate_left(7) ^ b)
        };
        let alone: Vec<u64> = (0..200).map(hash).collect();
        let threads: Vec<_> = (0..4)
            .map(|t| std::thread::spawn(move || (t * 50..(t + 1) * 50).map(hash).collect::<Vec<u64>>()))
            .collect();
        let beside: Vec<u64> = threads.into_iter().flat_map(|t| t.join().expect("no panic")).collect();
        assert_eq!(alone, beside);
        alone.into_iter().fold(0, |a: u64, b| a.rotate_left(9) ^ b)
    };
    assert_eq!(combined(Noise::default()), 3_661_547_452_854_338_278);
    let noise = Noise {
        device: 0.02,
        operation: 0.05,
        pause: Some(Pause { every: Time::from_us(20), lasting: Time::from_us(3) }),
    };
    assert_eq!(combined(noise), 13_861_367_560_965_404_569);
}
