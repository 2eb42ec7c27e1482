//! GPUs, links and drives that the catalogue lacks, described by maps.

use hw_models::catalogue::{Gpu, LinkClass, Ssd};
use hw_models::kernels::{Dtype, KERNELS, KernelCatalogue};
use hw_models::machine::{Choice, Cluster, DriveSettings, GpuSettings, Machine, Parts, Settings};
use hw_models::provenance::Origin;
use proptest::prelude::*;

use super::machine::{CATALOGUE, cluster, errors, rate, way, written};

/// A node of eight root ports with GPUs that are described.
fn with_gpu(gpu: &str) -> Cluster {
    Cluster { gpu: Some(written(gpu)), ..cluster("epyc-pcie-8x", 1) }
}

fn gpu(gpu: &str) -> Gpu {
    let machine = Machine::build(&CATALOGUE, &with_gpu(gpu)).unwrap_or_else(|errors| panic!("{errors:?}"));
    machine.gpu_model(machine.gpu(7)).unwrap().clone()
}

/// A GPU as the catalogue would have it that says less of where its figures are from.
fn without_sources(gpu: &Gpu) -> Gpu {
    Gpu { like: None, sources: CATALOGUE.gpus["t4"].sources.clone(), ..gpu.clone() }
}

#[test]
fn a_gpu_that_is_only_like_another_is_that_one_as_an_estimate() {
    for (name, known) in CATALOGUE.gpus.iter().filter(|(_, known)| known.nvlink.is_none()) {
        let found = gpu(&format!("{{ like: {name} }}"));
        assert_eq!(without_sources(&found), without_sources(known), "{name}");
        assert_eq!(found.like.as_deref(), Some(name.as_str()));
        assert_eq!(found.sources.of("sms").origin, Origin::Estimate);
        let kernels: KernelCatalogue = written(KERNELS);
        let (own, carried) = (kernels.of(name, known).unwrap(), kernels.of("mine", &found).unwrap());
        assert!(own.stream.iter().zip(&carried.stream).all(|((_, a), (_, b))| a.achieved == b.achieved));
        assert!(carried.gemm.values().all(|gemm| gemm.provenance.origin == Origin::Estimate));
        assert_eq!(carried.corrections, own.corrections, "measured shapes hold for it, too");
    }
}

#[test]
fn a_completed_description_means_the_same() {
    for (name, known) in &CATALOGUE.gpus {
        let mine: Choice<GpuSettings> = written(&format!("{{ like: {name}, name: mine }}"));
        let node = Settings::Cluster(Cluster { gpu: Some(mine), ..cluster("epyc-pcie-8x", 1) });
        let Settings::Cluster(complete) = node.complete(&CATALOGUE) else { panic!("a cluster") };
        let machine = Machine::build(&CATALOGUE, &complete).unwrap();
        let found = machine.gpu_model(machine.gpu(0)).unwrap();
        let reserved = found.usable_bytes().abs_diff(known.usable_bytes());
        assert!(reserved <= 1, "{name}: sizes are written as whole bytes");
        // Power that is carried over counts as an estimate.
        let power = |gpu: &Gpu| gpu.power.as_ref().map(|power| (power.idle_w, power.limit_w));
        assert_eq!(power(found), power(known), "{name}");
        let exact = Gpu { reserved_gib: known.reserved_gib, power: known.power.clone(), ..found.clone() };
        assert_eq!(without_sources(&exact), without_sources(known), "{name}");
    }
}

#[test]
fn what_is_not_given_follows_from_what_is() {
    let known = &CATALOGUE.gpus["rtx-3090"].peak_tflops;
    // Twice the SMs at half the clock do as much.
    let wide = gpu("{ like: rtx-3090, sms: 164, clock: 847.5 MHz }").peak_tflops;
    assert_eq!((wide.fp32, wide.fp16, wide.tf32), (known.fp32, known.fp16, known.tf32));
    let clocked = gpu("{ like: rtx-3090, clock: 3390 MHz }").peak_tflops;
    assert_eq!((clocked.fp64, clocked.fp32, clocked.bf16), (1.12, 71.2, Some(142.0)));
    // Tensor cores keep the ratios between their types, whatever the clock.
    let tensor = gpu("{ like: rtx-3090, clock: 2520 MHz, tensor: { fp16: 142 TFLOP/s } }").peak_tflops;
    assert_eq!((tensor.fp16, tensor.bf16, tensor.tf32), (Some(142.0), Some(142.0), Some(71.2)));
    assert!((tensor.fp32 / known.fp32 - 2520.0 / 1695.0).abs() < 1e-12);
    // Another generation has kernels of its own, and another name other measurements.
    let other = gpu("{ like: rtx-3090, architecture: ada }");
    assert_eq!((other.like, other.architecture.as_str()), (None, "ada"));
    let alone = gpu("{ like: rtx-3090, nvlink: { links: 0 } }");
    assert_eq!(alone.nvlink, None);
}

