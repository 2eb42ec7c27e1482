//! A search finds what running every plan of its space finds, and proves it.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reports::summary::{RunSummary, SearchProof, Summary};

use crate::memory_plans::cases;
use crate::support::{messages, read, run};

/// Random spaces; `FORETRAIN_CASES` says how many.
const CASES: usize = 4;

/// Axes, of which spaces have some.
const AXES: [&str; 12] = [
    "parallelism.tensor: [1, 2, 4]",
    "parallelism.pipeline: [1, 2, 4, 8]",
    "training.micro_batch: [1, 2, 4, 8, 16]",
    "parallelism.schedule: [1f1b, gpipe, zb-h1, { interleaved: { chunks: 2 } }]",
    "parallelism.sharding: [none, optimizer, gradients, parameters]",
    "techniques.recompute: [none, { mode: selective }, { mode: full }, { layers: 1 }]",
    "techniques.activation_offload: [none, {}]",
    "parallelism.sequence_parallel: [true, false]",
    "parallelism.overlap_gradient_reduce: [none, {}]",
    "parallelism.data: [1, 2, 4, 8]",
    "parallelism.stage_layers: [even, balanced]",
    "parallelism.placement: [sequential, copy-after-copy]",
];
const AXES_OF_SPACE: usize = 4;

