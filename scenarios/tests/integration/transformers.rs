//! Transformers on machines: what follows from what is written.

use scenarios::run::{Unwatched, plan};
use scenarios::schema::{Count, Model, Transformer};
use scenarios::{Experiment, Failure, Infeasible, Point, Scenario};

use crate::support::{options, read, read_all, run};

const CLUSTER: &str = "name: test
machine: { cluster: { node: dgx-a100-80g, count: 4 } }
model: { transformer: { preset: gpt3-96b } }
training: { global_batch: 128, micro_batch: 2, sequence: 2048, precision: fp16-mixed }
";

const NODE: &str = "name: test
machine: { node: dgx-a100-80g }
model: { transformer: { preset: gpt2 } }
training: { global_batch: 32, micro_batch: 4, sequence: 1024 }
parallelism: { tensor: 2, pipeline: 2 }
";

/// An experiment that is right.
fn right(text: &str) -> Experiment {
    read(text, &[]).unwrap_or_else(|failure| panic!("{failure}"))
}

fn scenario(experiment: &Experiment) -> Scenario {
    let variant = experiment.variants().next().expect("one").to_owned();
    experiment.resolve(&variant, &Point::default()).expect("feasible").scenario
}

fn dimensions(model: &str) -> Transformer {
    let text = CLUSTER.replace("{ preset: gpt3-96b }", model);
    match scenario(&right(&text)).model {
        Model::Transformer(model) => *model,
        _ => panic!("a transformer"),
    }
}

fn number<const MIN: u64, const MAX: u64>(count: Option<Count<MIN, MAX>>) -> u64 {
    count.expect("every dimension is filled in").get()
}

#[test]
fn every_value_is_explained_by_its_origin() {
    let experiment = right(
        &(CLUSTER.to_owned()
            + "parallelism: { tensor: 4, pipeline: 4 }\ntechniques: { recompute: { layers: 2 }, bpipe: {} }\n"),
    );
    let resolved = experiment.resolve("base", &Point::default()).expect("feasible");
    insta::assert_snapshot!(experiment.explain(&resolved));
}

#[test]
fn what_is_explained_is_a_scenario_that_means_the_same() {
    let texts = [
        CLUSTER.to_owned() + "parallelism: { tensor: 8, pipeline: 2, sequence_parallel: true }\n",
        NODE.to_owned() + "techniques: { recompute: { mode: none } }\n",
        NODE.replace("preset: gpt2", "preset: llama-7b"),
    ];
    for text in texts {
        let experiment = right(&text);
        let resolved = experiment.resolve("base", &Point::default()).expect("feasible");
        let again = right(&format!("name: again\n{}", experiment.explain(&resolved)));
        assert_eq!(scenario(&again), resolved.scenario);
    }
}

#[test]
fn a_wider_model_keeps_the_proportions_of_its_preset() {
    let gpt = dimensions("{ preset: gpt3-96b, hidden: 10400 }");
    assert_eq!((number(gpt.head_dim), number(gpt.ffn), number(gpt.layers)), (100, 41_600, 80));
    let llama = dimensions("{ preset: llama-65b, layers: 40 }");
    assert_eq!((number(llama.ffn), number(llama.kv_heads), number(llama.layers)), (22_016, 64, 40));
    let grouped = dimensions("{ preset: llama-2-70b, heads: 128 }");
    assert_eq!((number(grouped.kv_heads), number(grouped.head_dim)), (8, 64));
}

#[test]
fn dimensions_alone_are_those_of_a_gpt() {
    let ours = dimensions("{ layers: 80, hidden: 9984, heads: 104, vocabulary: 51200, max_positions: 2048 }");
    let preset = dimensions("{ preset: gpt3-96b }");
    assert_eq!(Transformer { preset: None, ..preset }, ours);
}

const LLAMA: &str = r#"{ "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32,
  "num_hidden_layers": 32, "vocab_size": 32000, "max_position_embeddings": 2048 }"#;

