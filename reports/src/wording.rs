//! Swept values in words: `{layers: {preset: vit-l-16}}` is called `vit-l-16`, and `{layers: 1}` `layers 1`.

use std::borrow::Cow;

/// A value of a sweep, written as YAML in one line, in as few words as say what it is. Of a key with a single word for its value the
/// word says enough; numbers need the key before them. Lists stay as they are, and so does what cannot be read.
pub fn said(written: &str) -> Cow<'_, str> {
    let Some(entries) = entries(written) else { return Cow::Borrowed(written) };
    let one = |(key, value): &(&str, &str)| -> String {
        let key = key.replace('_', "-");
        match said(value) {
            _ if *value == "{}" => key,
            Cow::Owned(inner) if entries.len() == 1 => inner,
            Cow::Borrowed(word) if entries.len() == 1 && is_word(word) => word.to_owned(),
            inner => format!("{key} {inner}"),
        }
    };
    Cow::Owned(entries.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// The keys of a map with their values; none of anything else.
fn entries(written: &str) -> Option<Vec<(&str, &str)>> {
    let inside = written.strip_prefix('{')?.strip_suffix('}')?;
    let (mut depth, mut start, mut parts) = (0_usize, 0, Vec::new());
    for (at, c) in inside.char_indices() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                parts.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[start..]);
    let entries = parts.into_iter().map(|part| part.split_once(": "));
    entries.map(|entry| entry.map(|(key, value)| (key.trim(), value.trim()))).collect()
}

/// Whether a value says by itself what it is: not a number, nor yes, no or nothing.
fn is_word(value: &str) -> bool {
    value.starts_with(char::is_alphabetic) && !["true", "false", "null", "none", "off", "on"].contains(&value)
}

/// Text whose numbers keep their units beside them when a line ends.
pub(crate) fn unbroken(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let after_number = out.ends_with(|last: char| last.is_ascii_digit());
        out.push(if c == ' ' && after_number { '\u{a0}' } else { c });
    }
    out
}

/// A sentence with a capital letter first.
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::said;

    #[test]
    fn a_value_is_called_by_its_last_word() {
        let cases = [
            ("8", "8"),
            ("zb-h1", "zb-h1"),
            ("[8, 16]", "[8, 16]"),
            ("{layers: {preset: vit-l-16}}", "vit-l-16"),
            ("{layers: 1}", "layers 1"),
            ("{bytes: 1 GB}", "bytes 1 GB"),
            ("{keep: {layers: 1}}", "layers 1"),
            ("{bpipe: {}}", "bpipe"),
            ("{recompute: none}", "recompute none"),
            ("{zero_offload: {delayed_update: true}}", "delayed-update true"),
            ("{transformer: {preset: gpt2, layers: 4}}", "preset gpt2, layers 4"),
            ("{interleaved: {chunks: 2}, sizes: [1, 2]}", "interleaved chunks 2, sizes [1, 2]"),
        ];
        for (written, expected) in cases {
            assert_eq!(said(written), expected, "{written}");
        }
    }

    #[test]
    fn what_is_no_map_stays_as_it_is() {
        for written in ["", "{", "{}", "{a}", "{a: 1}}", "a: 1", "{a: 1}, {b: 2}"] {
            assert_eq!(said(written), written);
        }
    }
}
