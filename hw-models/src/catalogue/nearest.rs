//! "Did you mean": the nearest of the words that would have been right.

/// The candidate nearest to `word`, if it is near enough to be a slip of the keyboard.
///
/// Distance counts insertions, deletions, replacements and swapped neighbours (optimal string alignment); at most a
/// third of the word may differ. A candidate that goes on where the word ends is nearest of all. The first of equally near
/// candidates wins.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64;
    const BEGINNING: usize = 3;
    let word = normal(word);
    if word.len() > LONGEST {
        return None;
    }
    let tolerance = (word.len() / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| {
            let letters = normal(candidate);
            let begun = word.len() >= BEGINNING && letters.starts_with(&word);
            (if begun { 0 } else { distance(&word, &letters) }, candidate)
        })
        .filter(|&(distance, _)| distance <= tolerance)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// The names in backticks, with commas: "`a`, `b` and `c`".
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

/// "did you mean `near`?", or the whole choice when nothing is near.
pub fn remedy(word: &str, candidates: &[&str], noun: &str) -> String {
    match (closest(word, candidates.iter().copied()), candidates) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, []) => format!("there is no {noun} here"),
        (None, [only]) => format!("the only {noun} here is `{only}`"),
        (None, all) => {
            let ending = if noun.ends_with('s') { "es" } else { "s" };
            format!("the {noun}{ending} here are {}", list(all.iter().copied()))
        }
    }
}

/// Case and the choice between `-` and `_` never make two words differ.
fn normal(word: &str) -> Vec<char> {
    word.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
}

fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &y) in b.iter().enumerate() {
            let mut cost = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && x == b[j - 1] && a[i - 1] == y {
                cost = cost.min(before_last[j - 1] + 1);
            }
            row.push(cost);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let nodes = ["dgx-h100", "dgx-a100-80g", "epyc-pcie-8x"];
        assert_eq!(closest("dgx-h10", nodes), Some("dgx-h100"));
        assert_eq!(closest("DGX_A100_80", nodes), Some("dgx-a100-80g"));
        assert_eq!(closest("dgx-a100", nodes), Some("dgx-a100-80g"));
        assert_eq!(closest("mainframe", nodes), None);
        assert_eq!(closest(&"x".repeat(100_000), nodes), None);
    }

    #[test]
    fn a_list_reads_as_a_sentence() {
        assert_eq!(list(["a"]), "`a`");
        assert_eq!(list(["a", "b", "c"]), "`a`, `b` and `c`");
        assert_eq!(remedy("slot", &["a", "b"], "link class"), "the link classes here are `a` and `b`");
    }
}
