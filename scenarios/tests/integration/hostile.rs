//! No text makes the loader panic, hang or run away with memory.

use std::collections::BTreeMap;

use proptest::prelude::*;
use scenarios::run::{Unwatched, plan};
use scenarios::{library, load};

use crate::support::options;

/// Loads, sizes up and resolves a little if that goes well; any outcome is right as long as there is one.
fn survives(bytes: Vec<u8>, overrides: &[String]) {
    let files = BTreeMap::from([("fuzz.yaml".to_owned(), bytes)]);
    match load(&files, "fuzz.yaml", overrides) {
        Err(failure) => {
            assert!(!failure.problems.is_empty(), "a failure without problem");
            assert!(failure.problems.iter().all(|problem| !problem.notes.is_empty()));
            assert!(!failure.render(true).is_empty());
        }
        Ok(experiment) => {
            match plan(&experiment, &options(), &Unwatched) {
                Ok(plan) => {
                    assert!(plan.searched || plan.runs + plan.infeasible > 0 || plan.points == 0, "{plan:?}");
                }
                Err(refusal) => assert!(!refusal.to_string().is_empty()),
            }
            let variants: Vec<String> = experiment.variants().map(str::to_owned).collect();
            for point in experiment.points().take(3) {
                for variant in &variants {
                    if let Ok(resolved) = experiment.resolve(variant, &point) {
                        assert!(experiment.explain(&resolved).contains("model:"));
                    }
                }
            }
        }
    }
}

fn texts() -> Vec<&'static str> {
    library::names().filter_map(library::get).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        survives(bytes, &[]);
    }

    #[test]
    fn arbitrary_yaml_like_text(text in "([a-z]{1,6}|[0-9]{1,4}|[\\[\\]{}:,&*!|>'\"%@`#?\n \t-]){0,80}") {
        survives(text.into_bytes(), &[]);
    }

    #[test]
    fn a_library_scenario_with_some_bytes_changed(
        which in 0..library::names().count(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = texts()[which].as_bytes().to_vec();
        for (place, byte) in changes {
            let at = place.index(bytes.len());
            bytes[at] = byte;
        }
        survives(bytes, &[]);
    }
}

proptest! {
    // Most of these load, and all points of their sweeps are sized up.
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_library_scenario_with_lines_moved(
        which in 0..library::names().count(),
        moves in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..8),
    ) {
        let mut lines: Vec<&str> = texts()[which].lines().collect();
        for (from, to) in moves {
            let line = lines.remove(from.index(lines.len()));
            lines.insert(to.index(lines.len() + 1), line);
        }
        survives(lines.join("\n").into_bytes(), &[]);
    }

    #[test]
    fn arbitrary_settings_from_the_command_line(path in "[a-z_.\\[\\]]{0,30}", value in ".{0,30}") {
        survives(texts()[0].as_bytes().to_vec(), &[format!("{path}={value}"), format!("run.seeds={value}"), value]);
    }
}
