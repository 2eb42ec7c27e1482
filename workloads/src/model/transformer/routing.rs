//! How a router deals tokens out: which experts they choose, and how many rows an expert takes.
//!
//! Of the T tokens of a rank, k rows each, expert e of E is chosen by `n_e`, and takes
//!
//! ```text
//! even:      n_e = ceil(T k / E)
//! otherwise: n_e = ceil(T k p_e), at most T, as the experts of a token differ
//! capacity:  C = ceil(T k f / E); min(n_e, C) rows are kept, the others dropped; with padding an expert gets C rows anyway
//! ```
//!
//! as Megatron-LM's `apply_router_token_dropping` and GShard (Lepikhin et al. 2021) do. All is in whole numbers, so that
//! every machine deals alike.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use hw_models::settings::{Share, first_seed};

use super::Experts;

/// How a router deals tokens out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Which experts tokens choose, the same on all ranks.
    pub load: Load,
    /// Most rows of an expert; none: as many as choose it.
    pub capacity: Option<Capacity>,
    /// A loss that keeps experts in balance (Fedus et al. 2022, section 2.2).
    pub balance_loss: bool,
    /// A loss that keeps logits of the router small (Zoph et al. 2022, equation 5).
    pub z_loss: bool,
}

/// Distribution of tokens over experts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "ExpertLoad")]
pub enum Load {
    /// An even one.
    #[default]
    Even,
    /// One expert gets this share of all rows; the others share the rest evenly.
    Busiest(Share),
    /// Shares are drawn from a symmetric Dirichlet distribution.
    Drawn(DrawnLoad),
}

/// A draw of the shares of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrawnLoad {
    /// Concentration of the distribution: 1 makes all shares equally likely, 100 makes them nearly even.
    #[schemars(extend("examples" = [10]))]
    pub concentration: Share,
    /// The root of the draw; 1 when absent.
    #[serde(default = "first_seed")]
    pub seed: u64,
}

/// Most rows of an expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// f, over the even share (billionths).
    pub factor: u64,
    /// An expert gets as many rows as it has room for.
    pub pad: bool,
}

/// The rows of a rank's tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dealt {
    /// By expert.
    pub rows: Vec<u64>,
    /// Rows that found no room.
    pub dropped: u64,
}

/// What is 1 in billionths.
const ONE: u64 = 1_000_000_000;
/// Rows that a distribution is drawn by.
const DRAWS: usize = 1 << 16;
const CONCENTRATION_MAX: u64 = 1_000 * ONE;
const FACTOR_MAX: u64 = 1_000 * ONE;

impl Default for Routing {
    /// Even, with a loss for balance.
    fn default() -> Self {
        Self { load: Load::Even, capacity: None, balance_loss: true, z_loss: false }
    }
}

impl Experts {
    /// Deals out the rows of so many tokens.
    pub fn deal(&self, tokens: u64) -> Dealt {
        let chosen = apportion(&self.weights(), tokens * u64::from(self.top_k), tokens);
        let most = self.capacity(tokens).unwrap_or(tokens);
        let dropped = chosen.iter().map(|rows| rows.saturating_sub(most)).sum();
        let pads = self.routing.capacity.is_some_and(|capacity| capacity.pad);
        let rows = chosen.into_iter().map(|rows| if pads { most } else { rows.min(most) }).collect();
        Dealt { rows, dropped }
    }

    /// Most rows of an expert of so many tokens, if it may not have one of each.
    pub(super) fn capacity(&self, tokens: u64) -> Option<u64> {
        let rows = u128::from(tokens) * u128::from(self.top_k);
        let Capacity { factor, .. } = self.routing.capacity?;
        let capacity = (rows * u128::from(factor)).div_ceil(u128::from(self.count) * u128::from(ONE));
        u64::try_from(capacity).ok().filter(|&capacity| capacity < tokens)
    }

