//! Errors when they were committed last: `validation/state.csv`, which a test derives again.

use reports::validation::{Part, SetResult, Validation};

/// Mean errors, by set and part.
pub const STATE: &str = include_str!("../../validation/state.csv");

/// The table of what was found.
pub fn state(found: &Validation) -> String {
    let sets = found.sets.iter();
    let parts = sets.flat_map(|set| set.parts.iter().map(move |part| (&set.name, part)));
    let rows = parts.filter(|(_, part)| part.statistics.rows > 0);
    let line =
        |(set, part): (&String, &Part)| format!("{set},\"{}\",{:.5}\n", part.name, part.statistics.mape);
    rows.map(line).fold("set,part,error\n".to_owned(), |table, line| table + &line)
}

/// A set with what is committed of it.
pub(super) fn with_committed(mut set: SetResult) -> SetResult {
    for part in &mut set.parts {
        part.committed = committed(&set.name, &part.name);
    }
    set
}

fn committed(set: &str, part: &str) -> Option<f64> {
    let begin = format!("{set},\"{part}\",");
    STATE.lines().find_map(|line| line.strip_prefix(&begin))?.parse().ok()
}
