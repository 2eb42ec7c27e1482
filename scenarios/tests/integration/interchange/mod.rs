//! Plans as arguments or documents of training frameworks: what is exported comes back, and no text
//! panics.

mod deepspeed;
mod megatron;
mod megatron_bridge;
mod torchtitan;

use std::cell::Cell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use scenarios::interchange::{Given, Options, Target, export, import};
use scenarios::schema::{BytesPerParameter, Model, Parallelism, Software, Techniques, Training};
use scenarios::{Experiment, Resolved, Scenario, load};

const FILE: &str = "plan.yaml";

fn loaded(text: &str, set: &[String]) -> Option<Experiment> {
    load(&BTreeMap::from([(FILE.to_owned(), text.as_bytes().to_vec())]), FILE, set).ok()
}

fn first(experiment: &Experiment) -> Option<Resolved> {
    let variant = experiment.variants().next()?.to_owned();
    experiment.points().find_map(|point| experiment.resolve(&variant, &point).ok())
}

/// The parts of a scenario that a framework is told, each said in one way.
#[derive(Clone, Debug, PartialEq)]
struct Told {
    model: Model,
    training: Training,
    parallelism: Parallelism,
    bytes_per_parameter: Option<BytesPerParameter>,
    software: Software,
    techniques: Techniques,
}

fn told(scenario: &Scenario) -> Told {
    let Scenario { model, training, parallelism, memory, software, techniques, .. } = scenario.clone();
    let mut told = Told {
        model,
        training,
        parallelism,
        bytes_per_parameter: memory.bytes_per_parameter,
        software: software.unwrap_or_default(),
        techniques,
    };
    told.parallelism.context_exchange.get_or_insert_default();
    told.techniques.presets.clear();
    if let Model::Transformer(model) = &mut told.model {
        model.preset = None;
        if let Some(experts) = &mut model.experts {
            experts.load = None;
            experts.balance_loss.get_or_insert(true);
        }
    }
    // Facts of releases and machines.
    let Software { sustained_products, persistent_products, fused_softmax_keys, .. } = Software::default();
    let Software { framework, launch_queue, host_overhead, gradients, .. } = Software::default();
    told.software = Software {
        sustained_products,
        persistent_products,
        fused_softmax_keys,
        framework,
        launch_queue,
        host_overhead,
        gradients,
        ..told.software
    };
    told
}

/// Exports a plan and imports it again. `None`: it is no plan, or the target refuses it.
fn there_and_back(target: Target, text: &str, set: &[String]) -> Option<(Told, Told, String)> {
    let experiment = loaded(text, set)?;
    let resolved = first(&experiment)?;
    let exported = export(&experiment, &resolved, target).ok()?;
    let written = exported.text();
    let settings = reports::json::value(&resolved.scenario).expect("settings are JSON");
    let at = |path: &str| settings.pointer(&format!("/{}", path.replace('.', "/"))).cloned();
    let option = |path: &str| {
        let is_beside = exported.beside.iter().any(|beside| beside.path == path);
        at(path).filter(|_| is_beside).map(|value| value.to_string())
    };
    let (machine, model) = (at("machine").expect("a machine").to_string(), option("model"));
    let beside = exported.beside.iter().map(|beside| beside.path.as_str());
    let beside = beside.filter(|path| !["machine", "model", "calibration"].contains(path));
    let beside: Vec<String> =
        beside.map(|path| format!("{path}={}", at(path).expect("it is written"))).collect();
    let given = Given::Text { name: "plan", text: &written };
    let options =
        Options { machine: Some(&machine), model: model.as_deref(), set: &beside, ..Options::default() };
    let imported = import(target, given, &options);
    let imported = imported.unwrap_or_else(|failure| panic!("{written}\n{beside:?}\n{failure}"));
    let again = loaded(&imported.scenario, &[]).unwrap_or_else(|| panic!("{}", imported.scenario));
    let again = first(&again).expect("one run");
    Some((told(&resolved.scenario), told(&again.scenario), written))
}

/// Exports and imports plans of random choices, each of a list of alternatives, and asserts that a
/// quarter of them are plans and come back. A choice is one setting, or several with `; ` between them.
fn come_back(target: Target, base: &str, choices: &[Vec<String>], weight: f64) {
    let one = |values: &Vec<String>| prop::option::weighted(weight, prop::sample::select(values.clone()));
    let settings: Vec<_> = choices.iter().map(one).collect();
    let (tried, came_back) = (Cell::new(0), Cell::new(0));
    let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let outcome = TestRunner::new_with_rng(config, rng).run(&settings, |settings| {
        let set = settings.iter().flatten().flat_map(|choice| choice.split("; "));
        let set: Vec<String> = set.map(str::to_owned).collect();
        tried.set(tried.get() + 1);
        if let Some((there, back, text)) = there_and_back(target, base, &set) {
            came_back.set(came_back.get() + 1);
            prop_assert_eq!(there, back, "{:?}\n{}", set, text);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(4 * came_back.get() > tried.get(), "{} of {} plans came back", came_back.get(), tried.get());
}

/// Asserts that every alternative is a plan of the target by itself, and comes back.
fn each_comes_back(target: Target, base: &str, choices: &[&[&str]]) {
    for choice in choices.iter().flat_map(|values| values.iter()) {
        let set: Vec<String> = choice.split("; ").map(str::to_owned).collect();
        let found = there_and_back(target, base, &set);
        let (there, back, text) = found.unwrap_or_else(|| panic!("{choice} is refused"));
        assert_eq!(there, back, "{text}");
    }
}

fn owned(choices: &[&[&str]]) -> Vec<Vec<String>> {
    choices.iter().map(|values| values.iter().map(|value| (*value).to_owned()).collect()).collect()
}

/// Number of 900 random scenarios that the target does not refuse, all of which come back.
#[cfg(feature = "soak")]
fn random_scenarios_come_back(target: Target) -> usize {
    let scenarios = (0..900).map(|number| scenarios::soak::scenario(7, number));
    let came_back = scenarios.filter_map(|scenario| there_and_back(target, &scenario, &[]));
    came_back.inspect(|(there, back, text)| assert_eq!(there, back, "{text}")).count()
}

/// Imports texts of random pieces. More of them by `FORETRAIN_FUZZ=10000000`.
fn no_text_panics(target: Target, pieces: &'static [&'static str]) {
    let asked = std::env::var("FORETRAIN_FUZZ").ok().and_then(|cases| cases.parse().ok());
    let piece = prop_oneof![9 => prop::sample::select(pieces).prop_map(str::to_owned), 1 => ".{0,6}"];
    let word = (piece, prop::sample::select(&["", " ", " ", "\n"][..])).prop_map(|(piece, gap)| piece + gap);
    let text = prop::collection::vec(word, 0..30).prop_map(|words| words.concat());
    let config = Config { cases: asked.unwrap_or(8_000), failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&text, |text| {
        let given = Given::Text { name: "x", text: &text };
        let set = ["training.sequence=2048".to_owned()];
        let options =
            Options { machine: Some("dgx-h100"), model: Some("llama-2-7b"), set: &set, ..Options::default() };
        if let Err(failure) = import(target, given, &options) {
            prop_assert!(!failure.problems.is_empty());
            failure.render(false);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
