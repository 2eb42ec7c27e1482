//! `results.csv` read back, and what contenders do in it, by the plainest means there are.

use indexmap::{IndexMap, IndexSet};
use reports::finding::Speed;
use reports::naming::Naming;
use reports::summary::RunSummary;

/// Two speeds closer than this share tie.
const TIE: f64 = 0.0005;
/// Two amounts of memory closer than this share are alike.
pub(super) const ALIKE: f64 = 0.02;

/// A file of results.
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
    pub(super) speed: Speed,
    cases: Vec<String>,
    case_naming: Naming,
    setting_naming: Naming,
}

/// A run.
#[derive(Clone)]
pub(super) struct Row {
    cells: IndexMap<String, String>,
    pub(super) point: IndexMap<String, String>,
}

/// The best run of a contender in a case.
#[derive(Clone)]
pub(super) struct Best {
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) peak: Option<f64>,
    /// Speed of the fastest over its own, where only errors make it a tie.
    pub(super) apart: Option<f64>,
}

impl Table {
    /// Reads the text of a file, with what `results.json` says about its axes.
    pub(super) fn read(text: &str, axes: &[String], cases: &[String]) -> Self {
        let mut lines = records(text).into_iter();
        let titles = lines.next().unwrap_or_default();
        let rows: Vec<Row> =
            lines.map(|cells| Row::of(titles.iter().cloned().zip(cells).collect())).collect();
        let running = || rows.iter().filter(|row| row.value(Speed::Steps).is_some());
        let known = |speed: &Speed| running().all(|row| row.value(*speed).is_some());
        let speed = [Speed::Tokens, Speed::Samples, Speed::MicroBatches]
            .into_iter()
            .find(known)
            .unwrap_or(Speed::Steps);
        let of_work = matches!(speed, Speed::Tokens | Speed::Samples);
        let (cases, settings): (Vec<String>, Vec<String>) =
            axes.iter().cloned().partition(|path| !of_work || cases.contains(path));
        let points: Vec<RunSummary> =
            rows.iter().map(|row| RunSummary { point: row.point.clone(), ..RunSummary::default() }).collect();
        let naming = |paths: &[String]| Naming::of(&points, paths);
        Table { speed, case_naming: naming(&cases), setting_naming: naming(&settings), cases, rows }
    }

    /// The cases, by paths and values.
    pub(super) fn cases(&self) -> Vec<IndexMap<String, String>> {
        let cases: IndexSet<Vec<(String, String)>> =
            self.rows.iter().map(|row| self.case_of(row).into_iter().collect()).collect();
        cases.into_iter().map(|case| case.into_iter().collect()).collect()
    }

    fn case_of(&self, row: &Row) -> IndexMap<String, String> {
        let value = |path: &String| Some((path.clone(), row.point.get(path)?.clone()));
        self.cases.iter().filter_map(value).collect()
    }

    /// The rows of a case.
    pub(super) fn within(&self, case: &IndexMap<String, String>) -> Vec<&Row> {
        self.rows.iter().filter(|row| self.case_of(row) == *case).collect()
    }

    pub(super) fn case_name(&self, case: &IndexMap<String, String>) -> String {
        self.case_naming.point(case)
    }

    pub(super) fn setting_name(&self, row: &Row) -> String {
        self.setting_naming.point(&row.point)
    }

    pub(super) fn has_variants(&self) -> bool {
        self.rows.iter().any(|row| row.variant() != self.rows[0].variant())
    }

    pub(super) fn contender(&self, row: &Row) -> String {
        let setting = self.setting_name(row);
        if self.has_variants() || setting.is_empty() { row.variant().to_owned() } else { setting }
    }

    pub(super) fn contenders(&self) -> Vec<String> {
        self.rows.iter().map(|row| self.contender(row)).collect::<IndexSet<_>>().into_iter().collect()
    }

    /// The rows of a contender.
    pub(super) fn of(&self, contender: &str) -> Vec<&Row> {
        self.rows.iter().filter(|row| self.contender(row) == contender).collect()
    }

    pub(super) fn value(&self, row: &Row) -> Option<f64> {
        row.value(self.speed)
    }