#[test]
fn a_config_is_read_from_beside_the_file_that_names_it() {
    let named = CLUSTER.replace("preset: gpt3-96b", "config: models/llama.json");
    let files = [
        (
            "mine.yaml",
            "extends: shared/base.yaml\nname: mine\nvariants: { short: { model: { transformer: { layers: 8 } } }, gpt: { model: { transformer: { preset: gpt2, config: none } }, training: { sequence: 1024 } } }\n",
        ),
        ("shared/base.yaml", &*named),
        ("shared/models/llama.json", LLAMA),
    ];
    let experiment = read_all(&files, &[]).unwrap_or_else(|failure| panic!("{failure}"));
    let layers = |variant: &str| match experiment
        .resolve(variant, &Point::default())
        .expect("feasible")
        .scenario
        .model
    {
        Model::Transformer(model) => (number(model.layers), number(model.ffn)),
        _ => panic!("a transformer"),
    };
    assert_eq!((layers("short"), layers("gpt")), ((8, 11_008), (12, 3_072)));
    let texts: Vec<&str> = experiment.sources().iter().map(|source| source.name.as_str()).collect();
    assert_eq!(texts, ["mine.yaml", "shared/base.yaml", "shared/models/llama.json"]);
}

#[test]
fn a_config_from_the_command_line_is_relative_to_where_one_stands() {
    let files = [("a/mine.yaml", CLUSTER), ("llama.json", LLAMA)];
    let experiment = read_all(&files, &["model.transformer={config: llama.json, preset: none}"])
        .unwrap_or_else(|failure| panic!("{failure}"));
    assert!(
        matches!(scenario(&experiment).model, Model::Transformer(model) if number(model.hidden) == 4_096)
    );
}

#[test]
fn copies_and_micro_batches_follow_from_the_machine() {
    let sizes = |parallelism: &str, training: &str| {
        let text = CLUSTER.replace("global_batch: 128, micro_batch: 2", training);
        let scenario = scenario(&right(&format!("{text}parallelism: {{ {parallelism} }}\n")));
        let training = &scenario.training;
        (
            number(scenario.parallelism.data),
            number(training.global_batch),
            number(training.micro_batch),
            number(training.accumulate),
        )
    };
    let split = "tensor: 4, pipeline: 4";
    assert_eq!(sizes(split, "global_batch: 128, micro_batch: 2"), (2, 128, 2, 32));
    assert_eq!(sizes(split, "global_batch: 128, accumulate: 16"), (2, 128, 4, 16));
    assert_eq!(sizes(split, "micro_batch: 2, accumulate: 16"), (2, 64, 2, 16));
    let idle = "tensor: 4, pipeline: 5, idle: allow";
    assert_eq!(sizes(idle, "global_batch: 128, micro_batch: 2"), (1, 128, 2, 64));
    let fewer = "tensor: 4, pipeline: 2, data: 3, idle: allow";
    assert_eq!(sizes(fewer, "micro_batch: 2, accumulate: 16"), (3, 96, 2, 16));
}

#[test]
fn gpus_that_are_left_idle_change_nothing() -> Result<(), Failure> {
    let step =
        |text: &str| -> Result<Option<f64>, Failure> { Ok(run(&read(text, &[])?).variants[0].step_time()) };
    let idle = NODE.replace("node: dgx-a100-80g", "cluster: { node: dgx-a100-80g, count: 3 }");
    let idle = idle.replace("pipeline: 2", "pipeline: 2, data: 2, idle: allow");
    assert_eq!(step(&idle)?, step(NODE)?);
    assert!(step(NODE)?.is_some());
    Ok(())
}

