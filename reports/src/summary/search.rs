//! The proof of a search: every plan of the space, by what became of it.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::Ratio;

/// Plans of a space, of which the best was looked for. All kinds add up to `plans`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchProof {
    /// Objectives: `step_time`, `cost`; of several the best plans are a front.
    pub minimise: Vec<String>,
    /// Plans of the space: points times variants.
    pub plans: u64,
    /// Plans whose settings do not go together.
    pub impossible: u64,
    /// Plans that hold more than a GPU has in whichever order they are executed.
    pub short_of_memory: u64,
    /// Plans that are not simulated, as even without any contention they are slower than the best is
    /// within the gap.
    pub slower: u64,
    /// Plans that come to the same scenario as another.
    pub equal: u64,
    /// Plans that were simulated and fit.
    pub fit: u64,
    /// Plans that were simulated and do not.
    pub did_not_fit: u64,
    /// Plans that nobody came to before the search was stopped.
    pub left: u64,
    /// Plans of those that fit, by the limit that they break.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<Broken>,
    /// Rules that make plans impossible, the most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Broken>,
    /// No plan of the space is better than the best by more than this, relative to it: 0 where it is
    /// proven to be the best. Of a front: in all objectives than some plan of it. Absent where no plan
    /// fits within the limits, or a plan has no bound yet.
    pub gap: Option<f64>,
    /// The quantity that was asked for: the plans are those of the value that was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extreme: Option<Extreme>,
    /// Plans beside the best one: without its techniques, and by rules of thumb.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
    /// The plans that were kept on slower parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitivity: Vec<Changed>,
}

/// A quantity of which the largest or the fewest was looked for with which a plan fits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Extreme {
    /// `largest` or `fewest`.
    pub wanted: String,
    /// Settings that say it, of which several change together.
    pub of: Vec<String>,
    /// The last value with which a plan fits, by setting. Absent where none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<IndexMap<String, String>>,
    /// Values that were tried, in their order.
    pub tried: Vec<TriedValue>,
    /// Last values without each technique of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<ExtremeWithout>,
    /// Techniques that save memory and that the space does not have, where a value does not fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_searched: Vec<String>,
    /// True if the search was stopped before the last value was known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
}

/// A value of a quantity, and what was found of its plans.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TriedValue {
    /// By setting.
    pub value: IndexMap<String, String>,
    /// Parameters of the model with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<u64>,
    /// True if a plan fits and keeps the limits.
    pub fits: bool,
    /// A plan that fits: of the value that was found the best, of others the first that was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<AlternativePlan>,
    /// GPUs of that plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u64>,
    /// Plans of the value.
    pub plans: u64,
    /// Plans whose settings do not go together.
    pub impossible: u64,
    /// Plans that hold more than there is in whichever order they are executed.
    pub short_of_memory: u64,
    /// Plans that were simulated.
    pub simulated: u64,
    /// The memory that the closest plan fills.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// Bytes that it lacks there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_bytes: Option<u64>,
    /// Why the value has no plan, where that is not memory: the limit or the rule that plans break
    /// most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The last value without a technique.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExtremeWithout {
    /// The technique.
    pub technique: String,
    /// By setting. Absent where none fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<IndexMap<String, String>>,
    /// Parameters of the model with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<u64>,
}

/// A kind of plan beside the best one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    /// Kind of plan: `without recompute`.
    pub name: String,
    /// Where a rule is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The best plan of this kind. Absent where none fits within the limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<AlternativePlan>,
    /// True if the search was stopped before that was known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
}

/// A plan that is no better than the best one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AlternativePlan {
    /// Name of the variant.
    pub variant: String,
    /// Values of the axes.
    pub point: IndexMap<String, String>,
    /// Time of a step (s).
    pub step_time_s: f64,
    /// Its value by the objective.
    pub objective: f64,
    /// Its step time over that of the plan beside which it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relative_to_best: Option<Ratio>,
}

/// The best plans on slower parts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    /// Parts with what is left of their rate or clock.
    pub change: String,
    /// Objective of the best plan with the change over that without.
    pub of_best: f64,
    /// Plans that were compared, from the best on.
    pub plans: u64,
    /// The plan that is best then, beside the one that was. Absent where that remains the best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub another: Option<AlternativePlan>,
}

/// A limit or a rule, and the plans that break it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broken {
    /// In words.
    pub rule: String,
    /// How many break it.
    pub plans: u64,
}