    /// The contenders that nothing is faster than in `rows`, the best one first; and the others.
    pub(super) fn stand(&self, rows: &[&Row]) -> (Vec<Best>, Vec<Best>) {
        let best = |row: &&Row| {
            let value = self.value(row)?;
            let (peak, apart) = (row.number("peak_memory_bytes"), row.number("tie_with_fastest.ratio"));
            Some(Best { name: self.contender(row), value, peak, apart })
        };
        let all: Vec<Best> = rows.iter().filter_map(best).collect();
        let top = all.iter().map(|best| best.value).fold(0.0, f64::max);
        let mut first: Vec<Best> = Vec::new();
        let mut rest: Vec<Best> = Vec::new();
        for name in all.iter().map(|best| &best.name).collect::<IndexSet<_>>() {
            let own: Vec<Best> = all.iter().filter(|best| best.name == *name).cloned().collect();
            let tying: Vec<Best> =
                own.iter().filter(|best| top <= best.value * (1.0 + TIE)).cloned().collect();
            match tying.is_empty() {
                false => first.push(tying[leanest(&tying)].clone()),
                true => rest.push(
                    own.iter().rev().max_by(|a, b| a.value.total_cmp(&b.value)).expect("it has runs").clone(),
                ),
            }
        }
        if !first.is_empty() {
            let leader = first.remove(leanest(&first));
            first.insert(0, leader);
        }
        rest.sort_by(|a, b| b.value.total_cmp(&a.value));
        let (close, rest): (Vec<_>, Vec<_>) = rest.into_iter().partition(|best| best.apart.is_some());
        first.extend(close);
        (first, rest)
    }
}

/// The first of those that need least memory; where it is not known of all, the first.
pub(super) fn leanest(bests: &[Best]) -> usize {
    let Some(peaks) = bests.iter().map(|best| best.peak).collect::<Option<Vec<f64>>>() else { return 0 };
    let least = peaks.iter().copied().fold(f64::INFINITY, f64::min);
    peaks.iter().position(|peak| *peak <= least * (1.0 + ALIKE)).unwrap_or(0)
}

impl Row {
    fn of(cells: IndexMap<String, String>) -> Self {
        let swept = |(title, value): (&String, &String)| {
            let path = title.strip_prefix("point.")?;
            (!value.is_empty()).then(|| (path.to_owned(), value.clone()))
        };
        Row { point: cells.iter().filter_map(swept).collect(), cells }
    }

    /// Titles and cells, without empty ones.
    pub(super) fn cells(&self) -> impl Iterator<Item = (&str, &str)> {
        let cells = self.cells.iter().map(|(title, text)| (title.as_str(), text.as_str()));
        cells.filter(|(_, text)| !text.is_empty())
    }

    pub(super) fn text(&self, title: &str) -> Option<&str> {
        self.cells.get(title).map(String::as_str).filter(|text| !text.is_empty())
    }

    pub(super) fn number(&self, title: &str) -> Option<f64> {
        self.text(title)?.parse().ok()
    }

    pub(super) fn variant(&self) -> &str {
        self.text("variant").unwrap_or_default()
    }

    pub(super) fn step_time(&self) -> Option<f64> {
        self.number("step_time_s").filter(|time| self.text("fits") == Some("true") && *time > 0.0)
    }

    fn value(&self, speed: Speed) -> Option<f64> {
        let time = self.step_time()?;
        match speed {
            Speed::Tokens => self.number("tokens_per_s"),
            Speed::Samples => self.number("samples_per_s"),
            Speed::MicroBatches => Some(self.number("micro_batches")? / time),
            Speed::Steps => Some(1.0 / time),
        }
    }
}

/// The records of a file of comma-separated values; quotes may hold commas, lines and doubled
/// quotes.
fn records(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut cell) = (Vec::new(), Vec::new(), String::new());
    let (mut quoted, mut letters) = (false, text.chars().peekable());
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                record.push(std::mem::take(&mut cell));
                records.push(std::mem::take(&mut record));
            }
            letter => cell.push(letter),
        }
    }
    records
}

#[test]
fn quotes_hold_commas_lines_and_quotes() {
    assert_eq!(records("a,\"b, \"\"c\"\"\nd\",\n,1,\n"), [["a", "b, \"c\"\nd", ""], ["", "1", ""]]);
}
