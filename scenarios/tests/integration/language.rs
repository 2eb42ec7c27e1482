//! Layers, sweeps, `--set`, what follows from what, and where every value comes from.

use scenarios::schema::{Count, Model, PerStage, Schedule};
use scenarios::{Experiment, Infeasible, Point, Scenario};

use crate::support::{SETTINGS, experiment, messages, read, read_all};

fn scenario(experiment: &Experiment, variant: &str) -> Scenario {
    experiment.resolve(variant, &Point::default()).expect("feasible").scenario
}

#[test]
fn stage_times_are_exact_picoseconds() {
    let text = SETTINGS.replace("forward: 10 ms", "forward: [18.522 ms, 18.086 ms, 0.601ms, 1 ps]");
    let experiment =
        read(&format!("name: test\n{text}training: {{ micro_batches: 8 }}\n"), &[]).expect("right");
    let Model::ProfiledPipeline(pipeline) = scenario(&experiment, "base").model else { panic!("a profile") };
    let forward: Vec<u64> = (0..4).map(|stage| pipeline.forward.at(stage).picoseconds()).collect();
    assert_eq!(forward, [18_522_000_000, 18_086_000_000, 601_000_000, 1]);
    assert!(matches!(pipeline.transfer, PerStage::All(_)));
}

#[test]
fn two_batch_numbers_give_the_third() {
    let batches = |training: &str| {
        let training = scenario(&experiment(&format!("training: {{ {training} }}")), "base").training;
        (
            training.global_batch.map(Count::get),
            training.micro_batch.map(Count::get),
            training.micro_batches(),
        )
    };
    assert_eq!(batches("global_batch: 48, micro_batch: 6"), (Some(48), Some(6), 8));
    assert_eq!(batches("global_batch: 48, micro_batches: 8"), (Some(48), Some(6), 8));
    assert_eq!(batches("micro_batch: 6, micro_batches: 8"), (Some(48), Some(6), 8));
    assert_eq!(batches("micro_batches: 8"), (None, None, 8));
    assert_eq!(batches("global_batch: 48, micro_batch: 6, micro_batches: 8"), (Some(48), Some(6), 8));
}

#[test]
fn variants_change_the_base_and_nothing_else() {
    let experiment = experiment(
        "training: { micro_batches: 8 }
techniques: { bpipe: { bound: 3 } }
variants:
  base: {}
  plain: { techniques: { bpipe: none } }
  zero: { parallelism: { schedule: zb-h1 }, techniques: { bpipe: none } }
",
    );
    assert_eq!(experiment.variants().collect::<Vec<_>>(), ["base", "plain", "zero"]);
    assert!(scenario(&experiment, "base").techniques.bpipe.is_some());
    assert!(scenario(&experiment, "plain").techniques.bpipe.is_none());
    assert_eq!(scenario(&experiment, "zero").parallelism.schedule, Schedule::ZbH1);
}

#[test]
fn later_layers_win() {
    let files = [
        (
            "child.yaml",
            "extends: base.yaml\nname: child\ntraining: { micro_batches: 16 }\nvariants: { v: { run: { seeds: 3 } } }\n",
        ),
        (
            "base.yaml",
            &format!(
                "name: base\n{SETTINGS}training: {{ micro_batches: 8, micro_batch: 2 }}\nrun: {{ seeds: 2 }}\n"
            ),
        ),
    ];
    let child = read_all(&files, &[]).expect("right");
    assert_eq!(child.name(), "child");
    let resolved = scenario(&child, "v");
    assert_eq!((resolved.training.micro_batches(), resolved.run.seeds.get()), (16, 3));
    assert_eq!(resolved.training.global_batch.map(Count::get), Some(32));
    let set = read_all(&files, &["training.micro_batches=4", "run.seeds=5"]).expect("right");
    let resolved = scenario(&set, "v");
    assert_eq!((resolved.training.micro_batches(), resolved.run.seeds.get()), (4, 5));
}

