//! Swept values as numbers, so that `4`, `0.5 ms` or `200 GB/s` can be sorted and drawn to scale.

/// A written value as a number in its basic unit: `200 GB/s` is 2e11; none if it is not a number with a unit.
pub(crate) fn number(written: &str) -> Option<f64> {
    let (number, unit) = parts(written);
    let value = number.parse::<f64>().ok()? * unit_size(unit)?;
    value.is_finite().then_some(value)
}

/// Digits and unit of a written value: `200` and `GB/s`.
pub(crate) fn parts(written: &str) -> (&str, &str) {
    let written = written.trim();
    let digits = written
        .char_indices()
        .find(|&(at, c)| !(c.is_ascii_digit() || c == '.' || is_exponent(written, at)))
        .map_or(written.len(), |(at, _)| at);
    (&written[..digits], written[digits..].trim())
}

/// Whether the character at `at` belongs to an exponent, as the `e` and the `-` of `1e-6`.
fn is_exponent(written: &str, at: usize) -> bool {
    let rest = &written[at..];
    let follows_digit = |text: &str| text.chars().next().is_some_and(|c| c.is_ascii_digit());
    match rest.chars().next() {
        Some('e' | 'E') => follows_digit(rest[1..].trim_start_matches(['-', '+'])),
        Some('-' | '+') => written[..at].ends_with(['e', 'E']) && follows_digit(&rest[1..]),
        _ => false,
    }
}

/// How many basic units one `unit` is; none for a word that is not a unit of the scenario language.
fn unit_size(unit: &str) -> Option<f64> {
    let unit = unit.strip_suffix("/s").unwrap_or(unit);
    match unit {
        "" | "s" | "B" | "b" | "Hz" | "W" | "FLOP" => return Some(1.0),
        "h" => return Some(3_600.0),
        "%" => return Some(0.01),
        _ => {}
    }
    let (prefix, base) = unit.split_at(unit.char_indices().nth(1)?.0);
    let (binary, base) = base.strip_prefix('i').map_or((false, base), |base| (true, base));
    if !["s", "B", "b", "Hz", "W", "FLOP"].contains(&base) {
        return None;
    }
    let power = match prefix {
        "p" => -4,
        "n" => -3,
        "u" | "µ" => -2,
        "m" => -1,
        "k" | "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        _ => return None,
    };
    Some(if binary { 1024f64 } else { 1000f64 }.powi(power))
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn written_values_become_numbers_in_basic_units() {
        let cases = [
            ("4", Some(4.0)),
            ("0.5", Some(0.5)),
            ("200 GB/s", Some(200e9)),
            ("400Gb/s", Some(400e9)),
            ("2 KiB", Some(2048.0)),
            ("1e3 ms", Some(1.0)),
            ("2e-6", Some(2e-6)),
            ("50 %", Some(0.5)),
            ("1f1b", None),
            ("zb-h1", None),
            ("", None),
            ("1e400", None),
            ("3 é", None),
        ];
        for (written, expected) in cases {
            let close = match (number(written), expected) {
                (Some(found), Some(wanted)) => (found - wanted).abs() <= wanted * 1e-12,
                (found, wanted) => found == wanted,
            };
            assert!(close, "{written}: {:?}", number(written));
        }
    }
}
