//! Findings of `validate` on one screen: a row for each set of steps, one for all of kernels, the
//! parts that are farthest beyond what is to be reached, intervals and regret.

use std::io::{self, Write};

use super::terminal::{left_out, section};
use super::{Part, SetResult, Validation};
use crate::quantity;
use crate::terminal::{Style, grid, numeric};

/// Parts that are named.
const NAMED_MAX: usize = 6;
/// Reasons for which rows are not judged, where a few sets were asked for.
const REASONS_MAX: usize = 3;

/// Writes at most 40 lines for people.
///
/// # Errors
/// Errors of `out`.
pub fn write(out: &mut impl Write, validation: &Validation, style: Style) -> io::Result<()> {
    let (kernels, steps): (Vec<_>, Vec<_>) = validation.sets.iter().partition(|set| set.is_of_kernels());
    // A few sets that were asked for are told one by one.
    let folds = kernels.len() > NAMED_MAX;
    let single: Vec<&SetResult> = if folds { steps } else { validation.sets.iter().collect() };
    let mut rows: Vec<Vec<String>> = single.iter().map(|set| row(&set.name, set.parts.iter())).collect();
    if folds {
        let name = format!("{} sets of kernels", kernels.len());
        rows.push(row(&name, kernels.iter().flat_map(|set| &set.parts)));
    }
    writeln!(out, "{}\n", validation.verdict())?;
    let titles = numeric(&["set", ">rows", ">mean error", ">bias", "within what is to be reached"]);
    writeln!(out, "{}", grid(titles, rows))?;
    let worse: Vec<_> = validation.parts().filter(|(_, part)| part.is_worse()).collect();
    section(out, "worse than the committed state", &told(&worse), style)?;
    let mut beyond: Vec<_> = validation.parts().filter(|(_, part)| !part.passed).collect();
    beyond.sort_by(|a, b| b.1.statistics.mape.total_cmp(&a.1.statistics.mape));
    section(out, "beyond what is to be reached", &told(&beyond), style)?;
    if !folds {
        let left_out: Vec<String> =
            validation.parts().flat_map(|(set, part)| left_out(&set.name, part)).take(REASONS_MAX).collect();
        section(out, "rows that were not judged", &left_out, style)?;
    }
    let steps = validation.intervals.map(|intervals| format!("step times: {}", intervals.in_words()));
    let pairs = validation.pairs.as_ref().map(|pairs| format!("their differences: {}", pairs.in_words()));
    section(out, "90 % intervals", &steps.into_iter().chain(pairs).collect::<Vec<_>>(), style)
}

/// A set, or several as one.
fn row<'a>(name: &str, parts: impl Iterator<Item = &'a Part> + Clone) -> Vec<String> {
    let parts = parts.filter(|part| part.statistics.rows > 0);
    let rows: usize = parts.clone().map(|part| part.statistics.rows).sum();
    if rows == 0 {
        let unknown = || "–".to_owned();
        return vec![name.to_owned(), rows.to_string(), unknown(), unknown(), unknown()];
    }
    let mean = |of: fn(&Part) -> f64| {
        let sum: f64 = parts.clone().map(|part| of(part) * part.statistics.rows as f64).sum();
        sum / rows as f64
    };
    let error = quantity::percent(mean(|part| part.statistics.mape));
    let bias = quantity::change(mean(|part| part.statistics.bias));
    let within = parts.clone().filter(|part| part.passed).count();
    let verdict = match (within, parts.clone().count()) {
        (1, 1) => "yes".to_owned(),
        (0, 1) => "no".to_owned(),
        (within, all) => format!("{within} of {all} parts"),
    };
    vec![name.to_owned(), rows.to_string(), error, bias, verdict]
}

/// Lines about parts, the first few of them.
fn told(parts: &[(&SetResult, &Part)]) -> Vec<String> {
    let line = |(set, part): &(&SetResult, &Part)| {
        let name =
            if part.name.is_empty() { set.name.clone() } else { format!("{}, {}", set.name, part.name) };
        let committed = part.committed.filter(|_| part.is_worse());
        let committed = committed.map(|error| format!(", was {}", quantity::percent(error)));
        let error = quantity::percent(part.statistics.mape);
        let to_reach = part.tolerance.in_words();
        format!("{name}: {error}{}, to reach {to_reach}", committed.unwrap_or_default())
    };
    let more = parts.len().saturating_sub(NAMED_MAX);
    let more = (more > 0).then(|| format!("and {more} more: `--all` has them"));
    parts.iter().take(NAMED_MAX).map(line).chain(more).collect()
}
