//! What readers should know before they compare runs, as sentences.

use crate::finding::list_owned;
use crate::ranking::Comparison;

/// The notes of all runs, each once, with the runs that it is about unless these are all.
pub(crate) fn notes(all: &Comparison<'_>) -> Vec<String> {
    let runs = || all.points.iter().flat_map(|point| &point.runs);
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for (note, run) in runs().flat_map(|run| run.notes.iter().map(move |note| (note, run))) {
        match groups.iter_mut().find(|(known, _)| *known == note) {
            Some((_, names)) => names.push(all.naming.run(run)),
            None => groups.push((note, vec![all.naming.run(run)])),
        }
    }
    let count = runs().count();
    let worded = |(note, names): (&str, Vec<String>)| match names.len() == count {
        true => note.to_owned(),
        false => format!("{}: {note}", list_owned(&names)),
    };
    groups.into_iter().map(worded).collect()
}
