//! `validate`: the exit code, the files, the formats and wrong names.

use std::fs;

use super::support::{Answer, Sandbox};

#[test]
fn errors_beyond_what_is_to_be_reached_end_with_1_where_that_is_asked() {
    let sandbox = Sandbox::new("validate");
    let answer = sandbox.run("validate attention collectives --quiet");
    assert_eq!(answer.exit, 0, "{}", answer.err);
    assert!(answer.out.contains("attention") && answer.out.lines().count() <= 40, "{}", answer.out);
    let all = sandbox.run("validate attention collectives --quiet --all --strict");
    let expected = if all.out.contains("beyond") { 1 } else { 0 };
    assert_eq!(all.exit, expected, "{}", all.err);
    assert!(all.out.contains("by formula"), "{}", all.out);
    assert!(answer.out.contains("report: out/validate/report.html"));
    assert_eq!(sandbox.names("out/validate"), ["report.html", "results.csv", "results.json"]);
    let again = sandbox.run("validate attention collectives --quiet --format json --jobs 1");
    assert_eq!(again.exit, 0);
    assert_eq!(again.out, sandbox.read("out/validate/results.json"));
    let failed = |part: &serde_json::Value| part["passed"] == false;
    let sets = again.json()["sets"].as_array().expect("sets").clone();
    let any = sets.iter().flat_map(|set| set["parts"].as_array().expect("parts")).any(failed);
    assert_eq!(i32::from(any), expected);
    let csv = sandbox.run("validate attention collectives --quiet --format csv");
    assert_eq!(csv.out, sandbox.read("out/validate/results.csv"));
}

/// Regret stands beside errors in every format; sets with too few plans say so.
#[test]
fn the_cost_of_a_pick_is_told() {
    let sandbox = Sandbox::new("validate-regret");
    let answer = sandbox.run("validate simumax nemo --quiet --all");
    for expected in ["simumax: ", " in 3 groups of 5.7 plans; ", "too few plans do the same work in nemo"] {
        assert!(answer.out.contains(expected), "{expected}: {}", answer.out);
    }
    let page = sandbox.read("out/validate/report.html");
    assert!(page.contains("Picks by prediction") && page.contains("Each group of plans"));
    let results: serde_json::Value =
        serde_json::from_str(&sandbox.read("out/validate/results.json")).expect("JSON");
    let regret = |set: usize| &results["sets"][set]["regret"];
    let (simumax, nemo) = (regret(0), regret(1));
    assert_eq!((&simumax["summary"]["groups"], &nemo["largest_group"]), (&3.into(), &1.into()));
    assert!(simumax["summary"]["picked"]["mean"].as_f64().is_some_and(|mean| mean >= 0.0));
    assert_eq!(simumax["groups"][0]["work"]["num_gpus"], "8");
    assert!(nemo["summary"].is_null() && nemo["groups"].as_array().is_some_and(Vec::is_empty));
}

#[test]
fn wrong_names_are_told_and_nothing_is_written() {
    let sandbox = Sandbox::new("validate-wrong");
    let answer = sandbox.run("validate colectives vtrain");
    assert_eq!((answer.exit, answer.out.as_str()), (2, ""));
    assert!(answer.err.contains("did you mean `collectives`?"), "{}", answer.err);
    assert!(answer.err.contains("`vtrain`"), "{}", answer.err);
    assert!(!sandbox.path("out/validate").exists());
}

#[test]
fn the_sets_are_listed() {
    let sandbox = Sandbox::new("validate-list");
    let listed = sandbox.run("list validations");
    for name in ["megatron", "vtrain-single-node", "gemm", "collectives"] {
        assert!(listed.out.lines().any(|line| line.starts_with(name)), "{}", listed.out);
    }
}

/// A shipped set, read as one of one's own: rows, errors and plots come from the same path.
#[test]
fn a_set_of_ones_own_is_judged_as_those_that_are_shipped() {
    let sandbox = Sandbox::new("validate-own");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/validation");
    sandbox.write("mine.yaml", fs::read_to_string(format!("{folder}/megatron.yaml")).expect("a set"));
    let own = sandbox.run(&format!("validate --set mine.yaml --data {folder} --quiet --format json"));
    let shipped = sandbox.run("validate megatron --quiet --format json");
    assert_eq!((own.exit, shipped.exit), (0, 0), "{}{}", own.err, shipped.err);
    let told = |answer: &Answer| {
        let set = answer.json()["sets"][0].clone();
        let rows = set["parts"][0]["rows"].as_array().expect("rows").clone();
        let figures = |row: &serde_json::Value| (row["measured"].clone(), row["predicted"].clone());
        let figures: Vec<_> = rows.iter().map(figures).collect();
        (set["title"].clone(), set["parts"][0]["statistics"].clone(), figures)
    };
    assert_eq!(told(&own), told(&shipped));
    assert_eq!(told(&own).2.len(), 12);
    assert_eq!(own.json()["sets"][0]["name"], "mine.yaml");
    assert!(sandbox.read("out/validate/report.html").contains("Korthikanti"));
}

