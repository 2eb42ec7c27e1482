//! Shards: parts of an experiment that workers simulate apart, each into a journal of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use rayon::prelude::*;

use super::journal::{Journal, Simulations};
use super::one::{self, Drawn};
use super::outcomes::Outcomes;
use super::{Options, Progress, Refusal, Sizing, in_parallel, pairs, plan, search, selected};
use crate::experiment::{Experiment, Point};

/// Most shards of an experiment.
pub const MAX_SHARDS: u32 = 100_000;

/// Shard `i/n`: of all runs, or of all groups of plans of a search, every n-th from the i-th on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard {
    /// Number of shards.
    count: u32,
    /// Number of this one, from 1.
    number: u32,
}

/// Progress of a shard when its work ended: runs, of a search plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Runs that are in the journal, or impossible.
    pub done: u64,
    /// Runs of the shard.
    pub of: u64,
}

/// Simulates the runs of a shard that its journal does not know. Groups of a search are searched to
/// their end.
///
/// # Errors
/// See [`Refusal`].
pub fn work(
    experiment: &Experiment,
    options: &Options,
    shard: Shard,
    progress: &dyn Progress,
    journal: &dyn Journal,
) -> Result<Done, Refusal> {
    if experiment.asks() {
        return Err(Refusal::OneAfterTheOther);
    }
    plan::plan_of(experiment, options, shard, &Sizing(progress))?;
    let variants = selected(experiment, options)?;
    let simulations = Simulations::new(experiment, options.seed, Some(journal));
    if let Some(search) = experiment.search() {
        return search::work(experiment, search, &variants, (options, shard), &simulations, progress);
    }
    let points: Vec<_> = experiment.points().collect();
    let pairs: Vec<_> = shard.of(pairs(&points, &variants)).collect();
    let outcomes = Outcomes::new(simulations, Drawn::No);
    let ended = one::run_all(experiment, options, &pairs, &outcomes, progress)?;
    Ok(Done { done: ended.len() as u64, of: pairs.len() as u64 })
}

/// Shards of so many that a journal lacks runs of, and how many each. None of a search, which needs
/// no run in particular.
///
/// # Errors
/// A variant that the experiment does not have, or too many runs.
pub fn lacking(
    experiment: &Experiment,
    options: &Options,
    count: u32,
    journal: &dyn Journal,
) -> Result<BTreeMap<Shard, u64>, Refusal> {
    let mut lacking = BTreeMap::new();
    if experiment.search().is_some() {
        return Ok(lacking);
    }
    let variants = selected(experiment, options)?;
    plan::within_limit(experiment.count(), variants.len())?;
    let points: Vec<_> = experiment.points().collect();
    let pairs: Vec<_> = pairs(&points, &variants).collect();
    let simulations = Simulations::new(experiment, options.seed, Some(journal));
    let knows = |&(point, variant): &(&Point, &str)| {
        let resolved = experiment.resolve(variant, point);
        resolved.map_or(true, |resolved| simulations.knows(&resolved.scenario))
    };
    let known = in_parallel(options.jobs, || pairs.par_iter().map(knows).collect::<Vec<bool>>());
    for (place, _) in known.into_iter().enumerate().filter(|(_, known)| !known) {
        let number = (place % count as usize) as u32 + 1;
        *lacking.entry(Shard { count, number }).or_default() += 1;
    }
    Ok(lacking)
}

impl Shard {
    /// All there is.
    pub const WHOLE: Self = Self { count: 1, number: 1 };

    /// All shards of so many.
    pub fn all(count: u32) -> impl Iterator<Item = Self> {
        (1..=count).map(move |number| Self { count, number })
    }

    /// Number of shards of which it is one.
    pub const fn count(self) -> u32 {
        self.count
    }

    /// True if the thing at a place of the whole is a part of it.
    pub(super) fn has(self, place: usize) -> bool {
        place % self.count as usize == self.number as usize - 1
    }

    /// The things of a whole that are a part of it.
    pub(super) fn of<T>(self, whole: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        whole.enumerate().filter(move |(place, _)| self.has(*place)).map(|(_, thing)| thing)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "write the number of the shard and of all shards, such as `3/16`".to_owned();
        let (number, count) = text.split_once('/').ok_or_else(form)?;
        let parse = |digits: &str| digits.parse::<u32>().map_err(|_| form());
        match (parse(number)?, parse(count)?) {
            (_, 0) => Err("there is no shard of none: the last number is 1 or more".to_owned()),
            (_, count) if count > MAX_SHARDS => Err(format!("there are at most {MAX_SHARDS} shards")),
            (number, count) if (1..=count).contains(&number) => Ok(Self { count, number }),
            (_, count) => Err(format!("shards of {count} go from `1/{count}` to `{count}/{count}`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_cut_a_whole_into_parts() {
        let mut all: Vec<u32> = Shard::all(3).flat_map(|shard| shard.of(0..10)).collect();
        assert_eq!(all, [0, 3, 6, 9, 1, 4, 7, 2, 5, 8]);
        all.sort_unstable();
        assert_eq!(all, Shard::WHOLE.of(0..10).collect::<Vec<u32>>());
    }

    #[test]
    fn a_shard_is_read_as_it_is_written() {
        for text in ["1/1", "3/16", "100000/100000"] {
            assert_eq!(text.parse::<Shard>().map(|shard| shard.to_string()).as_deref(), Ok(text));
        }
        for text in ["", "3", "0/4", "5/4", "a/b", "1/0", "-1/4", "1/100001", "1/2/3", "99999999999/4"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
