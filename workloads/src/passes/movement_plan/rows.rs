//! Rows of a plan file: a pattern of tensors, their tier, and when they leave and come back.

use std::collections::{BTreeMap, BTreeSet};

/// A row of a plan file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Line of the file.
    pub line: u64,
    /// Name of tensors; `*` stands for any text.
    pub tensors: String,
    /// Tier in which they are between their uses.
    pub tier: RowTier,
    /// Start of the copy out.
    pub out: Out,
    /// Operator behind which the GPU waits for the end of the copy out. `None`: it does not wait.
    pub wait: Option<String>,
    /// Moment in which the copy back is asked for.
    pub back: Back,
}

/// Tier of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowTier {
    /// The tensors stay.
    Gpu,
    /// Page-locked host memory.
    Host,
    /// Drives.
    Drives,
}

/// Start of the copy out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out {
    /// At the end of the operator that fills the tensor.
    Produced,
    /// After its last use in the forward pass.
    LastUse,
    /// After an operator of the forward pass.
    After(String),
}

/// Moment in which the copy back is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Back {
    /// The host enters the module that asks for it, as `activation_offload` does.
    ByModule,
    /// The GPU comes to an operator of the backward pass.
    Before(String),
    /// The host issues an operator of the backward pass.
    Issued(String),
    /// The GPU comes to the need for the tensor this many before it.
    Ahead(usize),
}

const HOST: &str = "host:";

impl Row {
    /// Names of its columns.
    pub const COLUMNS: [&str; 5] = ["tensor", "tier", "out", "wait", "in"];

    /// A row of the texts of its columns.
    ///
    /// # Errors
    /// Fault and remedy.
    pub fn of(line: u64, [tensors, tier, out, wait, back]: [&str; 5]) -> Result<Self, [String; 2]> {
        let refused = |fault: &str, remedy: &str| Err([fault.to_owned(), remedy.to_owned()]);
        if tensors.is_empty() {
            return refused("the row names no tensor", "write a name or a pattern, such as `layers.*`");
        }
        let tier = match tier {
            "gpu" => RowTier::Gpu,
            "host" => RowTier::Host,
            "drives" => RowTier::Drives,
            other => {
                return refused(&format!("there is no tier `{other}`"), "write `gpu`, `host` or `drives`");
            }
        };
        if tier == RowTier::Gpu && [out, wait, back].iter().any(|text| !text.is_empty()) {
            let remedy = "leave `out`, `wait` and `in` empty, or name another tier";
            return refused("a tensor that stays neither leaves nor comes back", remedy);
        }
        Ok(Self {
            line,
            tensors: tensors.to_owned(),
            tier,
            out: match out {
                "" | "produced" => Out::Produced,
                "last-use" => Out::LastUse,
                name => Out::After(name.to_owned()),
            },
            wait: Some(wait.to_owned()).filter(|wait| !wait.is_empty()),
            back: match (back, back.parse()) {
                ("", _) => Back::ByModule,
                (_, Ok(distance)) => Back::Ahead(distance),
                (name, _) => name
                    .strip_prefix(HOST)
                    .map_or_else(|| Back::Before(name.to_owned()), |name| Back::Issued(name.to_owned())),
            },
        })
    }

    /// The texts of its columns.
    pub fn texts(&self) -> [String; 5] {
        let Self { tensors, tier, out, wait, back, .. } = self;
        let tier = match tier {
            RowTier::Gpu => return [tensors, "gpu", "", "", ""].map(str::to_owned),
            RowTier::Host => "host",
            RowTier::Drives => "drives",
        };
        let out = match out {
            Out::Produced => "produced",
            Out::LastUse => "last-use",
            Out::After(name) => name,
        };
        let back = match back {
            Back::ByModule => String::new(),
            Back::Before(name) => name.clone(),
            Back::Issued(name) => format!("{HOST}{name}"),
            Back::Ahead(distance) => distance.to_string(),
        };
        [tensors.clone(), tier.to_owned(), out.to_owned(), wait.clone().unwrap_or_default(), back]
    }
}

/// Rows by the names of tensors: of those that match a name the last counts.
#[derive(Debug)]
pub(super) struct Matching<'a> {
    rows: &'a [Row],
    /// Rows without `*`, the last of each name.
    exact: BTreeMap<&'a str, usize>,
    /// The others.
    patterns: Vec<usize>,
}

impl<'a> Matching<'a> {
    pub(super) fn of(rows: &'a [Row]) -> Self {
        let (patterns, exact): (Vec<usize>, Vec<usize>) =
            (0..rows.len()).partition(|&row| rows[row].tensors.contains('*'));
        let exact = exact.into_iter().map(|row| (rows[row].tensors.as_str(), row)).collect();
        Self { rows, exact, patterns }
    }

    /// The row that counts for a tensor.
    pub(super) fn row(&self, name: &str) -> Option<&'a Row> {
        let of_pattern = self.patterns.iter().rev().find(|&&row| matches(&self.rows[row].tensors, name));
        self.exact.get(name).max(of_pattern).map(|&row| &self.rows[row])
    }

    /// Rows that match none of these names.
    pub(super) fn unmatched(&self, names: &BTreeSet<&str>) -> Vec<&'a Row> {
        let matched = |row: &Row| {
            let tensors = row.tensors.as_str();
            names.contains(tensors)
                || names.iter().any(|name| tensors.contains('*') && matches(tensors, name))
        };
        self.rows.iter().filter(|row| !matched(row)).collect()
    }
}

/// True if a name is as a pattern says, in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(begin) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    // Each part as early as it can be: what is left for those behind it is longest then.
    for part in parts {
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, expected) in [
            ("layers.3.qkv", "layers.3.qkv", true),
            ("layers.3.qkv", "layers.3.qkv:2", false),
            ("layers.*.qkv", "layers.12.qkv", true),
            ("layers.*.qkv", "layers.12.qkv:2", false),
            ("*", "head.loss", true),
            ("layers.1*", "layers.12.gelu", true),
            ("*a*b", "aab", true),
            ("a*a", "a", false),
            ("*ab*ab", "abxab", true),
            ("*ab*ab", "ab", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn the_last_row_of_a_tensor_counts() {
        let row = |line, tensors, tier| Row::of(line, [tensors, tier, "", "", ""]).expect("a row");
        let rows = [
            row(2, "*", "host"),
            row(3, "layers.1.gelu", "gpu"),
            row(4, "layers.*.gelu", "drives"),
            row(5, "layers.2.gelu", "gpu"),
        ];
        let matching = Matching::of(&rows);
        let line = |name| matching.row(name).map(|row| row.line);
        assert_eq!(line("layers.0.qkv"), Some(2));
        assert_eq!(line("layers.1.gelu"), Some(4));
        assert_eq!(line("layers.2.gelu"), Some(5));
        let unmatched = matching.unmatched(&BTreeSet::from(["layers.1.gelu"]));
        assert_eq!(unmatched.iter().map(|row| row.line).collect::<Vec<_>>(), [5]);
    }
}
