//! How points and runs of a sweep are called: by the swept values that tell them apart, and by no others.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use crate::summary::RunSummary;

/// The swept paths that tell the points of an experiment apart, with a short name for each.
///
/// One axis may set many paths at once, as a row of a profile sets stages, times and sizes. Of these only the ones that
/// distinguish points which the paths before them do not are needed to know which point is meant.
#[derive(Clone, Debug, Default)]
pub struct Naming {
    paths: Vec<(String, String)>,
}

impl Naming {
    /// The paths of `axes`, outermost first, that tell the points of `runs` apart.
    #[must_use]
    pub fn of(runs: &[RunSummary], axes: &[String]) -> Self {
        let mut telling: Vec<&str> = Vec::new();
        let mut class_of = vec![0; runs.len()];
        let mut count = usize::from(!runs.is_empty());
        for path in axes {
            let mut classes: BTreeMap<(usize, Option<&str>), usize> = BTreeMap::new();
            let mut refined = Vec::with_capacity(runs.len());
            for (run, class) in runs.iter().zip(&class_of) {
                let next = classes.len();
                let value = run.point.get(path).map(String::as_str);
                refined.push(*classes.entry((*class, value)).or_insert(next));
            }
            if classes.len() > count {
                count = classes.len();
                class_of = refined;
                telling.push(path);
            }
        }
        let named = |path: &&str| ((*path).to_owned(), shortest(path, &telling));
        Naming { paths: telling.iter().map(named).collect() }
    }

    /// The paths with their names: (`training.micro_batches`, `micro-batches`).
    pub fn paths(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.paths.iter().map(|(path, name)| (path.as_str(), name.as_str()))
    }

    /// A point: `stages 8, micro-batches 64`; empty without sweep.
    #[must_use]
    pub fn point(&self, point: &IndexMap<String, String>) -> String {
        let values = self.paths().filter_map(|(path, name)| Some(format!("{name} {}", point.get(path)?)));
        values.collect::<Vec<_>>().join(", ")
    }

    /// A run: the variant, and the point in brackets if there are several: `bpipe (micro-batch 4)`.
    #[must_use]
    pub fn run(&self, run: &RunSummary) -> String {
        match self.point(&run.point) {
            point if point.is_empty() => run.variant.clone(),
            point => format!("{} ({point})", run.variant),
        }
    }
}

/// A path in words, by its last keys: as few as no other of `paths` ends with.
pub(crate) fn shortest(path: &str, paths: &[&str]) -> String {
    let keys: Vec<&str> = path.split('.').collect();
    let ends_alike = |tail: &[&str]| {
        paths.iter().filter(|other| other.split('.').collect::<Vec<_>>().ends_with(tail)).count() > 1
    };
    let from = (0..keys.len()).rev().find(|from| !ends_alike(&keys[*from..])).unwrap_or_default();
    keys[from..].join(" ").replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(axes: &[&str], points: &[&[&str]]) -> (Vec<RunSummary>, Vec<String>) {
        let run = |values: &&[&str]| RunSummary {
            variant: "plain".to_owned(),
            point: axes.iter().zip(*values).map(|(a, v)| ((*a).to_owned(), (*v).to_owned())).collect(),
            ..RunSummary::default()
        };
        (points.iter().map(run).collect(), axes.iter().map(|axis| (*axis).to_owned()).collect())
    }

    #[test]
    fn a_point_is_called_by_what_tells_it_from_the_others() {
        let axes = ["model.stages", "training.micro_batches", "training.micro_batch", "model.forward"];
        let (runs, axes) = runs(
            &axes,
            &[
                &["8", "24", "6", "18.5 ms"],
                &["8", "64", "6", "18.6 ms"],
                &["16", "48", "1", "11.3 ms"],
                &["16", "64", "1", "11.4 ms"],
            ],
        );
        let naming = Naming::of(&runs, &axes);
        assert_eq!(naming.run(&runs[1]), "plain (stages 8, micro-batches 64)");
        assert_eq!(naming.paths().count(), 2);
    }

    #[test]
    fn a_value_that_never_changes_is_not_said() {
        let (runs, axes) = runs(&["a", "b"], &[&["1", "x"], &["1", "y"]]);
        assert_eq!(Naming::of(&runs, &axes).point(&runs[0].point), "b x");
        assert_eq!(Naming::of(&runs[..1], &axes).run(&runs[0]), "plain");
    }

    #[test]
    fn paths_that_end_alike_are_told_apart() {
        let (runs, axes) = runs(
            &["host.memory", "device.memory"],
            &[&["1 GB", "1 GB"], &["1 GB", "2 GB"], &["2 GB", "2 GB"]],
        );
        assert_eq!(Naming::of(&runs, &axes).point(&runs[1].point), "host memory 1 GB, device memory 2 GB");
    }
}