    /// How the experts share all rows.
    fn weights(&self) -> Vec<u64> {
        let others = u64::from(self.count) - 1;
        match self.routing.load {
            Load::Even => vec![1; self.count as usize],
            Load::Busiest(share) => {
                let share = share.billionths();
                let mut weights = vec![ONE - share; self.count as usize];
                weights[0] = share * others.max(1);
                weights
            }
            Load::Drawn(DrawnLoad { concentration, seed }) => {
                draw(self.count, concentration.billionths(), seed)
            }
        }
    }

    /// Checks the routing.
    pub(super) fn validate_routing(&self, wrong: &mut impl FnMut(&'static str, String)) {
        let percent = |share: u64| share as f64 * 100.0 / ONE as f64;
        match self.routing.load {
            Load::Even => {}
            Load::Busiest(share) => {
                let share = share.billionths();
                let (least, most) = (ONE / u64::from(self.count), ONE / u64::from(self.top_k));
                if !(least..=most).contains(&share) {
                    let problem = format!(
                        "{} % are not what the busiest of {} experts can get where a token goes to {}: use {:.4} to {:.4} %",
                        percent(share),
                        self.count,
                        self.top_k,
                        percent(least),
                        percent(most)
                    );
                    wrong("experts.busiest", problem);
                }
            }
            Load::Drawn(DrawnLoad { concentration, .. }) => {
                let concentration = concentration.billionths();
                if !(1..=CONCENTRATION_MAX).contains(&concentration) {
                    let problem = format!(
                        "{} is no concentration: use more than 0 and at most 1000",
                        percent(concentration) / 100.0
                    );
                    wrong("experts.drawn", problem);
                }
            }
        }
        if let Some(Capacity { factor, .. }) = self.routing.capacity
            && !(1..=FACTOR_MAX).contains(&factor)
        {
            let problem =
                format!("{} leaves no room: use more than 0 and at most 1000", percent(factor) / 100.0);
            wrong("experts.capacity_factor", problem);
        }
    }
}

/// Deals `rows` out in proportion to `weights`, rounded up, `most` to each: what is over goes to the others.
fn apportion(weights: &[u64], rows: u64, most: u64) -> Vec<u64> {
    let mut full = vec![false; weights.len()];
    loop {
        let taken = most * full.iter().filter(|&&full| full).count() as u64;
        let left = u128::from(rows.saturating_sub(taken));
        let open = weights.iter().zip(&full).filter(|(_, full)| !**full);
        let weight: u128 = open.map(|(&weight, _)| u128::from(weight)).sum();
        let dealt = |n: usize| match (full[n], weight) {
            (true, _) => u128::from(most),
            (false, 0) => 0,
            (false, weight) => (left * u128::from(weights[n])).div_ceil(weight),
        };
        let dealt: Vec<u128> = (0..weights.len()).map(dealt).collect();
        let over = dealt.iter().any(|&rows| rows > u128::from(most));
        if !over {
            return dealt.into_iter().map(|rows| rows as u64).collect();
        }
        for (full, rows) in full.iter_mut().zip(dealt) {
            *full |= rows >= u128::from(most);
        }
    }
}

/// How often each of `count` experts is chosen, drawn from a Dirichlet distribution by Pólya's urn (Blackwell and MacQueen
/// 1973): a row chooses as one before it did, or, in proportion to the concentration, any expert.
fn draw(count: u32, concentration: u64, seed: u64) -> Vec<u64> {
    let mut words = ChaCha8Rng::seed_from_u64(seed);
    let mut below = |bound: u64| ((u128::from(words.next_u64()) * u128::from(bound)) >> u64::BITS) as u64;
    let mut chosen: Vec<u32> = Vec::with_capacity(DRAWS);
    let mut rows = vec![0; count as usize];
    for before in 0..DRAWS as u64 {
        let at = below(u64::from(count) * concentration + before * ONE);
        let expert = match at.checked_sub(before * ONE) {
            Some(at) => (at / concentration) as u32,
            None => chosen[(at / ONE) as usize],
        };
        chosen.push(expert);
        rows[expert as usize] += 1;
    }
    rows
}
