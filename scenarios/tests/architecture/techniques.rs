//! Reach of a technique: lines of code outside its own files that name it. A technique that is added or removed touches no more.
//!
//! To remove one: delete its own files, its field and lines of `passes/list.rs`, its `mod` lines,
//! and whatever `cargo check` then finds; nothing else has to be known. `.ci/remove-technique` does
//! so to each in turn. Tests that name it go with it, and so do files of the library that use it.

use std::fs;

use super::code_of_crates;

/// A technique, as code names it.
struct Technique {
    words: &'static [&'static str],
    /// Files that exist for it alone: settings and decisions, then its part of reports and its
    /// validation.
    own: &'static [&'static str],
    /// Lines elsewhere that name it, which may only become fewer.
    lines: usize,
}

/// Most lines elsewhere that name a technique.
const LINES_MAX: usize = 25;

/// The list of shipped scenarios names files, which are data.
const DATA: &str = "scenarios/src/library.rs";

const TECHNIQUES: [Technique; 8] = [
    Technique {
        words: &["bpipe", "Bpipe", "BPipe"],
        own: &["workloads/src/passes/bpipe/"],
        lines: LINES_MAX,
    },
    Technique {
        // The workload `swap` validates it on a device.
        words: &[
            "activation_offload",
            "ActivationOffload",
            "passes::offload",
            "::Swap ",
            "::Swap(",
            "Swapping",
        ],
        own: &[
            "workloads/src/passes/offload/",
            "scenarios/src/run/kept.rs",
            "scenarios/src/validation/on_device/swap.rs",
        ],
        lines: LINES_MAX,
    },
    Technique {
        words: &[
            "techniques.swap",
            "swap::Swap",
            "swap::phases",
            "swap::NAME",
            "swap::plans",
            "<Swap>",
            "SwapPlan",
            "Swapped",
            "swapped",
        ],
        own: &[
            "workloads/src/passes/swap/",
            "scenarios/src/run/swapped.rs",
            "reports/src/html/swap.rs",
            "reports/src/summary/swap.rs",
            "reports/src/terminal/swap.rs",
        ],
        lines: LINES_MAX,
    },
    Technique { words: &["lms", "Lms"], own: &["workloads/src/passes/lms/"], lines: LINES_MAX },
    Technique {
        words: &["vdnn", "Vdnn", "virtualised", "Virtualised"],
        own: &["workloads/src/passes/vdnn/", "scenarios/src/run/virtualised.rs"],
        lines: LINES_MAX,
    },
    Technique {
        words: &["zero_offload", "ZeroOffload"],
        own: &["workloads/src/passes/zero_offload.rs"],
        lines: LINES_MAX,
    },
    Technique {
        words: &["zero_infinity", "ZeroInfinity"],
        own: &["workloads/src/passes/zero_infinity.rs"],
        lines: LINES_MAX,
    },
    Technique {
        words: &["RecomputeMode", "techniques.recompute", "passes::recompute"],
        own: &[
            "workloads/src/passes/recompute/",
            "scenarios/src/experiment/check/recompute.rs",
            "scenarios/src/validation/on_device/recompute.rs",
        ],
        lines: LINES_MAX,
    },
];

#[test]
fn techniques_are_named_in_few_places() {
    let mut files = code_of_crates();
    files.retain(|path| !path.ends_with(DATA) && !path.ends_with("tests.rs"));
    let texts: Vec<(String, String)> = files
        .iter()
        .map(|path| (path.display().to_string(), fs::read_to_string(path).expect("UTF-8")))
        .collect();
    for Technique { words, own, lines } in TECHNIQUES {
        let elsewhere = texts.iter().filter(|(path, _)| !own.iter().any(|own| path.contains(own)));
        let without_tests = elsewhere.flat_map(|(path, text)| {
            let code = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
            code.map(move |line| (path, line.trim_start()))
        });
        let names = |line: &str| !line.starts_with("//") && words.iter().any(|word| line.contains(word));
        let found: Vec<_> = without_tests.filter(|(_, line)| names(line)).collect();
        assert!(found.len() <= lines, "{words:?}: {} lines: {found:#?}", found.len());
    }
}
