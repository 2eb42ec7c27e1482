//! Parts of a machine that are alike and do the same, as one: `node[0, 3].gpu[4–7] -> nvswitch`.

use std::collections::BTreeSet;

use indexmap::IndexMap;

/// Things whose names differ in numbers only, and of which everything else that is shown is equal.
pub(super) struct Alike<'a, T> {
    /// Their common name, with the numbers of all.
    pub(super) name: String,
    /// How many they are.
    pub(super) count: usize,
    /// One of them.
    pub(super) first: &'a T,
}

/// Joins things that are alike, each where the first of them stands. `shown` is what is equal.
pub(super) fn joined<'a, T>(
    things: impl IntoIterator<Item = &'a T>,
    name: impl Fn(&T) -> &str,
    shown: impl Fn(&T) -> String,
) -> Vec<Alike<'a, T>> {
    let mut groups: IndexMap<(String, String), Vec<&'a T>> = IndexMap::new();
    for thing in things {
        groups.entry((pattern(name(thing)), shown(thing))).or_default().push(thing);
    }
    let alike = |((_, _), group): (_, Vec<&'a T>)| {
        let names: Vec<&str> = group.iter().map(|thing| name(thing)).collect();
        Alike { name: common(&names), count: group.len(), first: group[0] }
    };
    groups.into_iter().map(alike).collect()
}

/// A name without its numbers.
fn pattern(name: &str) -> String {
    name.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// The name that names of one pattern have in common.
fn common(names: &[&str]) -> String {
    let split: Vec<Vec<&str>> = names.iter().map(|name| parts(name)).collect();
    let part = |at: usize| {
        let numbers: Option<BTreeSet<u64>> = split.iter().map(|parts| parts[at].parse().ok()).collect();
        numbers.map_or_else(|| split[0][at].to_owned(), |numbers| range(&numbers))
    };
    (0..split[0].len()).map(part).collect()
}

/// A name cut into numbers and what is between them.
fn parts(name: &str) -> Vec<&str> {
    let ends =
        |(at, pair): (usize, &[u8])| (pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).then_some(at + 1);
    let mut cuts = vec![0];
    cuts.extend(name.as_bytes().windows(2).enumerate().filter_map(ends));
    cuts.push(name.len());
    cuts.windows(2).map(|cut| &name[cut[0]..cut[1]]).collect()
}

/// `3`, `0, 3`, `4–7`, or with some left out `0…31`.
fn range(numbers: &BTreeSet<u64>) -> String {
    let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else { return String::new() };
    match numbers.len() {
        1 => first.to_string(),
        2 => format!("{first}, {last}"),
        many if last - first == many as u64 - 1 => format!("{first}–{last}"),
        _ => format!("{first}…{last}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_alike_is_told_once() {
        let links = [
            ("node[3].gpu[4] -> node[3].nvswitch", "3 %"),
            ("node[3].gpu[5] -> node[3].nvswitch", "3 %"),
            ("node[3].gpu[6] -> node[3].nvswitch", "3 %"),
            ("node[0].nic[0] -> fabric.leaf[0]", "9 %"),
            ("node[0].gpu[0] -> node[0].nvswitch", "3 %"),
            ("node[0].gpu[1] -> node[0].nvswitch", "2 %"),
        ];
        let joined = joined(&links, |link| link.0, |link| link.1.to_owned());
        let told: Vec<_> =
            joined.iter().map(|alike| (alike.count, alike.name.as_str(), alike.first.1)).collect();
        let expected = [
            (4, "node[0, 3].gpu[0…6] -> node[0, 3].nvswitch", "3 %"),
            (1, "node[0].nic[0] -> fabric.leaf[0]", "9 %"),
            (1, "node[0].gpu[1] -> node[0].nvswitch", "2 %"),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn numbers_are_told_in_short() {
        let told = |numbers: &[u64]| range(&numbers.iter().copied().collect());
        assert_eq!(
            [told(&[3]), told(&[3, 0]), told(&[4, 5, 6]), told(&[0, 2, 9])],
            ["3", "0, 3", "4–6", "0…9"]
        );
    }
}