#[test]
fn single_parts_of_a_node_can_be_set_and_swept() -> Result<(), Failure> {
    let text = NODE.to_owned() + "sweep: { machine.node.set.gpu.memory: [3 GiB, 80 GiB, 141 GiB] }\n";
    let experiment = read(&text, &["machine.node.set.gpu[5].lanes=8"])?;
    let summary = run(&experiment);
    let fits: Vec<bool> = summary.variants.iter().map(|run| run.fits).collect();
    assert_eq!(fits, [false, true, true]);
    let peak = |run: usize| summary.variants[run].peak_memory_bytes[0].capacity_bytes;
    assert_eq!((peak(1), peak(2)), (Some(80 << 30), Some(141 << 30)));
    let point = experiment.points().nth(2).expect("three points");
    let resolved = experiment.resolve("base", &point).expect("feasible");
    let explained = experiment.explain(&resolved);
    assert!(explained.contains("memory: 141 GiB") && explained.contains("lanes: 8"), "{explained}");
    assert_eq!(scenario(&right(&format!("name: again\n{explained}"))), resolved.scenario);
    Ok(())
}

#[test]
fn machines_are_chosen_by_a_bare_name_a_map_or_their_parts() {
    let gpus = |machine: &str| {
        let text = NODE.replace("machine: { node: dgx-a100-80g }", machine);
        let experiment = right(&text);
        number(scenario(&experiment).parallelism.data) * 4
    };
    assert_eq!(gpus("machine: { node: dgx-a100-80g }"), 8);
    assert_eq!(gpus("machine: { node: { name: dgx-a100-80g, gpu: a100-sxm4-40gb } }"), 8);
    assert_eq!(gpus("machine: { cluster: { node: dgx-h100, count: 2, fabric: hdr200-fat-tree } }"), 16);
    let parts = "machine:
  parts:
    gpus: { a: a100-pcie-80gb, b: a100-pcie-80gb, c: a100-pcie-80gb, d: a100-pcie-80gb }
    sockets: [cpu]
    memories: { dram: { socket: cpu, memory: 512 GiB, rate: 150 GB/s } }
    switches: [plx]
    links:
      - { between: [plx, cpu], class: pcie4, lanes: 16 }
      - { between: [a, plx], class: pcie4, lanes: 16 }
      - { between: [b, plx], class: pcie4, lanes: 16 }
      - { between: [c, plx], class: pcie4, lanes: 16 }
      - { between: [d, cpu], class: pcie4, lanes: 16 }
    degrade: [{ link: a -> plx, rate: 50 % }]";
    assert_eq!(gpus(parts), 4);
}

#[test]
fn a_bare_name_is_explained_by_where_it_stands() {
    let experiment = right(NODE);
    let resolved = experiment.resolve("base", &Point::default()).expect("feasible");
    let explained = experiment.explain(&resolved);
    let name = explained.lines().find(|line| line.contains("name: dgx-a100-80g")).expect("the node");
    assert!(name.ends_with("# test.yaml:2"), "{name}");
}

#[test]
fn splits_that_do_not_divide_belong_to_the_point_where_they_are_swept() {
    let experiment = right(
        &(CLUSTER.to_owned() + "parallelism: { pipeline: 2 }\nsweep: { parallelism.tensor: [4, 8, 16] }\n"),
    );
    let outcomes: Vec<Result<u64, Infeasible>> = experiment
        .points()
        .map(|point| Ok(number(experiment.resolve("base", &point)?.scenario.parallelism.data)))
        .collect();
    let [Ok(4), Ok(2), Err(Infeasible { reason, .. })] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert!(reason.contains("104 heads cannot be split evenly over 16 ranks"), "{reason}");
}

#[test]
fn sixteen_thousand_gpus_are_checked_without_being_built() {
    let text = CLUSTER.replace("count: 4", "count: 2048").replace("global_batch: 128", "global_batch: 8192");
    let experiment = right(&(text + "parallelism: { tensor: 8, pipeline: 8 }\n"));
    assert_eq!(number(scenario(&experiment).parallelism.data), 256);
    let plan = plan(&experiment, &options(), &Unwatched).expect("within its limit");
    assert!(plan.activities > 100_000_000, "{plan:?}");
}

