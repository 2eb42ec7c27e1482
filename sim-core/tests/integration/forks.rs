//! Runs that are stopped and forked: every continuation is the uninterrupted run, to the last bit.

use sim_core::noise::Noise;
use sim_core::outcome::Run;
use sim_core::platform::Platform;
use sim_core::program::{Program, StartState};
use sim_core::time::Time;
use sim_core::{Options, Simulation, simulate};

use crate::ahead::random_network;
use crate::random_programs::random_program;

/// The run, and at several times the ends of two forks of it.
fn forked(platform: &Platform, program: &Program, options: &Options) -> (Run, Vec<Run>) {
    let start = StartState::default();
    let whole = simulate(platform, program, &start, options).expect("a valid program");
    let mut simulation = Simulation::new(platform, program, &start, options).expect("a valid program");
    let mut ends = Vec::new();
    for part in 0..5 {
        simulation = simulation.run_until(Time(whole.time.0 / 4 * part));
        let fork = simulation.clone();
        let again = fork.clone().run_until(Time(whole.time.0 / 4 * (part + 1)));
        ends.extend([fork.finish(), again.finish()]);
    }
    ends.push(simulation.run_until(Time::NEVER).finish());
    (whole, ends)
}

fn assert_forks_equal_the_whole(seed: u64, (platform, program): &(Platform, Program)) {
    for segments in [true, false] {
        let options = Options { segments, path_from: Some(0), ..Options::default() };
        let (whole, ends) = forked(platform, program, &options);
        assert!(ends.iter().all(|end| *end == whole), "seed {seed}, segments {segments}");
    }
}

#[test]
fn forks_inside_segments_equal_the_whole() {
    for seed in 0..500 {
        assert_forks_equal_the_whole(seed, &random_program(seed));
    }
}

#[test]
fn forks_with_streams_ahead_of_the_clock_equal_the_whole() {
    for seed in 0..1_000 {
        assert_forks_equal_the_whole(seed, &random_network(seed));
    }
}

#[test]
fn forks_draw_the_noise_of_the_whole() {
    for seed in 0..200 {
        let (platform, mut program) = random_program(seed);
        program.noise = Noise { device: 0.1, operation: 0.05, ..Noise::default() };
        assert_forks_equal_the_whole(seed, &(platform, program));
    }
}

#[test]
fn forks_of_a_run_that_reaches_its_limit_equal_the_whole() {
    for seed in 0..200 {
        let (platform, program) = random_network(seed);
        let options = Options { time_max: Time::from_ns(100 * (1 + seed % 20)), ..Options::default() };
        let (whole, ends) = forked(&platform, &program, &options);
        assert!(ends.iter().all(|end| *end == whole), "seed {seed}");
    }
}
