//! `calibrate`: constants from tables, the files, the formats and wrong tables.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::support::{Sandbox, assert_session};

/// Streaming kernels that reach 60 % of T4's 320 GB/s after 7 us, every other one a tenth slower, on tensors too large for its
/// cache.
fn table() -> String {
    let mut text = String::from("# source: made up\ngpu,op,rows,cols,latency_ms\n");
    for (at, rows) in
        [60u64, 64, 70, 80, 90, 100, 120, 150, 200, 250, 300, 400, 500, 800, 1000, 1500, 2000, 3000]
            .iter()
            .enumerate()
    {
        let noise = [1.0, 1.1][at % 2];
        let ms = noise * (7e-3 + (rows * 8192 * 8) as f64 / (0.6 * 320e9) * 1e3);
        text += &format!("t4,relu,{rows},8192,{ms:.6}\n");
    }
    text
}

#[test]
fn constants_are_fitted_and_written_as_the_catalogue_has_them() {
    let sandbox = Sandbox::new("calibrate");
    sandbox.write("mine.csv", table() + "gt4,relu,8,8192,1\n");
    assert_session!("calibrate", sandbox.session(&["calibrate --from mine.csv --out ."]));
    assert_eq!(sandbox.names("calibration"), ["t4.html", "t4.yaml"]);
    let page = sandbox.read("calibration/t4.html");
    assert!(page.contains("calibration: [t4.yaml]") && page.matches("<circle").count() == 2 * 18, "{page}");
    assert!(page.contains("elementwise: 1966080 B read, 1966080 B written"), "{page}");
    let kernels = sandbox.read("calibration/t4.yaml");
    assert!(
        kernels.contains("  constants:\n    stream:\n      elementwise:\n        achieved: 0."),
        "{kernels}"
    );
    assert!(
        kernels.contains("start_us: 2.5\n") && kernels.contains("source: made up; fitted n "),
        "{kernels}"
    );
    assert!(kernels.contains("  corrections: |\n    device,kernel,length,"), "{kernels}");
    let json = sandbox.run("calibrate --from mine.csv --format json --jobs 1 --quiet").json();
    assert_eq!(json["classes"][0]["kernels"], "elementwise");
    assert_eq!(json["left_out"][0]["rows"], 1);
    let achieved = json["classes"][0]["constants"]["achieved"].as_f64().expect("a number");
    assert!((0.54..0.61).contains(&achieved), "{achieved}");
}

#[test]
fn tables_that_come_with_foretrain_give_the_committed_constants() {
    let sandbox = Sandbox::new("calibrate-embedded");
    let json = sandbox.run("calibrate --from attention_bf16_simumax.csv --format json").json();
    let class = json["classes"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|class| class["device"] == "b200-sxm-180gb" && class["kernels"] == "attention-forward");
    let found = class.expect("it was measured")["constants"]["e_max"].as_f64().expect("a number");
    let catalogue = scenarios::catalogue::kernels_of("b200-sxm-180gb").expect("a known GPU").parameters;
    let committed = catalogue.attention.forward.e_max;
    assert!((found / committed - 1.0).abs() < 0.01, "committed {committed}, fitted {found}");
}

/// Every table that comes with foretrain is read by one word; which of them fits what is the test of the tables' own crate.
#[test]
fn all_tables_that_come_with_foretrain_are_meant_by_one_word() {
    let sandbox = Sandbox::new("calibrate-all");
    sandbox.write("wrong.csv", "# source: me\ngpu,op,rows,cols,latency_ms\nt4,ln,8,x,1\n");
    let told = sandbox.run("calibrate --from all wrong.csv");
    assert_eq!((told.exit, told.err.lines().count()), (2, 1), "{}", told.err);
    assert!(told.err.contains("wrong.csv:3:9: cols is `x`"), "{}", told.err);
    sandbox.write("all", "# source: me\ngpu,op,rows,cols,latency_ms\nt4,ln,8,y,1\n");
    let file = sandbox.run("calibrate --from all");
    assert!(file.err.contains("all:3:9: cols is `y`"), "a file wins: {}", file.err);
}

