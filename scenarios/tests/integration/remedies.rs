//! Remedies of runs that do not fit: the best single change is among those shown, and each does
//! what it says.

use reports::summary::{Failure, Remedy};
use scenarios::run::{Unwatched, execute};

use crate::memory_plans::{TECHNIQUES, cases, short, told};
use crate::support::{options, read};

/// Random plans that do not fit; `FORETRAIN_CASES` says how many.
const CASES: usize = 2;
/// Share of them in which the best change must be shown, and how much slower another may be that is
/// as good.
const FOUND_MIN: f64 = 0.95;
const AS_GOOD: f64 = 1.01;

/// Others that only some layers take part in.
const SOME_LAYERS: [&str; 6] = [
    "recompute={ layers: 2 }",
    "recompute={ layers: 4 }",
    "recompute={ layers: 6 }",
    "activation_offload={ keep: { layers: 2 } }",
    "activation_offload={ keep: { layers: 4 } }",
    "activation_offload={ keep: { layers: 6 } }",
];

/// The failure of a run, with its remedies.
fn failure(text: &str) -> Option<Failure> {
    let ended = execute(&read(text, &[]).ok()?, &options(), &Unwatched);
    ended.unwrap_or_else(|refusal| panic!("{refusal}\n{text}")).variants.swap_remove(0).failure
}

/// Plans that do not fit.
fn failing() -> impl Iterator<Item = (String, Failure)> {
    (1..).filter_map(short).filter_map(|(text, _)| Some((text.clone(), failure(&text)?)))
}

#[test]
fn the_best_single_technique_is_among_the_remedies() {
    let cases = cases(CASES);
    let mut missed = Vec::new();
    for (text, failure) in failing().take(cases) {
        let levels = ["none", "optimizer", "gradients", "parameters"];
        let setting = |technique: &&str| format!("techniques.{technique}");
        let alone = TECHNIQUES.iter().chain(&SOME_LAYERS).map(|technique| vec![setting(technique)]);
        let shared = levels.iter().flat_map(|level| {
            let sharing = format!("parallelism.sharding={level}");
            TECHNIQUES.iter().map(move |technique| vec![setting(technique), sharing.clone()])
        });
        let all = alone.chain(shared);
        let timed = all.filter_map(|settings| {
            let words: Vec<&str> = settings.iter().map(String::as_str).collect();
            Some((told(&text, &words)?.step_time()?, settings))
        });
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
            let sections: Vec<String> = sections.collect();
            let settings: Vec<&str> = sections.iter().map(String::as_str).collect();
            let changed = told(&text, &settings).expect("it can be read");
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
        failure(&text).expect("it does not fit").remedies
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
