//! Training runs that fail: closed form, simulated histories and money agree with each other and with hand
//! calculations.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reports::summary::{Campaign, Checkpoint, RunSummary};
use scenarios::campaign::{Course, Failing, best_interval_s, daly_s, history, young_s};
use scenarios::run::{Options, Unwatched, execute};

use crate::support::{read, run, run_of};

const SEEDS: u64 = 200;

fn failing(mean_s: f64, restart_s: f64) -> Option<Failing> {
    Some(Failing { mean_s, restart_s })
}

/// A course of numbers that a person can check: 1000 intervals of 19 minutes.
const BY_HAND: Course = Course {
    work_s: 1_140_000.0,
    pause_s: 60.0,
    lag_s: 0.0,
    failures: Some(Failing { mean_s: 10_000.0, restart_s: 600.0 }),
};

fn is_close(a: f64, b: f64, within: f64) -> bool {
    (a / b - 1.0).abs() <= within
}

/// 10000 e^0.06 (e^0.12 - 1) 1000 s to sixteen digits, and e^0.09 with a lag of 300 s.
#[test]
fn the_expected_time_is_that_of_a_hand_calculation() {
    assert!(is_close(BY_HAND.expected_s(1_140.0), 1_353_808.165_764_505_4, 1e-14));
    assert!(is_close(BY_HAND.goodput(1_140.0), 0.842_069_082_480_554_9, 1e-14));
    let late = Course { lag_s: 300.0, ..BY_HAND };
    assert!(is_close(late.expected_s(1_140.0), 1_395_037.762_515_328_9, 1e-14));
    assert!(is_close(best_interval_s(60.0, 10_000.0), 1_055.815_632_164_94, 1e-12));
    assert!(is_close(young_s(60.0, 10_000.0), 1_095.445_115_010_332_2, 1e-14));
}

#[test]
fn without_failures_only_checkpoints_cost() {
    let course = Course { failures: None, ..BY_HAND };
    assert!(is_close(course.goodput(1_140.0), 1_140.0 / 1_200.0, 1e-15));
    assert_eq!(course.best_interval_s(), None);
    let played = history(&course, 1_140.0, (1, 0), 0).expect("it never fails");
    assert_eq!((played.failures, played.lost_s), (0, 0.0));
    assert!(is_close(played.wall_s, 1_200_000.0, 1e-12));
}

/// A random course with many failures, and an interval.
fn random_course(random: &mut ChaCha8Rng) -> (Course, f64) {
    let mean_s = 10f64.powf(random.random_range(2.0..5.0));
    let mut share = |most: f64| mean_s * random.random_range(0.0..most);
    let (pause_s, lag_s, restart_s, interval_s) =
        (share(0.1), share(0.2), share(0.4), share(0.8) + 0.01 * mean_s);
    let course = Course { work_s: 400.0 * mean_s, pause_s, lag_s, failures: failing(mean_s, restart_s) };
    (course, interval_s)
}

#[test]
fn histories_take_the_expected_time() {
    let mut random = ChaCha8Rng::seed_from_u64(23);
    for case in 0..40 {
        let (course, interval_s) = random_course(&mut random);
        let expected = course.expected_s(interval_s);
        let played = (0..SEEDS).map(|number| history(&course, interval_s, (case, number), u64::MAX));
        let played: Vec<_> = played.map(|history| history.expect("no limit")).collect();
        let mean =
            |of: fn(&scenarios::campaign::History) -> f64| played.iter().map(of).sum::<f64>() / SEEDS as f64;
        let wall_s = mean(|history| history.wall_s);
        assert!(is_close(wall_s, expected, 0.01), "{course:?} every {interval_s}: {wall_s} for {expected}");
        let mean_s = course.failures.expect("it fails").mean_s;
        let failures = mean(|history| history.failures as f64);
        assert!(is_close(failures, expected / mean_s, 0.015), "{course:?}: {failures} failures");
    }
}

