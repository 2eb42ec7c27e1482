//! Quantities of a whole training run: periods, numbers of tokens, prices.

use super::quantity::{Dimension, Quantity, Unit, unit};

/// A time up to centuries, read to the microsecond; a [`Duration`](super::Duration) ends after
/// 106 days.
pub type Period = Quantity<Calendar>;
/// A number of tokens, samples or steps, `15 T`.
pub type Amount = Quantity<Number>;
/// Money, `2.49 USD`; its value is in millionths.
pub type Money = Quantity<Currency>;

/// Time in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Calendar;

impl Dimension for Calendar {
    const NOUN: &'static str = "a period";
    const NAME: &'static str = "Period";
    const UNITS: &'static [Unit] =
        &[unit("s", 1_000_000), unit("min", 60_000_000), unit("h", 3_600_000_000), unit("d", 86_400_000_000)];
    const BARE: Option<&'static Unit> = None;
    const EXAMPLE: &'static str = "30 min";
}

/// A number as the literature writes large ones.
#[derive(Clone, Copy, Debug)]
pub struct Number;

impl Dimension for Number {
    const NOUN: &'static str = "a number";
    const NAME: &'static str = "Amount";
    const UNITS: &'static [Unit] =
        &[unit("K", 1_000), unit("M", 1_000_000), unit("B", 1_000_000_000), unit("T", 1_000_000_000_000)];
    const BARE: Option<&'static Unit> = Some(&unit("", 1));
    const EXAMPLE: &'static str = "15 T";
}

/// Money in millionths of its currency. Currencies are never converted.
#[derive(Clone, Copy, Debug)]
pub struct Currency;

impl Dimension for Currency {
    const NOUN: &'static str = "a price";
    const NAME: &'static str = "Money";
    const UNITS: &'static [Unit] = &[
        unit("USD", 1_000_000),
        unit("EUR", 1_000_000),
        unit("GBP", 1_000_000),
        unit("CHF", 1_000_000),
        unit("JPY", 1_000_000),
        unit("CNY", 1_000_000),
        unit("KRW", 1_000_000),
        unit("INR", 1_000_000),
    ];
    const BARE: Option<&'static Unit> = None;
    const EXAMPLE: &'static str = "2.49 USD";
}

impl Period {
    /// The period in seconds.
    pub fn seconds(self) -> f64 {
        self.value as f64 / 1e6
    }
}

impl Amount {
    /// The number.
    pub fn number(self) -> u64 {
        self.value
    }
}

impl Money {
    /// The number in front of the currency.
    pub fn amount(self) -> f64 {
        self.value as f64 / 1e6
    }

    /// Code of the currency, `USD`.
    pub fn currency(self) -> &'static str {
        self.unit.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_exactly() {
        assert_eq!(Period::parse("50000 h").map(Period::seconds), Ok(1.8e8));
        assert_eq!(Period::parse("1.5 d").map(Period::seconds), Ok(129_600.0));
        assert_eq!(Amount::parse("15.6 T").map(Amount::number), Ok(15_600_000_000_000));
        assert_eq!(Amount::parse("500000").map(Amount::number), Ok(500_000));
        let price = Money::parse("2.49 USD").expect("a price");
        assert_eq!((price.amount(), price.currency(), price.to_string()), (2.49, "USD", "2.49 USD".into()));
        assert!(Money::parse("2.49").is_err_and(|error| error.starts_with("lacks a unit")));
    }
}
