//! Layers of each part of a model as Megatron Core writes them: `Et*15|t*16|t*15L`.

use serde_json::Value as Json;

use super::conversions::one;
use super::rules::Lookup;

/// Longest layout that is written out (bytes).
const LENGTH_MAX: usize = 1 << 20;

/// Layers of the parts as a word, with the embedding and the loss at the ends.
pub(super) fn layout_word(stages: &Json, _: Lookup<'_>) -> Option<Vec<String>> {
    let stages: Option<Vec<String>> =
        stages.as_array()?.iter().map(|layers| Some(format!("t*{}", layers.as_u64()?))).collect();
    one(&format!("E{}L", stages?.join("|")))
}

/// Layers of the parts. `None`: parts with anything but layers, or the ends elsewhere.
pub(super) fn layout(words: &[&str], _: Lookup<'_>) -> Option<Json> {
    let word = words.first()?.replace([',', ' '], "");
    let parts = repeated(word.strip_prefix('E')?.strip_suffix('L')?)?;
    parts.split('|').map(layers_of_part).collect::<Option<Vec<u64>>>().map(Json::from)
}

/// Writes out `(t*2|)*3`.
fn repeated(word: &str) -> Option<String> {
    let (mut whole, mut left) = (String::new(), word);
    while let Some((before, rest)) = left.split_once('(') {
        let (inside, rest) = rest.split_once(")*")?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let times: usize = rest[..digits].parse().ok()?;
        inside.len().checked_mul(times)?.checked_add(whole.len()).filter(|length| *length <= LENGTH_MAX)?;
        whole += before;
        whole += &inside.repeat(times);
        left = &rest[digits..];
    }
    Some(whole + left)
}

/// Layers of `t*3`, `ttt` or `tt*2`.
fn layers_of_part(part: &str) -> Option<u64> {
    let mut layers = 0_u64;
    for piece in part.split('t').skip(1) {
        let times =
            piece.strip_prefix('*').map_or_else(|| piece.is_empty().then_some(1), |n| n.parse().ok())?;
        layers = layers.checked_add(times)?;
    }
    (part.starts_with('t') && layers > 0).then_some(layers)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_are_written_out() {
        let of = |word: &str| layout(&[word], &|_| None);
        assert_eq!(of("Ettt|t*2,t|tL"), Some(json!([3, 3, 1])));
        assert_eq!(of("Et*2|(t*2|)*2,t*3|tL"), Some(json!([2, 2, 2, 3, 1])));
        for wrong in ["Ettt|(tt)L", "Ettt|(tt)*L", "Et|(t|)*99999999L", "t|tL", "E|tL"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
