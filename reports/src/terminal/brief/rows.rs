//! The table of the screen: all contenders where they are few, otherwise the leader of each case.

use super::super::{Style, cut, grid, widest};
use crate::finding::brief_verdict;
use crate::naming::Naming;
use crate::quantity;
use crate::ranking::{Comparison, slower, tied};
use crate::searched::{objective, setting};
use crate::standing::{Entry, Standing};
use crate::summary::{RunSummary, SearchProof, Summary};
use crate::table::used;

/// Rows at most.
pub(super) const ROWS_MAX: usize = 10;

/// Columns, in order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Name,
    At,
    Step,
    Rate,
    Mfu,
    Memory,
    Verdict,
}

const COLUMNS: [Column; 7] =
    [Column::Name, Column::At, Column::Step, Column::Rate, Column::Mfu, Column::Memory, Column::Verdict];
/// Columns that a narrow screen has no room for, the least telling first.
const DISPENSABLE: [&[Column]; 4] =
    [&[], &[Column::Mfu], &[Column::Mfu, Column::Step], &[Column::Mfu, Column::Step, Column::Memory]];
/// Characters of the longest cell, where fewer columns do not make the table narrow enough.
const WORDS_MAX: [usize; 6] = [72, 48, 32, 24, 16, 12];

/// A contender in a case, with its verdict there.
struct Row<'a> {
    name: String,
    run: Option<&'a RunSummary>,
    verdict: String,
    /// Speed over that of the next best; 1 where several tie or it is not of a leader.
    lead: f64,
}

/// Rows of a table of any height.
pub(super) struct Rows<'a> {
    comparison: &'a Comparison<'a>,
    /// Plans of a search, or contenders of all cases.
    all: Vec<Row<'a>>,
    /// Leaders of cases, the farthest ahead first, for where not all contenders have room. `None`:
    /// there is one case.
    leaders: Option<Vec<Row<'a>>>,
    /// Title of their names.
    what: &'static str,
    /// Words for the points that they are at.
    naming: Naming,
}

impl<'a> Rows<'a> {
    pub(super) fn of(summary: &'a Summary, comparison: &'a Comparison<'a>) -> Self {
        if let Some(proof) = &summary.search {
            let all = plans(proof, &summary.variants);
            return Self { comparison, all, leaders: None, what: "plan", naming: Naming::default() };
        }
        let standings: Vec<Standing<'a>> =
            comparison.cases.iter().map(|case| comparison.standing(case)).collect();
        let all = standings.iter().flat_map(|standing| of_case(standing, comparison)).collect();
        let leaders = (standings.len() > 1).then(|| leaders(&standings));
        let (what, naming) = match comparison.is_of_variants {
            true => ("variant", &comparison.naming),
            false => ("setting", &comparison.case_naming),
        };
        Self { comparison, all, leaders, what, naming: naming.clone() }
    }

    /// Lines of a table of at most `most` rows, with how many are left out.
    pub(super) fn table(&self, most: usize, style: Style) -> Vec<String> {
        let leaders = self.leaders.as_ref().filter(|_| self.all.len() > most);
        let rows = leaders.unwrap_or(&self.all);
        if rows.is_empty() {
            return Vec::new();
        }
        let cells = |row: &Row<'_>| COLUMNS.map(|column| row.cell(column, self.comparison, &self.naming));
        let cells: Vec<_> = rows.iter().take(most).map(cells).collect();
        let titles = titles(self.what, self.comparison);
        let table = fitting(&titles, &cells, style.width);
        let mut lines: Vec<String> = table.lines().map(str::to_owned).collect();
        let more = rows.len().saturating_sub(most);
        lines.extend((more > 0).then(|| format!("  {more} more rows: `--all`, results.csv")));
        lines
    }
}

/// Plans of a search, the best first.
fn plans<'a>(proof: &SearchProof, runs: &'a [RunSummary]) -> Vec<Row<'a>> {
    let values = |run: &RunSummary| {
        let text = |name: &String| Some(objective::text(name, objective::value(name, run)?, run));
        proof.minimise.iter().filter_map(text).collect::<Vec<_>>().join(", ")
    };
    let row = |(place, run): (usize, &'a RunSummary)| {
        let than_best = match &proof.minimise[..] {
            [name] if place > 0 => objective::value(name, run).zip(objective::value(name, &runs[0])),
            _ => None,
        };
        let is_tie = run.relative_to_first.is_some_and(|ratio| ratio.interval[0] <= 1.0);
        let verdict = match than_best {
            _ if run.step_time().is_none() => brief_verdict(run),
            Some((value, best)) if tied(value, best) => "as good".to_owned(),
            Some((value, best)) if is_tie => format!("tie, {} more", quantity::gain(value / best)),
            Some((value, best)) => format!("{} more", quantity::gain(value / best)),
            None if proof.minimise.len() > 1 => values(run),
            None => "best".to_owned(),
        };
        Row { name: setting(&run.variant, &run.point), run: Some(run), verdict, lead: 1.0 }
    };
    runs.iter().enumerate().map(row).collect()
}

