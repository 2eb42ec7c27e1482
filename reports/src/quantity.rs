//! Quantities as text: three significant digits, a prefix that keeps them short, one space, the unit. Every number of
//! every table, plot and sentence is written here.

/// What stands where a number has no meaning.
pub const NONE: &str = "–";

/// A duration: `1.46 s`, `18.5 ms`, `24.3 min`.
pub fn seconds(value: f64) -> String {
    let (number, unit) = match value.abs() {
        long if long >= 345_600.0 => (significant(value / 86_400.0), "d"),
        long if long >= 7_200.0 => (significant(value / 3_600.0), "h"),
        long if long >= 1_000.0 => (significant(value / 60.0), "min"),
        _ => scaled(value, &["s", "ms", "µs", "ns", "ps"], 0),
    };
    join(&number, unit)
}

/// An amount of memory or traffic, decimal: `40.0 GB`. Below 1 KB it is exact.
pub fn bytes(value: u64) -> String {
    if value < 1_000 {
        return format!("{value} B");
    }
    let (number, unit) = scaled(value as f64, &["EB", "PB", "TB", "GB", "MB", "KB", "B"], 6);
    join(&number, unit)
}

/// A rate of traffic, decimal: `26.1 GB/s`.
pub fn bytes_per_s(value: f64) -> String {
    if value.is_finite() { format!("{}/s", bytes(value.round() as u64)) } else { NONE.to_owned() }
}

/// Power: `612 W`, `1.20 kW`.
pub fn watts(value: f64) -> String {
    let (number, unit) = scaled(value, &["GW", "MW", "kW", "W"], 3);
    join(&number, unit)
}

/// Energy: `107 J`, `1.46 MJ`.
pub fn joules(value: f64) -> String {
    let (number, unit) = scaled(value, &["TJ", "GJ", "MJ", "kJ", "J", "mJ"], 4);
    join(&number, unit)
}

/// A rate of things counted: `98.6 samples/s`, `871 k tokens/s`.
pub fn rate(value: f64, of_what: &str) -> String {
    format!("{} {of_what}/s", count(value))
}

/// A number of things, short: `98.6`, `871 k`.
pub fn count(value: f64) -> String {
    let (number, prefix) = scaled(value, &["T", "G", "M", "k", ""], 4);
    join(&number, prefix)
}

/// A number of whole things, short from a thousand on: `986`, `871 k`.
pub fn whole(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => count(number as f64),
    }
}

/// A share: `24.3 %` of 0.243.
pub fn percent(share: f64) -> String {
    format!("{} %", significant(share * 100.0))
}

/// A constant as it was written, to every digit: `1555`, `0.87`; tiny and huge ones as `1.2e-9`.
pub fn exact(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => NONE.to_owned(),
        size if size == 0.0 || (1e-4..1e9).contains(&size) => value.to_string(),
        _ => format!("{value:e}"),
    }
}

/// How many times: `1.31×`.
pub fn times(ratio: f64) -> String {
    format!("{}×", significant(ratio))
}

/// How much more, for a sentence: `1.31×`, or below 1.1 `4.20 %`, which says more than `1.04×`.
pub fn gain(ratio: f64) -> String {
    if ratio < 1.1 { percent(ratio - 1.0) } else { times(ratio) }
}

/// A change with its sign: `+1.20 %` of 0.012.
pub fn change(share: f64) -> String {
    signed(share * 100.0, "%")
}

/// A difference of two shares with its sign: `-0.140 points` of -0.0014.
pub fn points(share: f64) -> String {
    signed(share * 100.0, "points")
}

/// A plain number with three significant digits: `1460`, `18.5`, `0.00426`; tiny and huge ones as `1.20e-9`.
pub fn significant(value: f64) -> String {
    let Some((digits, exponent)) = rounded(value) else { return none_or_zero(value) };
    let text = match exponent {
        -4..=2 => decimal(digits, exponent),
        3..=8 => format!("{digits}{}", "0".repeat(exponent.unsigned_abs() as usize - 2)),
        _ => return format!("{value:.2e}"),
    };
    if value < 0.0 { format!("-{text}") } else { text }
}

fn signed(value: f64, unit: &str) -> String {
    let sign = if value > 0.0 { "+" } else { "" };
    format!("{sign}{} {unit}", significant(value))
}

