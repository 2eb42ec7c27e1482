//! Hardware files laid over the catalogue: what was measured replaces what the catalogue says, the rest stays.

use calibration::hardware::Hardware;
use calibration::overlay::{NINE_OF_TEN, Overlay};
use hw_models::catalogue::OneWay;
use hw_models::collectives::{
    COLLECTIVES, Collective, CollectiveKind, GroupShape, Inside, InsideLink, PathKind, plan,
};
use hw_models::copies::COPIES;
use hw_models::host::{HOST, OpClass};
use hw_models::kernels::{
    Dtype, GpuFacts, KERNELS, KernelClass, KernelModel, SPREADS, Spread, Spreads, Stream, StreamClass,
};
use hw_models::provenance::Origin;
use sim_core::time::Time;

/// A law and its constants: name, value, unit, error, whether it is told.
type Written<'a> = (&'a str, &'a [(&'a str, f64, &'a str, f64, bool)]);

/// A file with laws.
fn file(more: &str, laws: &[Written<'_>]) -> Hardware {
    let errors = |p90: f64| {
        format!("{{ samples: 20, mean: 0.01, median: 0.01, p90: {p90}, p95: 0.03, worst: 0.05, bias: 0 }}")
    };
    let mut text = format!(
        "form: 1\nforetrain: test\ndate: 2026-01-01\ndevice: {{ name: a device, driver: '1' }}\nsteady: true\n{more}\nlaws:\n"
    );
    for (law, constants) in laws {
        text += &format!("  {law}:\n    constants:\n");
        for (name, value, unit, error, told) in *constants {
            text +=
                &format!("      {name}: {{ value: {value}, unit: {unit}, error: {error}, told: {told} }}\n");
        }
        text += &format!(
            "    method: m\n    fitted: {}\n    held_out: {}\n    scatter: 0.01\n    unstable: 0\n    refused: 0\n",
            errors(0.02),
            errors(0.03)
        );
    }
    if laws.is_empty() {
        text = text.replace("laws:\n", "");
    }
    serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The catalogue with nothing laid over it.
pub(crate) fn overlay() -> Overlay {
    Overlay::new(
        crate::known::catalogue(),
        serde_yaml::from_str(KERNELS).unwrap(),
        serde_yaml::from_str(COLLECTIVES).unwrap(),
        serde_yaml::from_str(HOST).unwrap(),
        serde_yaml::from_str(COPIES).unwrap(),
        Spreads::read(SPREADS).unwrap(),
    )
}

#[test]
fn what_was_measured_of_a_host_holds_for_its_memory_and_its_drive() {
    let mut overlay = overlay();
    let host = file(
        "",
        &[
            ("memory.copy", &[("core", 10.0, "GB/s", 0.01, true), ("all", 300.0, "GB/s", 0.02, true)]),
            ("disk.read", &[("latency", 90.0, "us", 0.5, false), ("rate", 5.5, "GB/s", 0.01, true)]),
            ("disk.write", &[("latency", 90.0, "us", 0.5, false), ("rate", 0.5, "GB/s", 0.2, false)]),
            (
                "disk.random-read",
                &[("latency", 70.0, "us", 0.01, true), ("operations", 400.0, "kIOPS", 0.01, true)],
            ),
        ],
    );
    let before = overlay.devices.ssds["samsung-980-pro-1tb"].clone();
    overlay.lay("host.yaml", &host).unwrap();
    // Two sockets share what streaming reaches of the host.
    let node = &overlay.devices.nodes["dgx-h100"];
    assert_eq!(node.sockets, 2);
    assert_eq!(node.host_memory.gb_per_s * node.host_memory.streaming_fraction, 150.0);
    assert_eq!(node.sources.of("host_memory").origin, Origin::MeasuredHere);
    assert_eq!(node.sources.of("gpu").origin, node.sources.default.origin, "the rest is the catalogue's");
    let drive = &overlay.devices.ssds["samsung-980-pro-1tb"];
    assert_eq!(
        (drive.read_gb_per_s, drive.read_latency_us, drive.read_kiops),
        (Some(5.5), Some(70.0), Some(400.0))
    );
    assert_eq!(drive.write_gb_per_s, before.write_gb_per_s, "it is not told");
    assert_eq!(overlay.files[0].untold, ["disk.write.rate"]);
    assert_eq!(overlay.files[0].unused, ["memory.copy.core", "disk.read.latency", "disk.write.latency"]);
    assert!(
        drive.sources.of("read_gb_per_s").source.starts_with("host.yaml: disk.read of a device, 2026-01-01")
    );
    // 1.645 standard errors of 2 %, and 3 % on what was held out.
    let within = overlay.replaced["memory.copy.all"].within;
    assert!((within - (NINE_OF_TEN * 0.02).hypot(0.03)).abs() < 1e-12 && (within - 0.0445).abs() < 1e-4);
}

/// What a drive was measured to write has no part that another drive's cache would make faster.
#[test]
fn a_measured_drive_has_no_write_cache_of_the_catalogue() {
    let mut overlay = overlay();
    assert!(overlay.devices.ssds["samsung-980-pro-1tb"].write_cache_gb.is_some());
    let written = file("", &[("disk.write", &[("rate", 2.5, "GB/s", 0.01, true)])]);
    overlay.lay("host.yaml", &written).unwrap();
    let drive = &overlay.devices.ssds["samsung-980-pro-1tb"];
    assert_eq!(drive.write_gb_per_s, Some(2.5));
    assert_eq!((drive.burst_write_gb_per_s, drive.write_cache_gb), (None, None));
}

#[test]
fn what_was_measured_of_a_gpu_holds_for_launches_its_link_and_its_memory() {
    let mut overlay = overlay();
    let gpu = file(
        "gpu: a100-sxm4-80gb",
        &[
            ("launch", &[("call", 3.0, "us", 0.01, true)]),
            ("launch.waited", &[("call", 7.5, "us", 0.01, true)]),
            ("graph.launch", &[("base", 6.0, "us", 0.01, true), ("node", 0.25, "us", 0.01, true)]),
            ("copy.to-device", &[("issued", 3.5, "us", 0.01, true), ("rate", 24.0, "GB/s", 0.01, true)]),
            ("copy.to-host", &[("rate", 22.0, "GB/s", 0.01, true)]),
            ("copy.against.to-device", &[("one", 18.0, "GB/s", 0.01, true)]),
            ("pass.scale", &[("start", 4.0, "us", 0.01, true), ("rate", 1019.5, "GB/s", 0.01, true)]),
        ],
    );
    overlay.lay("gpu.yaml", &gpu).unwrap();
    let host = &overlay.host;
    assert_eq!((host.graph_launch.us, host.graph_node.us), (6.0, 0.25));
    assert_eq!((host.dispatch(OpClass::Pointwise), host.launch.us), (Time::from_us(18), 3.0));
    assert_eq!(host.synchronise.us, 4.5, "a launch that is waited for, less the launch");
    assert_eq!(overlay.devices.links["pcie4"].effective_gb_per_s, 22.0, "that of the slower direction");
    let copies = overlay.devices.links["pcie4"].copies.unwrap();
    assert!((copies.to_device.alone - 24.0).abs() < 1e-9 && (copies.to_device.against - 18.0).abs() < 1e-9);
    assert_eq!(
        (overlay.copies["pcie4"].to_device.issue_us, overlay.copies["pcie5"].to_device.issue_us),
        (3.5, 2.6)
    );
    let plain = crate::known::catalogue().links["pcie4"].copies.unwrap().from_device;
    assert!((copies.from_device.alone - 22.0).abs() < 1e-9, "{copies:?}");
    assert!((copies.from_device.against - 22.0 * plain.against / plain.alone).abs() < 1e-9, "{copies:?}");
    assert_eq!(overlay.devices.links["pcie5"], crate::known::catalogue().links["pcie5"]);
    // Nominal are 2,039 GB/s, so that a pass over 1,019.5 MB takes 1 ms after its start.
    let facts = &overlay.devices.gpus["a100-sxm4-80gb"];
    let parameters = overlay.kernels.parameters("a100-sxm4-80gb", &facts.architecture).unwrap();
    let model = KernelModel::new(GpuFacts::of(facts, 1.0), parameters);
    let stream = |class| Stream {
        class,
        bytes_read: 509_750_000,
        bytes_written: 509_750_000,
        bytes_cached: 0,
        rows: None,
        looked_up: 0,
    };
    let cost = model.stream(&stream(StreamClass::Elementwise)).unwrap();
    assert!((cost.alone().as_secs() - 1.004e-3).abs() < 1e-9, "{}", cost.alone());
    let softmax = |model: &KernelModel| model.stream(&stream(StreamClass::Softmax)).unwrap().alone();
    let plain = self::overlay();
    let parameters = plain.kernels.parameters("a100-sxm4-80gb", &facts.architecture).unwrap();
    assert_eq!(softmax(&model), softmax(&KernelModel::new(GpuFacts::of(facts, 1.0), parameters)));
}

/// A GPU of eight on switches: times of collectives come back as they were measured, of groups that were measured; what messages
/// reach of the 12 NVLinks holds for all, and what comes before their bytes.
#[test]
fn what_was_measured_of_several_gpus_holds_for_their_collectives_and_links() {
    const TABLES: &str = "gpu: a100-sxm4-80gb
collectives:
  held_out: { samples: 9, mean: 0.01, median: 0.01, p90: 0.04, p95: 0.05, worst: 0.05, bias: 0 }
  tables:
  - { kind: all-reduce, ranks: 8, points: [[16, 30.0], [1048576, 50.0], [1073741824, 9000.0]] }
  - { kind: all-gather, ranks: 2, points: [[16, 20.0], [1073741824, 3000.0]] }
";
    let laws: &[Written<'_>] = &[
        ("peer.one-way", &[("start", 2.5, "us", 0.01, true), ("rate", 270.0, "GB/s", 0.01, true)]),
        ("peer.both-ways", &[("rate", 252.0, "GB/s", 0.01, true)]),
        ("send-receive", &[("start", 23.0, "us", 0.01, true), ("rate", 258.0, "GB/s", 0.01, true)]),
        ("all-reduce", &[("launch", 30.0, "us", 0.5, false), ("bus", 230.0, "GB/s", 0.01, true)]),
    ];
    let of = |fabric: &str| {
        let mut measured = file(TABLES, laws);
        measured.device.fabric = Some(serde_yaml::from_str(fabric).unwrap());
        let mut overlay = overlay();
        overlay.lay("gpus.yaml", &measured).unwrap();
        overlay
    };
    let switched = of("{ inside: nv-switch, nvlinks: 12 }");
    let group = |ranks, link| GroupShape {
        ranks,
        ranks_per_node: ranks,
        inside: Inside { link, bytes_per_s: 240e9 },
        between: None,
    };
    let us = |overlay: &Overlay, kind, ranks, bytes| {
        let model = overlay.collectives.model("ampere").unwrap();
        let plan = plan(&model, &group(ranks, InsideLink::NvSwitch), &Collective { kind, bytes });
        plan.alone().as_secs() * 1e6
    };
    let close = |is: f64, expected: f64| assert!((is / expected - 1.0).abs() < 1e-4, "{is} for {expected}");
    close(us(&switched, CollectiveKind::AllReduce, 8, 1 << 20), 50.0);
    close(us(&switched, CollectiveKind::AllGather, 2, 1 << 30), 3_000.0);
    let plain = overlay();
    let of_four = |overlay: &Overlay| us(overlay, CollectiveKind::AllReduce, 4, 1 << 30);
    close(of_four(&switched), of_four(&plain));
    let tables = |overlay: &Overlay| overlay.collectives.tables.len();
    assert_eq!(tables(&switched), tables(&plain) + 1, "one takes the place of another, one is new");
    assert!((switched.replaced["collectives"].within - 0.04).abs() < 1e-12);
    let nvlink = &switched.devices.links["nvlink3"];
    assert_eq!(nvlink.effective_gb_per_s, 21.5, "258 GB/s of messages by 12 links");
    let copies = nvlink.copies.unwrap();
    assert_eq!(copies.to_device, OneWay { alone: 22.5, against: 21.0 }, "270 and 252 GB/s by 12 links");
    assert_eq!(copies.from_device, copies.to_device);
    let message = switched.collectives.model("ampere").unwrap().point_to_point(PathKind::NvLink, 258e9);
    assert_eq!((message.latency + message.rendezvous, message.bytes_per_s), (Time::from_us(23), 258e9));
    assert_eq!(switched.files[0].unused, ["peer.one-way.start"]);
    // Over PCI Express it is a share of the link to the host, of 26.1 GB/s.
    let over_pcie = of("{ inside: pcie, nvlinks: 0 }");
    let message = over_pcie.collectives.model("ampere").unwrap().point_to_point(PathKind::Pcie, 26.1e9);
    assert!((message.bytes_per_s / 258e9 - 1.0).abs() < 1e-9, "{}", message.bytes_per_s);
    assert_eq!(over_pcie.devices.links, plain.devices.links);
    assert!(over_pcie.files[0].unused.contains(&"peer.one-way.rate".to_owned()));
    close(
        us(&over_pcie, CollectiveKind::AllReduce, 8, 1 << 20),
        us(&plain, CollectiveKind::AllReduce, 8, 1 << 20),
    );
    // Nobody knows what a file without a fabric was measured over.
    let mut overlay = overlay();
    overlay.lay("gpus.yaml", &file(TABLES, laws)).unwrap();
    assert_eq!((overlay.collectives, overlay.devices), (plain.collectives, plain.devices));
    assert!(overlay.files[0].unused.contains(&"all-reduce.bus".to_owned()));
}

/// What issuing an operator costs is then what was measured, launches of 2 us included: of a training step, the mean of forward
/// while autograd records and of backward.
#[test]
fn what_operators_of_a_framework_cost_the_host_of_a_gpu_is_laid() {
    let laws: &[Written<'_>] = &[
        ("launch", &[("call", 2.0, "us", 0.01, true)]),
        ("operator.metadata", &[("call", 2.0, "us", 0.01, true), ("recorded", 3.0, "us", 0.01, true)]),
        ("operator.pointwise", &[("call", 5.0, "us", 0.01, true), ("recorded", 8.0, "us", 0.01, true)]),
        ("operator.attention", &[("call", 20.0, "us", 0.01, true), ("recorded", 30.0, "us", 0.01, true)]),
        ("operator.communication", &[("call", 16.0, "us", 0.01, true)]),
        ("operator.optimizer", &[("call", 60.0, "us", 0.01, true), ("tensor", 1.5, "us", 0.01, true)]),
        ("backward.pointwise", &[("base", 30.0, "us", 0.01, true), ("operator", 6.0, "us", 0.01, true)]),
        (
            "backward.matrix-product",
            &[("base", 30.0, "us", 0.01, true), ("operator", 28.0, "us", 0.01, true)],
        ),
        ("tensor.kept", &[("call", 2.0, "us", 0.01, true)]),
    ];
    let mut with_gpu = overlay();
    with_gpu.lay("gpu.yaml", &file("gpu: a100-sxm4-80gb", laws)).unwrap();
    let host = &with_gpu.host;
    let cost = |class, kernels| Time(host.dispatch(class).0 + kernels * host.launch.time().0);
    assert_eq!(cost(OpClass::Metadata, 0), Time::from_us(3));
    assert_eq!(cost(OpClass::Pointwise, 1), Time::from_us(7), "the mean of 8 and 6");
    assert_eq!(cost(OpClass::Attention, 1), Time::from_us(30), "nothing is known of its gradient");
    assert_eq!(cost(OpClass::MatrixProduct, 1), Time::from_us(14), "half of 28, forward is not known");
    assert_eq!(cost(OpClass::Communication, 1), Time::from_us(16));
    assert_eq!(cost(OpClass::Optimizer, 1), Time::from_us(210), "60, and 1.5 for each of 100 tensors");
    assert!(with_gpu.files[0].unused.contains(&"tensor.kept.call".to_owned()));
    let source = &with_gpu.host.dispatch[&OpClass::Attention].provenance.source;
    assert!(source.starts_with("gpu.yaml: operator.attention of a device"), "{source}");
    // Whichever comes first in the file.
    let reversed: Vec<Written<'_>> = laws.iter().rev().copied().collect();
    let mut as_well = overlay();
    as_well.lay("gpu.yaml", &file("gpu: a100-sxm4-80gb", &reversed)).unwrap();
    assert_eq!(as_well.host, with_gpu.host);
    // On a host without a GPU operators do their work themselves.
    let mut host = overlay();
    host.lay("host.yaml", &file("", laws)).unwrap();
    assert_eq!(host.host.dispatch, overlay().host.dispatch);
}

/// Passes of our own tell nothing of elementwise kernels where those of a framework were measured.
#[test]
fn kernels_of_a_framework_go_before_passes() {
    let class = "gpu: t4
kernels:
  classes:
    elementwise:
      sources: [me]
      fitted: { samples: 80, mean: 0.1, median: 0.1, p90: 0.1, p95: 0.1, worst: 0.1, bias: 0 }
      held_out: { samples: 20, mean: 0.1, median: 0.1, p90: 0.07, p95: 0.1, worst: 0.1, bias: 0 }
      formula_alone: { samples: 20, mean: 0.1, median: 0.1, p90: 0.1, p95: 0.1, worst: 0.1, bias: 0 }
  constants:
    stream:
      elementwise: { achieved: 0.5, start_us: 2, provenance: { origin: measured-here, source: me, confidence: high } }
";
    let pass: &[Written<'_>] =
        &[("pass.scale", &[("start", 4.0, "us", 0.01, true), ("rate", 250.0, "GB/s", 0.01, true)])];
    let mut overlay = overlay();
    overlay.lay("t4.yaml", &file(class, pass)).unwrap();
    let found = overlay.kernels.parameters("t4", "turing").unwrap();
    assert_eq!(found.stream[&StreamClass::Elementwise].achieved, 0.5);
    assert_eq!(overlay.files[0].unused, ["pass.scale.start", "pass.scale.rate"]);
    assert!(overlay.replaced.keys().eq(["elementwise kernels of t4"]));
}

const KERNELS_OF_T4: &str = "
gpu: t4
kernels:
  classes:
    gemm-fp32:
      sources: [me]
      fitted: { samples: 80, mean: 0.1, median: 0.1, p90: 0.1, p95: 0.1, worst: 0.1, bias: 0 }
      held_out: { samples: 20, mean: 0.1, median: 0.1, p90: 0.07, p95: 0.1, worst: 0.1, bias: 0 }
      formula_alone: { samples: 20, mean: 0.1, median: 0.1, p90: 0.1, p95: 0.1, worst: 0.1, bias: 0 }
  constants:
    gemm:
      fp32: { e_max: 0.5, exponent: 0.1, prologue_k: 10, start_us: 2, input_gradient: 1, weight_gradient: 1, misaligned: 1,
              sustained: 1, serial: 0.1, provenance: { origin: measured-here, source: me, confidence: high } }
";

#[test]
fn kernels_that_were_measured_take_the_place_of_constants_corrections_and_spread() {
    let mut overlay = overlay();
    let class = KernelClass::Gemm(Dtype::Fp32);
    let before = overlay.kernels.parameters("t4", "turing").unwrap();
    assert!(!before.corrections[&class].anchors.is_empty(), "others measured it too");
    overlay.lay("t4.yaml", &file(KERNELS_OF_T4, &[])).unwrap();
    let after = overlay.kernels.parameters("t4", "turing").unwrap();
    assert_eq!(
        (after.gemm[&Dtype::Fp32].e_max, after.gemm[&Dtype::Fp32].provenance.origin),
        (0.5, Origin::MeasuredHere)
    );
    assert_eq!(after.gemm[&Dtype::Fp32].provenance.source, "t4.yaml: me");
    assert!(after.corrections[&class].anchors.is_empty(), "they correct another formula");
    assert_eq!(after.stream, before.stream);
    // 7 % are 1.645 standard deviations around a mean of 0, which 20 rows tell to a root of 20 of that.
    let Spread { bias, scatter } =
        overlay.spreads.of(&overlay.devices, ("t4", &overlay.devices.gpus["t4"]), class);
    assert!((scatter - 0.07 / 1.645).abs() < 1e-12 && (bias - scatter / 20_f64.sqrt()).abs() < 1e-12);
    let within = overlay.replaced["gemm-fp32 kernels of t4"].within;
    assert!((within - 1.645 * bias.hypot(scatter)).abs() < 1e-12);
}

#[test]
fn what_cannot_be_laid_is_told() {
    let laid = |first: &Hardware, second: &Hardware| {
        let mut overlay = overlay();
        overlay.lay("a.yaml", first).unwrap();
        let wrong = overlay.lay("b.yaml", second).unwrap_err();
        wrong.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let launch: &[Written<'_>] = &[("launch", &[("call", 3.0, "us", 0.01, true)])];
    let untold: &[Written<'_>] = &[("launch", &[("call", 3.0, "us", 0.5, false)])];
    let t4 = file(KERNELS_OF_T4, &[]);
    assert_eq!(
        laid(&file("", launch), &file("", launch)),
        ["sets launch.call and so does `a.yaml`: leave one of them out"]
    );
    assert_eq!(laid(&t4, &t4), ["sets gemm-fp32 kernels of t4 and so does `a.yaml`: leave one of them out"]);
    assert_eq!(overlay().lay("c.yaml", &file("", untold)), Ok(()), "what is not told sets nothing");
    let wrong = |from: &str, to: &str| laid(&file("", untold), &file(&KERNELS_OF_T4.replace(from, to), &[]));
    assert_eq!(wrong("gpu: t4", "gpu: tt4"), ["the catalogue has no GPU `tt4`: did you mean `t4`?"]);
    assert!(
        wrong("gpu: t4\n", "")[0].starts_with("has kernels and does not say of which GPU: write `gpu: NAME`")
    );
    assert_eq!(
        wrong("gemm-fp32:", "gemm-fp23:"),
        ["there are no kernels of class `gemm-fp23`: calibrate again"]
    );
}