/// Leaders of cases, the farthest ahead first.
fn leaders<'a>(standings: &[Standing<'a>]) -> Vec<Row<'a>> {
    let mut leaders: Vec<Row<'a>> = standings.iter().map(leader).collect();
    leaders.sort_by(|a, b| b.lead.total_cmp(&a.lead));
    leaders
}

/// Contenders of a case, the fastest first.
fn of_case<'a>(standing: &Standing<'a>, comparison: &Comparison<'_>) -> Vec<Row<'a>> {
    let Some(leader) = standing.leader() else { return Vec::new() };
    let is_alone = standing.tied.len() + standing.slower.len() == 1;
    let tied = standing.tied.iter().enumerate().map(|(place, entry)| {
        let verdict = match (place, is_alone) {
            (0, true) if comparison.runs().count() == 1 => "fits".to_owned(),
            (0, true) => "the only one".to_owned(),
            (0, false) => "fastest".to_owned(),
            _ if entry.is_close() => slower(leader.value / entry.value, entry.behind),
            _ => "as fast".to_owned(),
        };
        (entry, verdict)
    });
    let behind =
        standing.slower.iter().map(|entry| (entry, slower(leader.value / entry.value, entry.behind)));
    let row = |(entry, verdict): (&Entry<'a>, String)| Row {
        name: entry.name.clone(),
        run: Some(entry.run),
        verdict,
        lead: 1.0,
    };
    tied.chain(behind).map(row).collect()
}

/// The leader of a case and what it is faster than.
fn leader<'a>(standing: &Standing<'a>) -> Row<'a> {
    let Some(leader) = standing.leader() else {
        return Row {
            name: quantity::NONE.to_owned(),
            run: None,
            verdict: "nothing runs".to_owned(),
            lead: 0.0,
        };
    };
    let (verdict, lead) = match (standing.tied.len(), standing.slower.first()) {
        (1, Some(next)) => {
            let lead = leader.value / next.value;
            (format!("{} over {}", quantity::gain(lead), next.name), lead)
        }
        (1, None) => ("the only one".to_owned(), 1.0),
        (2, _) if standing.tied[1].is_close() => (format!("tie with {}", standing.tied[1].name), 1.0),
        (2, _) => (format!("as fast: {}", standing.tied[1].name), 1.0),
        (tied, _) if standing.tied.iter().any(Entry::is_close) => {
            (format!("tie with {} more", tied - 1), 1.0)
        }
        (tied, _) => (format!("{} more as fast", tied - 1), 1.0),
    };
    Row { name: leader.name.clone(), run: Some(leader.run), verdict, lead }
}

fn titles(what: &str, comparison: &Comparison<'_>) -> [String; 7] {
    let rate = format!("{}/s", comparison.speed.thing());
    [what, "at", "step time", &rate, "MFU", "peak memory", "verdict"].map(str::to_owned)
}

impl Row<'_> {
    fn cell(&self, column: Column, comparison: &Comparison<'_>, naming: &Naming) -> String {
        let of_run = |text: fn(&RunSummary) -> Option<String>| self.run.and_then(text);
        let cell = match column {
            Column::Name => Some(self.name.clone()),
            Column::At => self.run.map(|run| naming.point(&run.point)),
            Column::Step => of_run(|run| run.step_time().map(quantity::seconds)),
            Column::Rate => {
                let rate = self.run.filter(|_| comparison.speed.is_of_work());
                rate.and_then(|run| comparison.speed.value(run)).map(quantity::count)
            }
            Column::Mfu => of_run(|run| run.mfu.map(quantity::percent)),
            Column::Memory => of_run(|run| run.worst_device().map(used)),
            Column::Verdict => Some(self.verdict.clone()),
        };
        cell.unwrap_or_default()
    }
}

/// The first form that fits: with most columns, then with the longest words.
fn fitting(titles: &[String; 7], rows: &[[String; 7]], width: usize) -> String {
    let has = |place: usize| rows.iter().any(|row| !row[place].is_empty());
    let form = |words: usize, without: &[Column]| {
        let is_needed = |column: Column| column == Column::Step && !has(Column::Rate as usize);
        let shown: Vec<usize> = (0..COLUMNS.len())
            .filter(|place| has(*place))
            .filter(|place| !without.contains(&COLUMNS[*place]) || is_needed(COLUMNS[*place]))
            .collect();
        let is_number = |place: usize| (Column::Step as usize..=Column::Memory as usize).contains(&place);
        let titles = shown.iter().map(|place| (titles[*place].clone(), is_number(*place))).collect();
        let row = |row: &[String; 7]| shown.iter().map(|place| cut(&row[*place], words)).collect();
        grid(titles, rows.iter().map(row).collect())
    };
    let forms = WORDS_MAX.into_iter().flat_map(|words| DISPENSABLE.map(|without| (words, without)));
    let mut narrowest = String::new();
    for (words, without) in forms {
        narrowest = form(words, without);
        if widest(&narrowest) <= width {
            break;
        }
    }
    narrowest
}