#[test]
fn a_run_tells_throughput_utilisation_time_and_memory() -> Result<(), Failure> {
    let experiment = read(NODE, &[])?;
    let summary = run(&experiment);
    let run = &summary.variants[0];
    let step = run.step_time().expect("it fits");
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
    assert!(close(run.samples_per_s.expect("batch sizes are known"), 32.0 / step));
    assert!(close(run.tokens_per_s.expect("the sequence is known"), 32.0 * 1024.0 / step));
    let mfu = run.mfu.expect("the peak is known");
    assert!((0.01..0.7).contains(&mfu), "{mfu}");
    let total: f64 = run.time_breakdown_s.values().sum();
    assert!(close(total, step), "{total} is not {step}");
    assert_eq!(run.micro_batches, Some(4));
    // Both copies of the model fare alike, so that of every stage one rank is told.
    let devices: Vec<&str> = run.peak_memory_bytes.iter().map(|peak| peak.device.as_str()).collect();
    assert_eq!(devices, ["stage 0", "stage 1"]);
    for kind in ["parameters", "gradients", "optimizer states", "activations", "reserved"] {
        assert!(run.peak_memory_bytes[0].by_kind_bytes.contains_key(kind), "{kind}");
    }
    assert!(!run.resources.is_empty());
    let timeline = run.timeline.as_ref().expect("it is short enough to be drawn");
    let drawn =
        |state: &str| timeline.rows.iter().all(|row| row.spans.iter().any(|span| span.state == state));
    for state in ["compute: forward", "compute: backward", "compute: update", "communication"] {
        assert!(drawn(state), "{state}");
    }
    Ok(())
}

/// Twice what 8 layers on data-parallel GPUs take, and half of it: 0.13 s on 1,000 GPUs and 1.2 to 2.1 s on 16,000.
#[test]
fn an_estimate_grows_with_ranks() {
    let estimated = |gpus: u32| {
        let text = format!(
            "name: test\nmachine: {{ cluster: {{ node: dgx-a100-80g, count: {} }} }}\n\
             model: {{ transformer: {{ layers: 8, hidden: 1024, heads: 16, vocabulary: 51200, max_positions: 1024 }} }}\n\
             training: {{ micro_batch: 1, accumulate: 1, sequence: 1024, precision: fp16-mixed }}\n\
             parallelism: {{ data: {gpus} }}\n",
            gpus / 8
        );
        plan(&right(&text), &options(), &Unwatched).expect("within its limit").estimated_s
    };
    assert!((0.065..0.26).contains(&estimated(1_000)), "{}", estimated(1_000));
    assert!((1.05..2.4).contains(&estimated(16_000)), "{}", estimated(16_000));
}

/// Of the pairs of stages that share embeddings some are within a node, where the slowest have a GPU on each of two.
#[test]
fn groups_within_a_node_and_between_nodes_share_a_channel() {
    let text = "name: test\nmachine: { cluster: { node: dgx-a100-80g, count: 2 } }\n\
                model: { transformer: { preset: gpt2 } }\n\
                training: { micro_batch: 1, accumulate: 4, sequence: 256, precision: fp16-mixed }\n\
                parallelism: { pipeline: 2, data: 5, idle: allow }\n";
    assert!(run(&right(text)).variants[0].step_time_s.is_some());
}

#[test]
fn what_does_not_fit_is_told_with_the_nearest_settings_that_do() -> Result<(), Failure> {
    let text = format!("{NODE}memory: {{ limit: 6 GiB }}\n").replace("micro_batch: 4", "micro_batch: 8");
    let summary = run(&read(&text, &[])?);
    let failure = summary.variants[0].failure.as_ref().expect("it does not fit");
    assert!(
        failure.store.as_deref().is_some_and(|store| store.starts_with("memory of stage ")),
        "{failure:?}"
    );
    assert_eq!(failure.capacity_bytes, Some(6 << 30));
    assert!(failure.short_bytes.is_some_and(|bytes| bytes > 0));
    assert!(failure.holders_bytes.contains_key("optimizer states"), "{failure:?}");
    assert!(
        failure.remedies.iter().any(|remedy| remedy.action.starts_with("use `")),
        "{:?}",
        failure.remedies
    );
    Ok(())
}
