//! `import`: traces of a profiler, understood, replayed and changed.

use super::support::{Sandbox, assert_session};

const TRACE: &[u8] =
    include_bytes!("../../../workloads/tests/data/traces/trace_a100_resnet_ddp_2rank_rank0.json.gz");

const GRAPH: &[u8] = include_bytes!("../../../workloads/tests/data/traces/chakra_convolutional_ddp.et.gz");

fn sandbox(name: &str) -> Sandbox {
    let sandbox = Sandbox::new(name);
    sandbox.write("trace.json.gz", TRACE);
    sandbox
}

#[test]
fn a_trace_is_told_and_replayed() {
    let sandbox = sandbox("import");
    assert_session!("import", sandbox.session(&["import kineto trace.json.gz"]));
    let json = sandbox.run("import kineto trace.json.gz --format json").json();
    assert_eq!(
        (json["understood"]["kernels"].as_u64(), json["steps"].as_array().map(Vec::len)),
        (Some(2700), Some(3))
    );
}

#[test]
fn what_ifs_change_the_steps() {
    let sandbox = sandbox("import-what-if");
    let mean = |options: &str| {
        let json = sandbox.run(&format!("import kineto trace.json.gz --format json {options}")).json();
        let steps = json["steps"].as_array().expect("steps").clone();
        steps.iter().map(|step| step["replayed_s"].as_f64().expect("a number")).sum::<f64>()
            / steps.len() as f64
    };
    let plain = mean("");
    assert!(mean("--what-if host=50%") < 0.6 * plain);
    assert!((mean("--what-if kernels=100% --launch-queue 100000") - plain).abs() < 1e-9);
}

#[test]
fn software_and_hardware_can_be_others() {
    let sandbox = sandbox("import-others");
    let headline = |change: &str| {
        let out = sandbox.run(&format!("import kineto trace.json.gz --what-if {change}")).out;
        out.lines().take(2).map(|line| format!("{line}\n")).collect::<String>()
    };
    let changes =
        ["launch=graphs", "elementwise=chained", "elementwise=batched", "gpu=h100-sxm5-80gb", "link=pcie5"];
    insta::assert_snapshot!("import-others", changes.map(headline).concat());
}

#[test]
fn a_graph_is_told_and_replayed() {
    let sandbox = Sandbox::new("import-chakra");
    sandbox.write("graph.et.gz", GRAPH);
    sandbox.write("cut.et.gz", &GRAPH[..GRAPH.len() / 2]);
    assert_session!(
        "import-chakra",
        sandbox.session(&[
            "import chakra graph.et.gz",
            "import chakra graph.et.gz --what-if host=0%",
            "import chakra graph.et.gz --what-if gpu=h100-sxm5-80gb",
            "import kineto graph.et.gz",
        ])
    );
    let json = sandbox.run("import chakra graph.et.gz --format json").json();
    assert!(json["steps"][0]["recorded_s"].is_null());
    let cut = sandbox.run("import chakra cut.et.gz");
    assert_eq!(cut.exit, 0);
    assert!(cut.out.contains("warning: the file breaks off"), "{}", cut.out);
}

#[test]
fn mistakes_are_told_with_a_remedy() {
    let sandbox = sandbox("import-wrong");
    sandbox.write("notes.txt", "not a trace");
    sandbox.write("empty.json", "{\"traceEvents\":[]}");
    sandbox.write("cut.json.gz", &TRACE[..TRACE.len() / 2]);
    assert_session!(
        "import-wrong",
        sandbox.session(&[
            "import kineto notes.txt",
            "import kineto empty.json",
            "import kineto nothing.json",
            "import kineto trace.json.gz --what-if hosts=50%",
            "import kineto trace.json.gz --what-if host=fast",
            "import kineto trace.json.gz --what-if loader=50%",
            "import kineto trace.json.gz --launch-queue 0",
            "import kineto trace.json.gz --what-if launch=once",
            "import kineto trace.json.gz --what-if elementwise=merged",
            "import kineto trace.json.gz --what-if gpu=h100-sxm",
            "import kineto trace.json.gz --what-if link=nvlink4",
            "import chakra trace.json.gz",
        ])
    );
    let cut = sandbox.run("import kineto cut.json.gz");
    assert_eq!(cut.exit, 0);
    assert!(cut.out.contains("warning: the file breaks off"), "{}", cut.out);
}

#[test]
fn edges_become_a_graph_file() {
    let sandbox = Sandbox::new("import-graph");
    sandbox.write("edges.csv", "source,destination\n0,1\n0,2\n3,1\n3,1\n3,3\n");
    sandbox.write("typed.tsv", "0\t1\tcites\n0\t2\tcites\n2\t0\tlikes\n");
    sandbox.write("wrong.csv", "0,1\n0\n0,-1\n0,99999999999\na,b\n");
    sandbox.write("loops.csv", "1,1\n2,2\n");
    assert_session!(
        "import-graph",
        sandbox.session(&[
            "import graph edges.csv --training-nodes 2 --features 16",
            "import graph edges.csv --reverse --name both",
            "import graph typed.tsv --reverse",
            "import graph wrong.csv",
            "import graph loops.csv",
            "import graph edges.csv --training-nodes 9",
            "import graph nothing.csv",
        ])
    );
    assert_eq!(sandbox.run("import graph wrong.csv").exit, 2);
}
