//! Plans as arguments of training frameworks: what is exported comes back, and no text panics.

use std::cell::Cell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use scenarios::interchange::{Given, Options, Target, export, import};
use scenarios::schema::{BytesPerParameter, Count, Model, Parallelism, Software, Techniques, Training};
use scenarios::{Experiment, Resolved, Scenario, load};

const FILE: &str = "plan.yaml";

fn loaded(text: &str, set: &[String]) -> Option<Experiment> {
    load(&BTreeMap::from([(FILE.to_owned(), text.as_bytes().to_vec())]), FILE, set).ok()
}

fn first(experiment: &Experiment) -> Option<Resolved> {
    let variant = experiment.variants().next()?.to_owned();
    experiment.points().find_map(|point| experiment.resolve(&variant, &point).ok())
}

/// The parts of a scenario that Megatron-LM is told, each said in one way.
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

/// Exports a plan and imports it again. `None`: it is no plan, or Megatron-LM refuses it.
fn there_and_back(text: &str, set: &[String]) -> Option<(Told, Told, String)> {
    let experiment = loaded(text, set)?;
    let resolved = first(&experiment)?;
    let script = export(&experiment, &resolved, Target::MEGATRON).ok()?.script();
    let machine = reports::json::value(&resolved.scenario.machine).expect("settings are JSON").to_string();
    let parallelism = &resolved.scenario.parallelism;
    let beside = [
        format!("parallelism.data={}", parallelism.data.map_or(1, Count::get)),
        format!("parallelism.idle={}", serde_json::to_string(&parallelism.idle).expect("a word")),
    ];
    let given = Given::Text { name: "plan.sh", text: &script };
    let options = Options { machine: Some(&machine), set: &beside };
    let imported = import(Target::MEGATRON, given, &options);
    let imported = imported.unwrap_or_else(|failure| panic!("{script}\n{failure}"));
    let again = loaded(&imported.scenario, &[]).unwrap_or_else(|| panic!("{}", imported.scenario));
    let again = first(&again).expect("one run");
    Some((told(&resolved.scenario), told(&again.scenario), script))
}

const BASE: &str = "
name: plan
machine: { cluster: { node: dgx-h100, count: 4 } }
model: { transformer: { layers: 8, hidden: 1024, heads: 16, vocabulary: 32000, max_positions: 4096 } }
training: { global_batch: 128, micro_batch: 1, sequence: 2048 }
software: { attention: flash }
";

/// Settings, each with values that Megatron-LM has arguments for.
const CHOICES: [(&str, &[&str]); 33] = [
    ("parallelism.tensor", &["2", "4"]),
    ("parallelism.pipeline", &["2", "4"]),
    ("parallelism.context", &["2"]),
    ("parallelism.context_exchange", &["ring", "all-to-all", "all-gather"]),
    ("parallelism.sequence_parallel", &["true"]),
    ("parallelism.schedule", &["1f1b", "{ interleaved: { chunks: 2 } }"]),
    ("parallelism.sharding", &["optimizer", "optimizer", "parameters"]),
    ("parallelism.overlap_gradient_reduce", &["{}", "{ bucket: 100 MB }"]),
    ("parallelism.overlap_parameter_gather", &["{}"]),
    ("parallelism.placement", &["copy-after-copy"]),
    ("parallelism.send", &["blocking"]),
    ("parallelism.scatter_gather", &["false"]),
    ("parallelism.overlap_tensor_reduce", &["false"]),
    ("model.transformer.kv_heads", &["4", "8"]),
    ("model.transformer.mlp", &["swiglu"]),
    ("model.transformer.ffn", &["4096", "2816"]),
    ("model.transformer.norm", &["rms"]),
    ("model.transformer.bias", &["none", "qkv"]),
    ("model.transformer.positions", &["rotary"]),
    ("model.transformer.dropout", &["false"]),
    ("model.transformer.tied_embedding", &["false"]),
    ("model.transformer.window", &["2048"]),
    (
        "model.transformer.experts",
        &[
            "{ count: 8, top_k: 2, ffn: 2048 }",
            "{ count: 8, top_k: 4, ffn: 512, shared_ffn: 1024, dense_layers: 1, capacity_factor: 1.25 }",
            "{ count: 4, top_k: 1, ffn: 512, capacity_factor: 2, pad_to_capacity: true, balance_loss: false, z_loss: true }",
        ],
    ),
    ("parallelism.expert", &["2"]),
    ("training.precision", &["fp16-mixed", "bf16-mixed", "fp32"]),
    ("memory.bytes_per_parameter", &["18", "20"]),
    ("training.fp8", &["{ scaling: delayed }", "{ scaling: tensorwise }"]),
    ("software.vocabulary_multiple", &["64"]),
    ("software.attention", &["materialised", "cudnn"]),
    ("software.cross_entropy", &["fused"]),
    ("software.products_add_to", &["none"]),
    (
        "techniques.recompute",
        &[
            "{}",
            "{ mode: selective }",
            "{ mode: full, layers: 1 }",
            "{ modules: [core-attention, layer-norm] }",
        ],
    ),
    ("techniques.zero_offload", &["{}", "{ ratio: 40 % }"]),
];

