//! Matrix products of a GPU that is made up, measured and fitted.

use calibration::hardware::{CATALOGUE, Hardware};
use calibration::laws::law_of;
use calibration::measure::{
    Conditions, CudaFacts, End, Flag, Heading, Identity, Outcome, Record, Suite, Task, cuda_suite,
};
use calibration::{Errors, Sample, Table};
use hw_models::kernels::{Correct, Dtype, KernelModel};
use indexmap::IndexMap;

use crate::known::model;

pub(super) const GPU: &str = "h100-sxm5-80gb";
pub(super) const FACTS: CudaFacts = CudaFacts {
    sms: 132,
    cache: 50 << 20,
    memory: 79 << 30,
    capability: 90,
    link: Some((5, 16)),
    others: None,
};

/// One that is slower than the catalogue's, and whose kernels take longer to start.
fn truth() -> KernelModel {
    let mut truth = model(GPU).correcting(Correct::Never);
    let gemm = truth.parameters.gemm.get_mut(&Dtype::Bf16).unwrap();
    (gemm.e_max, gemm.start_us) = (0.8, 3.4);
    truth
}

/// Records of all kernels of a suite, each off by up to half a per cent.
pub(super) fn records(suite: &Suite, truth: &KernelModel) -> Vec<Record> {
    let tasks = suite.probes.iter().flat_map(|probe| probe.tasks.iter().map(move |task| (probe, task)));
    let kernels = tasks
        .filter_map(|(probe, task)| Some((probe, task, task.kernel()?.cost(truth).ok()?.alone().as_secs())));
    let record = |(at, (probe, &of, seconds)): (usize, (&calibration::measure::Probe, &Task, f64))| {
        let off = 1.0 + 0.01 * (at as f64 * 0.618).fract() - 0.005;
        Record {
            probe: probe.name.clone(),
            of,
            executions: 100,
            samples_ns: vec![seconds * off * 1e9; 10],
            flags: Vec::new(),
            before: Conditions::default(),
            after: Conditions::default(),
        }
    };
    kernels.enumerate().map(record).collect()
}

fn heading() -> Heading {
    let facts = IndexMap::from([(CATALOGUE.to_owned(), GPU.to_owned())]);
    let device =
        Identity { name: "NVIDIA H100 80GB HBM3".to_owned(), driver: "580".to_owned(), facts, fabric: None };
    let (foretrain, date) = ("0".to_owned(), "2026-01-01".to_owned());
    Heading { foretrain, device, date, suite: Vec::new(), seed: 7 }
}

pub(super) fn hardware(records: Vec<Record>) -> Hardware {
    let outcome = Outcome { records, failures: Vec::new(), left_out: 0, drift: 0.0, end: End::Complete };
    Hardware::of(&heading(), &outcome, |gpu| Some(model(gpu)))
}

#[test]
fn the_constants_of_a_made_up_gpus_products_predict_those_it_was_not_fitted_to() {
    let mut records = records(&cuda_suite(&FACTS, false), &truth());
    // A GPU that was held back tells nothing of what it does.
    records[3].samples_ns = vec![1e12; 10];
    records[3].flags = vec![Flag::Throttled];
    let found = hardware(records);
    let products = found.kernels.as_ref().unwrap();
    let bf16 = &products.classes["gemm-bf16"];
    assert!(bf16.held_out.samples >= 20, "{}", bf16.held_out);
    assert!(bf16.held_out.median < 0.02 && bf16.held_out.p95 < 0.06, "{}", bf16.held_out);
    assert_eq!(bf16.refused, 1);
    for class in ["gemm-fp16", "gemm-tf32", "gemm-fp8", "gemm-fp32"] {
        assert!(products.classes.contains_key(class), "{class}: {:?}", products.classes.keys());
    }
    let start = products.constants.gemm[&Dtype::Bf16].start_us;
    assert!((start / 3.4 - 1.0).abs() < 0.1, "{start}");
    let text = serde_yaml::to_string(&found).unwrap();
    assert_eq!(
        serde_yaml::from_str::<Hardware>(&text).unwrap(),
        found,
        "a hardware file is read as it was written"
    );
}

/// A simulated step adds the gap between kernels to each of them.
#[test]
fn what_passes_between_kernels_is_no_part_of_their_start() {
    const GAP_US: f64 = 0.7;
    let suite = cuda_suite(&FACTS, false);
    let mut records = records(&suite, &truth());
    let longer = |ns: &mut f64| *ns += 1e3 * GAP_US;
    records.iter_mut().flat_map(|record| &mut record.samples_ns).for_each(longer);
    let tasks = suite.probes.iter().flat_map(|probe| &probe.tasks);
    let gaps = tasks.filter_map(|of| {
        let law = law_of(of).filter(|law| law.name == "gap.graph")?;
        let ns = 1e9 * (law.seconds)(&[GAP_US, 1.98], of)?;
        Some(Record { probe: "gap".to_owned(), of: *of, samples_ns: vec![ns; 10], ..records[0].clone() })
    });
    records = gaps.chain(records.clone()).collect();
    let start = hardware(records).kernels.unwrap().constants.gemm[&Dtype::Bf16].start_us;
    assert!((start / 3.4 - 1.0).abs() < 0.05, "{start}");
}

/// The compiler of XLA times kernels and takes the fastest; constants are from what a library's
/// heuristic takes. Durations of its profiler hold some 3 us more, so that short kernels differ.
#[test]
fn constants_of_hopper_hold_for_kernels_that_a_compiler_chose() {
    const TABLE: &str = include_str!("../../../measurements/kernels/gemm_bf16_h100_xla.csv");
    const LONG_S: f64 = 30e-6;
    let table = Table::read("gemm_bf16_h100_xla.csv", TABLE.as_bytes()).unwrap();
    let (h100, sets) = (model(GPU), calibration::measured(&[table]).unwrap());
    let [set] = &sets[..] else { panic!("one class of one device") };
    let long = set.samples.iter().filter(|sample| sample.seconds >= LONG_S);
    let off = |sample: &Sample| sample.shape.cost(&h100).unwrap().alone().as_secs() / sample.seconds - 1.0;
    let errors = Errors::of(&long.map(off).collect::<Vec<_>>());
    assert!(errors.samples >= 30 && errors.mean < 0.05 && errors.median < 0.04, "{errors}");
}

/// A GPU that the catalogue does not know has laws and no kernels.
#[test]
fn products_of_an_unknown_gpu_are_kept_raw() {
    let records = records(&cuda_suite(&FACTS, true), &truth());
    let outcome = Outcome { records, failures: Vec::new(), left_out: 0, drift: 0.0, end: End::Complete };
    let unknown = Heading { device: Identity::default(), ..heading() };
    assert_eq!(Hardware::of(&unknown, &outcome, |gpu| Some(model(gpu))).kernels, None);
}
