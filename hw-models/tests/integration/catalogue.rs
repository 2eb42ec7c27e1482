//! The embedded catalogue: complete, consistent and sourced.

use hw_models::catalogue::{
    Catalogue, FABRICS, GPUS, LINKS, MULTIPROCESSORS, NICS, NODES, SSDS, UnknownEntry, look_up,
};
use hw_models::provenance::Origin;
use serde_yaml::Value;

pub(crate) fn catalogue() -> Catalogue {
    Catalogue::embedded(serde_yaml::Deserializer::from_str).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn sources_name_constants_that_exist_and_say_where_to_look() {
    let mut seen = 0;
    for text in [GPUS, MULTIPROCESSORS, NODES, LINKS, NICS, FABRICS, SSDS] {
        let entries: Value = serde_yaml::from_str(text).unwrap();
        for (name, entry) in entries.as_mapping().unwrap() {
            let sources = entry.get("sources").unwrap().as_mapping().unwrap();
            for (constant, provenance) in sources {
                let constant = constant.as_str().unwrap();
                assert!(constant == "default" || entry.get(constant).is_some(), "{name:?} has no {constant}");
                assert!(
                    provenance.get("source").unwrap().as_str().unwrap().len() > 3,
                    "{name:?}: {constant}"
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 150, "only {seen} provenances");
}

#[test]
fn every_name_an_entry_refers_to_exists() {
    let catalogue = catalogue();
    for (name, gpu) in &catalogue.gpus {
        assert!(catalogue.links.contains_key(&gpu.pcie.class), "{name}");
        assert!(gpu.nvlink.iter().all(|links| catalogue.links.contains_key(&links.class)), "{name}");
    }
    for (name, ssd) in &catalogue.ssds {
        assert!(catalogue.links.contains_key(&ssd.pcie), "{name}");
    }
    for (name, node) in &catalogue.nodes {
        assert!(catalogue.gpus.contains_key(&node.gpu), "{name}");
        assert!(node.nic.iter().all(|nic| catalogue.nics.contains_key(nic)), "{name}");
        assert!(node.ssd.iter().all(|ssd| catalogue.ssds.contains_key(ssd)), "{name}");
        assert!(node.fabric.iter().all(|fabric| catalogue.fabrics.contains_key(fabric)), "{name}");
    }
}

#[test]
fn figures_are_those_of_the_data_sheets() {
    let catalogue = catalogue();
    let a100 = &catalogue.gpus["a100-sxm4-80gb"];
    assert_eq!((a100.sms, a100.peak_tflops.bf16, a100.bandwidth_gb_per_s), (108, Some(312.0), 2039.0));
    assert_eq!(a100.sources.of("bandwidth_gb_per_s").origin, Origin::DataSheet);
    assert_eq!(a100.sources.of("streaming_fraction").origin, Origin::Estimate);
    for (name, gpu) in &catalogue.gpus {
        assert!(gpu.reserved_gib > 0.0 && gpu.reserved_gib < 0.1 * gpu.memory_gib, "{name}");
        assert!((0.5..1.0).contains(&gpu.streaming_fraction), "{name}");
        assert!(gpu.usable_bytes() < (gpu.memory_gib * 1024f64.powi(3)) as u64, "{name}");
    }
    for (name, gpu) in &catalogue.gpus {
        // Products and multiply-adds of the lanes make up the peak, but for clocks that round.
        let Some(sm) = &gpu.multiprocessor else { continue };
        let lanes = 2e-6 * f64::from(gpu.sms * sm.fp32_lanes) * gpu.clock_mhz;
        assert!((lanes / gpu.peak_tflops.fp32 - 1.0).abs() < 0.11, "{name}: {lanes}");
        assert_eq!(sm.registers % (sm.register_unit * sm.schedulers), 0, "{name}");
        assert!(sm.shared_bytes_per_block + sm.shared_reserved_bytes <= sm.shared_bytes, "{name}");
        let sums = gpu.peak_tflops.fp16_accumulating_fp16.zip(gpu.peak_tflops.fp16);
        assert!(sums.is_none_or(|(halves, singles)| (halves / singles - 2.0).abs() < 0.01), "{name}");
    }
    let without = catalogue.gpus.iter().filter(|(_, gpu)| gpu.multiprocessor.is_none());
    let without: Vec<&str> = without.map(|(name, _)| name.as_str()).collect();
    assert_eq!(without, ["mi250x", "mi300x", "titan-x"]);
    for (name, link) in &catalogue.links {
        assert!(link.effective_gb_per_s < link.nominal_gb_per_s, "{name}");
    }
    for (name, nic) in &catalogue.nics {
        assert!(nic.effective_gb_per_s < nic.rate_gbit_per_s / 8.0, "{name}");
    }
    for (name, ssd) in &catalogue.ssds {
        assert!(ssd.read_gb_per_s.is_some() || ssd.read_latency_us.is_some(), "{name}");
    }
}

#[test]
fn unknown_names_are_answered_by_the_nearest_one() {
    let catalogue = catalogue();
    let error = look_up(&catalogue.gpus, "gpu", "a100-sxm-80gb").unwrap_err();
    assert_eq!(error.to_string(), "the catalogue has no gpu `a100-sxm-80gb`: did you mean `a100-sxm4-80gb`?");
    let UnknownEntry { remedy, .. } = look_up(&catalogue.nics, "nic", "carrier-pigeon").unwrap_err();
    assert!(remedy.contains("`connectx-6-hdr200`"), "{remedy}");
}