#[test]
fn plans_that_megatron_can_run_come_back() {
    let one = |(path, values): (&'static str, &'static [&'static str])| {
        let value = prop::sample::select(values);
        prop::option::weighted(0.15, value).prop_map(move |it| it.map(|value| format!("{path}={value}")))
    };
    let settings: Vec<_> = CHOICES.into_iter().map(one).collect();
    let (tried, came_back) = (Cell::new(0), Cell::new(0));
    let config = Config { cases: 400, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    )
    .run(&settings, |settings| {
        let set: Vec<String> = settings.into_iter().flatten().collect();
        tried.set(tried.get() + 1);
        if let Some((there, back, script)) = there_and_back(BASE, &set) {
            came_back.set(came_back.get() + 1);
            prop_assert_eq!(there, back, "{:?}\n{}", set, script);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(4 * came_back.get() > tried.get(), "{} of {} plans came back", came_back.get(), tried.get());
}

#[test]
fn each_choice_comes_back_alone() {
    for (path, values) in CHOICES {
        for value in values {
            let mut set = vec![format!("{path}={value}")];
            match path {
                "parallelism.context_exchange" => set.push("parallelism.context=2".to_owned()),
                "parallelism.schedule" => set.push("parallelism.pipeline=2".to_owned()),
                "parallelism.sequence_parallel" => set.push("parallelism.tensor=2".to_owned()),
                "parallelism.overlap_parameter_gather" | "techniques.zero_offload" => {
                    set.push("parallelism.sharding=optimizer".to_owned());
                    set.push(if path.starts_with('t') {
                        "parallelism.pipeline=2".to_owned()
                    } else {
                        "parallelism.overlap_gradient_reduce={}".to_owned()
                    });
                }
                "parallelism.sharding" if *value == "parameters" => {
                    set.push("software.products_add_to=none".to_owned());
                }
                "parallelism.expert" | "model.transformer.experts" => {
                    set.push("model.transformer.bias=none".to_owned());
                    if path == "parallelism.expert" {
                        set.push("model.transformer.experts={ count: 8, top_k: 2, ffn: 2048 }".to_owned());
                    }
                }
                "training.precision" if *value == "fp32" => {
                    set.push("software.attention=materialised".to_owned());
                }
                "memory.bytes_per_parameter" => set.push("training.precision=fp16-mixed".to_owned()),
                _ => {}
            }
            let found = there_and_back(BASE, &set);
            let (there, back, script) = found.unwrap_or_else(|| panic!("{set:?} is refused"));
            assert_eq!(there, back, "{script}");
        }
    }
}

#[cfg(feature = "soak")]
#[test]
fn random_scenarios_are_refused_or_come_back() {
    let came_back = (0..600).filter_map(|number| there_and_back(&scenarios::soak::scenario(7, number), &[]));
    let mut count = 0;
    for (there, back, script) in came_back {
        assert_eq!(there, back, "{script}");
        count += 1;
    }
    assert!(count > 5, "{count} of 600 come back");
}

/// Pieces of texts that importers read.
const PIECES: [&str; 40] = [
    "--num-layers",
    "--hidden-size",
    "--bf16",
    "--fp16",
    "--swiglu",
    "--moe-layer-freq",
    "--num-experts",
    "--pipeline-model-parallel-layout",
    "--lr",
    "--data-path",
    "--unknown",
    "--seq-length=",
    "=",
    "2",
    "0",
    "-1",
    "1e400",
    "99999999999999999999",
    "Et*3|tL",
    "([0]*1+[1]*7)",
    "A=",
    "A=(",
    ")",
    "A+=",
    "$A",
    "${A[@]}",
    "${A:-",
    "}",
    "$(",
    "`",
    "'",
    "\"",
    "\\",
    "\n",
    " ",
    "#",
    "<<EOF",
    "torchrun pretrain_gpt.py ",
    "if ",
    "é",
];

/// Texts of random pieces. More of them by `FORETRAIN_FUZZ=10000000`.
#[test]
fn no_text_panics() {
    let asked = std::env::var("FORETRAIN_FUZZ").ok().and_then(|cases| cases.parse().ok());
    let piece = prop_oneof![9 => prop::sample::select(&PIECES[..]).prop_map(str::to_owned), 1 => ".{0,6}"];
    let word = (piece, prop::sample::select(&["", " ", " ", "\n"][..])).prop_map(|(piece, gap)| piece + gap);
    let text = prop::collection::vec(word, 0..30).prop_map(|words| words.concat());
    let config = Config { cases: asked.unwrap_or(20_000), failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&text, |text| {
        let options = Options { machine: Some("dgx-h100"), set: &[] };
        if let Err(failure) = import(Target::MEGATRON, Given::Text { name: "x", text: &text }, &options) {
            prop_assert!(!failure.problems.is_empty());
            failure.render(false);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