#[test]
fn everything_that_is_wrong_with_tables_is_told_with_its_place() {
    let sandbox = Sandbox::new("calibrate-wrong");
    sandbox.write(
        "cells.csv",
        "# source: me\ngpu,op,rows,cols,latency_ms\n\"t,4\",ln,8,x,1\nt4,ln,8,8,-1\nt4,ln,8,8,1e-320\n",
    );
    sandbox.write("columns.csv", "gpu,op,rows,time\nt4,ln,8,1\n");
    sandbox.write("ragged.csv", "# source: me\na,b\n1\n");
    sandbox.write("bytes.csv", b"a,b\n\xff,1\n");
    sandbox.write("strange.csv", "gpu,op,rows,cols,latency_ms\na100,ln,8,8,1\n");
    sandbox.write(
        "huge.csv",
        "gpu,op,rows,cols,latency_ms\nt4,relu,18446744073709551615,18446744073709551615,1e300\n",
    );
    assert_session!(
        "calibrate-wrong",
        sandbox.session(&[
            "calibrate",
            "calibrate --from cells.csv",
            "calibrate --from cells.csv --format json",
            "calibrate --from ragged.csv bytes.csv",
            "calibrate --from strange.csv",
            "calibrate --from gemm_h100_xl.csv",
            "calibrate --from .",
        ])
    );
    let unknown = sandbox.run("calibrate --from columns.csv");
    assert_eq!(unknown.exit, 2);
    assert!(
        unknown.err.contains("columns.csv:1: no table of kernels has the columns gpu,op,rows,time"),
        "{}",
        unknown.err
    );
    let huge = sandbox.run("calibrate --from huge.csv --format json");
    assert!(huge.exit == 0 && huge.json()["classes"][0]["device"] == "t4", "{}", huge.err);
}

/// Lines of the record of a measurement that was killed after so many tasks, in the middle of a line.
fn killed(samples: &str, tasks: usize) -> String {
    let lines: Vec<&str> = samples.lines().collect();
    lines[..=tasks].join("\n") + "\n" + &lines[tasks + 1][..20]
}

#[test]
fn a_device_that_is_made_up_is_measured_fitted_and_told() {
    let sandbox = Sandbox::new("calibrate-synthetic");
    let answer =
        sandbox.run("calibrate --device synthetic --suite memory,collective --quick --format json").json();
    let law = |name: &str| &answer["hardware"]["laws"][name];
    let core = &law("memory.write")["constants"]["core"];
    let value = core["value"].as_f64().expect("a number");
    assert!((value / 10.0 - 1.0).abs() < 0.02 && core["told"] == true && core["unit"] == "GB/s", "{core}");
    assert!(law("disk.read").is_null(), "it was not asked for");
    assert_eq!(sandbox.names("out/calibration"), ["hardware.yaml", "report.html", "samples.jsonl"]);
    let tables = answer["hardware"]["collectives"]["tables"].as_array().map(Vec::len);
    assert_eq!(tables, Some(6), "of each collective by all GPUs");
    assert!(sandbox.read("out/calibration/report.html").contains("<h2>collectives</h2>"));
    // What was recorded stands in for the device.
    let recorded = "calibrate --device recorded:out/calibration/samples.jsonl --out again --format json";
    let again = sandbox.run(recorded).json();
    let replayed = again["hardware"]["laws"]["memory.write"]["constants"]["core"]["value"].as_f64();
    assert!((replayed.expect("a number") / value - 1.0).abs() < 0.01);
}

/// The hardware file that predictions on a device are made with, but for the version that wrote it.
#[test]
fn the_hardware_file_of_a_gpu_follows_from_its_samples() {
    ["h100-sxm5-80gb", "h200-sxm5-141gb"].into_iter().for_each(follows_from_its_samples);
}

