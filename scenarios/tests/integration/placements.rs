//! Features of a graph network in other places than the memory of a host: what must hold of every
//! answer, whatever the numbers.

use reports::summary::RunSummary;

use crate::support::{messages, read, run};

/// GraphSAGE on papers100M, whose rows take 512 bytes each and 57 GB together.
const SAMPLED: &str = "name: sampled
machine: { node: { name: dgx-a100-40g } }
model:
  graph:
    data: { preset: papers100M }
    network: { sage: { layers: 3, hidden: 256, outputs: 172 } }
    sampling: { batch: 1024, fan_out: [10, 10, 10], where: gpu-pinned }
training: { precision: fp32 }
parallelism: { data: 8, idle: allow }
";

const TABLE: u64 = 111_059_956 * 512;

fn variants(of: &[&str]) -> String {
    let lines = of.iter().enumerate().map(|(n, settings)| format!("  v{n}: {settings}\n"));
    format!("variants:\n{}", lines.collect::<String>())
}

/// Runs of variants of a file with other settings, each with settings below the name of its number.
fn with(settings: &[&str], of: &[&str]) -> Vec<RunSummary> {
    let text = format!("{SAMPLED}{}", variants(of));
    run(&read(&text, settings).unwrap_or_else(|wrong| panic!("{:?}", messages(&wrong)))).variants
}

fn time(run: &RunSummary) -> f64 {
    run.step_time().unwrap_or_else(|| panic!("{}: {:?}", run.variant, run.failure))
}

fn times(settings: &[&str], of: &[&str]) -> Vec<f64> {
    with(settings, of).iter().map(time).collect()
}

fn rising(times: &[f64]) -> bool {
    times.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + 1e-9))
}

const BY_GPU: &str = "{ features: { home: drives, access: gpu-direct } }";
const STRIPED: &str = "{ features: { home: striped } }";
const ZERO_COPY: &str = "{ features: { access: zero-copy, align: true } }";

/// Eight GPUs ask the array for eight times as many pages of 4 KiB.
#[test]
fn gpus_share_the_operations_of_an_array() {
    let of = |count: &str| with(&[&format!("parallelism.data={count}")], &[BY_GPU]).remove(0);
    let (one, all) = (of("1"), of("8"));
    let read = |run: &RunSummary| run.drives[0].read_bytes;
    assert_eq!(read(&all), 8 * read(&one));
    // Eight PM9A3 read 900,000 pages a second each.
    let least = read(&all) as f64 / 4_096.0 / (8.0 * 900e3);
    assert!(time(&all) > least && time(&all) < 1.1 * least, "{} s, at least {least} s", time(&all));
    let alone = read(&one) as f64 / 26.3e9;
    assert!(time(&one) > alone && time(&one) < time(&all) / 5.0, "{}, {}", time(&one), time(&all));
    assert_eq!(all.drives[0].by_kind_bytes["features"], TABLE, "GPUs share the rows");
}

#[test]
fn faster_drives_larger_caches_and_more_threads_are_never_slower() {
    let drives = |settings: &str| format!("{{ features: {{ home: drives, {settings} }} }}");
    let falling = |of: &[String]| {
        let of: Vec<&str> = of.iter().map(String::as_str).collect();
        let times = times(&[], &of);
        assert!(rising(&times), "{of:?}: {times:?}");
    };
    falling(&["32", "8", "1"].map(|threads| drives(&format!("threads: {threads}"))));
    for access in ["host-gather", "gpu-direct"] {
        let kept =
            |share: u32| drives(&format!("access: {access}, drives: {{ cache: {{ share: {share} % }} }}"));
        falling(&[60, 20, 5, 0].map(kept));
        let on_gpu = |share: u32| drives(&format!("access: {access}, cache: {{ share: {share} % }}"));
        falling(&[20, 5, 0].map(on_gpu));
    }
    let set = |model: &str| {
        let ssd = format!("machine: {{ node: {{ set: {{ ssd: {{ model: {model}, count: 8 }} }} }} }}");
        format!("{{ {ssd}, features: {{ home: drives, access: gpu-direct }} }}")
    };
    falling(&["generic-gen5-datacentre-nvme", "micron-7450-pro-7680gb", "generic-gen3-nvme-tlc"].map(set));
}

