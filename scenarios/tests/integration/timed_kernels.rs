//! Kernels that were timed on a device, from files: a search and a step take their times.

use scenarios::Experiment;
use scenarios::run::KernelRow;

use crate::support::{read_all, run};

const MODEL: &str = "name: test
machine: { node: { name: epyc-pcie-8x, gpu: rtx-3070 } }
model: { layers: { preset: resnet-50 } }
training: { micro_batch: 8, accumulate: 1, precision: fp16, step: forward }
parallelism: { data: 1, idle: allow }
software: { launch: graph }
";

const SEARCHED: &str = "techniques={ fusion: { policy: searched } }";
const MEASURED: &str = "techniques={ fusion: { policy: searched, measured: kernels.csv } }";

fn experiment(kernels: &str, settings: &str) -> Result<Experiment, String> {
    read_all(&[("test.yaml", MODEL), ("kernels.csv", kernels)], &[settings])
        .map_err(|failure| failure.to_string())
}

fn listed() -> Vec<KernelRow> {
    let experiment = experiment("", SEARCHED).unwrap();
    let point = experiment.points().next().expect("a point");
    let resolved = experiment.resolve("base", &point).expect("settings that go together");
    scenarios::run::kernels(&resolved.scenario).unwrap()
}

/// A file with a time for each kernel that has one.
fn timed(us: impl Fn(&KernelRow) -> Option<f64>) -> String {
    let rows = listed().into_iter().filter_map(|row| {
        let us = us(&row)?;
        Some(format!("\"{}\",{},{us}\n", row.kernel, row.gpu))
    });
    "kernel,gpu,measured_us\n".to_owned() + &rows.collect::<String>()
}

fn step_us(kernels: &str, settings: &str) -> f64 {
    let experiment = experiment(kernels, settings).unwrap();
    run(&experiment).variants[0].step_time_s.expect("it fits") * 1e6
}

#[test]
fn each_kernel_is_listed_once_with_its_bound() {
    let rows = listed();
    let mut kernels: Vec<&str> = rows.iter().map(|row| row.kernel.as_str()).collect();
    kernels.sort_unstable();
    kernels.dedup();
    assert_eq!(kernels.len(), rows.len());
    for row in &rows {
        assert!(row.bound_us <= row.estimate_us && row.gpu == "rtx-3070" && row.groups > 0, "{row:?}");
        assert_eq!(row.measured_us, None);
    }
}

/// A convolution that was timed at a hundredth of its estimate shortens the step by the rest of it,
/// however many bytes the memory could bring in that time.
#[test]
fn a_step_takes_what_was_timed() {
    let alone = |row: &KernelRow| row.members == "convolution 1" && row.groups == 1;
    let of_stem =
        listed().into_iter().find(|row| row.flops > 1e9 && alone(row)).expect("a first convolution");
    let none = "techniques={ fusion: { policy: none, measured: kernels.csv } }";
    let at = |us: f64| timed(|row| (row.kernel == of_stem.kernel).then_some(us));
    let (estimate, fast) = (of_stem.estimate_us, of_stem.estimate_us / 100.0);
    let gained = step_us(&at(estimate), none) - step_us(&at(fast), none);
    assert!((gained / (estimate - fast) - 1.0).abs() < 1e-3, "{gained} for {estimate} us");
}

/// Where convolutions with members behind them were timed at three times their estimates, none is
/// chosen, and the step is that of passes merged among each other.
#[test]
fn a_search_chooses_by_what_was_timed() {
    let slow = |row: &KernelRow| row.members.contains("convolution") && row.members.contains('+');
    let kernels = timed(|row| slow(row).then_some(3.0 * row.estimate_us));
    let without = "techniques={ fusion: { policy: searched, members: [] } }";
    assert_eq!(step_us(&kernels, MEASURED), step_us("", without));
    assert!(step_us(&kernels, MEASURED) > step_us("", SEARCHED));
}

#[test]
fn files_that_do_not_fit_are_refused_with_a_remedy() {
    let refused = |kernels: &str| experiment(kernels, MEASURED).map(|_| ()).unwrap_err();
    let row = |kernel: &str, gpu: &str, us: &str| format!("kernel,gpu,measured_us\n{kernel},{gpu},{us}\n");
    for (kernels, told) in [
        (
            row("Fused", "rtx-3070", "5"),
            ["no kernel of the file is one of this model", "show FILE --kernels"],
        ),
        (row("Fused", "v100", "5"), ["were timed on `v100`", "list gpus"]),
        (row("Fused", "rtx-3070", "-1"), ["kernels.csv:2", "write microseconds"]),
        (row("Fused", "rtx-3070", "nan"), ["`measured_us` is `nan`", "write microseconds"]),
        (row("Fused", "rtx-3070", ""), ["has no row", "measured_us"]),
        ("kernel,us\n".to_owned(), ["there is no column `us`", "columns are kernel, gpu"]),
        ("kernel,gpu\n".to_owned(), ["it lacks the column", "begin with `kernel,gpu,measured_us`"]),
    ] {
        let failure = refused(&kernels);
        assert!(told.iter().all(|told| failure.contains(told)), "{kernels}: {failure}");
    }
}