fn follows_from_its_samples(name: &str) {
    let sandbox = Sandbox::new(&format!("calibrate-committed-{name}"));
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let committed = |file: PathBuf| fs::read_to_string(file).expect("it is in the tree");
    let samples = here.join("../hw-models/measurements/devices").join(name).with_extension("jsonl");
    sandbox.write(&format!("{name}.jsonl"), committed(samples));
    sandbox.run(&format!("calibrate --device recorded:{name}.jsonl --quiet"));
    let laws = |text: String| {
        let lines = text.lines().filter(|line| !line.starts_with("foretrain:"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let found = laws(sandbox.read("out/calibration/hardware.yaml"));
    assert_eq!(found, laws(committed(here.join("validation/on-device").join(name).with_extension("yaml"))));
    // The catalogue says the same of its board.
    let power = |key: &str| {
        let line = found.iter().find_map(|line| line.trim().strip_prefix(&format!("{key}: ")));
        line.and_then(|value| value.parse::<f64>().ok()).expect(key)
    };
    let board = scenarios::catalogue::devices().gpus[name].power.as_ref().expect("it was measured");
    let known = [board.idle_w, board.busy_w, board.memory_w, board.products_w, board.limit_w];
    assert_eq!(["idle_w", "busy_w", "memory_w", "products_w", "limit_w"].map(power), known);
}

#[test]
fn a_measurement_that_was_killed_goes_on_where_it_was() {
    let sandbox = Sandbox::new("calibrate-resume");
    let measure =
        |more: &str| sandbox.run(&format!("calibrate --device synthetic --quick --format json {more}"));
    let whole = measure("").json();
    let samples = sandbox.read("out/calibration/samples.jsonl");
    let cut = killed(&samples, 7);
    sandbox.write("out/calibration/samples.partial.jsonl", &cut);
    let resumed = measure("--resume").json();
    let laws = |answer: &Value| answer["hardware"]["laws"].as_object().map(Map::len);
    assert_eq!(laws(&resumed), laws(&whole));
    let after = sandbox.read("out/calibration/samples.jsonl");
    for line in cut.lines().take(8) {
        assert!(after.lines().any(|other| other == line), "what was measured is kept: {line}");
    }
    assert_eq!(after.lines().count(), samples.lines().count(), "nothing is measured twice");
    assert_eq!(sandbox.names("out/calibration"), ["hardware.yaml", "report.html", "samples.jsonl"]);
}

#[test]
fn what_keeps_a_device_from_being_measured_is_told() {
    let sandbox = Sandbox::new("calibrate-device-wrong");
    sandbox.write("text.jsonl", "no record\n");
    sandbox.write(
        "other/calibration/samples.partial.jsonl",
        concat!(
            r#"{"foretrain":"0","device":{"name":"x","driver":"y"},"date":"2026-01-01","suite":[],"seed":1}"#,
            "\n"
        ),
    );
    sandbox.write("file", "");
    assert_session!(
        "calibrate-device-wrong",
        sandbox.session(&[
            "calibrate --device gpu",
            "calibrate --device synthetic --suite memroy",
            "calibrate --device recorded:nowhere.jsonl",
            "calibrate --device recorded:text.jsonl",
            "calibrate --device synthetic --resume --out other",
            "calibrate --device synthetic --quick --out file",
            "calibrate --device synthetic --from mine.csv",
            "calibrate --device synthetic --format json --budget 0",
        ])
    );
}

/// A drive that takes no more, as a limit of the length of files: what was measured is kept, and nothing is half-written.
#[cfg(unix)]
#[test]
fn a_drive_that_is_full_keeps_what_was_measured() {
    let sandbox = Sandbox::new("calibrate-full");
    let measure = "calibrate --device synthetic --quick --suite gather --quiet";
    // Blocks of 512 bytes: the heading fits, and not all records.
    let ended = sandbox.limited("2", measure);
    assert_eq!(ended.exit, 2, "{}", ended.err);
    assert!(
        ended.err.contains("cannot write `out/calibration`: ") && ended.err.contains("--resume"),
        "{}",
        ended.err
    );
    assert_eq!(sandbox.names("out/calibration"), ["samples.partial.jsonl"]);
    // The records fit, and the page does not.
    let ended = sandbox.limited("20", &format!("{measure} --resume"));
    assert_eq!(ended.exit, 2, "{}", ended.err);
    assert!(ended.err.contains("files may not be that long"), "{}", ended.err);
    assert_eq!(sandbox.names("out/calibration"), ["samples.partial.jsonl"]);
    let resumed = sandbox.run(&format!("{measure} --resume"));
    assert_eq!(resumed.exit, 0, "{}", resumed.err);
    assert_eq!(sandbox.names("out/calibration"), ["hardware.yaml", "report.html", "samples.jsonl"]);
}

/// What was timed while something held the device back is refused: part of it is told, and all of it is an error.
#[test]
fn a_device_that_is_held_back_is_told_by_what() {
    let sandbox = Sandbox::new("calibrate-throttled");
    sandbox.run("calibrate --device synthetic --quick --suite gather,memory --quiet");
    let samples = sandbox.read("out/calibration/samples.jsonl");
    let held = r#""flags":["throttled"],"before":{"throttled_by":["heat"]},"#;
    let slow = |line: &str| line.replacen(r#""before":{},"#, held, 1);
    let all = samples.lines().map(slow).collect::<Vec<_>>().join("\n") + "\n";
    assert_eq!(all.matches("heat").count(), samples.lines().count() - 1, "{samples}");
    let part = all.replacen(held, r#""before":{},"#, 6);
    sandbox.write("all.jsonl", all);
    sandbox.write("part.jsonl", part);
    let told = sandbox.run("calibrate --device recorded:all.jsonl --out all --quiet");
    let remedy = "by heat: end that and measure anew";
    assert_eq!(told.err, format!("error: recorded:all.jsonl was held back all the while {remedy}\n"));
    assert_eq!((told.exit, sandbox.names("all/calibration")), (2, vec!["samples.partial.jsonl".to_owned()]));
    let told = sandbox.run("calibrate --device recorded:part.jsonl --out part --quiet");
    assert!(told.exit == 0 && told.err.contains("was held back during 2 of 8 tasks by heat"), "{}", told.err);
}
