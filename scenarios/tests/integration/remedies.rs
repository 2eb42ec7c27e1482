//! Remedies of runs that do not fit: the best single change is among those shown, and each does
//! what it says.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reports::summary::{Failure, Remedy, RunSummary};
use scenarios::run::{Unwatched, execute};

use crate::support::{options, read};

/// Random plans that do not fit; `FORETRAIN_CASES` says how many.
const CASES: usize = 2;
/// Share of them in which the best change must be shown, and how much slower another may be that is
/// as good.
const FOUND_MIN: f64 = 0.95;
const AS_GOOD: f64 = 1.01;

/// A transformer on a node whose memory is too small for it.
fn plan(number: u64) -> String {
    let mut random = ChaCha8Rng::seed_from_u64(number);
    let mut one = |choices: &[&'static str]| choices[random.random_range(0..choices.len())];
    let node = one(&["dgx-1v-16g", "epyc-pcie-8x", "dgx-a100-40g", "supermicro-4029gp-trt3"]);
    let (layers, hidden) = (one(&["4", "8"]), one(&["1024", "2048", "4096"]));
    let (micro_batch, batch) = (one(&["2", "4", "8"]), one(&["64", "128"]));
    let (tensor, pipeline) = (one(&["1", "1", "2"]), one(&["1", "1", "2"]));
    let (sequence, attention) = (one(&["512", "1024"]), one(&["flash", "standard"]));
    let sharding = one(&["none", "none", "optimizer", "gradients", "parameters"]);
    let ratio = one(&["1.1", "1.25", "1.5", "2"]);
    format!(
        "name: plan {number}
machine: {{ node: {node} }}
model: {{ transformer: {{ layers: {layers}, hidden: {hidden}, heads: 16, vocabulary: 32000, max_positions: 1024 }} }}
training: {{ micro_batch: {micro_batch}, global_batch: {batch}, sequence: {sequence}, precision: fp16-mixed }}
parallelism: {{ tensor: {tensor}, pipeline: {pipeline}, sharding: {sharding} }}
memory: {{ footprint_ratio: {ratio} }}
software: {{ attention: {attention} }}
"
    )
}

/// Single techniques with their plain settings.
const TECHNIQUES: [&str; 10] = [
    "techniques.recompute={ mode: selective }",
    "techniques.recompute={ mode: operators }",
    "techniques.recompute={ mode: full }",
    "techniques.bpipe={}",
    "techniques.activation_offload={}",
    "techniques.swap={}",
    "techniques.swap={ engine: greedy }",
    "techniques.zero_offload={}",
    "techniques.zero_infinity={ states: host }",
    "techniques.activation_offload={ prefetch: 8 }",
];
/// Others that only some layers take part in.
const SOME_LAYERS: [&str; 6] = [
    "techniques.recompute={ layers: 2 }",
    "techniques.recompute={ layers: 4 }",
    "techniques.recompute={ layers: 6 }",
    "techniques.activation_offload={ keep: { layers: 2 } }",
    "techniques.activation_offload={ keep: { layers: 4 } }",
    "techniques.activation_offload={ keep: { layers: 6 } }",
];

fn told(text: &str, settings: &[String]) -> Option<RunSummary> {
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let ended = execute(&read(text, &settings).ok()?, &options(), &Unwatched);
    let mut variants = ended.unwrap_or_else(|refusal| panic!("{refusal}\n{text}{settings:?}")).variants;
    Some(variants.swap_remove(0))
}

/// Plans that do not fit, each with its failure, and the memory that it has written in bytes.
fn failing() -> impl Iterator<Item = (String, Failure)> {
    (1..).filter_map(|number| {
        let text = plan(number);
        let failure = told(&text, &[])?.failure?;
        let limit = format!("limit: {} B", failure.capacity_bytes?);
        let (before, ratio) = text.split_once("footprint_ratio: ")?;
        let (_, after) = ratio.split_once(" }")?;
        Some((format!("{before}{limit} }}{after}"), failure))
    })
}

#[test]
fn the_best_single_technique_is_among_the_remedies() {
    let cases = std::env::var("FORETRAIN_CASES").map_or(CASES, |cases| cases.parse().expect("a number"));
    let mut missed = Vec::new();
    for (text, failure) in failing().take(cases) {
        let levels = ["none", "optimizer", "gradients", "parameters"];
        let alone = TECHNIQUES.iter().chain(&SOME_LAYERS).map(|technique| vec![(*technique).to_owned()]);
        let shared = levels.iter().flat_map(|level| {
            let sharing = format!("parallelism.sharding={level}");
            TECHNIQUES.iter().map(move |technique| vec![(*technique).to_owned(), sharing.clone()])
        });
        let all = alone.chain(shared);
        let timed = all.filter_map(|settings| Some((told(&text, &settings)?.step_time()?, settings)));
        let Some((best, settings)) = timed.min_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
        let shown = failure.remedies.iter().filter_map(|remedy| remedy.step_time_s);
        if !shown.clone().any(|time| time <= best * AS_GOOD) {
            missed.push(format!("{text}best: {settings:?}, {best} s; shown: {:#?}\n", failure.remedies));
        }
    }
    let share = 1.0 - missed.len() as f64 / cases as f64;
    assert!(share >= FOUND_MIN, "{share}:\n{}", missed.join("\n"));
}

/// A remedy is a setting that a file may have, and gives the step time that is told.
#[test]
fn a_remedy_gives_what_it_says() {
    for (text, failure) in failing().filter(|(_, failure)| !failure.remedies.is_empty()).take(4) {
        for Remedy { action, step_time_s, effect, .. } in &failure.remedies {
            let sections = action.strip_prefix("use ").expect("an imperative").split(" and ");
            let sections = sections.map(|section| section.trim_matches('`').replacen(": ", "=", 1));
            let changed = told(&text, &sections.collect::<Vec<_>>()).expect("it can be read");
            assert_eq!(changed.step_time(), *step_time_s, "{text}{action}");
            assert!(effect.is_some());
        }
    }
}

/// Where no single change is enough two are, and where two are not more GPUs.
#[test]
fn what_needs_two_changes_or_more_gpus_is_told() {
    let remedies = |node: &str, model: &str, limit: &str| {
        let text = format!(
            "name: test\nmachine: {{ node: {node} }}\nmodel: {{ transformer: {{ preset: {model} }} }}\n\
             training: {{ micro_batch: 1, global_batch: 8, sequence: 1024, precision: fp16-mixed }}\nparallelism: {{ tensor: 8 }}\n\
             memory: {{ limit: {limit} }}\n"
        );
        told(&text, &[]).and_then(|run| run.failure).expect("it does not fit").remedies
    };
    let effects =
        |remedies: &[Remedy]| -> Vec<String> { remedies.iter().filter_map(|it| it.effect.clone()).collect() };
    let two = remedies("dgx-a100-40g", "llama-2-7b", "3.6 GiB");
    assert!(
        !two.is_empty() && effects(&two).iter().all(|effect| effect.starts_with("no single change")),
        "{two:#?}"
    );
    let more = remedies("dgx-1v-32g", "gpt3-175b", "32 GiB");
    let said = "no change that was tried fits on 8 GPUs";
    assert!(!more.is_empty() && effects(&more).iter().all(|effect| effect.starts_with(said)), "{more:#?}");
    assert!(more.iter().all(|remedy| remedy.action.contains("machine: { cluster")), "{more:#?}");
}
