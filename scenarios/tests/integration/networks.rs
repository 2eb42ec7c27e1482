//! Graph networks: what must hold of every answer, whatever the numbers.

use reports::summary::{FailureKind, RunSummary};

use crate::support::{messages, read, run};

/// GraphSAGE on Reddit, an RTX 3090 on PCIe 4.
const SAMPLED: &str = "name: sampled
machine: { node: { name: epyc-pcie-8x, gpu: rtx-3090 } }
model:
  graph:
    data: { preset: reddit }
    network: { sage: { layers: 2, hidden: 16, outputs: 41 } }
    sampling: { batch: 1000, fan_out: [25, 10], workers: 0 }
training: { precision: fp32 }
parallelism: { data: 1, idle: allow }
";

/// A layer on all of FB15k-237.
const WHOLE: &str = "name: whole
machine: { node: { name: epyc-pcie-8x, gpu: rtx-3090 } }
model:
  graph:
    data: { preset: fb15k-237 }
    network: { rgat: { hidden: 64, inputs: 64 } }
training: { precision: fp32 }
parallelism: { data: 1, idle: allow }
";

/// Runs of variants, each with settings below the name of its number.
fn of(base: &str, variants: &[&str]) -> Vec<RunSummary> {
    let lines = variants.iter().enumerate().map(|(n, settings)| format!("  v{n}: {settings}\n"));
    let text = format!("{base}variants:\n{}", lines.collect::<String>());
    run(&read(&text, &[]).unwrap_or_else(|wrong| panic!("{:?}", messages(&wrong)))).variants
}

fn time(run: &RunSummary) -> f64 {
    run.step_time().unwrap_or_else(|| panic!("{}: {:?}", run.variant, run.failure))
}

fn rising(times: &[f64]) -> bool {
    times.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + 1e-9))
}

/// A list of layers is the network that it spells out, on all of a graph and in mini-batches.
#[test]
fn a_network_and_the_list_of_its_layers_are_one() {
    let alike = "{ sage: { layers: 3, hidden: 16, outputs: 41 } }";
    let listed = "{ list: [{ sage: { width: 16 } }, { sage: { width: 16 } }, { sage: { width: 41 } }] }";
    let mixed =
        "{ list: [{ sage: { width: 16 } }, { gat: { width: 16, heads: 4 } }, { gcn: { width: 41 } }] }";
    for sampling in ["", "sampling: { batch: 1000, fan_out: [15, 10, 5], workers: 0 }"] {
        let base = SAMPLED
            .replace("{ sage: { layers: 2, hidden: 16, outputs: 41 } }", alike)
            .replace("sampling: { batch: 1000, fan_out: [25, 10], workers: 0 }", sampling);
        let width = if sampling.is_empty() { "{ width: 602 }" } else { "{ width: 602, access: zero-copy }" };
        let of_network = |network: &str| {
            let text = format!("{}features: {width}\n", base.replace(alike, network));
            run(&read(&text, &[]).unwrap_or_else(|wrong| panic!("{:?}", messages(&wrong)))).variants.remove(0)
        };
        let [alike, listed, mixed] = [alike, listed, mixed].map(of_network);
        assert_eq!(alike.step_time(), listed.step_time(), "{sampling}");
        assert_eq!(alike.peak_memory_bytes, listed.peak_memory_bytes);
        assert_ne!(time(&mixed), time(&listed));
    }
}

/// In line, a batch is drawn, read and trained one after the other; ahead, the slowest decides.
#[test]
fn lanes_in_line_add_up_and_lanes_ahead_take_the_longest() {
    let runs = of(
        SAMPLED,
        &[
            "{ features: { home: gpu } }",
            "{ features: { access: zero-copy } }",
            "{ features: { access: zero-copy, buffers: 2 }, model: { graph: { sampling: { workers: 1 } } } }",
            "{ features: { home: gpu }, model: { graph: { sampling: { workers: 1 } } } }",
        ],
    );
    let [on_gpu, in_line, ahead, drawn] = [0, 1, 2, 3].map(|n| time(&runs[n]));
    assert!(
        rising(&[drawn, on_gpu, in_line]) && rising(&[ahead, in_line]),
        "{drawn} {on_gpu} {in_line} {ahead}"
    );
    // The link takes what zero copy adds in line; ahead it hides behind nothing, or all else behind
    // it.
    let link = in_line - on_gpu;
    assert!(ahead >= link * 0.99 && ahead < in_line * 0.9, "{ahead} {link}");
    let epoch = runs[0].epoch.as_ref().expect("an epoch");
    assert_eq!((epoch.batches, epoch.bytes_per_batch), (154, epoch.rows_per_batch * 2_408));
    let rate = epoch.epoch_time_s.expect("a time") / (154.0 * on_gpu);
    assert!((rate - 1.0).abs() < 1e-12);
}