/// Where the host keeps all rows of the drives, they are gathered as if they were at home there.
#[test]
fn a_cache_of_all_rows_is_their_home() {
    let runs = times(
        &["parallelism.data=1"],
        &[
            "{ features: { access: host-gather } }",
            "{ features: { home: drives, drives: { cache: { share: 100 % } } } }",
            ZERO_COPY,
            "{ features: { home: drives, access: gpu-direct, align: true, drives: { cache: { share: 100 % } } } }",
        ],
    );
    assert_eq!((runs[0], runs[2]), (runs[1], runs[3]));
}

/// A page that fits a row brings no other; larger ones bring as many bytes as the link has room
/// for.
#[test]
fn pages_larger_than_rows_fill_the_link() {
    let of = |page: &str| {
        let page =
            format!("{{ features: {{ home: drives, access: gpu-direct, drives: {{ page: {page} }} }} }}");
        with(&["parallelism.data=1"], &[&page]).remove(0)
    };
    let runs = ["512 B", "4 KiB", "64 KiB"].map(of);
    let [row, page, large] = [0, 1, 2].map(|n| runs[n].drives[0].read_bytes as f64);
    assert!(page / row > 7.9 && page / row <= 8.0, "eight rows a page: {}", page / row);
    assert!(large / page > 15.0 && time(&runs[2]) > 10.0 * time(&runs[1]), "{large} {page}");
}

#[test]
fn stripes_take_a_part_of_each_gpu_and_fit_or_not() {
    let of = |count: u64| with(&[&format!("parallelism.data={count}")], &[STRIPED, ZERO_COPY]);
    for count in [2, 4, 8] {
        let runs = of(count);
        let held = runs[0].worst_device().expect("a GPU").by_kind_bytes["features"];
        assert_eq!(held, TABLE.div_ceil(count));
        assert!(time(&runs[0]) < time(&runs[1]), "{count} GPUs read NVLink faster than their host");
    }
    let on_v100 = ["machine.node.name=dgx-1v-16g", "parallelism.data=2"];
    let run = with(&on_v100, &[STRIPED]).remove(0);
    assert!(!run.fits, "28 GB of rows on 16 GiB");
}

/// Links that GPUs do not share carry as much each, however many there are: on a cube mesh some
/// pairs have none.
#[test]
fn stripes_lose_where_gpus_have_no_link() {
    let of = |node: &str, count: u64| {
        let settings = [format!("machine.node.name={node}"), format!("parallelism.data={count}")];
        times(&[&settings[0], &settings[1]], &[STRIPED])[0]
    };
    assert!(of("dgx-a100-40g", 8) < 1.05 * of("dgx-a100-40g", 4));
    assert!(of("dgx-1v-32g", 8) > 1.3 * of("dgx-1v-32g", 4));
}

#[test]
fn gpus_of_the_other_socket_wait_for_the_link_between() {
    let epyc = "machine={ node: { name: epyc-pcie-8x, gpu: rtx-3090 } }";
    // So few pages that requests limit, not walks of page tables nor launches.
    let small = [
        "model.graph.network.sage.layers=2",
        "model.graph.sampling.fan_out=[10, 10]",
        "software.launch=free",
    ];
    let on = |count| [epyc, count, small[0], small[1], small[2]];
    for access in ["zero-copy", "host-gather, threads: 32"] {
        let of = |socket: &str| format!("{{ features: {{ access: {access}, socket: {socket} }} }}");
        let variants = ["each", "interleaved", "0", "1"].map(of);
        let found = times(&on("parallelism.data=8"), &variants.each_ref().map(String::as_str));
        assert!(found[1] < found[2] && found[0] < found[2], "{access}: {found:?}");
        assert!((found[2] / found[3] - 1.0).abs() < 1e-6, "sockets are alike: {found:?}");
    }
    // One GPU waits longer for each request, and for nobody else.
    let of = |socket: &str| format!("{{ features: {{ access: zero-copy, socket: {socket} }} }}");
    let variants = ["each", "0", "interleaved", "1"].map(of);
    let found = times(&on("parallelism.data=1"), &variants.each_ref().map(String::as_str));
    assert!(found[0] == found[1] && found[1] < found[2] && found[2] < found[3], "{found:?}");
}