#[test]
fn slips_of_a_set_of_ones_own_are_told_where_they_stand() {
    const SET: &str = "
title: Ours
tolerance: { mape: 10 % }
measurements:
  steps:
    data: ours.csv
    measured: { column: step_s, unit: s, metric: step_time_s }
    scenario:
      machine: { node: dgx-h100 }
      model: { transformer: { preset: llama-3-8b, layers: 2 } }
      training: { micro_batch: 1, sequence: 1024, precision: bf16-mixed }
    settings:
      training.global_batch: { column: batch }
      parallelism.sharding: { column: plan, values: { zero: parameters } }
";
    const TABLE: &str = "plan,batch,step_s\nzero,16,0.1\nzero,24,0.1\n";
    let sandbox = Sandbox::new("validate-own-slips");
    let told = |set: &str, table: &str, options: &str| {
        sandbox.write("ours.yaml", set);
        sandbox.write("ours.csv", table);
        let answer = sandbox.run(&format!("validate --quiet --set ours.yaml {options}"));
        assert_eq!(answer.exit, 2, "{}{}", answer.out, answer.err);
        assert!(!sandbox.path("out/validate").exists());
        answer.err
    };
    let slips = [
        (SET.replace("Ours", "[]"), TABLE, "ours.yaml:2:1"),
        (SET.replace("tolerance", "tolerate"), TABLE, "add `tolerance: { mape: 10 % }`"),
        (SET.replace("    data", "    date"), TABLE, "ours.yaml:6:5"),
        (SET.replace("steps:", "kernels: [gemm.csv]\n  x:"), TABLE, "ours.yaml:4:1"),
        (SET.replace("column: batch", "column: bacth"), TABLE, "did you mean `batch`?"),
        (SET.replace("global_batch", "global_bath"), TABLE, "ours.yaml:13:7"),
        (SET.replace("dgx-h100", "dgx-h1000"), TABLE, "ours.yaml:9:24"),
        (SET.replace("parameters", "everything"), TABLE, "ours.yaml:14:61"),
        (SET.to_owned(), "plan,batch,step_s\nzero,16,0.1\nzero,13,0.1\n", "ours.csv:3:6"),
        (SET.to_owned(), "plan,batch,step_s\nall,16,0.1\n", "list such rows under `left_out`"),
        (SET.to_owned(), "plan,batch,step_s\nzero,16\n", "ours.csv:2:1"),
        (SET.to_owned(), "plan,batch,step_s\n", "the table has no rows"),
    ];
    for (set, table, expected) in slips {
        let err = told(&set, table, "");
        assert!(err.contains(expected), "{expected}: {err}");
    }
    assert!(told(SET, TABLE, "--data nowhere").contains("cannot read `nowhere/ours.csv`"));
    let both = told(&SET.replace("dgx-h100", "dgx-h1000"), TABLE, "--format json");
    assert!(both.contains("(2 rows)"), "{both}");
    sandbox.write("ours.yaml", SET);
    sandbox.write("ours.csv", TABLE);
    assert_eq!(sandbox.run("validate --quiet --set ours.yaml --strict").exit, 1);
}

/// Kernels, collectives and copies of one's own: all rows judge what a simulation takes.
#[test]
fn tables_of_ones_own_may_be_of_kernels_collectives_and_copies() {
    let sandbox = Sandbox::new("validate-own-kinds");
    let sets = [
        (
            "kernels: [products.csv]",
            "gpu,dtypes,b,m,n,k,time_us_derived\nh100-sxm5-80gb,BF16,1,4096,4096,4096,210\n\
             h100-sxm5-80gb,BF16,1,8192,8192,8192,1700\n",
            "h100-sxm5-80gb gemm-bf16",
        ),
        (
            "kernels: [products.csv]",
            "gpu,batch,in_channels,out_channels,kernel,input_hw,stride,padding,latency_ms\n\
             a100-sxm4-40gb,32,64,64,3,56,1,1,0.8\nt4,32,64,64,3,56,1,1,3.1\n",
            "a100-sxm4-40gb convolution-fp32",
        ),
        (
            "collectives: [{ data: products.csv, node: { column: node, values: { ours: dgx-h100 } }, \
             kind: all-reduce, ranks: gpus, bytes: bytes, time_us: us, bytes_min: 1000, because: noise }]",
            "node,gpus,bytes,us\nours,8,1073741824,4100\nours,4,268435456,1100\nours,8,100,20\n",
            "all-reduce, 8 GPUs",
        ),
        (
            "copies: [{ data: products.csv, part: pinned, machine: ours, \
             machines: { ours: { node: { name: dgx-h100 } } }, bytes: bytes, gb_per_s: rate, \
             copies: { column: way, values: { up: 'memory[0]>gpu[0]', down: 'gpu[0]>memory[0]' } } }]",
            "way,bytes,rate\nup,1073741824,52\ndown,1073741824,50\n",
            "pinned",
        ),
    ];
    for (measurements, table, part) in sets {
        let set = format!("title: Ours\ntolerance: {{ mape: 30 % }}\nmeasurements:\n  {measurements}\n");
        sandbox.write("ours.yaml", set);
        sandbox.write("products.csv", table);
        let answer = sandbox.run("validate --quiet --set ours.yaml --format json");
        assert_eq!(answer.exit, 0, "{part}: {}", answer.err);
        let parts = answer.json()["sets"][0]["parts"].as_array().expect("parts").clone();
        let found = parts.iter().find(|found| found["name"] == part);
        let found = found.unwrap_or_else(|| panic!("no {part}: {parts:?}"));
        let rows = found["rows"].as_array().expect("rows");
        assert!(!rows.is_empty() && rows.iter().all(|row| row["predicted"].as_f64() > Some(0.0)), "{part}");
        let judged: usize = parts.iter().map(|part| part["rows"].as_array().map_or(0, Vec::len)).sum();
        assert_eq!(judged, 2, "{part}: {parts:?}");
        assert!(sandbox.read("out/validate/report.html").contains("Ours"));
    }
}