#[test]
fn the_best_interval_is_the_minimum() {
    let mut random = ChaCha8Rng::seed_from_u64(24);
    for _ in 0..200 {
        let (course, _) = random_course(&mut random);
        let best = course.best_interval_s().expect("it fails");
        // Thirds of an interval around the minimum of a function that falls and rises.
        let (mut below, mut above) = (1e-6 * best, course.work_s);
        for _ in 0..300 {
            let [left, right] = [2.0 * below + above, below + 2.0 * above].map(|sum| sum / 3.0);
            match course.expected_s(left) < course.expected_s(right) {
                true => above = right,
                false => below = left,
            }
        }
        assert!(course.expected_s(best) <= course.expected_s(below) * (1.0 + 1e-12), "{course:?}");
        assert!(is_close(best, below, 1e-6), "{course:?}: {best} for {below}");
    }
}

#[test]
fn estimates_hold_where_a_checkpoint_is_short() {
    for ratio in [1e-7, 1e-5, 1e-4, 1e-3] {
        let best = best_interval_s(ratio * 1e4, 1e4);
        assert!(is_close(young_s(ratio * 1e4, 1e4), best, 0.02), "{ratio}");
        assert!(is_close(daly_s(ratio * 1e4, 1e4), best, 1e-4), "{ratio}");
    }
    // Beyond that the first order is far off, and the higher one not.
    let best = best_interval_s(1e3, 1e4);
    assert!(!is_close(young_s(1e3, 1e4), best, 0.1) && is_close(daly_s(1e3, 1e4), best, 0.01));
    assert_eq!(daly_s(2e4, 1e4), 1e4);
}

#[test]
fn a_faster_store_never_lowers_goodput() {
    let mut random = ChaCha8Rng::seed_from_u64(25);
    for _ in 0..500 {
        let (course, interval_s) = random_course(&mut random);
        let faster = Course {
            pause_s: course.pause_s * random.random_range(0.0..1.0),
            lag_s: course.lag_s * random.random_range(0.0..1.0),
            ..course
        };
        assert!(faster.goodput(interval_s) >= course.goodput(interval_s), "{course:?}");
        let best = |course: &Course| course.goodput(course.best_interval_s().expect("it fails"));
        assert!(best(&faster) >= best(&course) * (1.0 - 1e-12), "{course:?}");
    }
}

const MODEL: &str = "
name: campaign
machine: { cluster: { node: dgx-a100-40g, count: 2 } }
model: { transformer: { layers: 8, hidden: 1024, heads: 16, vocabulary: 32768, max_positions: 1024, positions: rotary } }
training: { global_batch: 64, micro_batch: 1, sequence: 1024, precision: bf16-mixed }
parallelism: { idle: allow }
";
const PRICE: &str = "{ price: 2 USD, source: a contract, date: 2026-11-01 }";

fn campaign_of(campaign: &str, settings: &[&str]) -> Campaign {
    told(&run_of(&format!("{MODEL}campaign: {campaign}\n"), settings))
}

fn told(run: &RunSummary) -> Campaign {
    run.campaign.clone().unwrap_or_else(|| panic!("no campaign: {:?}", run.notes))
}

fn checkpoint_of(campaign: &str, settings: &[&str]) -> Checkpoint {
    campaign_of(campaign, settings).checkpoint.expect("it writes some")
}

/// Llama 2 7B has 6,738,415,616 parameters: 2 bytes of each in bf16, 12 in fp32.
#[test]
fn the_checkpoint_of_a_published_model_has_its_bytes() {
    let text = "
name: llama
machine: { node: dgx-a100-80g }
model: { transformer: { preset: llama-2-7b } }
training: { global_batch: 8, micro_batch: 1, sequence: 1024, precision: bf16-mixed }
parallelism: { sharding: optimizer }
software: { attention: flash }
campaign: { steps: 1, checkpoints: { every: 1 h, to: host } }
";
    let checkpoint = told(&run_of(text, &[])).checkpoint.expect("it writes some");
    assert_eq!(checkpoint.by_kind_bytes["parameters"], 2 * 6_738_415_616);
    assert_eq!(checkpoint.bytes, 14 * 6_738_415_616);
    assert_eq!(checkpoint.held_bytes, (2 * 8 + 12) * 6_738_415_616);
}

