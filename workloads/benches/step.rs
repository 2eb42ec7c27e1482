//! One step of GPT-3 175B on 1,024 A100, every rank at the granularity of kernels, collectives and messages.
//!
//! `cargo bench -p workloads --bench step [-- plain]`; with `plain` also without segments.

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

use std::time::Instant;

use hw_models::catalogue::Catalogue;
use hw_models::collectives::{COLLECTIVES, CollectiveCatalogue};
use hw_models::copies::COPIES;
use hw_models::framework::{FRAMEWORKS, Framework};
use hw_models::host::{HOST, HostCosts};
use hw_models::kernels::{KERNELS, KernelCatalogue, Libraries};
use hw_models::machine::{Cluster, Machine};
use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use sim_core::fold::fold;
use sim_core::outcome::{End, Run};
use sim_core::time::Time;
use sim_core::{Options, simulate};
use workloads::hardware::Hardware;
use workloads::lower::Lowered;
use workloads::model::transformer::{
    AttentionKernel, Dtype, Execution, Overlap, Sharding, Split, Transformer,
};
use workloads::passes::realise::launches::LaunchWaits;
use workloads::passes::recompute::Recompute;
use workloads::plan::{Deployment, Launch, TransformerPlan, build_on};

fn main() {
    let begun = Instant::now();
    let lowered = lowered(LaunchWaits::Disturbed);
    let built = begun.elapsed();
    let folded = fold(&lowered.platform, &lowered.program, &lowered.start);
    let small = completed(simulate(&folded.platform, &folded.program, &folded.start, &Options::default()));
    println!(
        "folded: {} of {} streams, a step of {:.3} s in {:.3} s from the start, {:.3} s of them to build",
        folded.program.streams.len(),
        lowered.program.streams.len(),
        small.time.as_secs(),
        begun.elapsed().as_secs_f64(),
        built.as_secs_f64(),
    );
    issued_one_by_one(&lowered, small.time);
    let plain = std::env::args().any(|argument| argument == "plain");
    for segments in [true, false].into_iter().take(1 + usize::from(plain)) {
        let begun = Instant::now();
        let options = Options { segments, ..Options::default() };
        let whole = completed(simulate(&lowered.platform, &lowered.program, &lowered.start, &options));
        let took = begun.elapsed().as_secs_f64();
        println!(
            "unfolded, segments {segments}: {:.1} M activities, {:.1} M events in {took:.1} s, {:.1} M activities/s, \
             peak {:.0} MB",
            whole.activities as f64 / 1e6,
            whole.events as f64 / 1e6,
            whole.activities as f64 / took / 1e6,
            peak_memory_mb(),
        );
        assert_eq!(small.time, whole.time, "the same step, to the picosecond");
    }
}

/// Cost of operators that wait for their own launch, in turns with visits that wait once.
fn issued_one_by_one(once: &Lowered, time: Time) {
    for waits in [LaunchWaits::Late, LaunchWaits::Each] {
        let own = lowered(waits);
        let mut took = [0.0_f64; 2];
        for _ in 0..ROUNDS {
            for (lowered, took) in [once, &own].into_iter().zip(&mut took) {
                let begun = Instant::now();
                let options = Options::default();
                let run = completed(simulate(&lowered.platform, &lowered.program, &lowered.start, &options));
                *took += begun.elapsed().as_secs_f64();
                assert_eq!(run.time, time, "the same step, to the picosecond");
            }
        }
        let [once, own] = took.map(|took| took / f64::from(ROUNDS));
        println!(
            "waiting for launches, {waits:?}: {own:.2} s, {:.2} times the {once:.2} s of once a visit",
            own / once
        );
    }
}

/// Runs of each.
const ROUNDS: u32 = 3;

fn completed<E: std::fmt::Debug>(run: Result<Run, E>) -> Run {
    let run = run.expect("a valid program");
    assert_eq!(run.end, End::Completed);
    run
}

/// Tensor 8, pipeline 16, data 8; 1,536 sequences in micro-batches of one; everything recomputed.
fn lowered(launch_waits: LaunchWaits) -> Lowered {
    fn parse<T: DeserializeOwned>(text: &str) -> T {
        serde_yaml::from_str(text).expect("the embedded catalogue")
    }
    let catalogue = Catalogue::embedded(serde_yaml::Deserializer::from_str).expect("the embedded catalogue");
    let (kernels, collectives): (KernelCatalogue, CollectiveCatalogue) = (parse(KERNELS), parse(COLLECTIVES));
    let cluster = Cluster::new("dgx-a100-80g", 128);
    let machine = Machine::build(&catalogue, &cluster).expect("a cluster of the catalogue");
    let split = Split { tensor: 8, sequence_parallel: false, stages: 16, chunks: 1, ..Split::NONE };
    let mut plan = TransformerPlan {
        model: Transformer::gpt(96, 12_288, 96, 51_200, 2_048),
        execution: Execution::new(1, 2_048, split, Dtype::Fp16, AttentionKernel::Materialised),
        data: 8,
        sharing: None,
        sharding: Sharding::None,
        overlap: Overlap::default(),
        scatter_gather: true,
        deployment: Deployment { launch: Launch::Eager, ..Deployment::new(1_536 / 8) },
    };
    plan.deployment.pipelining.launch_waits = launch_waits;
    plan.deployment.pipelining.techniques.recompute = Some(Recompute::default());
    let (host, frameworks): (HostCosts, IndexMap<String, Framework>) = (parse(HOST), parse(FRAMEWORKS));
    let hardware = Hardware {
        machine: &machine,
        catalogue: &catalogue,
        kernels: &kernels,
        collectives: &collectives,
        host: &host,
        framework: &frameworks["pytorch-2"],
        copies: &parse(COPIES),
        libraries: Libraries::default(),
        differ: Some(&kernels.variation),
        measured: &[],
        memo: None,
    };
    build_on(&plan, &hardware).expect("a plan that can be built").lowered
}

/// The most memory this process has had (`VmHWM`), where the system says so.
fn peak_memory_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) * 1_024.0 / 1e6
}
