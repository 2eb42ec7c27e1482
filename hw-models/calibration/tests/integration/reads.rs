//! Constants of reads over PCIe 5 are those of the gathers that they are fitted on.

use calibration::Gather;
use hw_models::reads::LinkReads;
use serde_json::Value;

use super::known::catalogue;

/// Records of a GPU outside of suites.
const GATHERS: &str = include_str!("../../../measurements/probes/gathers.jsonl");

/// A gather and its median time (us).
type Measured = (Gather, f64);

#[test]
fn constants_of_pcie5_are_the_best_for_their_half_of_the_gathers() {
    let fitted: Vec<Measured> = gathers().step_by(2).collect();
    assert_eq!(fitted.len(), 101);
    let known = catalogue().links["pcie5"].read(16).expect("it is known");
    let best = off(&known, &fitted);
    assert!(best < 0.08, "{best}");
    let changes: [fn(&mut LinkReads, f64); 5] = [
        |reads, factor| reads.in_flight *= factor,
        |reads, factor| reads.payload_gb_per_s *= factor,
        |reads, factor| reads.start_us *= factor,
        |reads, factor| reads.reach_gb *= factor,
        |reads, factor| reads.walk_ns *= factor,
    ];
    for (constant, change) in changes.into_iter().enumerate() {
        for factor in [0.9, 1.1] {
            let mut other = known;
            change(&mut other, factor);
            let error = off(&other, &fitted);
            assert!(error > best - 0.0005, "constant {constant} times {factor}: {error} below {best}");
        }
    }
}

/// Mean of absolute logarithms, of which none counts for more than 0.4.
fn off(reads: &LinkReads, fitted: &[Measured]) -> f64 {
    let of = |(gather, us): &Measured| {
        let cost = reads.cost(&gather.reads(), gather.sms.unwrap_or(132));
        (cost.alone().as_secs() * 1e6 / us).ln().abs().min(0.4)
    };
    fitted.iter().map(of).sum::<f64>() / fitted.len() as f64
}

fn gathers() -> impl Iterator<Item = Measured> {
    let records = GATHERS.lines().map(|line| serde_json::from_str::<Value>(line).expect("a record"));
    records.filter(|record| record["section"] == "zero-copy gather").map(|record| {
        let samples = record["us"].as_array().expect("samples");
        let mut samples: Vec<f64> = samples.iter().filter_map(Value::as_f64).collect();
        samples.sort_by(f64::total_cmp);
        (serde_json::from_value(record["of"].clone()).expect("a gather"), samples[samples.len() / 2])
    })
}