#[test]
fn each_byte_of_a_checkpoint_is_written_once_however_ranks_share_it() {
    let campaign = "{ steps: 1000, checkpoints: { every: 1 h, to: { storage: 1 GB/s } } }";
    let whole = checkpoint_of(campaign, &["parallelism.data=1"]);
    let parameters = whole.by_kind_bytes["parameters"] / 2;
    assert_eq!(whole.by_kind_bytes["optimizer states"], 12 * parameters);
    assert_eq!(whole.bytes, 14 * parameters);
    assert_eq!(whole.held_bytes, whole.bytes, "one rank holds it");
    for settings in [
        ["parallelism.data=8", "parallelism.sharding=none"],
        ["parallelism.tensor=4", "parallelism.data=2"],
        ["parallelism.pipeline=4", "parallelism.data=4"],
        ["parallelism.tensor=2", "parallelism.pipeline=2"],
    ] {
        let split = checkpoint_of(campaign, &settings);
        // A tied embedding is on two stages, and written once.
        assert_eq!(split.by_kind_bytes, whole.by_kind_bytes, "{settings:?}");
    }
    let copies = checkpoint_of(campaign, &["parallelism.data=8", "parallelism.sharding=none"]);
    assert_eq!(copies.held_bytes, 8 * copies.bytes);
    let shared = checkpoint_of(campaign, &["parallelism.data=8", "parallelism.sharding=parameters"]);
    assert_eq!(shared.held_bytes, shared.bytes);
    assert!(is_close(shared.pause_s, shared.bytes as f64 / 1e9, 1e-12));
}

#[test]
fn places_of_a_checkpoint_take_their_time() {
    let at = |to: &str| {
        checkpoint_of(
            &format!("{{ steps: 1000, checkpoints: {{ every: 1 h, {to} }} }}"),
            &["parallelism.data=8"],
        )
    };
    let host = at("to: host");
    // Each of eight GPUs copies an eighth over PCIe 4, two on a switch.
    assert!((1e9..30e9).contains(&(host.bytes as f64 / 8.0 / host.pause_s)), "{host:?}");
    let drives = at("to: drives");
    assert!(drives.pause_s > host.pause_s, "{drives:?}");
    let behind = at("to: drives, background: true");
    assert_eq!(behind.pause_s, host.pause_s);
    assert!(behind.lag_s.is_some_and(|lag_s| lag_s > 0.0));
    let mut last = f64::INFINITY;
    for rate in ["10 MB/s", "1 GB/s", "100 GB/s", "100 TB/s"] {
        let store = at(&format!("to: {{ storage: {rate} }}"));
        assert!(store.pause_s <= last && store.pause_s >= host.pause_s, "{rate}: {store:?}");
        last = store.pause_s;
    }
}

#[test]
fn money_is_units_times_prices() {
    let prices = format!("{{ gpu_hour: {PRICE}, terabyte_written: {PRICE} }}");
    let campaign = campaign_of(
        &format!(
            "{{ tokens: 1 B, checkpoints: {{ every: 10 s, to: {{ storage: 1 GB/s }} }}, prices: {prices} }}"
        ),
        &["parallelism.data=8"],
    );
    assert_eq!(campaign.steps, 1_000_000_000_u64.div_ceil(64 * 1024));
    let (wall_s, cost) =
        (campaign.expected_s.expect("it ends"), campaign.cost.clone().expect("it has a price"));
    let checkpoint = campaign.checkpoint.as_ref().expect("it writes some");
    let written = campaign.work_s / 10.0 * checkpoint.bytes as f64 * 1e-12;
    assert!(is_close(cost.total, 2.0 * 8.0 * wall_s / 3600.0 + 2.0 * written, 1e-12));
    assert!(is_close(
        cost.per_million_tokens.expect("tokens"),
        cost.total / campaign.tokens.expect("tokens") * 1e6,
        1e-12
    ));
    assert!(is_close(campaign.goodput.expect("it ends"), 10.0 / (10.0 + checkpoint.pause_s), 1e-12));
    assert!(is_close(
        campaign.effective_gpu_hours / campaign.gpu_hours.expect("it ends"),
        campaign.goodput.expect("it ends"),
        1e-12
    ));
}

