//! Queueing theory as an oracle: the mean of 30 replications lies inside its own 99 % interval around the exact value.

use rand::RngExt as _;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use sim_core::platform::{Demand, Platform};
use sim_core::program::{Activity, Affine, Body, Call, Op};
use sim_core::record::{Recorder, Selection};
use sim_core::time::Time;
use sim_core::{Options, simulate_observed};

use crate::support::*;

const REPLICATIONS: u64 = 30;
const CUSTOMERS: usize = 6_000;
/// Customers of the start-up that do not count.
const WARM_UP: usize = 600;
/// Student's t for 29 degrees of freedom and 99 %.
const T_99: f64 = 2.756;
/// Mean service time [s].
const SERVICE: f64 = 1e-3;

/// Exponential samples with a mean.
fn exponential(rng: &mut ChaCha8Rng, mean: f64) -> f64 {
    -mean * (1.0 - rng.random::<f64>()).ln()
}

fn seconds(value: f64) -> Time {
    Time((value * 1e12) as u64)
}

/// Checks a mean over replications against its exact value.
fn expect_mean(what: &str, exact: f64, replication: impl Fn(u64) -> f64) {
    let means: Vec<f64> = (0..REPLICATIONS).map(replication).collect();
    let n = means.len() as f64;
    let mean = means.iter().sum::<f64>() / n;
    let variance = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half_width = T_99 * (variance / n).sqrt();
    assert!(
        (mean - exact).abs() <= half_width,
        "{what}: {mean:.6} s is not within {half_width:.6} s of {exact:.6} s"
    );
    assert!(half_width < 0.1 * exact, "{what}: the interval of {half_width:.6} s says little");
}

/// Poisson arrivals at `load` to one queue: mean time in system [s], where a job is `service(k-th sample)`.
fn mean_time_in_system(
    load: f64,
    seed: u64,
    servers: u32,
    platform: &Platform,
    slots: &[u32],
    mut service: impl FnMut(&mut ChaCha8Rng) -> Activity,
) -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut p = program();
    let queue = p.queue("customers");
    let mut activities: Vec<Activity> = (0..CUSTOMERS)
        .map(|_| Activity::lasting(seconds(exponential(&mut rng, SERVICE / load)), BUSY))
        .collect();
    activities.extend((0..CUSTOMERS).map(|_| service(&mut rng)));
    let costs = p.cost_table(activities, vec![]);
    let binding = p.binding([queue.0].into_iter().chain(slots.iter().copied()), Some(costs));
    let serve = p.block("serve", [Op::Run { activity: Affine::offset(CUSTOMERS as i32, 0) }]);
    let args = [Affine::offset(0, 0), Affine::constant(0)];
    let post = Op::Post { queue: 0, block: serve, args, ticket: None, priority: 0 };
    let arrive = p.block("arrive", [Op::Run { activity: Affine::offset(0, 0) }, post]);
    let role = p.role([Call::counting(arrive, 0, CUSTOMERS as u32)]);
    let source = p.stream("source", binding, Body::Role(role));
    let servers: Vec<_> = (0..servers).map(|_| p.stream("server", binding, Body::Serve(queue))).collect();
    let all = servers.into_iter().chain([source]);
    let mut recorder = Recorder::new(Selection::spans_of(all));
    simulate_observed(platform, &p, &Default::default(), &Options::default(), &mut recorder)
        .expect("a valid program");
    let (mut arrivals, mut departures) = (vec![0.0; CUSTOMERS], vec![f64::NAN; CUSTOMERS]);
    for span in &recorder.spans {
        let times = if span.place.stream == source { &mut arrivals } else { &mut departures };
        times[span.place.args[0] as usize] = span.end.as_secs();
    }
    let stays = departures.iter().zip(&arrivals).skip(WARM_UP).map(|(d, a)| d - a);
    stays.sum::<f64>() / (CUSTOMERS - WARM_UP) as f64
}

/// M/M/1: W = 1 / (mu - lambda).
#[test]
fn m_m_1() {
    let load = 0.6;
    expect_mean("M/M/1", SERVICE / (1.0 - load), |seed| {
        mean_time_in_system(load, seed, 1, &Platform::default(), &[], |rng| {
            Activity::lasting(seconds(exponential(rng, SERVICE)), BUSY)
        })
    });
}

/// M/D/1: Wq = rho / (2 mu (1 - rho)).
#[test]
fn m_d_1() {
    let load = 0.7;
    expect_mean("M/D/1", SERVICE + load * SERVICE / (2.0 * (1.0 - load)), |seed| {
        mean_time_in_system(load, 100 + seed, 1, &Platform::default(), &[], |_| {
            Activity::lasting(seconds(SERVICE), BUSY)
        })
    });
}

/// M/G/1 processor sharing: W = S / (1 - rho) whatever the distribution of sizes.
#[test]
fn processor_sharing_is_insensitive() {
    let load = 0.6;
    let mut platform = Platform::default();
    let processor = platform.fluid("processor", 1e12, BUSY);
    let route = platform.route([Demand::on(processor)]);
    type Size = fn(&mut ChaCha8Rng) -> f64;
    let sizes: [(&str, Size); 3] = [
        ("constant", |_| SERVICE),
        ("exponential", |rng| exponential(rng, SERVICE)),
        // Mean 1, squared coefficient of variation 3.25.
        ("two-valued", |rng| if rng.random::<f64>() < 0.1 { 5.5 * SERVICE } else { 0.5 * SERVICE }),
    ];
    for (name, size) in sizes {
        expect_mean(name, SERVICE / (1.0 - load), |seed| {
            mean_time_in_system(load, 200 + seed, 200, &platform, &[route.0], |rng| {
                Activity::moving((size(rng) * 1e12) as u64, 1, BUSY)
            })
        });
    }
}
