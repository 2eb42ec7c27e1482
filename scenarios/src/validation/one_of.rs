//! Rows that rest on one measurement judge once.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Judged;

/// Rows that say the same in some columns rest on one measurement: of these the one with the median error judges.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OneOf {
    /// The columns.
    columns: Vec<String>,
    /// The measurement that they share, in the words of a sentence: `a trace`.
    share: String,
}

impl OneOf {
    /// One row of each group, the others left out with the reason. Rows without a prediction stay as they are.
    pub(super) fn each(&self, judged: Vec<Judged>) -> Vec<Judged> {
        let mut groups: IndexMap<Vec<Option<String>>, Vec<Judged>> = IndexMap::new();
        for judged in judged {
            let key = self.columns.iter().map(|column| judged.inputs.get(column).cloned()).collect();
            groups.entry(key).or_default().push(judged);
        }
        groups.into_values().flat_map(|rows| self.of_group(rows)).collect()
    }

    fn of_group(&self, rows: Vec<Judged>) -> Vec<Judged> {
        let (mut known, mut others): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|judged| judged.row.is_ok());
        let error = |judged: &Judged| judged.row.as_ref().map_or(f64::NAN, reports::validation::Row::error);
        known.sort_by(|a, b| error(a).total_cmp(&error(b)));
        let (Some(least), Some(most)) = (known.first().map(error), known.last().map(error)) else {
            return others;
        };
        let count = known.len();
        let median = known.remove((count - 1) / 2);
        let because = format!(
            "it shares {} with {}, which has the median error of {count} rows from {:+.1} to {:+.1} %",
            self.share,
            median.place,
            100.0 * least,
            100.0 * most
        );
        others.extend(known.into_iter().map(|judged| Judged { row: Err(because.clone()), ..judged }));
        [median].into_iter().chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use reports::validation::Row;

    use super::*;

    #[test]
    fn the_median_of_a_group_judges() {
        let row = |group: &str, place: &str, predicted| Judged {
            part: String::new(),
            place: place.to_owned(),
            inputs: IndexMap::from([("trace".to_owned(), group.to_owned())]),
            row: Ok(Row { predicted, measured: 1.0, ..Row::default() }),
        };
        let one_of = OneOf { columns: vec!["trace".to_owned()], share: "a trace".to_owned() };
        let rows = vec![row("1", "a", 1.2), row("1", "b", 0.9), row("2", "c", 1.0), row("1", "d", 1.1)];
        let found = one_of.each(rows);
        let judging: Vec<&str> =
            found.iter().filter(|judged| judged.row.is_ok()).map(|judged| judged.place.as_str()).collect();
        assert_eq!(judging, ["d", "c"]);
        let reason = found[1].row.as_ref().expect_err("d judges for it");
        assert_eq!(
            reason,
            "it shares a trace with d, which has the median error of 3 rows from -10.0 to +20.0 %"
        );
    }
}