#[test]
fn a_run_that_fails_all_the_time_never_ends() {
    let failures = "failures: { mean_time_between: { gpu: 8 s }, restart: 10 min }";
    let campaign = campaign_of(
        &format!("{{ steps: 10 M, checkpoints: {{ to: host }}, {failures} }}"),
        &["parallelism.data=8"],
    );
    assert_eq!((campaign.expected_s, campaign.goodput, campaign.cost.clone()), (None, None, None));
    assert_eq!(campaign.histories, None);
    assert_eq!(campaign.failures.expect("it fails").mean_time_between_s, 1.0);
    let without = "failures: { mean_time_between: { job: 1 h }, restart: 0 s }";
    let campaign = campaign_of(&format!("{{ steps: 10 M, {without} }}"), &["parallelism.data=8"]);
    assert_eq!(campaign.expected_s, None, "nothing is ever kept");
}

#[test]
fn histories_are_the_same_on_any_number_of_threads() {
    let failures = "failures: { mean_time_between: { node: 10 h }, restart: 1 min }";
    let text = format!(
        "{MODEL}campaign: {{ steps: 1 M, checkpoints: {{ to: host }}, {failures} }}\nsweep: {{ parallelism.data: [1, 2, 4, 8] }}\n"
    );
    let experiment = read(&text, &[]).unwrap_or_else(|failure| panic!("{failure}"));
    let found = |jobs: usize| {
        let options = Options { seed: 7, jobs: Some(jobs), variants: Vec::new(), reproduce: String::new() };
        let summary =
            execute(&experiment, &options, &Unwatched).unwrap_or_else(|refusal| panic!("{refusal}"));
        let campaigns: Vec<Campaign> = summary.variants.iter().map(told).collect();
        serde_json::to_string(&campaigns).expect("JSON")
    };
    assert!(found(1).contains("nine_of_ten_s"));
    assert_eq!(found(1), found(3));
}

#[test]
fn a_search_finds_the_cheapest_plan() {
    let campaign = format!(
        "campaign: {{ tokens: 100 B, checkpoints: {{ to: drives }}, failures: {{ mean_time_between: {{ node: 100 h }}, restart: 5 min }}, prices: {{ gpu_hour: {PRICE} }} }}"
    );
    let axes = "parallelism.tensor: [1, 2], parallelism.data: [2, 4, 8], training.micro_batch: [1, 2, 4]";
    let all = read(&format!("{MODEL}{campaign}\nsweep: {{ {axes} }}\n"), &[]);
    let all = run(&all.unwrap_or_else(|failure| panic!("{failure}")));
    let cost = |run: &RunSummary| run.campaign.as_ref()?.cost.as_ref()?.per_unit();
    let least = all.variants.iter().filter_map(cost).reduce(f64::min).expect("some fit");
    let fastest = all.variants.iter().filter_map(RunSummary::step_time).reduce(f64::min);
    let found = read(
        &format!("{MODEL}{campaign}\nsearch: {{ over: {{ {axes} }}, minimise: cost, gap: 0 % }}\n"),
        &[],
    );
    let found = run(&found.unwrap_or_else(|failure| panic!("{failure}")));
    assert_eq!(found.variants.first().and_then(cost), Some(least));
    assert_ne!(found.variants.first().and_then(RunSummary::step_time), fastest, "fewer GPUs cost less");
    let proof = found.search.as_ref().expect("it searched");
    assert_eq!((&proof.minimise[..], proof.gap), (&["cost".to_owned()][..], Some(0.0)));
    assert!(found.finding.contains("USD per million tokens"), "{}", found.finding);
}

#[test]
fn a_cost_without_a_price_is_refused_where_it_is_asked_for() {
    let text = format!("{MODEL}search:\n  over: {{ parallelism.data: [2, 4] }}\n  minimise: cost\n");
    let failure = read(&text, &[]).expect_err("there is no price");
    let problem = &failure.problems[0];
    assert!(problem.message.contains("`gpu_hour`"), "{}", problem.message);
    assert_eq!(problem.notes[0].mark.line, 9);
}