#[test]
fn slips_in_tables_of_kernels_collectives_and_copies_are_told_where_they_stand() {
    const COLLECTIVES: &str = "collectives: [{ data: t.csv, node: dgx-h100, kind: { column: op }, ranks: gpus, \
                               bytes: bytes, time_us: us }]";
    const COPIES: &str = "copies: [{ data: t.csv, part: pinned, machine: ours, of: of, bytes: bytes, gb_per_s: \
                          rate, machines: { ours: { node: { name: dgx-h100 } } }, copies: { column: way } }]";
    const PRODUCTS: &str = "gpu,dtypes,b,m,n,k,time_us_derived\n";
    let sandbox = Sandbox::new("validate-own-kinds-slips");
    let slips = [
        ("kernels: [t.csv]", format!("{PRODUCTS}h100-sxm5-8gb,BF16,1,64,64,64,2\n"), "t.csv:2:1"),
        ("kernels: [t.csv]", format!("{PRODUCTS}h100-sxm5-80gb,BF16,1,64,many,64,2\n"), "t.csv:2:26"),
        ("kernels: [t.csv]", "gpu,m,n,k,us\nt4,1,1,1,1\n".to_owned(), "known are: "),
        ("kernels: [t.csv, u.csv]", format!("{PRODUCTS}t4,BF16,1,64,64,64,2\n"), "cannot read `u.csv`"),
        (COLLECTIVES, "op,gpus,bytes,us\nall-reduce,16,1e6,9\n".to_owned(), "t.csv:2:12"),
        (COLLECTIVES, "op,gpus,bytes,us\nall-reduc,8,1e6,9\n".to_owned(), "name one of `all-reduce`"),
        (COLLECTIVES, "op,gpus,bytes,us\nall-reduce,8,1e6,-9\n".to_owned(), "no number above 0"),
        (COLLECTIVES, "op,gpu,bytes,us\nall-reduce,8,1e6,9\n".to_owned(), "did you mean `gpu`?"),
        (COPIES, "way,of,bytes,rate\nmemory[0]>gpu[9],,1e6,9\n".to_owned(), "has no part `gpu[9]`"),
        (COPIES, "way,of,bytes,rate\nmemory[0]>gpu[0],1,1e6,9\n".to_owned(), "t.csv:2:18"),
        (COPIES, "way,of,bytes,rate\nmemory[0]>gpu[0],,none,9\n".to_owned(), "t.csv:2:19"),
        (COPIES, "way,of,bytes,rate\nmemory[0]>gpu[0],,1e300,9\n".to_owned(), "at most 1 TB"),
        (COPIES, "way,of,bytes,rate\nmemory[0]@1e-300,,1e9,9\n".to_owned(), "0.1 to 100,000 GB/s"),
        (COPIES, "way,of,bytes,rate\ngpu[0],,1e9,9\n".to_owned(), "leads nowhere"),
        ("kernels: []", String::new(), "the set names no table"),
        (COLLECTIVES, "op,gpus,bytes,us\nall-reduce,1,1e6,9\n".to_owned(), "takes 2 or more"),
    ];
    for (measurements, table, expected) in slips {
        let set = format!("title: Ours\ntolerance: {{ mape: 30 % }}\nmeasurements:\n  {measurements}\n");
        sandbox.write("ours.yaml", set);
        sandbox.write("t.csv", &table);
        let answer = sandbox.run("validate --quiet --set ours.yaml");
        assert_eq!(answer.exit, 2, "{expected}: {}{}", answer.out, answer.err);
        assert!(answer.err.contains(expected), "{expected}: {}", answer.err);
    }
    // A machine that is wrong is told in the set.
    sandbox.write(
        "ours.yaml",
        format!(
            "title: Ours\ntolerance: {{ mape: 30 % }}\nmeasurements:\n  {}\n",
            COPIES.replace("dgx-h100", "dgx-h1000")
        ),
    );
    sandbox.write("t.csv", "way,of,bytes,rate\nmemory[0]>gpu[0],,1e6,9\n");
    let answer = sandbox.run("validate --quiet --set ours.yaml");
    assert!(answer.err.contains("dgx-h1000") && answer.err.contains("ours.yaml:4:"), "{}", answer.err);
}
