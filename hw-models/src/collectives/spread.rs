//! How far the times of collectives are off on what nothing was fitted to.

/// Held-out errors of collectives on NVSwitch, `hw-models/catalogue/collective_spreads.csv`.
pub const COLLECTIVE_SPREADS: &str = include_str!("../../catalogue/collective_spreads.csv");

/// The first line of a table of spreads.
pub const COLLECTIVE_SPREADS_HEADER: &str = "model,rows,spread";

/// Nine of ten held-out collectives are within these, relative to the measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CollectiveSpreads {
    /// Of what a measured table says.
    pub table: f64,
    /// Of what the communication library's own constants say.
    pub formula: f64,
}

impl CollectiveSpreads {
    /// Reads a table; none if it is not as [`COLLECTIVE_SPREADS_HEADER`] says or a model is missing.
    pub fn read(table: &str) -> Option<Self> {
        let mut lines = table.lines();
        lines.next().filter(|header| *header == COLLECTIVE_SPREADS_HEADER)?;
        let rows: Vec<(&str, f64)> = lines
            .map(|line| {
                let (model, rest) = line.split_once(',')?;
                let (rows, spread) = rest.split_once(',')?;
                rows.parse::<usize>().ok()?;
                Some((model, spread.parse().ok()?))
            })
            .collect::<Option<_>>()?;
        let of = |name: &str| rows.iter().find(|(model, _)| *model == name).map(|&(_, spread)| spread);
        Some(Self { table: of("table")?, formula: of("formula")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_names_both_models() {
        let read = CollectiveSpreads::read;
        let both = read("model,rows,spread\ntable,9,0.1\nformula,9,0.3\n");
        assert_eq!(both, Some(CollectiveSpreads { table: 0.1, formula: 0.3 }));
        assert_eq!(read("model,rows,spread\ntable,9,0.1\n"), None);
        assert_eq!(read("model,spread\ntable,0.1\nformula,0.3\n"), None);
    }
}