/// A small model, and axes to search or sweep over.
fn space(number: u64) -> (String, String) {
    let mut random = ChaCha8Rng::seed_from_u64(number);
    let mut one = |choices: &[&'static str]| choices[random.random_range(0..choices.len())];
    let machine = one(&[
        "node: { name: dgx-1v-16g }",
        "node: { name: epyc-pcie-8x }",
        "cluster: { node: dgx-a100-40g, count: 2, fabric: hdr200-fat-tree }",
        "cluster: { node: dgx-a100-40g, count: 1, more: [{ node: dgx-1v-16g, count: 1 }] }",
    ]);
    let (layers, hidden) = (one(&["8", "16"]), one(&["512", "1024", "2048", "4096"]));
    let (batch, sequence) = (one(&["16", "32", "64"]), one(&["512", "1024"]));
    let settings = format!(
        "name: space {number}
machine: {{ {machine} }}
model: {{ transformer: {{ layers: {layers}, hidden: {hidden}, heads: 16, vocabulary: 32000, max_positions: 1024 }} }}
training: {{ micro_batch: 2, global_batch: {batch}, sequence: {sequence}, precision: fp16-mixed }}
parallelism: {{ idle: allow }}
"
    );
    let mut axes: Vec<&str> = AXES.to_vec();
    while axes.len() > AXES_OF_SPACE {
        axes.swap_remove(random.random_range(0..axes.len()));
    }
    (settings, axes.join(", "))
}

/// Every plan of the space, run, and what a search with this gap finds.
fn both(number: u64, gap: &str) -> Option<(Summary, Summary)> {
    let (settings, axes) = space(number);
    // The first point of a space may be one that cannot be read alone.
    let swept = read(&format!("{settings}sweep: {{ {axes} }}\n"), &[]).ok()?;
    let searched = read(&format!("{settings}search: {{ over: {{ {axes} }}, gap: {gap} }}\n"), &[]);
    let searched = searched.unwrap_or_else(|failure| panic!("{failure}"));
    let impossible = |refusal: scenarios::run::Refusal| assert!(refusal.to_string().contains("possible"));
    let swept = scenarios::run::execute(&swept, &crate::support::options(), &scenarios::run::Unwatched);
    let swept = swept.map_err(impossible).ok()?;
    Some((swept, run(&searched)))
}

fn best(summary: &Summary) -> Option<f64> {
    summary.variants.iter().filter_map(RunSummary::step_time).reduce(f64::min)
}

fn all(proof: &SearchProof) -> u64 {
    let &SearchProof { impossible, short_of_memory, slower, equal, fit, did_not_fit, left, .. } = proof;
    impossible + short_of_memory + slower + equal + fit + did_not_fit + left
}

#[test]
fn a_search_finds_the_best_plan_of_its_space() {
    for (number, gap, within) in (1..)
        .zip(["0 %", "3 %"].into_iter().cycle())
        .map(|(number, gap)| (number, gap, if gap == "0 %" { 1.0 } else { 1.03 }))
        .take(cases(CASES))
    {
        let Some((swept, searched)) = both(number, gap) else { continue };
        let proof = searched.search.as_ref().expect("it searched");
        let told = || format!("space {number}: {}\n{proof:?}", space(number).1);
        assert_eq!(all(proof), proof.plans, "{}", told());
        assert_eq!(proof.plans, swept.variants.len() as u64, "{}", told());
        let (Some(best), Some(found)) = (best(&swept), best(&searched)) else {
            assert!(best(&swept).is_none() && proof.gap.is_none() && proof.fit == 0, "{}", told());
            continue;
        };
        assert!(found <= best * within, "{found} s, and yet {best} s: {}", told());
        let gap = proof.gap.expect("something fits");
        assert!(best * (1.0 + gap) >= found * (1.0 - 1e-12), "{found} s, {best} s: {}", told());
        assert_eq!(searched.variants[0].step_time(), Some(found), "the best comes first");
        for kind in &proof.alternatives {
            let Some(name) = kind.name.strip_prefix("without ") else { continue };
            let without = |run: &&RunSummary| {
                let axis = run.point.iter().find(|(path, _)| path.ends_with(name));
                axis.is_some_and(|(_, value)| ["none", "false"].contains(&value.as_str()))
            };
            let best =
                swept.variants.iter().filter(without).filter_map(RunSummary::step_time).reduce(f64::min);
            let plan = kind.plan.as_ref().map(|plan| plan.step_time_s);
            assert_eq!(plan.is_some(), best.is_some(), "{name}: {}", told());
            let least = best.zip(plan).map(|(best, plan)| plan <= best * within && plan >= best);
            assert_ne!(least, Some(false), "{best:?} s, {plan:?} s without {name}: {}", told());
        }
    }
}

/// Bounds are lowest where micro-batches are largest and activations leave; what stays of those, beside
/// the logits of a large vocabulary, is not known before a simulation.
#[test]
fn where_many_plans_lack_memory_the_best_is_found_all_the_same() {
    let settings = "name: scarce
machine: { node: { name: dgx-a100-40g } }
model: { transformer: { layers: 8, hidden: 1024, heads: 16, vocabulary: 250000, max_positions: 1024 } }
training: { micro_batch: 1, global_batch: 256, sequence: 1024, precision: fp16-mixed }
memory: { limit: 8 GB }
";
    let axes = "training.micro_batch: [1, 2, 4, 8, 16, 32], techniques.activation_offload: [none, {}], \
                techniques.recompute: [none, { mode: selective }, { mode: operators }, { mode: full }], \
                parallelism.sharding: [none, optimizer, gradients, parameters]";
    let swept = run(&read(&format!("{settings}sweep: {{ {axes} }}\n"), &[]).expect("a scenario"));
    let search = format!("{settings}search: {{ over: {{ {axes} }}, gap: 0 % }}\n");
    let searched = run(&read(&search, &[]).expect("a scenario"));
    let proof = searched.search.as_ref().expect("a search");
    assert!(proof.did_not_fit >= 16 && proof.fit > 0 && proof.left == 0, "{proof:?}");
    assert_eq!((proof.gap, all(proof)), (Some(0.0), swept.variants.len() as u64));
    assert_eq!(best(&searched), best(&swept));
}

/// Step time and peak memory of a run that has both.
fn time_and_memory(run: &RunSummary) -> Option<(f64, u64)> {
    Some((run.step_time()?, run.worst_device()?.peak_bytes))
}

#[test]
fn a_front_has_every_plan_that_no_other_beats_in_both() {
    for number in 1..=cases(CASES) as u64 {
        let (settings, axes) = space(number);
        let Ok(swept) = read(&format!("{settings}sweep: {{ {axes} }}\n"), &[]) else { continue };
        let front = "minimise: [step_time, peak_memory], gap: 0 %";
        let searched = read(&format!("{settings}search: {{ over: {{ {axes} }}, {front} }}\n"), &[]);
        let searched = run(&searched.unwrap_or_else(|failure| panic!("{failure}")));
        let swept = scenarios::run::execute(&swept, &crate::support::options(), &scenarios::run::Unwatched);
        let Ok(swept) = swept else { continue };
        let all: Vec<(f64, u64)> = swept.variants.iter().filter_map(time_and_memory).collect();
        let beats =
            |one: &(f64, u64), other: &(f64, u64)| one != other && one.0 <= other.0 && one.1 <= other.1;
        let mut front: Vec<_> =
            all.iter().filter(|plan| !all.iter().any(|other| beats(other, plan))).copied().collect();
        front.sort_by(|one, other| one.0.total_cmp(&other.0));
        front.dedup();
        let found: Vec<_> = searched.variants.iter().filter_map(time_and_memory).collect();
        assert_eq!(found, front, "space {number}: {axes}");
    }
}

#[test]
fn the_least_energy_is_that_of_the_plan_that_draws_least() {
    let swept = "parallelism.tensor: [1, 2, 4], training.micro_batch: [1, 2, 3, 6]";
    let over = format!("over: {{ {swept} }}");
    let energy = |run: &RunSummary| run.power.as_ref().map(|power| power.step_energy_j);
    let read = |text: String| read(&text, &[]).unwrap_or_else(|failure| panic!("{failure}"));
    let found = run(&read(format!("{GPT}search: {{ {over}, minimise: energy, gap: 0 %, keep: 100 }}\n")));
    let all = run(&read(format!("{GPT}sweep: {{ {swept} }}\n")));
    let least = all.variants.iter().filter_map(energy).reduce(f64::min);
    assert_eq!(found.variants.first().and_then(energy), least);
    assert!(
        found.finding.contains(" J a sample") || found.finding.contains("kJ a sample"),
        "{}",
        found.finding
    );
    let machineless =
        "name: test\nmodel: { profiled_pipeline: { stages: 2 } }\ntraining: { micro_batches: 4 }\n";
    let refused = crate::support::read(
        &format!("{machineless}search: {{ over: {{ training.micro_batches: [4, 8] }}, minimise: energy }}\n"),
        &[],
    );
    let refused = refused.err().map(|failure| failure.to_string()).unwrap_or_default();
    assert!(refused.contains("energy needs boards that draw power"), "{refused}");
}

#[test]
fn rules_of_thumb_are_no_better_than_the_best_plan() {
    let text = format!(
        "{GPT}search: {{ over: {{ parallelism: auto, training.micro_batch: [1, 3], techniques: [recompute] }}, gap: 0 % }}\n"
    );
    let summary = run(&read(&text, &[]).unwrap_or_else(|failure| panic!("{failure}")));
    let (proof, best) =
        (summary.search.as_ref().expect("it searched"), best(&summary).expect("something fits"));
    let rules: Vec<_> = proof.alternatives.iter().filter(|kind| kind.source.is_some()).collect();
    let [megatron, grid, bounds] = rules[..] else { panic!("{rules:?}") };
    for rule in rules.iter().copied() {
        let plan = rule.plan.as_ref().expect("a small model fits by any rule");
        assert!(plan.step_time_s >= best, "{rule:?}");
    }
    assert_eq!(bounds.name, "by bounds, without simulations");
    for plan in [megatron, grid].into_iter().filter_map(|rule| rule.plan.as_ref()) {
        // Everything fits on one GPU: neither rule splits the model.
        assert_eq!(
            (plan.point["parallelism.tensor"].as_str(), plan.point["parallelism.pipeline"].as_str()),
            ("1", "1")
        );
    }
    let slower = |part: &str| {
        proof
            .sensitivity
            .iter()
            .filter(|it| it.change.starts_with(part))
            .map(|it| it.of_best)
            .collect::<Vec<_>>()
    };
    let clocks = slower("the clock of one GPU");
    assert!(
        clocks.len() == 2 && 1.0 < clocks[0] && clocks[0] < clocks[1] && clocks[1] < 1.0 / 0.7 + 1e-9,
        "{clocks:?}"
    );
    assert!(slower("drives").is_empty() && slower("network").is_empty(), "there are none that it uses");
}

/// Four tensor ranks in two stages are one copy of the model, which shares its states with nobody.
#[test]
fn plans_that_do_the_same_are_simulated_once() {
    let text = format!(
        "{GPT}parallelism: {{ tensor: 4 }}\nsearch: {{ over: {{ parallelism.pipeline: [1, 2], parallelism.sharding: [none, optimizer] }}, gap: 0 % }}\n"
    );
    let with = |stages: &str| {
        let set = format!("parallelism.pipeline={stages}");
        let summary = run(&read(&text, &[&set]).unwrap_or_else(|failure| panic!("{failure}")));
        summary.search.map(|proof| (all(&proof), proof.equal)).expect("it searched")
    };
    assert_eq!((with("2"), with("1")), ((2, 1), (2, 0)));
}

const GPT: &str = "name: test
machine: { node: { name: dgx-a100-40g } }
model: { transformer: { layers: 12, hidden: 768, heads: 12, vocabulary: 32000, max_positions: 1024 } }
training: { global_batch: 24, micro_batch: 1, sequence: 1024, precision: fp16-mixed }
";

#[test]
fn an_axis_without_values_is_told_beside_one_that_is_implied() {
    let (settings, _) = space(0);
    let over = "parallelism.tensor: [], training.micro_batch: auto";
    let failure = read(&format!("{settings}search: {{ over: {{ {over} }} }}\n"), &[]).err().unwrap();
    let told = messages(&failure);
    assert!(told.iter().any(|message| message.contains("parallelism.tensor")), "{told:?}");
}

#[test]
fn auto_stands_for_divisors_of_gpus_heads_layers_and_samples() {
    let values = |over: &str, path: &str| {
        let experiment = read(&format!("{GPT}search: {{ over: {{ {over} }} }}\n"), &[]);
        let experiment = experiment.unwrap_or_else(|failure| panic!("{failure}"));
        let mut values: Vec<String> = Vec::new();
        for point in experiment.points() {
            let value = point.values()[path].clone();
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values.join(" ")
    };
    assert_eq!(values("parallelism: auto", "parallelism.tensor"), "1 2 4");
    assert_eq!(values("parallelism: auto", "parallelism.pipeline"), "1 2 4");
    assert_eq!(values("training.micro_batch: auto", "training.micro_batch"), "1 2 3 4 6 8 12 24");
    assert_eq!(values("techniques: [recompute, bpipe]", "techniques.bpipe"), "none {}");
    let recompute = values("techniques.recompute: auto", "techniques.recompute");
    assert!(recompute.starts_with("none {mode: selective}"), "{recompute}");
}

#[test]
fn a_limit_leaves_out_what_breaks_it() {
    let search = |limits: &str| {
        let text = format!(
            "{GPT}search: {{ over: {{ training.micro_batch: [1, 4, 24], techniques: [recompute] }}, gap: 0 %, {limits} }}\n"
        );
        run(&read(&text, &[]).unwrap_or_else(|failure| panic!("{failure}")))
    };
    let free = search("keep: 20");
    let peak = |summary: &Summary| summary.variants[0].worst_device().map(|device| device.peak_bytes);
    let bytes = peak(&free).expect("it has memory");
    let limited = search(&format!("keep: 20, subject_to: ['peak_memory <= {} B']", bytes - 1));
    assert!(peak(&limited).is_some_and(|peak| peak < bytes));
    assert!(best(&limited) >= best(&free));
    let proof = limited.search.expect("it searched");
    assert!(proof.broken.iter().all(|broken| broken.plans > 0) && !proof.broken.is_empty());
    let never = search("subject_to: ['gpus <= 4']").search.expect("it searched");
    assert_eq!((never.gap, never.broken[0].plans), (None, never.fit));
}

#[test]
fn nothing_that_fits_is_told_with_what_lacks_least() {
    let text = GPT.replace("layers: 12, hidden: 768", "layers: 96, hidden: 12288");
    let text = format!("{text}search: {{ over: {{ training.micro_batch: [1, 3] }} }}\n");
    let summary = run(&read(&text, &[]).unwrap_or_else(|failure| panic!("{failure}")));
    assert_eq!(summary.finding, "None of 2 plans fits.");
    assert!(summary.conditions.starts_with("The closest lacks "), "{}", summary.conditions);
    assert_eq!(summary.search.map(|proof| proof.short_of_memory), Some(2));
}

/// The last stage makes gradients of weights while the first one begins its update, up to where it
/// waits for all stages.
#[cfg(feature = "soak")]
#[test]
fn no_step_with_weight_gradients_of_their_own_is_below_its_floor() {
    let text = "name: test
machine: { node: dgx-1v-32g }
parallelism:
  { idle: allow, schedule: { zb-auto: { memory_limit: 2p } }, pipeline: 2, data: 1, sharding: optimizer }
model:
  transformer:
    { layers: 6, hidden: 768, heads: 12, kv_heads: 3, vocabulary: 50257, max_positions: 256, ffn: 1024 }
training: { sequence: 256, micro_batch: 1, accumulate: 2, precision: fp32 }
software: { attention: materialised, layers: torchtitan, launch: free }
";
    let breaches = scenarios::soak::examine(text).breaches;
    assert!(breaches.is_empty(), "{breaches:?}");
}
