//! GPUs of two kinds in one job, as scenarios say them.

use reports::summary::{RunSummary, Summary};

use crate::support::{messages, read, run};

/// Two cards of different kinds in one workstation.
const CARDS: &str = "name: cards
machine:
  parts:
    gpus: { fast: { like: rtx-3090, name: rtx-4090, sms: 128, clock: 2520 MHz, memory_rate: 1008 GB/s }, slow: rtx-3090 }
    sockets: [cpu]
    memories: { dram: { socket: cpu, memory: 128 GiB, rate: 40 GB/s } }
    links:
      - { between: [fast, cpu], class: pcie4, lanes: 16 }
      - { between: [slow, cpu], class: pcie4, lanes: 16 }
model: { transformer: { layers: 12, hidden: 1024, heads: 16, vocabulary: 32000, max_positions: 1024 } }
training: { micro_batch: 1, accumulate: 8, sequence: 1024, precision: fp16-mixed }
parallelism: { pipeline: 2, data: 1 }
";

/// A node of A100 before one of V100.
const NODES: &str = "name: nodes
machine: { cluster: { node: dgx-a100-80g, count: 1, more: [{ node: dgx-1v-32g, count: 1 }] } }
model: { transformer: { layers: 12, hidden: 2048, heads: 16, vocabulary: 51200, max_positions: 1024 } }
training: { micro_batch: 1, accumulate: 8, sequence: 1024, precision: fp16-mixed }
parallelism: { tensor: 8, pipeline: 2 }
";

fn summary(text: &str, settings: &[&str]) -> Summary {
    run(&read(text, settings).unwrap_or_else(|failure| panic!("{failure}")))
}

fn step(text: &str, settings: &[&str]) -> RunSummary {
    summary(text, settings).variants.swap_remove(0)
}

fn refused(text: &str, settings: &[&str]) -> Vec<String> {
    let failure = read(text, settings).err().unwrap_or_else(|| panic!("{settings:?} was accepted"));
    messages(&failure).into_iter().map(str::to_owned).collect()
}

#[test]
fn the_faster_card_takes_more_layers() {
    let time = |layers: &str| {
        let run = step(CARDS, &[&format!("parallelism.stage_layers={layers}")]);
        assert!(run.fits && run.mfu.is_some() && run.step_time_interval_s.is_some());
        run.step_time_s.unwrap()
    };
    let [even, more, fewer] = ["[6, 6]", "[7, 5]", "[5, 7]"].map(time);
    assert!(more < even && even < fewer, "{more} {even} {fewer}");
}

#[test]
fn balanced_layers_are_the_fastest_of_all_lists() {
    let time =
        |layers: &str| step(CARDS, &[&format!("parallelism.stage_layers={layers}")]).step_time_s.unwrap();
    let lists = (1..12).map(|first| time(&format!("[{first}, {}]", 12 - first)));
    let best = lists.min_by(f64::total_cmp).unwrap();
    assert_eq!(time("balanced"), best);
    assert_eq!(time("even"), step(CARDS, &[]).step_time_s.unwrap());
}

#[test]
fn a_card_with_less_memory_has_fewer_layers() {
    let layers = |memory: &str| {
        let cards = CARDS.replace(
            "{ like: rtx-3090, name: rtx-4090, sms: 128, clock: 2520 MHz, memory_rate: 1008 GB/s }",
            &format!("{{ like: rtx-3090, name: small, memory: {memory} }}"),
        );
        let experiment = read(&cards, &["parallelism.stage_layers=balanced"]).unwrap();
        let resolved = experiment.resolve("base", &experiment.points().next().unwrap()).unwrap();
        let explained = experiment.explain(&resolved);
        let line = explained.lines().find(|line| line.trim().starts_with("stage_layers"));
        let (layers, derived) = line.and_then(|line| line.split_once('#')).unwrap_or_default();
        assert_eq!(derived, " derived: balanced: the slowest stage is as fast as it can be");
        layers.trim().to_owned()
    };
    // The last stage has the head.
    assert_eq!(layers("24 GiB"), "stage_layers: [7, 5]");
    assert_eq!(layers("4 GiB"), "stage_layers: [5, 7]");
    assert_eq!(layers("2 GiB"), "stage_layers: [1, 11]");
}

#[test]
fn nodes_of_both_kinds_are_drawn_and_have_their_constants() {
    let summary = summary(NODES, &[]);
    let drawing = summary.machine.unwrap();
    let drawn = [&drawing, &drawing.others[0]].map(|node| (node.name.as_str(), node.nodes));
    assert_eq!(drawn, [("dgx-a100-80g", 1), ("dgx-1v-32g", 1)]);
    let held = |node: &reports::summary::MachineDrawing| node.placement["gpu[3]"].clone();
    assert_eq!([held(&drawing), held(&drawing.others[0])], ["stage 0, tensor 3", "stage 1, tensor 3"]);
    for gpu in ["a100-sxm4-80gb", "v100-sxm2-32gb"] {
        let of_gpu = summary.constants.iter().filter(|constant| constant.of == gpu);
        assert!(of_gpu.clone().any(|constant| constant.name == "clock_mhz"), "{gpu}");
        assert!(of_gpu.clone().any(|constant| constant.name.contains("share of the peak")), "{gpu}");
    }
}

/// Utilisation is of the peak of all GPUs, whatever stage they hold.
#[test]
fn utilisation_is_of_what_all_gpus_could_do() {
    let run = step(NODES, &[]);
    let alone = |node: &str| {
        let node = format!("machine.cluster.node={node}");
        step(NODES, &[&node, "machine.cluster.count=2", "machine.cluster.more=[]"])
    };
    let peak = |run: &RunSummary| run.tokens_per_s.unwrap() / run.mfu.unwrap();
    let mean = f64::midpoint(peak(&alone("dgx-a100-80g")), peak(&alone("dgx-1v-32g")));
    assert!((peak(&run) / mean - 1.0).abs() < 1e-9);
}

#[test]
fn the_stage_on_the_smaller_gpus_runs_out() {
    let small = "machine.cluster.more=[{ node: dgx-1v-32g, count: 1, set: { gpu: { memory: 20 GiB } } }]";
    let run = step(NODES, &["model.transformer.hidden=12288", "model.transformer.heads=96", small]);
    let message = run.failure.expect("it does not fit").message;
    assert!(message.contains("stage 1") && !message.contains("stage 0"), "{message}");
    assert!(step(NODES, &[]).fits);
}

#[test]
fn every_gpu_computes_in_the_precision() {
    let found = refused(NODES, &["training.precision=bf16-mixed"]);
    assert_eq!(found, ["the GPU `v100-sxm2-32gb` does not compute in bf16"]);
    let found = refused(NODES, &["training.fp8={}"]);
    assert!(found.iter().any(|message| message.contains("does not compute in fp8")), "{found:?}");
    // What is idle computes in nothing.
    let idle =
        ["training.precision=bf16-mixed", "parallelism={ tensor: 8, pipeline: 1, data: 1, idle: allow }"];
    assert!(step(NODES, &idle).fits);
}

#[test]
fn a_limit_is_that_of_each_gpu_that_has_as_much() {
    assert!(step(NODES, &["memory.limit=60 GiB"]).fits);
    assert!(refused(NODES, &["memory.limit=96 GiB"])[0].contains("but the GPU has 80 GiB"));
}
