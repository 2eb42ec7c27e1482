//! Decimal numbers without rounding.

use std::fmt;

/// A decimal number of at most 19 digits, not negative: `digits / 10^scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    digits: u64,
    scale: u8,
}

impl Decimal {
    /// A whole number.
    pub const fn whole(digits: u64) -> Self {
        Self { digits, scale: 0 }
    }

    /// Reads `12` or `0.601`; `None` for anything else and for numbers of more than 19 digits.
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        if whole.is_empty() || (fraction.is_empty() && text.contains('.')) {
            return None;
        }
        let append = |number: u64, byte: u8| {
            let digit = byte.is_ascii_digit().then(|| byte - b'0')?;
            number.checked_mul(10)?.checked_add(digit.into())
        };
        let digits = whole.bytes().chain(fraction.bytes()).try_fold(0, append)?;
        Some(Self { digits, scale: u8::try_from(fraction.len()).ok().filter(|&scale| scale <= 19)? })
    }

    /// The number times `factor`, rounded to the nearest whole number; `None` beyond `u64`.
    pub fn times(self, factor: u64) -> Option<u64> {
        let divisor = 10_u128.pow(self.scale.into());
        let product = u128::from(self.digits) * u128::from(factor);
        u64::try_from((product + divisor / 2) / divisor).ok()
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = usize::from(self.scale);
        let digits = format!("{:0>width$}", self.digits, width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        if fraction.is_empty() { f.write_str(whole) } else { write!(f, "{whole}.{fraction}") }
    }
}
