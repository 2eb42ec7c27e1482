//! Plans as job files of torchtitan.

use scenarios::Failure;
use scenarios::interchange::{Given, Imported, Options, Target, import};

use super::{come_back, each_comes_back, no_text_panics, owned};

const TARGET: Target = Target::TORCHTITAN;

const BASE: &str = "
name: plan
machine: { cluster: { node: dgx-h100, count: 4 } }
model: { transformer: { preset: llama-3-8b } }
training: { global_batch: 128, micro_batch: 1, sequence: 8192 }
software: { attention: flash, layers: torchtitan, cross_entropy: operators }
parallelism: { sharding: parameters, overlap_parameter_gather: { per_parameter: true } }
";

/// Alternatives that there are keys for.
const CHOICES: [&[&str]; 13] = [
    &[
        "parallelism.tensor=2; parallelism.sequence_parallel=true",
        "parallelism.tensor=8; parallelism.sequence_parallel=true",
    ],
    &[
        "parallelism.context=2; parallelism.context_exchange=gathered-ring",
        "parallelism.context=2; parallelism.context_exchange=ring",
    ],
    &["training.micro_batch=2", "training.global_batch=256"],
    &["training.sequence=16384; model.transformer.max_positions=16384", "training.sequence=2048"],
    &[
        "parallelism.pipeline=4; parallelism.sharding=optimizer; parallelism.overlap_gradient_reduce={ align: false }; \
         parallelism.overlap_parameter_gather={ per_parameter: false, align: false }",
        "parallelism.pipeline=2; parallelism.sharding=optimizer; parallelism.overlap_gradient_reduce={ align: false }; \
         parallelism.overlap_parameter_gather={ per_parameter: false, align: false }; \
         parallelism.schedule={ interleaved: { chunks: 2 } }; parallelism.stage_layers=[8, 9, 8, 7]",
        "parallelism.pipeline=4; parallelism.sharding=optimizer; parallelism.overlap_gradient_reduce={ align: false }; \
         parallelism.overlap_parameter_gather={ per_parameter: false, align: false }; parallelism.schedule=gpipe; \
         parallelism.stage_layers=[8, 9, 8, 7]",
        "parallelism.pipeline=2; parallelism.sharding=optimizer; parallelism.overlap_gradient_reduce={ align: false }; \
         parallelism.overlap_parameter_gather={ per_parameter: false, align: false }; \
         parallelism.schedule={ interleaved: { chunks: 4 } }",
    ],
    &[
        "parallelism.sharding_group=8",
        "parallelism.overlap_parameter_gather={ per_parameter: true, reshard_after_forward: false }",
    ],
    &["parallelism.sharding=none; parallelism.overlap_parameter_gather=none; \
         parallelism.overlap_gradient_reduce={ bucket: 100 MiB }"],
    &["software.compile=true", "software.compile=true; software.cross_entropy=fused"],
    &["software.optimizer=operators"],
    &["model.transformer.preset=llama-3-70b"],
    &["training.fp8={}", "training.fp8={ scaling: rowwise }", "training.fp8={ gather_parameters: true }"],
    &["techniques.presets=[fsdp-cpu-offload]"],
    &[
        "techniques.recompute={ mode: full }",
        "techniques.recompute={ mode: full, early_stop: true }",
        "techniques.recompute={ mode: operators }",
        "techniques.recompute={ every: 2 }",
    ],
];

#[test]
fn plans_come_back() {
    come_back(TARGET, BASE, &owned(&CHOICES), 0.15);
}

#[test]
fn each_choice_comes_back_alone() {
    each_comes_back(TARGET, BASE, &CHOICES);
}

#[cfg(feature = "soak")]
#[test]
fn random_scenarios_are_refused_or_come_back() {
    super::random_scenarios_come_back(TARGET);
}

fn imported(text: &str) -> Result<Imported, Failure> {
    let options = Options { machine: Some("dgx-h100"), ..Options::default() };
    import(TARGET, Given::Text { name: "job.toml", text }, &options)
}