/// All GPUs of both nodes send each other rows, in lanes of their own beside all-reduces.
#[test]
fn shards_are_exchanged_over_nodes() {
    let cluster = ["machine={ cluster: { node: dgx-a100-40g, count: 2 } }", "parallelism.data=16"];
    let runs = with(&cluster, &["{ features: { home: sharded } }", STRIPED]);
    let held = runs[0].worst_device().expect("a GPU").by_kind_bytes["features"];
    let batch = runs[0].epoch.as_ref().expect("an epoch").bytes_per_batch;
    assert_eq!(held, TABLE.div_ceil(16) + 2 * batch);
    let exchanged = runs[0].communication.iter().find(|used| used.kind == "data all-to-all");
    let exchanged = exchanged.expect("rows are exchanged");
    // Of all rows and indices a rank sends those that another has.
    let sent = (batch + batch / 512 * 8) as f64 * 15.0 / 16.0;
    assert!((exchanged.bytes as f64 / sent - 1.0).abs() < 0.2, "{} of {sent}", exchanged.bytes);
    let features = |run: &RunSummary| run.epoch.as_ref().expect("an epoch").parts.features_s;
    assert!(features(&runs[1]) < features(&runs[0]), "NVLink is faster than the network");
}

/// One rank stands for all that are alike.
#[test]
fn folded_equals_unfolded() {
    let of = [
        BY_GPU,
        STRIPED,
        "{ features: { home: drives, drives: { cache: { share: 10 % } } } }",
        "{ features: { access: zero-copy, socket: 0 } }",
        "{ features: { access: host-gather, socket: interleaved, prefetch: 2 } }",
    ];
    assert_eq!(times(&[], &of), times(&["run.fold=never", "run.segments=never"], &of));
    let cluster = ["machine={ cluster: { node: dgx-a100-40g, count: 2 } }", "parallelism.data=16"];
    let unfolded = [cluster[0], cluster[1], "run.fold=never"];
    let sharded = ["{ features: { home: sharded } }"];
    assert_eq!(times(&cluster, &sharded), times(&unfolded, &sharded));
}

#[test]
fn places_that_are_not_there_are_told_with_a_remedy() {
    for (settings, features, said) in [
        (&["machine={ node: epyc-pcie-8x }"][..], "home: drives", "the machine has no drives for features"),
        (
            &["parallelism.data=1"][..],
            "home: striped",
            "striping over the only GPU of a node changes nothing",
        ),
        (&["machine={ node: epyc-pcie-8x }"][..], "home: striped", "by way of host memory"),
        (
            &["machine={ node: { name: epyc-pcie-8x, set: { ssd: { model: samsung-pm1743, count: 2 } } } }"],
            "home: drives, access: gpu-direct",
            "do not write to a GPU without peer-to-peer access",
        ),
        (&[][..], "home: sharded", "all GPUs are on one node"),
        (&[][..], "home: striped, access: zero-copy", "read by the GPUs alone"),
        (&[][..], "home: drives, access: zero-copy", "drives are read in pages"),
        (&[][..], "access: gpu-direct", "the features are not there"),
        (&[][..], "drives: { page: 4 KiB }", "no features are on drives"),
        (&[][..], "home: drives, drives: { page: 1000 B }", "whole sectors of 512 bytes"),
        (&[][..], "home: drives, drives: { cache: {} }", "a `share` of the rows or a `size`"),
        (&[][..], "home: drives, drives: { arrays: [fast] }", "no array `fast`"),
        (&[][..], "socket: 2", "a node has 2 sockets with memory, and no number 2"),
        (&["machine={ node: h200-vm }", "parallelism.data=1"][..], "socket: interleaved", "changes nothing"),
        (&[][..], "home: gpu, socket: 0", "a socket holds rows of the host alone"),
        (&[][..], "socket: nowhere", "`each`, `interleaved`, or the number of a socket"),
    ] {
        let text = format!("{SAMPLED}features: {{ {features} }}\n");
        let failure = read(&text, settings).expect_err(features);
        let message = messages(&failure).join("\n");
        assert!(message.contains(said), "{features}: {message}");
    }
}
