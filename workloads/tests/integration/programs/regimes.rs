//! Regimes of co-execution: bound by the device, by the graph's thread, by Python, or serialised.

use super::Case;

/// Host costs against those of the case.
const SCALES: [f64; 4] = [0.5, 1.0, 2.0, 4.0];

/// Time of an iteration that has settled (us).
fn step(case: &Case, execution: &str) -> f64 {
    case.run(execution, 48).step.0 as f64 * 1e-6
}

#[test]
fn the_slowest_of_python_graph_and_device_decides() {
    // Ten operators: Python validates each in 1 and works 15 besides, the graph launches each in 2.
    for kernel in [1, 3, 10] {
        for python in [0, 15] {
            for scale in SCALES {
                let mut case =
                    Case::new(&[(10, kernel)], &format!("[ {{ run: forward }}, {{ python: {python} us }} ]"));
                case.scale_host(scale);
                let slowest = (10.0 * scale + f64::from(python)).max(20.0 * scale).max(10.0 * kernel as f64);
                let measured = step(&case, "co-execution");
                assert!(
                    (measured - slowest).abs() < 1e-5,
                    "{kernel} {python} {scale}: {measured} and {slowest}"
                );
            }
        }
    }
}

#[test]
fn a_fetch_in_the_middle_that_operators_follow_serialises() {
    // Half of the graph, its copy and the kernels' end stand before the rest of Python.
    let program = |middle: &str| {
        format!(
            "[ {{ run: forward 0..1 }}, {middle} {{ feed: {{ scalar: rate }} }}, {{ run: forward 1..2 }} ]"
        )
    };
    for scale in SCALES {
        let case = |middle: &str| {
            let mut case = Case::new(&[(10, 5), (10, 5)], &program(middle));
            case.scale_host(scale);
            case
        };
        let free = step(&case(""), "co-execution");
        let fetched = case("{ fetch: { tensor: loss } },");
        let serialised = step(&fetched, "co-execution");
        assert!(serialised > free, "x {scale}: {serialised} and {free}");
        // Lazy execution, which waits at the same place, is no faster.
        let lazy = step(&fetched, "lazy");
        assert!(lazy >= serialised - 1e-5, "x {scale}: {lazy} and {serialised}");
    }
}

#[test]
fn the_bound_of_the_speed_up_holds() {
    for kernel in [1, 4, 16] {
        for scale in SCALES {
            for middle in ["", "{ fetch: { tensor: loss } },", "{ python: 12 us },"] {
                let program = format!(
                    "[ {{ run: forward 0..1 }}, {middle} {{ run: [ forward 1..2, backward, update ] }} ]"
                );
                let mut case = Case::new(&[(6, kernel), (8, kernel)], &program);
                case.scale_host(scale);
                let python = if middle.contains("python") { 12.0 } else { 0.0 };
                let skeleton = f64::from(2 * (6 + 8) + 1) * scale + python;
                let kernels = 28.0 * kernel as f64 + 10.0;
                let bound = skeleton.max(kernels);
                let measured = step(&case, "co-execution");
                assert!(measured >= bound - 1e-5, "{kernel} x {scale} {middle}: {measured} < {bound}");
            }
        }
    }
}