/// `value` in the unit that leaves one to three digits before the point. `units` go down in steps of 1000;
/// `units[plain]` is the one of `value` itself.
fn scaled<'a>(value: f64, units: &[&'a str], plain: usize) -> (String, &'a str) {
    let Some((digits, exponent)) = rounded(value) else { return (none_or_zero(value), units[plain]) };
    let place = (plain as i32 - exponent.div_euclid(3)).clamp(0, units.len() as i32 - 1);
    let in_unit = exponent - 3 * (plain as i32 - place);
    let number = match in_unit {
        0..=2 => decimal(digits, in_unit),
        _ => significant(value.abs() * 10f64.powi(in_unit - exponent)),
    };
    let sign = if value < 0.0 { "-" } else { "" };
    (format!("{sign}{number}"), units[place as usize])
}

fn join(number: &str, unit: &str) -> String {
    if number == NONE || unit.is_empty() { number.to_owned() } else { format!("{number} {unit}") }
}

/// The three leading digits of `value`, correctly rounded, and the power of ten of the first; none for zero, NaN and
/// infinity. Rounding first keeps 999.6 ms from becoming `1000 ms`.
fn rounded(value: f64) -> Option<(u32, i32)> {
    if !value.is_finite() || value == 0.0 {
        return None;
    }
    let text = format!("{:.2e}", value.abs());
    let (mantissa, exponent) = text.split_once('e')?;
    Some((mantissa.replace('.', "").parse().ok()?, exponent.parse().ok()?))
}

/// Three digits with the point after the first plus `exponent` ones.
fn decimal(digits: u32, exponent: i32) -> String {
    if exponent < 0 {
        return format!("0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1));
    }
    let mut text = digits.to_string();
    if exponent < 2 {
        text.insert(exponent as usize + 1, '.');
    }
    text
}

fn none_or_zero(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { NONE.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_take_the_unit_that_keeps_them_short() {
        let cases = [
            (1.4567, "1.46 s"),
            (0.018_522, "18.5 ms"),
            (0.000_601, "601 µs"),
            (4.2e-12, "4.20 ps"),
            (0.999_6, "1.00 s"),
            (999.4, "999 s"),
            (1_460.0, "24.3 min"),
            (90_000.0, "25.0 h"),
            (864_000.0, "10.0 d"),
            (0.0, "0 s"),
            (-0.002, "-2.00 ms"),
            (3e-14, "0.0300 ps"),
            (f64::NAN, NONE),
            (f64::INFINITY, NONE),
        ];
        for (value, text) in cases {
            assert_eq!(seconds(value), text, "{value}");
        }
    }

    #[test]
    fn bytes_are_decimal_and_exact_when_few() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.00 KB"),
            (40_000_000_000, "40.0 GB"),
            (85_899_345_920, "85.9 GB"),
            (999_999_999, "1.00 GB"),
            (u64::MAX, "18.4 EB"),
        ];
        for (value, text) in cases {
            assert_eq!(bytes(value), text);
        }
        assert_eq!(bytes_per_s(26.1e9), "26.1 GB/s");
        assert_eq!(bytes_per_s(f64::INFINITY), NONE);
    }

    #[test]
    fn rates_ratios_and_shares() {
        assert_eq!(rate(98.58, "samples"), "98.6 samples/s");
        assert_eq!(rate(871_234.0, "tokens"), "871 k tokens/s");
        assert_eq!(rate(0.25, "samples"), "0.250 samples/s");
        assert_eq!(rate(0.0, "samples"), "0 samples/s");
        assert_eq!(percent(0.2431), "24.3 %");
        assert_eq!(percent(0.0039), "0.390 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(times(1.314), "1.31×");
        assert_eq!(gain(1.314), "1.31×");
        assert_eq!(gain(1.042), "4.20 %");
        assert_eq!(change(0.012), "+1.20 %");
        assert_eq!(change(-0.5), "-50.0 %");
        assert_eq!(change(0.0), "0 %");
        assert_eq!(points(-0.0014), "-0.140 points");
    }

    #[test]
    fn constants_keep_every_digit() {
        let cases = [(1555.0, "1555"), (14.0625, "14.0625"), (0.0, "0"), (1.2e-9, "1.2e-9"), (2e12, "2e12")];
        for (value, text) in cases {
            assert_eq!(exact(value), text);
        }
        assert_eq!(exact(f64::NAN), NONE);
    }

    #[test]
    fn plain_numbers_never_lose_their_size() {
        let cases = [(1_456.7, "1460"), (12.0, "12.0"), (1.2e-9, "1.20e-9"), (123_456_789.0, "123000000")];
        for (value, text) in cases {
            assert_eq!(significant(value), text);
        }
    }
}
