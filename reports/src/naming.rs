//! How points and runs of a sweep are called: by the swept values that tell them apart, and by no others.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;

use crate::summary::RunSummary;
use crate::wording::said;

/// The swept paths that tell the points of an experiment apart, with a short name for each.
///
/// One axis may set many paths at once, as a row of a profile sets stages, times and sizes. Of these only the ones that
/// distinguish points which the paths before them do not are needed to know which point is meant.
#[derive(Clone, Debug, Default)]
pub struct Naming {
    paths: Vec<Told>,
}

/// A path that is told.
#[derive(Clone, Debug)]
struct Told {
    path: String,
    name: String,
    /// Form in which its values are told.
    form: Form,
}

/// Form in which values are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// As written, as shorter ones would be the same.
    InFull,
    /// In few words.
    Short,
    /// Their only keys, behind which all say the same: `rgcn`.
    Keys,
}

impl Form {
    fn of(values: &BTreeSet<&str>) -> Self {
        let parts: Option<BTreeMap<&str, &str>> = values.iter().map(|value| only_key(value)).collect();
        let behind = |keys: &BTreeMap<&str, &str>| keys.values().collect::<BTreeSet<_>>().len();
        if parts.is_some_and(|keys| keys.len() > 1 && keys.len() == values.len() && behind(&keys) == 1) {
            return Self::Keys;
        }
        let words: BTreeSet<Cow<'_, str>> = values.iter().map(|value| said(value)).collect();
        if words.len() < values.len() { Self::InFull } else { Self::Short }
    }
}

/// The key of a map that has no other, and what is behind it.
fn only_key(written: &str) -> Option<(&str, &str)> {
    let (key, behind) = written.strip_prefix('{')?.strip_suffix('}')?.split_once(": ")?;
    let is_one = behind.starts_with('{') && behind.find('}') == Some(behind.len() - 1);
    is_one.then_some((key.trim(), behind))
}

impl Naming {
    /// The paths of `axes`, outermost first, that tell the points of `runs` apart.
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
        let told = |path: &&str| {
            let values: BTreeSet<&str> =
                runs.iter().filter_map(|run| run.point.get(*path)).map(String::as_str).collect();
            Told { path: (*path).to_owned(), name: shortest(path, &telling), form: Form::of(&values) }
        };
        Naming { paths: telling.iter().map(told).collect() }
    }

    /// The paths with their names: (`training.micro_batches`, `micro-batches`).
    pub fn paths(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.paths.iter().map(|told| (told.path.as_str(), told.name.as_str()))
    }

    /// What a value at a path is called: `vit-l-16`, as written where that would not tell it from the others.
    pub fn value<'v>(&self, path: &str, written: &'v str) -> Cow<'v, str> {
        let form = self.paths.iter().find(|told| told.path == path).map_or(Form::Short, |told| told.form);
        match (form, only_key(written)) {
            (Form::InFull, _) => Cow::Borrowed(written),
            (Form::Keys, Some((key, _))) => Cow::Borrowed(key),
            (Form::Keys, None) | (Form::Short, _) => said(written),
        }
    }

    /// A point: `stages 8, micro-batches 64`; empty without sweep.
    pub fn point(&self, point: &IndexMap<String, String>) -> String {
        let value = |(path, name)| Some(format!("{name} {}", self.value(path, point.get(path)?)));
        let values = self.paths().filter_map(value);
        values.collect::<Vec<_>>().join(", ")
    }

    /// A run: the variant, and the point in brackets if there are several: `bpipe (micro-batch 4)`.
    pub fn run(&self, run: &RunSummary) -> String {
        match self.point(&run.point) {
            point if point.is_empty() => run.variant.clone(),
            point => format!("{} ({point})", run.variant),
        }
    }
}

/// A path in words, by its last keys: as few as tell of what, and no other of `paths` ends with.
pub(crate) fn shortest(path: &str, paths: &[&str]) -> String {
    let keys = told_keys(path);
    let ends_alike =
        |tail: &[&str]| paths.iter().filter(|other| told_keys(other).ends_with(tail)).count() > 1;
    // A count alone does not tell of what.
    let tells = |tail: &[&str]| tail != ["count"] && !ends_alike(tail);
    let from = (0..keys.len()).rev().find(|from| tells(&keys[*from..])).unwrap_or_default();
    keys[from..].join(" ").replace('_', "-")
}

/// Keys of a path; the name of a thing is told by the thing.
fn told_keys(path: &str) -> Vec<&str> {
    path.strip_suffix(".name").unwrap_or(path).split('.').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_differ_in_their_key_alone_are_called_by_it() {
        let written = ["{rgcn: {hidden: 64, inputs: 64}}", "{hgt: {hidden: 64, inputs: 64}}"];
        let axes = ["machine.node.name", "model.graph.network"];
        let (runs_of, axes) = runs(&axes, &[&["dgx-2", written[0]], &["dgx-h100", written[1]]]);
        let naming = Naming::of(&runs_of, &axes);
        assert_eq!(naming.run(&runs_of[1]), "plain (node dgx-h100)");
        assert_eq!(naming.paths().next(), Some(("machine.node.name", "node")));
        let axes = ["model.graph.network"];
        let (runs_of, axes) = runs(&axes, &[&[written[0]], &[written[1]]]);
        assert_eq!(Naming::of(&runs_of, &axes).run(&runs_of[0]), "plain (network rgcn)");
        // What is behind the keys differs here, so that it is told.
        let (runs_of, axes) = runs(&["a.b"], &[&[written[0]], &["{hgt: {hidden: 32, inputs: 64}}"]]);
        assert_ne!(Naming::of(&runs_of, &axes).run(&runs_of[1]), "plain (b hgt)");
    }

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
    fn values_are_called_by_words_that_tell_them_apart() {
        let models = |values: [&'static str; 2]| {
            let (runs, axes) = runs(&["model"], &[&[values[0]], &[values[1]]]);
            Naming::of(&runs, &axes).point(&runs[0].point)
        };
        assert_eq!(models(["{layers: {preset: vit}}", "{layers: {preset: bert}}"]), "model vit");
        let alike = models(["{layers: {preset: vit}}", "{transformer: {preset: vit}}"]);
        assert_eq!(alike, "model layers");
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
