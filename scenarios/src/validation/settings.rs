//! From a row of a table to settings of a scenario.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;
use serde_yaml::Value;

/// What a column says about a setting: its cell as it is, divided, or translated, alone or with that of another column.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("examples" = [{ "column": "gpus", "divided_by": 8 }]))]
pub(super) struct Setting {
    pub(super) column: String,
    /// Values are for this column's cell, too: `bert inf`.
    and: Option<String>,
    divided_by: Option<u64>,
    /// Values of the setting by cell, each as YAML or as a text of it.
    #[serde(default, deserialize_with = "as_written")]
    #[schemars(with = "IndexMap<String, Json>")]
    values: IndexMap<String, String>,
}

/// Values as they would be written behind a path; JSON is YAML.
fn as_written<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IndexMap<String, String>, D::Error> {
    let written = |value| match value {
        Value::String(text) => text,
        value => serde_json::to_string(&value).expect("what was read from YAML has keys of text"),
    };
    let values = IndexMap::<String, Value>::deserialize(deserializer)?;
    Ok(values.into_iter().map(|(cell, value)| (cell, written(value))).collect())
}

impl Setting {
    /// Columns that it is made of.
    pub(super) fn columns(&self) -> impl Iterator<Item = &String> {
        [&self.column].into_iter().chain(&self.and)
    }

    /// The value for a row, as YAML.
    ///
    /// # Errors
    /// Why there is none, in a few words.
    pub(super) fn of(&self, inputs: &IndexMap<String, String>) -> Result<String, String> {
        let Self { column, and, divided_by, values } = self;
        let mut cell = of_column(inputs, column)?.to_owned();
        if let Some(other) = and {
            cell = format!("{cell} {}", of_column(inputs, other)?);
        }
        if !values.is_empty() {
            let known = || values.keys().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ");
            let unknown =
                || format!("`{column}` is `{cell}`, which the set has no setting for: it knows {}", known());
            return values.get(&cell).cloned().ok_or_else(unknown);
        }
        let Some(divisor) = *divided_by else { return Ok(cell) };
        let whole = cell.parse().ok().filter(|count: &u64| divisor > 0 && count.is_multiple_of(divisor));
        let divided = whole.and_then(|count| count.checked_div(divisor));
        divided
            .map(|count| count.to_string())
            .ok_or_else(|| format!("`{column}` is {cell}, no multiple of {divisor}"))
    }
}

/// A cell of a row.
///
/// # Errors
/// The column that the table lacks.
pub(super) fn of_column<'a>(cells: &'a IndexMap<String, String>, column: &str) -> Result<&'a str, String> {
    cells.get(column).map(String::as_str).ok_or_else(|| format!("the table has no column `{column}`"))
}

/// A row that is no measurement: the setting of its table by which that is seen, and why.
#[derive(Debug)]
pub(super) struct Fault {
    /// Key of the setting, whose column the cell is of.
    pub(super) setting: &'static str,
    pub(super) reason: String,
}

impl Fault {
    /// Makes a fault of a reason.
    pub(super) fn of<E: ToString>(setting: &'static str) -> impl Fn(E) -> Self {
        move |reason| Self { setting, reason: reason.to_string() }
    }
}

/// Errors as one reason.
pub(super) fn together(errors: &[impl ToString]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The number above 0 in a column.
pub(super) fn number(cells: &IndexMap<String, String>, column: &str) -> Result<f64, String> {
    let cell = of_column(cells, column)?;
    let number = cell.parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite());
    number.ok_or_else(|| format!("`{column}` is `{cell}`, no number above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(setting: &str, cell: &str) -> Result<String, String> {
        let setting: Setting = serde_yaml::from_str(setting).expect("a setting");
        setting.of(&IndexMap::from([("gpus".to_owned(), cell.to_owned())]))
    }

    #[test]
    fn cells_are_taken_divided_or_translated() {
        assert_eq!(of("{ column: gpus }", "fp16"), Ok("fp16".to_owned()));
        assert_eq!(of("{ column: gpus, divided_by: 8 }", "64"), Ok("8".to_owned()));
        let schedules = "{ column: gpus, values: { '': 1f1b, '3': '{ interleaved: { chunks: 3 } }' } }";
        assert_eq!(of(schedules, ""), Ok("1f1b".to_owned()));
        assert_eq!(of(schedules, "3"), Ok("{ interleaved: { chunks: 3 } }".to_owned()));
        assert_eq!(of("{ column: gpus, and: gpus, values: { 8 8: both } }", "8"), Ok("both".to_owned()));
    }

    #[test]
    fn what_has_no_value_says_why() {
        let said = |setting, cell| of(setting, cell).expect_err("no value");
        assert_eq!(said("{ column: gpus, divided_by: 8 }", "12"), "`gpus` is 12, no multiple of 8");
        assert_eq!(said("{ column: gpus, divided_by: 8 }", "many"), "`gpus` is many, no multiple of 8");
        assert_eq!(said("{ column: nodes }", "1"), "the table has no column `nodes`");
        assert_eq!(
            said("{ column: gpus, values: { A100: dgx-a100-80g } }", "V100"),
            "`gpus` is `V100`, which the set has no setting for: it knows `A100`"
        );
    }
}