#[test]
fn a_gpu_like_no_other_is_described_by_its_data_sheet() {
    let sheet = "name: rtx-4090, architecture: ada, sms: 128, clock: 2520 MHz, power: 450 W, memory: 24 GiB, \
         memory_rate: 1008 GB/s, l2: 72 MiB, vector: { fp32: 82.6 TFLOP/s }, \
         tensor: { fp16: 165.2 TFLOP/s, bf16: 165.2 TFLOP/s }";
    let found = gpu(&format!("{{ {sheet}, pcie: {{ class: pcie4, lanes: 16 }} }}"));
    assert_eq!((found.sms, found.clock_mhz, found.bandwidth_gb_per_s), (128, 2_520.0, 1_008.0));
    assert_eq!((found.peak_tflops.fp16, found.peak_tflops.fp8, found.l2_mib), (Some(165.2), None, 72.0));
    assert_eq!((found.vendor.as_str(), found.nvlink, found.peer_to_peer), ("nvidia", None, false));
    assert!((found.reserved_gib - 0.74).abs() < 1e-9, "1 % and half a GiB");

    let lacks = errors(&with_gpu(&format!("{{ {} }}", sheet.replace("sms: 128, ", ""))));
    assert_eq!(
        lacks,
        ["the GPU lacks `sms` and `pcie`: add them, or a `like` with the name of one to take them from"]
    );
}

#[test]
fn descriptions_that_cannot_be_are_reported_at_once() {
    let wrong = "{ like: rtx-3091, memory: 0 B, memory_rate: 0 GB/s, tensor: { fp16: 0 FLOP/s }, \
         nvlink: { class: pcie4 }, pcie: { class: pci4 } }";
    assert_eq!(
        errors(&with_gpu(wrong)),
        [
            "`pcie4` is a link of another kind: take one like `nvlink1`, `nvlink2`, `nvlink3`, `nvlink3-ga102`, `nvlink4`, \
             `nvlink5`, `infinity-fabric-2` and `infinity-fabric-3`",
            "the catalogue has no link class `pci4`: did you mean `pcie4`?",
            "the catalogue has no GPU `rtx-3091`: did you mean `rtx-3090`?",
            "`memory` of `like-rtx-3091` is zero: write what a data sheet says, or leave it out",
            "`memory_rate` of `like-rtx-3091` is zero: write what a data sheet says, or leave it out",
            "`tensor.fp16` of `like-rtx-3091` is zero: write what a data sheet says, or leave it out",
        ]
    );
    let small = errors(&with_gpu("{ like: rtx-3090, memory: 0.5 GiB }"));
    assert!(small[0].starts_with("`memory` of `like-rtx-3090` is no more than the 0.75 GiB"), "{small:?}");
    assert_eq!(
        errors(&with_gpu("{ like: rtx-3090, name: t4 }")),
        ["another GPU is called `t4`: give this one a `name` of its own"]
    );
    assert_eq!(
        errors(&with_gpu("{ like: rtx-3090, architecture: adda }")),
        ["the catalogue has no architecture `adda`: did you mean `ada`?"]
    );
}

#[test]
fn links_and_drives_are_described_where_they_are_named() {
    let mut spec = cluster("epyc-pcie-8x", 1);
    spec.set.insert("gpu".to_owned(), written("{ class: { like: pcie4, name: riser, rate: 13.05 GB/s } }"));
    let drive = "{ like: samsung-pm9a3-u2-3840gb, name: mine, read: 5 GB/s }";
    spec.set.insert("ssd".to_owned(), written(&format!("{{ model: {drive}, count: 4 }}")));
    let machine = Machine::build(&CATALOGUE, &spec).unwrap();
    assert_eq!(rate(&machine, "node[0].gpu[0] -> node[0].socket[0]"), 13.05e9);
    let known: &LinkClass = &CATALOGUE.links["pcie4"];
    let link = machine.link(machine.link_named("node[0].gpu[0] -> node[0].socket[0]").unwrap());
    let copies = known.copies.unwrap().times(13.05e9 / known.effective_gb_per_s);
    let (found, of_known) = (link.copies.unwrap().to_device.alone, copies.to_device.alone);
    assert!((found / of_known - 1.0).abs() < 1e-12, "copies keep their ratio");
    assert_eq!(machine.drives_of_node(0).count(), 4);
    let model = machine.drive_model(machine.part_named("node[0].ssd[3]").unwrap()).unwrap();
    let known: &Ssd = &CATALOGUE.ssds["samsung-pm9a3-u2-3840gb"];
    assert_eq!((model.read_gb_per_s, model.write_gb_per_s), (Some(5.0), known.write_gb_per_s));
    assert_eq!(rate(&machine, "node[0].ssd[0] -> node[0].socket[0]"), 5e9);

    let parts: Parts = written(
        "{ gpus: { g: { like: t4, name: mine, memory: 32 GiB } }, sockets: [cpu], ssds: { d: { like: intel-p3700-800gb } },
           links: [{ between: [g, cpu], class: { name: wire, kind: pcie, rate: 4 GB/s, latency: 1 us } },
                   { between: [d, cpu], class: pcie3, lanes: 4 }] }",
    );
    let machine = Machine::from_parts(&CATALOGUE, &parts).unwrap();
    assert_eq!(machine.gpu_model(machine.gpu(0)).unwrap().memory_gib, 32.0);
    assert_eq!(rate(&machine, "g -> cpu"), 0.25e9, "one lane of sixteen");
}

