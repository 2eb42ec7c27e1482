//! Hardware that the catalogue lacks, described in the file.

use reports::summary::{RunSummary, Summary};

use crate::support::{read, run};

/// A small GPT on nodes of eight GPUs without NVLink, whose activations leave for drives.
const NODES: &str = "name: described
machine: { cluster: { node: epyc-pcie-8x, count: 1, gpu: a100-pcie-40gb, set: { ssd: { model: samsung-pm9a3-u2-3840gb, count: 2 } } } }
model: { transformer: { layers: 2, hidden: 1024, heads: 16, vocabulary: 51200, max_positions: 1024 } }
training: { micro_batch: 4, accumulate: 1, sequence: 1024, precision: bf16-mixed }
parallelism: { tensor: 2, pipeline: 1 }
storage: { nvme: { drives: 2 } }
techniques: { activation_offload: { to: drives, arrays: [nvme] } }
";

/// All that leaves comes back.
const WAITS: &str = "techniques.activation_offload.forwarding=false";

fn summary(settings: &[&str]) -> Summary {
    run(&read(NODES, settings).unwrap_or_else(|failure| panic!("{failure}")))
}

fn step(settings: &[&str]) -> RunSummary {
    summary(settings).variants.swap_remove(0)
}

/// All that a run found but where its times are from.
fn found(run: &RunSummary) -> serde_json::Value {
    let mut run = reports::json::value(run).expect("a summary");
    let map = run.as_object_mut().expect("a map");
    for evidence in ["step_time_interval_s", "provenance"] {
        map.remove(evidence);
    }
    if let Some(power) = map.get_mut("power").and_then(|power| power.as_object_mut()) {
        power.remove("step_energy_interval_j");
    }
    run
}

#[test]
fn a_gpu_with_the_figures_of_the_catalogue_gives_its_results_bit_for_bit() {
    let named = step(&[]);
    let like = "machine.cluster.gpu={ like: a100-pcie-40gb }";
    let sheet = "machine.cluster.gpu={ like: a100-pcie-40gb, name: mine, architecture: ampere, sms: 108, clock: 1410 MHz, \
         power: 250 W, memory: 40 GiB, reserved: 1 GiB, memory_rate: 1555 GB/s, l2: 40 MiB, \
         vector: { fp32: 19.5 TFLOP/s, fp64: 9.7 TFLOP/s }, tensor: { fp16: 312 TFLOP/s, bf16: 312 TFLOP/s, \
         tf32: 156 TFLOP/s }, nvlink: { class: nvlink3, links: 12 }, pcie: { class: { like: pcie4 }, lanes: 16 }, \
         peer_to_peer: true }";
    for gpu in [like, sheet] {
        assert_eq!(found(&step(&[gpu])), found(&named), "{gpu}");
    }
    let drive = "machine.cluster.set.ssd.model={ like: samsung-pm9a3-u2-3840gb }";
    assert_eq!(found(&step(&[drive])), found(&named));
}

#[test]
fn what_is_taken_over_counts_as_estimate() {
    let origins = |settings: &[&str]| {
        let constants = summary(settings).constants;
        let of_gpu = constants.into_iter().filter(|constant| constant.of.contains("a100-pcie-40gb"));
        of_gpu.map(|constant| (constant.name, constant.origin)).collect::<Vec<_>>()
    };
    assert!(origins(&[]).iter().any(|(_, origin)| origin == "data sheet"));
    let like = origins(&["machine.cluster.gpu={ like: a100-pcie-40gb, memory_rate: 1600 GB/s }"]);
    assert!(
        like.iter().any(|(name, _)| name == "sms") && like.iter().any(|(name, _)| name.contains("kernels"))
    );
    assert!(like.iter().all(|(_, origin)| origin == "estimate"), "{like:?}");
}

#[test]
fn faster_figures_never_slow_a_step() {
    let time = |settings: &[&str]| step(settings).step_time_s.expect("it fits");
    let before = time(&[]);
    for faster in [
        "memory_rate: 3 TB/s",
        "clock: 2 GHz",
        "tensor: { fp16: 400 TFLOP/s }",
        "tensor: { bf16: 900 TFLOP/s }",
        "memory: 60 GiB",
        "pcie: { class: { like: pcie4, name: faster, rate: 30 GB/s } }",
    ] {
        let gpu = format!("machine.cluster.gpu={{ like: a100-pcie-40gb, {faster} }}");
        assert!(time(&[&gpu]) <= before, "{faster}");
    }
    // What has left in time comes back, what has not may stay: with that, slow writes can save
    // reads.
    let before = time(&[WAITS]);
    for faster in ["read: 7 GB/s, write: 6 GB/s", "write_iops: 900000", "read_latency: 1 us"] {
        let drive = format!("machine.cluster.set.ssd.model={{ like: samsung-pm9a3-u2-3840gb, {faster} }}");
        assert!(time(&[&drive, WAITS]) <= before, "{faster}");
    }
}

/// Two drives write what one kind of activations needs in a step; hot from the start they take
/// longer.
#[test]
fn hot_and_degraded_drives_slow_a_step_and_never_speed_it_up() {
    let throttled = |after: &str| {
        let throttle = format!("throttle: {{ after: {after}, rate: 10 % }}");
        format!("machine.cluster.set.ssd.model={{ like: samsung-pm9a3-u2-3840gb, {throttle} }}")
    };
    let time = |settings: &[&str]| step(&[settings, &[WAITS]].concat()).step_time_s.expect("it fits");
    let (cool, late, hot) =
        (time(&[]), time(&[&throttled("100 TB"), "run.drives=new"]), time(&[&throttled("0 B")]));
    assert_eq!(cool, late, "it never gets hot in so short a run");
    assert!(hot > cool, "{hot}, {cool}");
    let degraded = "machine.cluster.degrade=[{ part: 'node[0].ssd[0]', rate: 10 % }]";
    assert!(time(&[degraded]) > cool);
}

#[test]
fn what_is_shown_is_every_figure_with_its_origin() {
    let gpu = "machine.cluster.gpu={ like: a100-pcie-40gb, name: mine, memory_rate: 1600 GB/s }";
    let experiment = read(NODES, &[gpu]).expect("right");
    let point = experiment.points().next().expect("one");
    let resolved = experiment.resolve("base", &point).expect("feasible");
    let shown = experiment.explain(&resolved);
    let line = |figure: &str| {
        let line = shown.lines().find(|line| line.trim_start().starts_with(figure)).expect("it is shown");
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("sms:"), "sms: 108 # derived: from `a100-pcie-40gb`");
    assert!(line("memory_rate:").starts_with("memory_rate: 1600 GB/s # --set"));
    let again = read(&format!("name: again\n{shown}"), &[]).expect("what is shown can be run");
    assert_eq!(found(&run(&again).variants[0]), found(&step(&[gpu])));
}