/// From its begin to its end an epoch in line is its steps, and one with workers waits for the first
/// batch alone.
#[test]
fn an_epoch_from_its_begin_has_the_first_batch() {
    let runs = of(
        SAMPLED,
        &[
            "{ features: { home: gpu } }",
            "{ features: { home: gpu }, training: { epoch: true } }",
            "{ features: { home: gpu }, model: { graph: { sampling: { workers: 2 } } } }",
            "{ features: { home: gpu }, model: { graph: { sampling: { workers: 2 } } }, training: { epoch: true } }",
        ],
    );
    let [steady, whole, ahead, ahead_whole] = [0, 1, 2, 3]
        .map(|n: usize| runs[n].epoch.as_ref().and_then(|epoch| epoch.epoch_time_s).expect("a time"));
    assert!((whole / steady - 1.0).abs() < 1e-6, "{whole} {steady}");
    let first = ahead_whole - ahead;
    assert!(first > 0.0 && first < 2.0 * steady / 154.0, "{first} {ahead}");
}

/// The first of 1,505 mini-batches, of which 1,000 are simulated, comes once, and all others follow
/// each other as they do later.
#[test]
fn an_epoch_that_is_simulated_in_part_has_its_first_batch_once() {
    let small = "model: { graph: { sampling: { batch: 102, workers: 2 } } }";
    let ahead = "features: { access: host-gather, prefetch: 2 }";
    let later = "run: { steps: { warm_up: 505, measured: 1000 } }";
    let runs = of(
        SAMPLED,
        &[
            &format!("{{ {small}, {ahead}, training: {{ epoch: true }} }}"),
            &format!("{{ {small}, {ahead}, {later} }}"),
        ],
    );
    let [begun, later] = [0, 1].map(|n: usize| runs[n].epoch.clone().expect("an epoch"));
    assert_eq!((begun.batches, later.batches), (1_505, 1_505));
    let [begun, later] = [begun, later].map(|epoch| epoch.epoch_time_s.expect("a time"));
    let first = (begun - later) / time(&runs[1]);
    assert!(0.1 < first && first < 3.0, "the first batch comes after {first} steps");
}

/// Without MPS the GPU reads or trains: kernels add up, while the host draws and issues beside
/// them. With it both go on, each on its share of the multiprocessors.
#[test]
fn processes_take_turns_or_share_multiprocessors() {
    let of_process = |process: &str| format!("{{ features: {{ access: zero-copy, process: {process} }} }}");
    let shares = |reading, training| {
        of_process(&format!("{{ mps: {{ reading: {reading} %, training: {training} % }} }}"))
    };
    let variants = [
        shares(50, 50),
        of_process("separate"),
        of_process("same"),
        shares(5, 50),
        shares(3, 50),
        shares(50, 10),
    ];
    let runs = of(SAMPLED, &variants.each_ref().map(String::as_str));
    let [half, turns, same, few, fewer, slow] = [0, 1, 2, 3, 4, 5].map(|n| time(&runs[n]));
    assert!(
        rising(&[half, turns, same]) && rising(&[half, few, fewer]),
        "{half} {turns} {same} {few} {fewer}"
    );
    let parts = &runs[1].epoch.as_ref().expect("an epoch").parts;
    let kernels = runs[1].time_breakdown_s["compute"] + parts.features_s / 154.0;
    // The copy of drawn edges may go on beside training.
    assert!(turns > 0.85 * kernels && turns < 1.03 * kernels, "{turns} {kernels}");
    let computed = |n: usize| runs[n].time_breakdown_s["compute"];
    assert!(computed(5) > 1.2 * computed(0) && computed(0) >= computed(2), "{} {}", computed(5), computed(0));
    assert!(slow >= half);
}

#[test]
fn more_threads_workers_caches_and_alignment_are_never_slower() {
    let runs = of(
        SAMPLED,
        &[
            "{ features: { access: host-gather, threads: 16 } }",
            "{ features: { access: host-gather, threads: 4 } }",
            "{ features: { access: host-gather, threads: 1 } }",
            "{ features: { access: zero-copy, align: true, cache: { share: 50 % } } }",
            "{ features: { access: zero-copy, align: true, cache: { share: 10 % } } }",
            "{ features: { access: zero-copy, align: true } }",
            "{ features: { access: zero-copy } }",
        ],
    );
    let times: Vec<f64> = runs.iter().map(time).collect();
    assert!(rising(&times[..3]) && rising(&times[3..]), "{times:?}");
    let hits: Vec<f64> = runs.iter().map(|run| run.epoch.as_ref().expect("an epoch").hit_rate).collect();
    assert!(hits[3] > hits[4] && hits[4] > 0.1 && hits[5] == 0.0, "{hits:?}");
}

