//! `run --emit`: files for clusters, on stubs of these or on one machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::support::{Sandbox, assert_session};

const SWEEP: &str = "sweep: { training.micro_batches: { from: 4001, to: 4200, steps: 200 } }\n";

/// Starts every task of an array, one after the other.
const SBATCH: &str = r#"#!/usr/bin/env bash
set -euo pipefail
script=${!#}
array=$(sed -n 's/^#SBATCH --array=//p' "$script")
for argument; do
    case $argument in --array=*) array=${argument#--array=} ;; esac
done
for task in $(seq "${array%-*}" "${array#*-}"); do
    SLURM_ARRAY_TASK_ID=$task SLURM_CPUS_PER_TASK=2 bash "$script" >&2
done
echo 17
"#;

#[test]
fn files_for_clusters_are_whole() {
    let sandbox = Sandbox::with_pipeline("emit", SWEEP);
    sandbox.write("it's mine.yaml", sandbox.read("small.yaml"));
    let mut quoted = sandbox.command("run --out results --emit slurm --shards 3 --jobs 4");
    let quoted = quoted.arg("it's mine.yaml").output().expect("it starts");
    let quoted = String::from_utf8(quoted.stdout).expect("UTF-8").replace(&folder(&sandbox), "[FOLDER]");
    let session = sandbox.session(&[
        "run small.yaml --emit slurm --seed 7 --variant 1f1b",
        "run small.yaml --emit ray --set training.micro_batch=1 --shards 100",
    ]);
    let session = format!("{session}\n{quoted}").replace(env!("CARGO_BIN_EXE_foretrain"), "[PROGRAM]");
    assert_session!("emit", session);
}

fn folder(sandbox: &Sandbox) -> String {
    sandbox.path("").display().to_string().trim_end_matches('/').to_owned()
}

#[test]
fn a_slurm_array_gives_the_bytes_of_one_run() {
    let sandbox = Sandbox::with_pipeline("slurm", SWEEP);
    sandbox.write("a folder/it's mine.yaml", sandbox.read("small.yaml"));
    sandbox.write("sbatch", SBATCH);
    let inside = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        let output = command.args(words).current_dir(sandbox.path("a folder")).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let foretrain = env!("CARGO_BIN_EXE_foretrain");
    let script = inside(foretrain, &["run", "it's mine.yaml", "--emit", "slurm", "--shards", "3"]);
    sandbox.write("a folder/shards.sbatch", script);
    inside("bash", &["-n", "shards.sbatch"]);
    // As the script says.
    let submit = "id=$(bash ../sbatch --parsable shards.sbatch)
bash ../sbatch --dependency=afterok:\"$id\" --array=0 shards.sbatch";
    inside("bash", &["-euc", submit]);
    inside(foretrain, &["run", "it's mine.yaml", "--out", "alone"]);
    for page in ["report.html", "results.csv", "results.json", "scenario.yaml"] {
        let [alone, merged] =
            ["alone", "out"].map(|out| sandbox.read(&format!("a folder/{out}/it-s-mine/{page}")));
        assert!(alone == merged, "{page}");
    }
}

/// A Python that has Ray, where `.ci/run` installs one.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn python_with_ray() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder");
    let python = target.join("ray/bin/python");
    let there =
        Command::new(&python).args(["-c", "import ray"]).output().is_ok_and(|out| out.status.success());
    assert!(
        there || std::env::var_os("FORETRAIN_REQUIRE_TOOLS").is_none(),
        "{} has no Ray",
        python.display()
    );
    if !there {
        eprintln!("skipped: {} has no Ray", python.display());
    }
    there.then_some(python)
}

#[cfg(unix)]
#[test]
fn a_ray_driver_that_is_killed_goes_on() {
    use std::os::unix::process::CommandExt;

    let Some(python) = python_with_ray() else { return };
    let sandbox = Sandbox::with_pipeline("ray", SWEEP);
    sandbox.run("run small.yaml --out alone --quiet");
    let emitted = sandbox.run("run small.yaml --emit ray --shards 4");
    sandbox.write("shards.py", &emitted.out);
    let driver = || {
        let mut driver = Command::new(&python);
        driver.arg("shards.py").current_dir(sandbox.path(".")).env_remove("RAY_ADDRESS");
        driver.env("RAY_USAGE_STATS_ENABLED", "0").stdin(Stdio::null()).process_group(0);
        driver
    };
    let mut first = driver().stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let begun = || {
        let journals = std::fs::read_dir(sandbox.path("out/small.shards")).into_iter().flatten().flatten();
        journals.map(|journal| journal.metadata().map_or(0, |facts| facts.len())).sum::<u64>() > 20_000
    };
    while !begun() {
        assert!(first.try_wait().expect("it can be asked").is_none(), "it ends before it has begun");
        std::thread::yield_now();
    }
    let kill = format!("kill -KILL -{}", first.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().expect("a shell").success());
    first.wait().expect("it ends");
    assert!(!sandbox.path("out/small").exists(), "it was killed before its end");
    let second = driver().output().expect("it starts");
    let told = String::from_utf8_lossy(&second.stderr);
    assert!(second.status.success() && told.contains("4 of 4 shards are done"), "{told}");
    for page in ["report.html", "results.csv", "results.json", "scenario.yaml"] {
        let [alone, merged] = ["alone", "out"].map(|out| sandbox.read(&format!("{out}/small/{page}")));
        assert!(alone == merged, "{page}");
    }
    // Wrong input is wrong for every worker: nobody tries again.
    sandbox.write("small.yaml", "name: broken\n");
    let third = driver().output().expect("it starts");
    assert_eq!(third.status.code(), Some(2), "{}", String::from_utf8_lossy(&third.stderr));
}
