//! Plans of movement from files: what any technique decided can be written as one, and gives the
//! same step.

use std::collections::BTreeMap;

use reports::summary::RunSummary;
use scenarios::Experiment;

use crate::support::{read_all, run};

const MODEL: &str = "name: test
machine: { node: dgx-a100-40g }
model: { transformer: { layers: 4, hidden: 2048, heads: 16, vocabulary: 32000, max_positions: 1024 } }
training: { micro_batch: 4, accumulate: 2, sequence: 1024, precision: fp16-mixed }
parallelism: { tensor: 2, pipeline: 2 }
software: { attention: flash }
";

/// Techniques that follow the plan file.
const OWN: &str = "{ movement_plan: { file: plan.csv } }";

fn experiment(plan: &str, techniques: &str) -> Experiment {
    let files = [("test.yaml", MODEL), ("plan.csv", plan)];
    let settings = format!("techniques={techniques}");
    read_all(&files, &[&settings]).unwrap_or_else(|failure| panic!("{failure}"))
}

fn ran(plan: &str, techniques: &str) -> RunSummary {
    run(&experiment(plan, techniques)).variants.swap_remove(0)
}

/// Tensors of a plan as it is decided, as a plan file.
fn listed(plan: &str, techniques: &str) -> String {
    let experiment = experiment(plan, techniques);
    let point = experiment.points().next().expect("a point");
    let resolved = experiment.resolve("base", &point).expect("settings that go together");
    let tensors = scenarios::run::tensors(&resolved.scenario, 1).unwrap_or_else(|reason| panic!("{reason}"));
    let rows = tensors.into_iter().map(|listed| listed.row.texts().join(",") + "\n");
    "tensor,tier,out,wait,in\n".to_owned() + &rows.collect::<String>()
}

/// The step, and the peak of each stage.
fn told(run: &RunSummary) -> (Option<f64>, Vec<u64>) {
    (run.step_time(), run.peak_memory_bytes.iter().map(|peak| peak.peak_bytes).collect())
}

/// Bytes of a step by kind.
fn traffic(run: &RunSummary) -> BTreeMap<&str, u64> {
    run.communication.iter().map(|one| (one.kind.as_str(), one.bytes)).collect()
}

#[test]
fn decisions_written_to_a_file_are_the_same_plan() {
    for (techniques, forwarding) in [
        ("{}", false),
        ("{ activation_offload: {} }", true),
        ("{ activation_offload: { prefetch: 2, forwarding: false, store: last-use } }", false),
        ("{ activation_offload: { in_flight: 1, forwarding: false } }", false),
        ("{ activation_offload: { synchronous: true } }", false),
        ("{ activation_offload: { to: drives, keep: { layers: 1 } } }", true),
        ("{ lms: {} }", false),
    ] {
        let decided = listed("tensor,tier\n*,gpu", techniques);
        let own = format!("{{ movement_plan: {{ file: plan.csv, forwarding: {forwarding} }} }}");
        assert_eq!(told(&ran(&decided, &own)), told(&ran(&decided, techniques)), "{techniques}\n{decided}");
        assert_eq!(listed(&decided, &own), decided, "{techniques}");
    }
}

/// Without more than a tier the host asks as `activation_offload` lets it.
#[test]
fn a_pattern_is_all_of_its_tensors() {
    let offload = "{ activation_offload: { smallest: 0 B, forwarding: false } }";
    // What only the head needs stays.
    let plan = "tensor,tier\n*,host\nhead.*,gpu\nlayers.3.mlp-to-residual,gpu\n";
    assert_eq!(told(&ran(plan, OWN)), told(&ran(plan, offload)));
}

#[test]
fn tensors_of_a_plan_go_to_different_tiers() {
    let both = ran("tensor,tier\nlayers.*.mlp-gelu,host\nlayers.*.mlp-up,drives\n", OWN);
    let found = traffic(&both);
    // Of two micro-batches and four layers 4 x 1024 tokens of 4 x 2048 numbers of two bytes, halved
    // by tensor ranks.
    let tensors = 2 * 4 * (4 * 1024 * 4 * 2048 * 2 / 2);
    let kinds = ["offload to host memory", "load from host memory", "write to drives", "read from drives"];
    for kind in kinds {
        assert_eq!(found.get(kind), Some(&tensors), "{kind}: {found:?}");
    }
}

#[test]
fn faults_of_a_file_are_told_with_their_lines() {
    let told = |plan: &str| {
        let files = [("test.yaml", MODEL), ("plan.csv", plan)];
        let failure = read_all(&files, &[&format!("techniques={OWN}")]).expect_err("a faulty plan");
        let told = |problem: &scenarios::Problem| {
            format!("{}\n  {}\n", problem.message, problem.help.as_deref().unwrap_or_default())
        };
        failure.problems.iter().map(told).collect::<String>()
    };
    let faulty = [
        "",
        "tensor,tier\n",
        "tensor\nlayers.*\n",
        "tensor,tier,when\n*,host,now\n",
        "tensor,tier\n*,host,now\n",
        "# a note\ntensor,tier,out,wait,in\n,host\n*,disk\n*,gpu,,,4\n",
        "tensor,tier\nlayers.4.*,host\nqkv,gpu\n",
        "tensor,tier,out,wait,in\n*.mlp-gelu,host,layers.0.qkv\nlayers.1.qkv,host,produced,layers.0.qkv\n\
         layers.1.qkv:2,host\nlayers.1.mlp-up,host,,,layers.0.mlp-up\n",
    ];
    insta::assert_snapshot!(faulty.map(told).join("--\n"));
    let missing = read_all(&[("test.yaml", MODEL)], &[&format!("techniques={OWN}")]).expect_err("no file");
    assert_eq!(missing.problems[0].message, "cannot read `plan.csv`: no such file");
}

#[test]
fn a_plan_goes_with_no_other_that_moves_activations() {
    let files = [("test.yaml", MODEL), ("plan.csv", "tensor,tier\n*,host\n")];
    let both = "techniques={ movement_plan: { file: plan.csv }, swap: {} }";
    assert!(read_all(&files, &[both]).is_err());
}
