//! A technique that is given nothing to do changes nothing: over the first point of a library
//! scenario of each kind each gives the results of the plan without it, but for its own report.

use std::collections::BTreeSet;

use reports::summary::RunSummary;
use scenarios::library;
use scenarios::run::{Options, Unwatched, execute};
use scenarios::schema::Scenario;

use crate::support::{options, read};

/// A technique without work.
struct Idle {
    name: &'static str,
    /// The settings that ask for it.
    settings: &'static [&'static str],
    /// Whether the settings without it ask for nothing of the kind.
    alone: fn(&Scenario) -> bool,
    /// Whether a run without it leaves it nothing to do.
    is_idle: fn(&RunSummary) -> bool,
    /// The settings that give it work.
    busy: &'static [&'static str],
}

const IDLE: [Idle; 6] = [
    Idle {
        name: "offload of no tensor",
        settings: &["techniques.activation_offload={smallest: 1 TiB}"],
        alone: |plain| plain.techniques.activation_offload.is_none(),
        is_idle: |_| true,
        busy: &["techniques.activation_offload={}"],
    },
    Idle {
        name: "swap with room",
        settings: &["techniques.swap={}"],
        alone: |plain| plain.techniques.swap.is_none(),
        is_idle: |run| run.fits,
        busy: &["techniques.swap={}", "memory.footprint_ratio=1.5"],
    },
    Idle {
        name: "shifted swap with room",
        settings: &["techniques.swap={coordination: shifted}"],
        alone: |plain| plain.techniques.swap.is_none(),
        is_idle: |run| run.fits,
        busy: &["techniques.swap={coordination: shifted}", "memory.footprint_ratio=1.5"],
    },
    Idle {
        name: "BPipe with room for all micro-batches",
        settings: &["techniques.bpipe={bound: 1024}"],
        alone: |plain| plain.techniques.bpipe.is_none(),
        is_idle: |_| true,
        busy: &["techniques.bpipe={bound: 2}"],
    },
    Idle {
        name: "recomputation of nothing",
        settings: &["techniques.recompute={mode: none}"],
        alone: |plain| plain.techniques.recompute.is_none(),
        is_idle: |_| true,
        busy: &["techniques.recompute={mode: full}"],
    },
    Idle {
        name: "sharding with one data rank",
        settings: &["parallelism.sharding=parameters"],
        alone: |plain| plain.parallelism.data.is_none_or(|data| data.get() == 1),
        is_idle: |_| true,
        busy: &["parallelism.sharding=parameters", "parallelism.data=2"],
    },
];

/// The first point of a library scenario that runs all of them.
struct First {
    text: &'static str,
    /// Its first variant.
    variant: String,
    /// The settings of the point.
    point: Vec<String>,
    scenario: Scenario,
}

impl First {
    /// `None`: the scenario searches.
    fn of(name: &str) -> Option<Self> {
        let text = library::get(name).expect("a library scenario");
        let experiment = read(text, &[]).unwrap_or_else(|failure| panic!("{name}: {failure}"));
        if experiment.search().is_some() {
            return None;
        }
        let variant = experiment.variants().next().expect("a variant").to_owned();
        let point = experiment.points().next().expect("a point");
        let resolved =
            experiment.resolve(&variant, &point).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let point = point.values().iter().map(|(path, value)| format!("{path}={value}")).collect();
        Some(Self { text, variant, point, scenario: resolved.scenario })
    }
}

/// Its run with more settings; `None`: they do not go together.
fn run(First { text, variant, point, .. }: &First, settings: &[&str]) -> Option<RunSummary> {
    let all: Vec<&str> = point.iter().map(String::as_str).chain(settings.iter().copied()).collect();
    let experiment = read(text, &all).ok()?;
    let options = Options { variants: vec![variant.clone()], ..options() };
    execute(&experiment, &options, &Unwatched).ok()?.variants.into_iter().next().filter(is_possible)
}

fn is_possible(run: &RunSummary) -> bool {
    run.failure.as_ref().is_none_or(|failure| failure.kind != reports::summary::FailureKind::Infeasible)
}

/// A run without what a technique tells of itself, and without remedies, which name techniques that are not there yet.
fn bare(mut run: RunSummary) -> serde_json::Value {
    (run.swap, run.kept) = Default::default();
    if let Some(failure) = &mut run.failure {
        failure.remedies.clear();
    }
    reports::json::value(&run).expect("JSON")
}

fn differing(one: &serde_json::Value, other: &serde_json::Value) -> Vec<String> {
    let (one, other) = (one.as_object().expect("a map"), other.as_object().expect("a map"));
    let keys = one.keys().chain(other.keys().filter(|key| !one.contains_key(*key)));
    keys.filter(|key| one.get(*key) != other.get(*key)).cloned().collect()
}

#[test]
fn a_technique_with_nothing_to_do_changes_nothing() {
    let mut wrong = Vec::new();
    // Scenarios whose names begin alike ask one question of one kind of model.
    let mut families = BTreeSet::new();
    let family = |name: &&'static str| families.insert(name.split('-').next());
    let firsts: Vec<(&str, First)> =
        library::names().filter(family).filter_map(|name| Some((name, First::of(name)?))).collect();
    let plain: Vec<Option<RunSummary>> = firsts.iter().map(|(_, first)| run(first, &[])).collect();
    for Idle { name, settings, alone, is_idle, busy } in &IDLE {
        let (mut idle, mut changed) = (0, false);
        for ((of, first), plain) in firsts.iter().zip(&plain) {
            let Some(plain) = plain.clone().filter(|run| alone(&first.scenario) && is_idle(run)) else {
                continue;
            };
            let plain = bare(plain);
            if let Some(with) = run(first, settings) {
                idle += 1;
                let differ = differing(&plain, &bare(with));
                if !differ.is_empty() {
                    wrong.push(format!("{name}: {of}: {}", differ.join(", ")));
                }
            }
            if !changed {
                changed = run(first, busy).is_some_and(|with| !differing(&plain, &bare(with)).is_empty());
            }
        }
        assert!(idle > 0 && changed, "{name}: {idle} scenarios; with work something changes: {changed}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