/// A row of a cache of all nodes is never missed: the host and the link have nothing to do.
#[test]
fn a_cache_of_all_rows_is_as_fast_as_features_on_the_gpu() {
    let runs = of(
        SAMPLED,
        &["{ features: { home: gpu } }", "{ features: { access: zero-copy, cache: { share: 100 % } } }"],
    );
    let [on_gpu, cached] = [0, 1].map(|n| time(&runs[n]));
    assert!((cached / on_gpu - 1.0).abs() < 0.01, "{on_gpu} {cached}");
}

#[test]
fn each_pass_of_hector_brings_its_part_and_is_beside_the_others() {
    let runs = of(
        WHOLE,
        &[
            "{ model: { graph: { system: { hector: { reorder: true, compact: true } } } } }",
            "{ model: { graph: { system: { hector: { compact: true } } } } }",
            "{ model: { graph: { system: { hector: {} } } } }",
            "{ model: { graph: { system: dgl } } }",
            "{ model: { graph: { system: pyg } } }",
        ],
    );
    let times: Vec<f64> = runs.iter().map(time).collect();
    assert!(rising(&times[..4]) && times[4] > times[2], "{times:?}");
    let gain = times[2] / times[0];
    assert!(gain > 1.2 && gain < 3.8, "both passes bring {gain}");
    let peaks: Vec<u64> = runs.iter().map(|run| run.worst_device().expect("a GPU").peak_bytes).collect();
    assert!(peaks[1] < peaks[2], "compaction stores a row a pair: {peaks:?}");
}

/// A cache of 60 % of 57 GB of rows is more than a GPU of 24 GB has beside a network. The largest
/// that fits is told with the time of a step that has batches before it.
#[test]
fn a_cache_that_is_too_large_is_told_one_that_fits() {
    let papers = |cache: u32| {
        format!(
            "{{ model: {{ graph: {{ data: {{ preset: papers100M }} }} }}, features: {{ width: 128, access: zero-copy, cache: {{ share: {cache} % }} }} }}"
        )
    };
    let variants = [papers(60), papers(42), papers(48)];
    let runs = of(SAMPLED, &variants.each_ref().map(String::as_str));
    let remedy = &runs[0].failure.as_ref().expect("it does not fit").remedies[0];
    assert!(remedy.action.contains("share: 42.0 %"), "{remedy:?}");
    assert_eq!(remedy.step_time_s, runs[1].step_time());
    assert!(runs[2].failure.is_some());
}

/// A weight of 64 x 64 in fp32 for each edge is 16 KiB.
#[test]
fn weights_of_edges_fit_small_graphs_alone() {
    let sweep =
        "sweep: { model.graph.data.preset: [aifb, mutag, fb15k-237, bgs, biokg, am, wikikg2, mag] }\n";
    let text = format!("{WHOLE}{sweep}");
    for (system, fit) in [("pyg-bmm", 4), ("{ hector: {} }", 8)] {
        let step = format!(
            "variants: {{ v: {{ model: {{ graph: {{ system: {system} }} }}, training: {{ step: forward }} }} }}\n"
        );
        let runs = run(&read(&format!("{text}{step}"), &[]).expect("it is valid")).variants;
        let fits: Vec<bool> = runs.iter().map(|run| run.fits).collect();
        assert_eq!(fits.iter().filter(|&&fits| fits).count(), fit, "{system}: {fits:?}");
        assert!(fits[..fit].iter().all(|&fits| fits), "{system}: {fits:?}");
    }
}

