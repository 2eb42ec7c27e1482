//! Published figures of one metric as one grid: variants down, points across, ours above theirs.

use std::borrow::Cow;
use std::collections::BTreeSet;

use indexmap::{IndexMap, IndexSet};

use crate::naming::shortest;
use crate::quantity;
use crate::summary::{Citation, Difference, Subject};
use crate::wording::said;

/// Figures of one metric that make a grid; fewer are listed.
const FIGURES_MIN: usize = 4;

/// Figures of one metric.
pub(crate) struct Grid<'a> {
    /// The metric in words.
    pub(crate) metric: &'a str,
    /// The swept settings that the figures name, each with its value at every point.
    pub(crate) head: Vec<(String, Vec<Cow<'a, str>>)>,
    /// One for each variant whose figures all agree, three for the others.
    pub(crate) lines: Vec<Line<'a>>,
    /// Where they were published, each once.
    pub(crate) sources: IndexSet<&'a str>,
}

/// Figures of one variant at every point.
pub(crate) struct Line<'a> {
    /// On its first line.
    pub(crate) variant: &'a str,
    /// Whose figures.
    pub(crate) what: &'static str,
    /// Empty where nothing was published.
    pub(crate) cells: Vec<String>,
}

/// The grids that figures make.
pub(super) fn of(citations: &[Citation]) -> Vec<Grid<'_>> {
    let mut by_metric: IndexMap<&str, Vec<(&Subject, &Citation)>> = IndexMap::new();
    for citation in citations {
        if let Some(subject) = &citation.subject {
            by_metric.entry(&subject.metric).or_default().push((subject, citation));
        }
    }
    by_metric.retain(|_, figures| figures.len() >= FIGURES_MIN && all_differ(figures));
    by_metric.iter().map(|(metric, figures)| Grid::of(metric, figures)).collect()
}

/// Whether no two figures would stand in one place.
fn all_differ(figures: &[(&Subject, &Citation)]) -> bool {
    let place = |(subject, _): &(&Subject, &Citation)| {
        let at: Vec<_> = subject.at.iter().map(|(path, value)| (path.clone(), value.clone())).collect();
        (subject.variant.clone(), at)
    };
    figures.iter().map(place).collect::<BTreeSet<_>>().len() == figures.len()
}

impl<'a> Grid<'a> {
    fn of(metric: &'a str, figures: &[(&'a Subject, &'a Citation)]) -> Self {
        let mut points: Vec<&IndexMap<String, String>> = Vec::new();
        for (subject, _) in figures {
            if !points.contains(&&subject.at) {
                points.push(&subject.at);
            }
        }
        let variants: IndexSet<&str> = figures.iter().map(|(subject, _)| subject.variant.as_str()).collect();
        let of_variant = |variant: &'a str| {
            let at = |point: &&IndexMap<String, String>| {
                let here =
                    |(subject, _): &&(&Subject, _)| subject.variant == variant && subject.at == **point;
                figures.iter().find(here).map(|(_, citation)| *citation)
            };
            lines(variant, &points.iter().map(at).collect::<Vec<_>>())
        };
        let paths: IndexSet<&str> = points.iter().flat_map(|at| at.keys()).map(String::as_str).collect();
        let paths: Vec<&str> = paths.into_iter().collect();
        let values = |path: &&str| {
            let value = |at: &&'a IndexMap<String, String>| said(at.get(*path).map_or("", String::as_str));
            (shortest(path, &paths), points.iter().map(value).collect())
        };
        Self {
            metric,
            head: paths.iter().map(values).collect(),
            lines: variants.into_iter().flat_map(of_variant).collect(),
            sources: figures.iter().map(|(_, citation)| citation.source.as_str()).collect(),
        }
    }

    /// Whether a figure stands in it.
    pub(super) fn has(&self, citation: &Citation) -> bool {
        citation.subject.as_ref().is_some_and(|subject| subject.metric == self.metric)
    }

    /// Whether ours is theirs everywhere.
    pub(crate) fn agrees(&self) -> bool {
        self.lines.iter().all(|line| line.what == BOTH)
    }
}

/// The line of a variant whose figures agree.
const BOTH: &str = "both";

fn lines<'a>(variant: &'a str, figures: &[Option<&Citation>]) -> Vec<Line<'a>> {
    let line = |variant, what, text: &dyn Fn(&Citation) -> String| {
        let cells = figures.iter().map(|figure| figure.map_or_else(String::new, text)).collect();
        Line { variant, what, cells }
    };
    if figures.iter().flatten().all(|citation| citation.agrees()) {
        return vec![line(variant, BOTH, &|citation| citation.published.clone())];
    }
    // Why there is no figure of ours is too long for a cell.
    let ours = |citation: &Citation| match citation.pair {
        Some(_) => citation.ours.clone(),
        None => quantity::NONE.to_owned(),
    };
    let in_points =
        figures.iter().flatten().any(|figure| matches!(figure.difference, Some(Difference::Points(_))));
    let (what, unit) = if in_points { ("points", " points") } else { ("difference", "") };
    vec![
        line(variant, "ours", &ours),
        line("", "published", &|citation| citation.published.clone()),
        line("", what, &|citation| citation.verdict().trim_end_matches(unit).to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Pair;

    fn figure(variant: &str, batches: &str, theirs: f64, ours: f64) -> Citation {
        let at = IndexMap::from([("training.micro_batches".to_owned(), batches.to_owned())]);
        Citation {
            source: "Table 5".to_owned(),
            published: theirs.to_string(),
            ours: ours.to_string(),
            difference: Some(Difference::Points(ours - theirs)),
            pair: Some(Pair { published: theirs, ours }),
            subject: Some(Subject { metric: "bubble fraction".to_owned(), variant: variant.to_owned(), at }),
            ..Citation::default()
        }
    }

    #[test]
    fn many_figures_of_a_metric_stand_in_a_grid_and_the_others_in_a_list() {
        let mut figures = vec![
            figure("1f1b", "8", 0.25, 0.25),
            figure("1f1b", "16", 0.2, 0.2),
            figure("zb-h1", "16", 0.125, 0.25),
            figure("zb-h1", "32", 0.125, 0.125),
        ];
        figures.push(Citation { subject: None, ..figures[0].clone() });
        let grids = of(&figures);
        assert_eq!(
            figures.iter().map(|figure| grids[0].has(figure)).collect::<Vec<_>>(),
            [true, true, true, true, false]
        );
        assert_eq!(
            grids[0].head,
            [("micro-batches".to_owned(), ["8", "16", "32"].map(Cow::Borrowed).to_vec())]
        );
        let text = |line: &Line<'_>| format!("{}|{}|{}", line.variant, line.what, line.cells.join("|"));
        let lines: Vec<_> = grids[0].lines.iter().map(text).collect();
        let expected = [
            "1f1b|both|0.25|0.2|",
            "zb-h1|ours||0.25|0.125",
            "|published||0.125|0.125",
            "|points||+12.5|equal",
        ];
        assert_eq!(lines, expected);
        assert!(!grids[0].agrees());
    }

    #[test]
    fn figures_that_would_stand_in_one_place_are_listed() {
        let figures = vec![figure("1f1b", "8", 0.25, 0.25); FIGURES_MIN];
        assert!(of(&figures).is_empty());
    }
}
