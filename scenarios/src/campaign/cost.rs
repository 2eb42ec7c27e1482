//! Money: units of time and traffic times their prices.

use reports::summary::{Cost, CostPart};

use crate::schema::{Price, Prices};

/// Units that are paid for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Units {
    pub(super) gpu_hours: f64,
    pub(super) node_hours: f64,
    pub(super) terabytes_written: f64,
}

/// The cost of units for tokens, or samples where there are no tokens. `None`: no price is given.
pub(super) fn cost(
    prices: &Prices,
    units: Units,
    (tokens, samples): (Option<f64>, Option<f64>),
) -> Option<Cost> {
    let part = |(name, price): (&str, &Price)| {
        let units = match name {
            "gpu_hour" => units.gpu_hours,
            "node_hour" => units.node_hours,
            _ => units.terabytes_written,
        };
        CostPart {
            of: name.to_owned(),
            units,
            price: price.price.amount(),
            source: price.source.clone(),
            date: price.date.to_string(),
        }
    };
    let (_, first) = prices.given().next()?;
    let parts: Vec<CostPart> = prices.given().map(part).collect();
    let total: f64 = parts.iter().map(|part| part.units * part.price).sum();
    let per_million = |count: f64| total / count * 1e6;
    Some(Cost {
        currency: first.price.currency().to_owned(),
        total,
        per_million_tokens: tokens.map(per_million),
        per_million_samples: samples.filter(|_| tokens.is_none()).map(per_million),
        parts,
    })
}
