//! Starts and rates of copies in the catalogue follow from the committed measurements.

#![expect(clippy::print_stdout, reason = "what was fitted, for who asks with --nocapture")]

use calibration::{Row, Table, split};
use hw_models::copies::{COPIES, CopyCatalogue};
use hw_models::search::minimise;

use crate::known::catalogue;

const V100: &str = include_str!("../../../measurements/copies/memcpy_v100_pcie3_superbench.csv");

/// Three quarters of a table are fitted, the rows of the test quarter judge (`foretrain validate copies`).
#[test]
fn starts_and_rates_of_copies_follow_from_a_table() {
    let table = Table::read("v100.csv", V100.as_bytes()).unwrap();
    let copies: CopyCatalogue = serde_yaml::from_str(COPIES).unwrap();
    let (starts, rates) = (&copies["pcie3"], catalogue().links["pcie3"].copies.unwrap());
    for (name, starts, rate) in
        [("h2d", starts.to_device, rates.to_device), ("d2h", starts.from_device, rates.from_device)]
    {
        let fitted = |row: &Row<'_>| {
            let [direction, bytes] = ["direction", "bytes"].map(|column| row.text(column));
            direction == name && !split::judges(split::hash(&[direction, bytes]))
        };
        let sample = |row: Row<'_>| {
            let [bytes, rate] =
                ["bytes", "bandwidth_gb_per_s"].map(|column| row.text(column).parse::<f64>().unwrap());
            (bytes, bytes / (rate * 1e9))
        };
        let samples: Vec<(f64, f64)> = table.rows().filter(fitted).map(sample).collect();
        let (alpha, fitted) = fit_line(&samples);
        println!("{name}: {} rows, alpha {:.3} us, {:.2} GB/s", samples.len(), alpha * 1e6, fitted * 1e-9);
        assert!((starts.issue_us / (alpha * 1e6) - 1.0).abs() < 0.01, "{name}: {starts:?} against {alpha}");
        assert!((rate.alone * 1e9 / fitted - 1.0).abs() < 0.01, "{name}: {rate:?} against {fitted}");
    }
}

/// The `(alpha (s), rate (bytes/s))` of the least relative squares over `(bytes, seconds)`.
fn fit_line(samples: &[(f64, f64)]) -> (f64, f64) {
    let loss = |x: &[f64]| {
        let error = |&(bytes, seconds): &(f64, f64)| (x[0].exp() + bytes / x[1].exp()) / seconds - 1.0;
        samples.iter().map(|sample| error(sample).powi(2)).sum::<f64>()
    };
    let best = minimise(&minimise(&[1e-5_f64.ln(), 1e10_f64.ln()], 1.0, &loss), 0.1, &loss);
    (best[0].exp(), best[1].exp())
}
