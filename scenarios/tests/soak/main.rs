//! Random scenarios, and library scenarios changed by the schema, hold what every result must hold.
//!
//! `cargo run --release --bin soak -- --case N` prints a case, `--changed --case N` a changed one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use scenarios::soak::{Changed, Examined, Outcome, changed, examine, examine_changed, ratios, scenario};

const SEED: u64 = 1;
/// Cases of each kind that are run here; `soak` runs a thousand.
const CASES: u64 = 120;

#[test]
fn random_scenarios_hold() {
    let examined = (0..CASES).map(|number| (number, scenario(SEED, number)));
    let (mut broken, mut refused, mut fit) = (BTreeMap::new(), 0, 0);
    for (number, text) in examined {
        let Examined { outcome, breaches } = examine(&text);
        broken.extend(breaches.first().map(|breach| (number, breach.to_string())));
        match outcome {
            Outcome::Refused(_) => refused += 1,
            Outcome::Ran(verdicts) if verdicts.fit > 0 => fit += 1,
            _ => {}
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(10 * refused < CASES, "{refused} of {CASES} random scenarios are refused");
    assert!(4 * fit > 3 * CASES, "{fit} of {CASES} random scenarios fit");
}

#[test]
fn changed_library_scenarios_hold() {
    let (mut broken, mut refused, mut ran) = (BTreeMap::new(), 0, 0);
    for number in 0..CASES {
        let Changed { from, how, text } = changed(SEED, number);
        let Examined { outcome, breaches } = examine_changed(&text);
        let told = |breach| (number, format!("{from} with {how}: {breach}"));
        broken.extend(breaches.first().map(told));
        refused += u64::from(matches!(outcome, Outcome::Refused(_)));
        ran += u64::from(matches!(outcome, Outcome::Ran(_)));
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(5 * refused > CASES && 5 * ran > CASES / 2, "{refused} of {CASES} are refused, {ran} are run");
}

#[test]
fn scenarios_are_of_every_kind() {
    let all: String = (0..1_000).map(|number| scenario(SEED, number)).collect();
    let words = [
        "profiled_pipeline",
        "transformer",
        "layers:",
        "zero-copy",
        "hector",
        "fan_out",
        "experts",
        "1f1b",
        "gpipe",
        "interleaved",
        "zb-h1",
        "zb-h2",
        "zb-v",
        "zb-auto",
        "recompute",
        "bpipe",
        "activation_offload",
        "adaptive",
        "in_flight",
        "every:",
        "zero_offload",
        "zero_infinity",
        "paged_states",
        "swap",
        "fusion",
        "shifted",
        "automatic",
        "sharding_group",
        "context_exchange",
        "fp8",
        "degrade",
        "noise",
        "footprint_ratio",
        "sweep",
    ];
    for word in words {
        let count = all.matches(word).count();
        assert!(count >= 3, "{count} of 1000 random scenarios have `{word}`");
    }
    assert_eq!(scenario(SEED, 7), scenario(SEED, 7));
    assert_ne!(scenario(SEED, 7), scenario(SEED + 1, 7));
}

#[test]
fn committed_results_have_no_ratio_outside_0_to_1() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("library");
    let mut read = 0;
    for entry in fs::read_dir(folder).expect("the library") {
        let path = entry.expect("an entry").path();
        if !path.to_string_lossy().ends_with(".expected.json") {
            continue;
        }
        read += 1;
        let text = fs::read_to_string(&path).expect("UTF-8");
        let result = serde_json::from_str(&text).expect("JSON");
        let outside = ratios::outside(&result);
        assert!(outside.is_empty(), "{}: {}", path.display(), outside.join(", "));
    }
    assert_eq!(read, scenarios::library::names().count());
}
