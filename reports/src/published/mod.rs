//! Published figures beside ours: which agree to every printed digit, and how far the others are off.

mod grid;

use crate::quantity;
use crate::summary::{Citation, Difference};

pub(crate) use grid::{Grid, Line};

/// The published figures, by how much they tell.
pub(crate) struct Published<'a> {
    /// Those that do not agree: first the ones that no number compares (ranges, runs without result), then the farthest
    /// off.
    pub(crate) apart: Vec<&'a Citation>,
    /// Those that agree, in the order of the file.
    pub(crate) agreeing: Vec<&'a Citation>,
    /// The same figures again where many are of one metric,
    pub(crate) grids: Vec<Grid<'a>>,
    /// and those in no grid, in the order of `apart` and then `agreeing`.
    pub(crate) others: Vec<&'a Citation>,
}

impl<'a> Published<'a> {
    pub(crate) fn of(citations: &'a [Citation]) -> Self {
        let (agreeing, mut apart): (Vec<_>, Vec<_>) =
            citations.iter().partition(|citation| citation.agrees());
        let off = |citation: &Citation| citation.difference.map_or(f64::INFINITY, Difference::size);
        apart.sort_by(|a, b| off(b).total_cmp(&off(a)));
        let grids = grid::of(citations);
        let listed = |citation: &&Citation| !grids.iter().any(|grid| grid.has(citation));
        let others = apart.iter().chain(&agreeing).copied().filter(listed).collect();
        Published { apart, agreeing, grids, others }
    }

    /// `30 of 42 figures agree to every printed digit`, `12 differ by 4.02 % on average and 6.10 % at most`.
    pub(crate) fn findings(&self) -> Vec<String> {
        let all = self.agreeing.len() + self.apart.len();
        let agree = match (self.agreeing.len(), all) {
            (1, 1) => "The figure agrees to every printed digit".to_owned(),
            (every, all) if every == all => format!("All {all} figures agree to every printed digit"),
            (0, _) => String::new(),
            (1, all) => format!("One of {all} figures agrees to every printed digit"),
            (some, all) => format!("{some} of {all} figures agree to every printed digit"),
        };
        let differences = || self.apart.iter().filter_map(|citation| citation.difference);
        let relative = differences().filter(|difference| matches!(difference, Difference::Relative(_)));
        let points = differences().filter(|difference| matches!(difference, Difference::Points(_)));
        let clauses = [Some(agree).filter(|text| !text.is_empty()), off(points), off(relative)];
        clauses.into_iter().flatten().collect()
    }
}

/// `12 differ by 4.02 % on average and 6.10 % at most`.
fn off(differences: impl Iterator<Item = Difference>) -> Option<String> {
    let differences: Vec<_> = differences.collect();
    let worst = differences
        .iter()
        .copied()
        .reduce(|worst, next| if next.size() > worst.size() { next } else { worst })?;
    let mean = differences.iter().map(|difference| difference.size()).sum::<f64>() / differences.len() as f64;
    let text = |size| worst.of_size(size).unsigned_text();
    Some(match differences.len() {
        1 => format!("one differs by {}", text(mean)),
        count => format!("{count} differ by {} on average and {} at most", text(mean), text(worst.size())),
    })
}

impl Citation {
    /// Whether ours, rounded as theirs was printed, is theirs. Two digits tell little: whatever was printed, ours is not
    /// equal when it is more than half a per cent off.
    pub(crate) fn agrees(&self) -> bool {
        let Some((pair, (printed, half_a_digit))) = self.pair.zip(printed(&self.published)) else {
            return false;
        };
        // Theirs may be printed in another unit than the pair is kept in.
        let unit = if printed == 0.0 { 1.0 } else { pair.published / printed };
        let close = if printed == 0.0 { half_a_digit } else { half_a_digit.min(0.005 * printed) };
        (pair.ours - pair.published).abs() <= close * unit.abs() * (1.0 + 1e-9)
    }

    /// Name of the figure, and its place: `bubble fraction of 1f1b at micro-batch 2`.
    pub(crate) fn label(&self) -> String {
        if self.at.is_empty() { self.text.clone() } else { format!("{} at {}", self.text, self.at) }
    }

    /// How far ours is from theirs in words.
    pub(crate) fn verdict(&self) -> String {
        match self.difference {
            _ if self.agrees() => "equal".to_owned(),
            Some(difference) => difference.text(),
            None => quantity::NONE.to_owned(),
        }
    }
}

/// The number a printed figure begins with, and half of its last digit: 0.2431 and 0.00005.
fn printed(figure: &str) -> Option<(f64, f64)> {
    let end = figure.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(figure.len());
    let digits = &figure[..end];
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    Some((digits.parse().ok()?, 0.5 * 10f64.powi(-i32::try_from(decimals).ok()?)))
}

impl Difference {
    /// `+1.20 %` or `-0.140 points`.
    fn text(self) -> String {
        match self {
            Difference::Relative(share) => quantity::change(share),
            Difference::Points(share) => quantity::points(share),
        }
    }

    /// Without sign.
    fn unsigned_text(self) -> String {
        self.text().trim_start_matches(['+', '-']).to_owned()
    }

    /// Its absolute value, as a share.
    pub(crate) fn size(self) -> f64 {
        match self {
            Difference::Relative(share) | Difference::Points(share) => share.abs(),
        }
    }

    /// The same kind of difference, of another size.
    fn of_size(self, share: f64) -> Self {
        match self {
            Difference::Relative(_) => Difference::Relative(share),
            Difference::Points(_) => Difference::Points(share),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Pair;

    fn citation(published: &str, theirs: f64, ours: f64) -> Citation {
        Citation {
            published: published.to_owned(),
            difference: Some(Difference::Points(ours - theirs)),
            pair: Some(Pair { published: theirs, ours }),
            ..Citation::default()
        }
    }

    #[test]
    fn a_figure_is_equal_if_it_would_be_printed_the_same() {
        let cases = [
            ("0.2431", 0.2431, 0.24305, true),
            ("0.2431", 0.2431, 0.24316, false),
            ("24.31 %", 0.2431, 0.243_14, true),
            ("24.31 %", 0.2431, 0.2432, false),
            ("1.3 times", 1.3, 1.34, false),
            ("1.3 times", 1.3, 1.305, true),
            ("0", 0.0, 0.2, true),
            ("1.3 to 1.5 times", 1.3, f64::NAN, false),
        ];
        for (published, theirs, ours, agrees) in cases {
            assert_eq!(citation(published, theirs, ours).agrees(), agrees, "{published} and {ours}");
        }
    }

    #[test]
    fn the_worst_differences_come_first_and_are_said() {
        let mut open = citation("25", 25.0, 25.0);
        (open.pair, open.difference) = (None, None);
        let citations = [
            citation("0.2431", 0.2431, 0.2431),
            citation("0.1055", 0.1055, 0.1085),
            citation("0.1104", 0.1104, 0.1064),
            open,
        ];
        let published = Published::of(&citations);
        let apart: Vec<_> = published.apart.iter().map(|citation| citation.verdict()).collect();
        assert_eq!(apart, ["–", "-0.400 points", "+0.300 points"]);
        let findings = [
            "One of 4 figures agrees to every printed digit",
            "2 differ by 0.350 points on average and 0.400 points at most",
        ];
        assert_eq!(published.findings(), findings);
    }
}
