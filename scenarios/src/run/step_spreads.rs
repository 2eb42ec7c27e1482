//! How far whole steps are off, beyond the kernels and collectives that they are made of.

use std::collections::BTreeMap;

use reports::summary::{Uncertainty, nine_of_ten};
use workloads::account::Circumstance;

/// Deviations of steps, `scenarios/validation/step-spreads.csv`, which a test derives again.
pub const STEP_SPREADS: &str = include_str!("../../validation/step-spreads.csv");
/// The first line of such a table.
pub const STEP_SPREADS_HEADER: &str = "left_out,error,sets,rows,deviation";

/// Standard deviations of logarithms by name of the error; nothing is off where none is given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepSpreads {
    deviations: BTreeMap<String, f64>,
}

impl StepSpreads {
    /// The error of hosts that issue operator by operator.
    pub const HOSTS: &str = "hosts";
    /// The error of what crosses from a node to another.
    pub const BETWEEN_NODES: &str = "between nodes";
    /// The error of recurrent layers.
    pub const RECURRENT: &str = "recurrent layers";
    /// The error of each plan on its own.
    pub const PLANS: &str = "plans";
    /// The error of peaks of memory.
    pub const MEMORY: &str = "memory";
    /// The error of GPUs without a set of their generation.
    pub const OTHERS: &str = "steps on others";
    /// Beginning of the name of what all steps on a generation of GPUs are off by together.
    const GENERATION: &str = "steps on ";

    /// The name of what all steps on a generation of GPUs are off by together.
    pub fn of_generation(architecture: &str) -> String {
        format!("{}{architecture}", Self::GENERATION)
    }

    /// The name of what times are off by in a circumstance.
    pub const fn of_circumstance(circumstance: Circumstance) -> &'static str {
        match circumstance {
            Circumstance::BetweenNodes => Self::BETWEEN_NODES,
            Circumstance::Recurrent => Self::RECURRENT,
        }
    }

    /// True if an error is that of a generation.
    pub fn is_of_generation(error: &str) -> bool {
        error.starts_with(Self::GENERATION)
    }

    /// Reads the deviations of all sets but one, of all sets where none is named. None where the table is not as
    /// [`STEP_SPREADS_HEADER`] says.
    pub fn read(table: &str, left_out: &str) -> Option<Self> {
        let mut lines = table.lines();
        lines.next().filter(|header| *header == STEP_SPREADS_HEADER)?;
        let mut deviations = BTreeMap::new();
        for line in lines {
            let [without, error, _, _, deviation] = line.split(',').collect::<Vec<_>>()[..] else {
                return None;
            };
            if without == left_out {
                deviations.insert(error.to_owned(), deviation.parse().ok()?);
            }
        }
        (!deviations.is_empty()).then_some(Self { deviations })
    }

    /// The deviation of an error.
    pub fn of(&self, error: &str) -> f64 {
        let known = self.deviations.get(error).or_else(|| self.deviations.get(Self::OTHERS));
        known.copied().unwrap_or_default()
    }

    /// Ends of the interval in which nine of ten measurements of a peak of memory (B) should lie.
    pub fn of_memory(&self, bytes: f64) -> [f64; 2] {
        nine_of_ten(bytes, self.of(Self::MEMORY))
    }

    /// Errors of a step, those of whole steps as here.
    pub fn laid_over(&self, errors: &Uncertainty) -> Uncertainty {
        let is_of_steps = |name: &str| {
            [Self::HOSTS, Self::BETWEEN_NODES, Self::RECURRENT].contains(&name)
                || Self::is_of_generation(name)
        };
        let mut laid = errors.clone();
        for (name, error) in laid.errors.iter_mut().filter(|(name, _)| is_of_steps(name)) {
            error.deviation = self.of(name);
        }
        laid.plan = self.of(Self::PLANS);
        laid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_that_is_left_out_has_deviations_of_its_own() {
        let table = "left_out,error,sets,rows,deviation\n,hosts,2,9,0.2\nmegatron,hosts,1,5,0.3\nmegatron,steps on others,1,5,0.1\n";
        let of = |left_out: &str| StepSpreads::read(table, left_out);
        assert_eq!(of("").map(|spreads| spreads.of(StepSpreads::HOSTS)), Some(0.2));
        let megatron = of("megatron").expect("it is in the table");
        assert_eq!([megatron.of("hosts"), megatron.of("steps on volta")], [0.3, 0.1]);
        assert_eq!(of("nemo"), None);
        assert_eq!(StepSpreads::read("error,deviation\n", ""), None);
    }
}