/// One plan with the names of each release.
#[test]
fn releases_name_one_plan_in_their_ways() {
    const MODEL: &str = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n";
    let jobs = [
        (
            "0.2",
            "[training]\nlocal_batch_size = 2\nseq_len = 4096\n[parallelism]\ntensor_parallel_degree = 2\n\
            [compile]\nenable = false\n[activation_checkpoint]\nearly_stop = true\n\
            [optimizer]\nimplementation = \"foreach\"\n",
        ),
        (
            "0.1",
            "[training]\nlocal_batch_size = 2\nseq_len = 4096\ncompile = false\n\
            [parallelism]\ntensor_parallel_degree = 2\n[optimizer]\nimplementation = \"foreach\"\n",
        ),
        ("0.0", "[training]\nbatch_size = 2\nseq_len = 4096\ntensor_parallel_degree = 2\n"),
    ];
    let settings = jobs.map(|(release, job)| {
        let imported = imported(&format!("{MODEL}{job}")).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(imported.release.as_deref(), Some(release));
        let lines = imported.scenario.lines().filter(|line| !line.starts_with('#'));
        let lines = lines.map(|line| line.split(" #").next().unwrap_or_default().trim_end().to_owned());
        let mut lines: Vec<String> = lines.filter(|line| !line.contains("compile:")).collect();
        lines.sort();
        lines
    });
    assert_eq!(settings[0], settings[1]);
    assert_eq!(settings[1], settings[2]);
}

#[test]
fn names_of_another_release_are_refused() {
    let text = "[training]\nlocal_batch_size = 2\nseq_len = 4096\nbatch_size = 2\n[model]\nflavor = \"8B\"\n\
        [parallelism]\ntensor_parallel_degree = 2\n[compile]\nenable = true\n";
    let failure = imported(text).expect_err("two releases");
    let problem = failure.problems.iter().find(|problem| problem.message.contains("batch_size"));
    let problem = problem.expect("it is named");
    assert!(problem.message.contains("release 0.0"), "{}", problem.message);
    let help = problem.help.as_deref().unwrap_or_default();
    assert!(help.contains("`training.local_batch_size`"), "{help}");
}

/// Pieces of job files.
const PIECES: [&str; 40] = [
    "[model]\n",
    "[training]\n",
    "[parallelism]\n",
    "[experimental]\n",
    "[activation_checkpoint]\n",
    "[quantize.linear.float8]\n",
    "[compile]\n",
    "[[model]]\n",
    "name = \"llama3\"\n",
    "flavor = \"8B\"\n",
    "converters = [\"float8\"]\n",
    "local_batch_size =",
    "batch_size = 4\n",
    "global_batch_size = -1\n",
    "seq_len = 8192\n",
    "data_parallel_replicate_degree = 2\n",
    "data_parallel_shard_degree = -1\n",
    "data_parallel_shard_degree =",
    "tensor_parallel_degree = 2\n",
    "pipeline_parallel_degree =",
    "pipeline_parallel_schedule = \"Interleaved1F1B\"\n",
    "pipeline_parallel_layers_per_stage =",
    "pipeline_parallel_first_stage_less_layers =",
    "pipeline_parallel_split_points = [\"layers.4\"]\n",
    "pipeline_parallel_microbatches = 8\n",
    "context_parallel_degree =",
    "enable = true\n",
    "mode = \"selective\"\n",
    "selective_ac_option =",
    "4\n",
    "0\n",
    "-1\n",
    "99999999999999999999\n",
    "9223372036854775807\n",
    "1e400",
    "\"",
    "'''",
    "{ a = 1 }\n",
    "#",
    "é",
];

#[test]
fn no_job_panics() {
    no_text_panics(TARGET, &PIECES);
    let deep = format!("a = {}", "[".repeat(200_000));
    assert!(imported(&deep).is_err());
}