#[test]
fn drives_hang_on_the_switches_of_gpus_or_on_sockets() {
    let with = |node: &str, set: &str| {
        let set = [("ssd".to_owned(), written(set))].into();
        Cluster { set, ..cluster(node, 1) }
    };
    let built = |node: &str, set: &str| Machine::build(&CATALOGUE, &with(node, set)).unwrap();
    let first_stop = |machine: &Machine, drive: u32| {
        way(machine, &format!("node[0].ssd[{drive}]"), "node[0].memory[0]")[1].clone()
    };
    let four = "{ model: samsung-pm9a3-u2-3840gb, count: 4";
    let switched = built("hgx-h200", &format!("{four} }}"));
    let switches: Vec<String> = (0..4).map(|drive| first_stop(&switched, drive)).collect();
    assert_eq!(
        switches,
        ["node[0].switch[0]", "node[0].switch[1]", "node[0].switch[2]", "node[0].switch[3]"]
    );
    let rooted = built("hgx-h200", &format!("{four}, under: sockets }}"));
    assert_eq!([0, 3].map(|drive| first_stop(&rooted, drive)), ["node[0].socket[0]", "node[0].socket[1]"]);
    // The node's own drives move there, too, as many as there were.
    let moved = built("dgx-a100-80g", "{ under: sockets }");
    assert_eq!((moved.drives_of_node(0).count(), first_stop(&moved, 0)), (8, "node[0].socket[0]".to_owned()));
    assert_eq!(first_stop(&built("epyc-pcie-8x", &format!("{four} }}")), 3), "node[0].socket[1]");

    assert_eq!(
        errors(&with("epyc-pcie-8x", "{ under: switches, lanes: 4 }")),
        [
            "`model` of `ssd` is missing: the node has no drives of its own, so write a name of `foretrain list ssds`, or a map \
             that describes one",
            "`count` of `ssd` is missing: the node has no drives of its own, so write how many each node gets",
            "`under` of `ssd` is `switches`, but no GPU of the node hangs on one: write `under: sockets`, or remove it",
        ]
    );
    assert_eq!(
        errors(&with("dgx-a100-80g", "{ model: { name: mine, read: 0 GB/s, capacity: 1 TB } }")),
        [
            "the drive lacks `pcie` and `write`: add them, or a `like` with the name of one to take them from",
            "`read` of `mine` is zero: write what a data sheet says, or leave it out",
        ]
    );
    let nic = Cluster {
        set: [("nic".to_owned(), written("{ model: { like: x } }"))].into(),
        ..cluster("dgx-h100", 1)
    };
    assert!(errors(&nic)[0].starts_with("`model` of `nic` is a map: only drives are described so"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A figure that is given is taken, and nothing that it does not concern changes.
    #[test]
    fn figures_are_taken_as_they_are_written(
        sms in 1_u32..500, memory in 2_u64..500, memory_rate in 1_u64..20_000, fp16 in 1_u64..5_000,
    ) {
        let found = gpu(&format!(
            "{{ like: l4, sms: {sms}, memory: {memory} GiB, memory_rate: {memory_rate} GB/s, tensor: {{ fp16: {fp16} TFLOP/s }} }}"
        ));
        let known = &CATALOGUE.gpus["l4"];
        prop_assert_eq!((found.sms, found.memory_gib), (sms, memory as f64));
        prop_assert_eq!((found.bandwidth_gb_per_s, found.peak_tflops.fp16), (memory_rate as f64, Some(fp16 as f64)));
        prop_assert_eq!((found.l2_mib, found.clock_mhz, &found.pcie), (known.l2_mib, known.clock_mhz, &known.pcie));
        let ratio = found.peak_tflops.fp8.zip(known.peak_tflops.fp8).map(|(a, b)| a / b);
        let expected = known.peak_tflops.fp16.map(|peak| fp16 as f64 / peak);
        prop_assert!(ratio.zip(expected).is_some_and(|(a, b)| (a / b - 1.0).abs() < 1e-12));
    }
}

#[test]
fn types_that_a_described_gpu_gains_have_kernels_if_its_generation_has() {
    let kernels: KernelCatalogue = written(KERNELS);
    let found = gpu("{ like: rtx-3090, architecture: ada, tensor: { fp8: 330 TFLOP/s } }");
    assert!(kernels.of("mine", &found).unwrap().gemm(Dtype::Fp8).is_ok());
    let drive: Choice<DriveSettings> = written("samsung-pm9a3-u2-3840gb");
    assert_eq!(drive.name(), "samsung-pm9a3-u2-3840gb");
}