#[test]
fn a_library_scenario_can_be_changed() {
    let mine = "extends: library:bpipe-profiled
name: mine
sweep: { techniques.bpipe.transfer.rate: [50 GB/s] }
expect: []
variants: { bpipe: { techniques: { bpipe: { bound: 4 } } } }
";
    let experiment = read(mine, &[]).expect("right");
    assert_eq!(experiment.variants().collect::<Vec<_>>(), ["plain", "recompute", "bpipe", "bpipe-all"]);
    let point = experiment.points().next().expect("one point");
    let bpipe =
        experiment.resolve("bpipe", &point).expect("feasible").scenario.techniques.bpipe.expect("kept");
    assert_eq!(bpipe.bound.map(Count::get), Some(4));
}

#[test]
fn a_chain_of_files_has_an_end() {
    let files: Vec<(String, String)> =
        (0..10).map(|i| (format!("{i}.yaml"), format!("extends: {}.yaml\nname: x\n", i + 1))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let failure = read_all(&files, &[]).expect_err("too long");
    assert_eq!(messages(&failure), ["`extends` reaches deeper than 8 files"]);
}

#[test]
fn axes_multiply_and_the_last_changes_fastest() {
    let experiment = experiment(
        "training: { micro_batches: 8 }
sweep:
  run.seeds: [1, 2]
  training.micro_batches: { from: 8, to: 32, steps: 3, scale: log2 }
where: [\"training.micro_batches > run.seeds\", \"training.micro_batches != 16\"]
",
    );
    assert_eq!(experiment.size(), 6);
    let points: Vec<Vec<String>> =
        experiment.points().map(|point| point.values().into_values().collect()).collect();
    assert_eq!(points, [["1", "8"], ["1", "32"], ["2", "8"], ["2", "32"]]);
}

#[test]
fn spaced_axes_keep_their_unit_and_their_ends() {
    let values = |spacing: &str| -> Vec<String> {
        let sweep = format!(
            "training: {{ micro_batches: 8 }}\nsweep: {{ model.profiled_pipeline.transfer: {spacing} }}\n"
        );
        experiment(&sweep).points().flat_map(|point| point.values().into_values()).collect()
    };
    assert_eq!(values("{ from: 0.1 ms, to: 0.4 ms, steps: 4 }"), ["0.1 ms", "0.2 ms", "0.3 ms", "0.4 ms"]);
    assert_eq!(values("{ from: 1 us, to: 8 us, steps: 4, scale: log2 }"), ["1 us", "2 us", "4 us", "8 us"]);
    assert_eq!(values("{ from: 4 ms, to: 0 ms, steps: 3 }"), ["4 ms", "2 ms", "0 ms"]);
}

#[test]
fn joined_axes_change_together() {
    let experiment = experiment(
        "training: { micro_batches: 8 }
sweep: { \"[training.micro_batches, parallelism.schedule]\": [[8, gpipe], [16, { interleaved: { chunks: 2 } }]] }
",
    );
    let schedules: Vec<Schedule> = experiment
        .points()
        .map(|point| experiment.resolve("base", &point).expect("feasible").scenario.parallelism.schedule)
        .collect();
    assert!(matches!(schedules[..], [Schedule::Gpipe, Schedule::Interleaved(_)]), "{schedules:?}");
}

#[test]
fn a_million_points_cost_nothing_until_they_are_asked_for() {
    let experiment = experiment(
        "training: { micro_batches: 8 }\nsweep: { run.limit: { from: 1, to: 1000000, steps: 1000000 } }\n",
    );
    assert_eq!(experiment.size(), 1_000_000);
    let last = experiment.points().nth(999_999).expect("the last point");
    assert_eq!(last.values()["run.limit"], "1000000");
}

#[test]
fn sizes_that_do_not_multiply_belong_to_the_point_when_they_are_swept() {
    let experiment = experiment(
        "parallelism: { schedule: { interleaved: { chunks: 2 } } }
training: { micro_batches: 8 }
sweep: { training.micro_batches: [8, 10] }
",
    );
    let outcome: Vec<Result<u64, Infeasible>> = experiment
        .points()
        .map(|point| {
            experiment.resolve("base", &point).map(|resolved| resolved.scenario.training.micro_batches())
        })
        .collect();
    let reason = "the interleaved schedule needs a multiple of 4 micro-batches, not 10".to_owned();
    let infeasible = Infeasible { reasons: vec![reason.clone()], reason, unsupported: false };
    assert_eq!(outcome, [Ok(8), Err(infeasible)]);
}

#[test]
fn a_setting_from_the_command_line_ends_its_sweep() {
    let text = format!(
        "name: test\n{SETTINGS}training: {{ micro_batches: 8 }}\nsweep: {{ training.micro_batches: [8, 16] }}\n"
    );
    let experiment = read(&text, &["training.micro_batches=12"]).expect("right");
    let points: Vec<_> =
        experiment.points().map(|point| point.values()["training.micro_batches"].clone()).collect();
    assert_eq!(points, ["12"]);
}

#[test]
fn wrong_settings_from_the_command_line_are_shown_where_they_stand() {
    let text = format!("name: test\n{SETTINGS}training: {{ micro_batches: 8 }}\n");
    let failure = read(&text, &["training.micro_batchs=8", "run.seeds=two", "run", "run.steps={warm_up: 1"])
        .expect_err("wrong");
    insta::assert_snapshot!(failure.render(false), @r"
    error: `training` has no setting `micro_batchs`
      --> --set:1:1
       |
     1 | training.micro_batchs=8
       | ^^^^^^^^^^^^^^^^^^^^^^^
       |
       = help: did you mean `micro_batch`?

    error: `run.seeds` must be a whole number from 1 to 10000, not the text `two`
      --> --set:1:11
       |
     1 | run.seeds=two
       |           ^^^
       |
       = help: write for example `seeds: 1`

    error: `--set` needs a path and a value
      --> --set:1:1
       |
     1 | run
       | ^^^
       |
       = help: write `--set training.micro_batches=8`

    error: this map is not closed, or lacks a comma
      --> --set:1:11
       |
     1 | run.steps={warm_up: 1
       |           ^
       |
       = help: write it as `{ a: 1, b: 2 }`

    4 problems
    ");
}

#[test]
fn every_value_is_explained_by_its_origin() {
    let files = [
        (
            "child.yaml",
            "extends: base.yaml\nname: child\nvariants: { v: { parallelism: { schedule: { interleaved: { chunks: 2 } } } } }\nsweep: { run.seeds: [2, 4] }\n",
        ),
        ("base.yaml", &format!("name: base\n{SETTINGS}training: {{ global_batch: 16, micro_batch: 2 }}\n")),
    ];
    let experiment = read_all(&files, &["parallelism.send=eager"]).expect("right");
    let point = experiment.points().nth(1).expect("two points");
    let resolved = experiment.resolve("v", &point).expect("feasible");
    insta::assert_snapshot!(experiment.explain(&resolved), @r"
    model:
      profiled_pipeline:
        stages: 4              # base.yaml:5
        forward: 10 ms         # base.yaml:6
        backward_input: 10 ms  # base.yaml:7
        backward_weight: 5 ms  # base.yaml:8
        transfer: 1 ms         # base.yaml:9
        activation: 1 GB       # base.yaml:10
    training:
      global_batch: 16         # base.yaml:11
      micro_batch: 2           # base.yaml:11
      micro_batches: 8         # derived: 16 / 2
      flush: true              # default
    parallelism:
      pipeline: 4              # derived: one device per stage
      schedule:
        interleaved:
          chunks: 2            # child.yaml:3, variant
      send: eager              # --set parallelism.send=eager
    memory: {}                 # default
    techniques: {}             # default
    run:
      steps:
        warm_up: 0             # default
        measured: 1            # default
      drives: lasting          # default
      seeds: 4                 # child.yaml:4, sweep
      fold: auto               # default
      segments: on             # default
      limit: 2000000000        # default
    ");
}

#[test]
fn the_problems_of_all_files_are_told_at_once() {
    let files = [
        ("child.yaml", "extends: base.yaml\nname: child\ntraining: { micro_batches: many }\n"),
        (
            "base.yaml",
            &format!("name: base\n{}training: {{ micro_batches: 8 }}\n", SETTINGS.replace("10 ms", "10")),
        ),
    ];
    let failure = read_all(&files, &[]).expect_err("wrong");
    assert_eq!(messages(&failure).len(), 3);
    let place = |index: usize| failure.sources.locate(failure.problems[index].notes[0].mark);
    assert_eq!([place(0), place(1), place(2)], ["child.yaml:3:28", "base.yaml:6:14", "base.yaml:7:21"]);
}