/// Graphiler does not train: its cells of training are empty, the best is taken over the others.
#[test]
fn what_a_system_does_not_support_is_an_empty_cell() {
    let base = WHOLE.replace("{ precision: fp32 }", "{ precision: fp32, step: full }");
    let sweep = "sweep: { training.step: [forward, full] }\n";
    let variants = "variants:\n  graphiler: { model: { graph: { system: graphiler } } }\n  hgl: { model: { graph: { system: hgl } } }\n";
    let expect = "expect:\n  - { faster: { best_of: [graphiler, hgl] }, than: hgl, by: [1, 1], at: { training.step: full } }\n";
    let results = run(&read(&format!("{base}{variants}{sweep}{expect}"), &[]).expect("it is valid"));
    assert!(results.expectations.iter().all(|check| check.passed), "{:?}", results.expectations);
    let empty: Vec<&RunSummary> = results.variants.iter().filter(|run| run.failure.is_some()).collect();
    let [empty] = empty.as_slice() else { panic!("one is empty, not {}", empty.len()) };
    let failure = empty.failure.as_ref().expect("it has one");
    assert_eq!((empty.variant.as_str(), failure.kind), ("graphiler", FailureKind::Infeasible));
    assert!(failure.message.contains("does not support training of `rgat`"), "{}", failure.message);
}

/// A graph spares launches, and holds no operator whose count the host awaits.
#[test]
fn loops_over_sorted_edges_are_captured_and_masks_are_not() {
    let captured = |system: &str| {
        format!("{{ model: {{ graph: {{ system: {system} }} }}, software: {{ launch: graph }} }}")
    };
    let eager = "{ model: { graph: { system: pytorch } } }";
    let times: Vec<f64> = of(WHOLE, &[&captured("pytorch"), eager]).iter().map(time).collect();
    assert!(times[0] < times[1] * 0.8, "{times:?}");
    let text = format!("{WHOLE}variants: {{ v: {} }}\n", captured("pyg"));
    let refused = read(&text, &[]).expect_err("the host awaits masks");
    assert!(messages(&refused).join("\n").contains("which a graph cannot hold"), "{:?}", messages(&refused));
}

/// The trace of the forward pass on ACM: 16.378 ms of kernels in 18.593 ms.
#[test]
fn the_trace_of_a_transformer_on_acm_is_met() {
    let text = scenarios::library::get("hgt-acm").expect("a scenario");
    let experiment = read(text, &[]).expect("it is right");
    let runs = run(&experiment).variants;
    let of = |name: &str| time(runs.iter().find(|run| run.variant == name).expect("it is there"));
    let (busy, wall) = (of("dgl-hetero-graph"), of("dgl-hetero"));
    assert!((busy / 0.016378 - 1.0).abs() < 0.1 && (wall / 0.018593 - 1.0).abs() < 0.1, "{busy} {wall}");
}

#[test]
fn what_has_no_meaning_is_told_with_a_remedy() {
    let wrong = |from: &str, to: &str| {
        let failure = read(&SAMPLED.replace(from, to), &[]).expect_err(to);
        messages(&failure).join("\n")
    };
    for (from, to, said) in [
        ("fan_out: [25, 10]", "fan_out: [25]", "reads 2 hops, not 1"),
        ("reddit", "redit", "redit"),
        ("hidden: 16", "hidden: 16, heads: 3", "3 heads do not share"),
        (
            "parallelism: {",
            "features: { home: gpu, access: zero-copy }\nparallelism: {",
            "not read over a link",
        ),
        (
            "parallelism: {",
            "features: { home: gpu, cache: { share: 1 % } }\nparallelism: {",
            "changes nothing",
        ),
        (
            "parallelism: {",
            "features: { access: zero-copy, process: { mps: 100 % } }\nparallelism: {",
            "leaves the process that trains nothing",
        ),
        (
            "parallelism: {",
            "features: { access: zero-copy, process: { mps: { reading: 60 %, training: 50 % } } }\nparallelism: {",
            "more than 100 % together",
        ),
        ("parallelism: {", "features: { process: separate }\nparallelism: {", "no kernel of another process"),
        ("workers: 0", "workers: 0 }\n    system: { hector: {} ", "`hector` does not support `sage`"),
        ("sage: { layers: 2, hidden: 16, outputs: 41 }", "list: []", "1 to 64 layers, not 0"),
        (
            "sage: { layers: 2, hidden: 16, outputs: 41 }",
            "list: [{ sage: { width: 16 } }, { gat: { width: 30, heads: 4 } }]",
            "4 heads do not share a width of 30",
        ),
        (
            "sage: { layers: 2, hidden: 16, outputs: 41 }",
            "list: [{ gcn: { width: 16 } }]",
            "reads 1 hops, not 2",
        ),
        ("hidden: 16", "hidden: 16, complete: true", "`sage` has nothing around its layers"),
        ("precision: fp32", "precision: fp32, global_batch: 10", "`training.global_batch` has no meaning"),
        ("preset: reddit", "statistics: { nodes: 10, edges: 0 }", "edges"),
    ] {
        let message = wrong(from, to);
        assert!(message.contains(said), "{to}: {message}");
    }
}
