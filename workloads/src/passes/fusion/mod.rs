//! Fusion: groups of operators as one kernel. DeepCuts (Jung, Dao and Lee, PLDI 2021) searches
//! groups and the parameters of their kernels together, drops by a bound what cannot win, and takes
//! what is fastest; compilers follow rules. Both are policies here, over one description of what a
//! group is and one price.
//!
//! ```text
//!   blocks ── folding ── seams: what each executes of the one behind it ── merged: one operator a group
//!                          │
//!                        List (operators, who must stay behind whom)
//!                          │ groups_from: all that are legal and permitted
//!                        Priced ── cover: each operator in one group, at the least cost
//! ```
//!
//! No policy knows a gain. Fewer bytes, fewer kernels and an epilogue's instructions follow from
//! the members.

mod candidates;
mod cover;
mod explain;
mod folding;
mod groups;
mod measured;
mod merged;
mod policy;
mod price;
#[cfg(test)]
mod properties;
mod runs;
mod seams;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use hw_models::settings::Share;

use crate::diagnostic::Diagnostic;
use crate::graph::block::Block;
use crate::graph::cut::Cut;
use crate::graph::math::{Member, Precision};
use crate::graph::operator::Operator;

use super::technique::{Around, Facts, Technique};
use super::{Kind, ModelKind, Pass};

use cover::Priced;
use groups::{List, Permitted};
use policy::{Aim, Rules};
use price::Cost;
use seams::Grouped;

pub use candidates::Candidate;
pub use explain::{Explanation, Group, GroupTimes, Refused};
pub use measured::MeasuredKernel;
pub(crate) use measured::{OfGpu, name_of, of_gpu};
pub use policy::Policy;
pub use price::{KernelTimes, Prices};

/// Groups of operators as one kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "FusionSettings")]
pub struct Fusion {
    /// Which groups are kernels.
    pub policy: Policy,
    /// Kinds of operators that join products and convolutions: those behind them, under `searched`
    /// those before them, too. Those of the policy if not given.
    #[schemars(extend("examples" = [["bias", "activation"]]))]
    pub members: Option<Vec<Member>>,
    /// True if inference folds normalisations by known statistics into the convolutions before
    /// them. If not given, compilers do so.
    pub fold: Option<bool>,
    /// True if special-function units alone compute exponentials and divisions. If not given, as
    /// the policy's compiler does.
    pub fast_math: Option<bool>,
    /// Gain that a group must promise by its bound; others are not estimated. 0 % if not given.
    #[schemars(extend("examples" = ["20 %"]))]
    pub prune: Option<Share>,
    /// File of kernels that were timed on the GPU: comma-separated values with columns `kernel`,
    /// `gpu` and `measured_us`. Searches and steps take these times instead of estimates.
    /// `foretrain show FILE --kernels` prints such a file, without times.
    #[schemars(extend("examples" = ["kernels.csv"]))]
    pub measured: Option<String>,
    /// Kernels of the file.
    #[serde(skip)]
    pub kernels: Arc<Vec<MeasuredKernel>>,
}

/// Path of the settings.
const NAME: &str = "techniques.fusion";
/// Path of the setting that names a file of measured kernels.
pub const MEASURED: &str = "techniques.fusion.measured";

/// Most groups of several operators that are searched.
const SPACE_MAX: u64 = 10_000_000;

/// The pass of settings, with times of kernels where they are known.
#[derive(Clone, Debug)]
pub struct Fusing {
    settings: Fusion,
    prices: Option<Prices>,
}

impl Fusion {
    /// Settings of `software.compile`, where there are no others.
    pub fn passes() -> Self {
        Self { policy: Policy::Passes, ..Self::default() }
    }

    /// Its pass.
    pub fn pass(&self, prices: Option<Prices>) -> Fusing {
        Fusing { settings: self.clone(), prices }
    }

    /// True if groups are chosen by times of kernels.
    pub fn needs_prices(&self) -> bool {
        self.rules().aim == Aim::Fastest
    }

    /// True if groups are looked for across the boundaries of blocks.
    pub(crate) fn crosses_blocks(&self) -> bool {
        self.rules().searches()
    }

    /// True if a model may have too many groups for it, or none of its measured kernels.
    pub(crate) fn may_be_refused(&self) -> bool {
        self.rules().searches() || !self.kernels.is_empty()
    }

    /// True if it has members behind products, of which limits of an SM decide what they cost.
    pub fn needs_limits(&self) -> bool {
        let Permitted { of_products, of_convolutions, .. } = self.rules().permitted;
        !of_products.is_empty() || !of_convolutions.is_empty()
    }

    /// True if a compiler makes kernels of passes, and the code that calls them.
    pub fn is_compiled(&self) -> bool {
        self.policy != Policy::None
    }

    fn rules(&self) -> Rules {
        let rules = self.policy.rules();
        let fold = self.fold.unwrap_or(rules.fold);
        let precision = self.fast_math.map_or(rules.precision, policy::precision);
        Rules { fold, precision, ..rules }.with_members(self.members.as_deref())
    }
}

impl Rules {
    /// True if all groups are looked at.
    const fn searches(&self) -> bool {
        matches!(self.aim, Aim::Fewest | Aim::Fastest)
    }

    /// A block as its groups are found.
    fn folded(&self, block: &Block) -> Block {
        if self.fold { folding::folded(block) } else { block.clone() }
    }
}

impl Pass for Fusing {
    fn name(&self) -> &'static str {
        "fusion"
    }

    fn kind(&self) -> Kind {
        Kind::Rewriter
    }

    /// Operators that are executed again are fused like those executed first.
    fn follows(&self) -> &'static [&'static str] {
        &["recompute", "no_sums"]
    }

    fn rewrite(&self, model: &mut Cut) {
        let (grouped, positions) = self.grouped(model);
        let mut made = Cut { gathered: model.gathered, ..Cut::default() };
        let blocks: Vec<usize> = grouped.iter().map(|grouped| made.block(self.merged(grouped))).collect();
        made.positions = positions;
        made.positions.iter_mut().flatten().for_each(|piece| piece.block = blocks[piece.block]);
        *model = made;
    }
}

/// A block with runs of passes merged (`software.compile`).
pub fn fused(block: &Block) -> Block {
    Fusion::passes().pass(None).fused(block)
}

impl Fusing {
    /// A block that is a model of its own, with its groups merged.
    pub fn fused(&self, block: &Block) -> Block {
        let rules = self.settings.rules();
        let block = rules.folded(block);
        let groups = [List::forward(&block), List::backward(&block)].map(|list| self.chosen(&list, &rules));
        self.merged(&Grouped { block, groups })
    }

    /// The refusal of a model with too many groups to search.
    pub fn beyond(&self, model: &Cut) -> Option<Diagnostic> {
        let rules = self.settings.rules();
        if !rules.searches() {
            return None;
        }
        let at_most = |block: &Block| -> u64 {
            [List::forward(block), List::backward(block)].iter().map(List::space_at_most).sum()
        };
        if model.blocks.iter().map(at_most).sum::<u64>() <= SPACE_MAX {
            return None;
        }
        let (mut all, mut largest) = (0, (0, String::new()));
        for (number, block) in (1..).zip(&model.blocks) {
            let block = rules.folded(block);
            for list in [List::forward(&block), List::backward(&block)] {
                let space = list.space(&rules.permitted, SPACE_MAX - all);
                all += space;
                largest = largest
                    .max((space, list.operators.first().map_or_else(String::new, |op| op.name.to_string())));
            }
            if all > SPACE_MAX {
                let (policy, blocks, (most, first)) = (self.settings.policy, model.blocks.len(), largest);
                let message = format!(
                    "`policy: {policy}` has {all} groups to search in {number} of {blocks} different \
                     blocks, more than {SPACE_MAX}; the block that begins with `{first}` has {most}"
                );
                let remedy = "write fewer `members`, or `policy: passes`, or put fewer layers in one \
                              `residual` or `concat`";
                return Some(Diagnostic::new("techniques.fusion.policy", message, remedy).with("model", ""));
            }
        }
        None
    }

    /// A block with its groups merged, each where its last member stands.
    fn merged(&self, grouped: &Grouped) -> Block {
        let precision = self.settings.rules().precision;
        let operators = |(list, chosen): (List<'_>, &Chosen)| -> Vec<Operator> {
            let mut groups: Vec<&Vec<usize>> = chosen.groups.iter().collect();
            groups.sort_by_key(|group| group.last().copied());
            groups.into_iter().map(|group| list.merged(group, precision)).collect()
        };
        let [forward, backward] = grouped.passes().map(operators);
        Block { forward, backward, ..grouped.block.clone() }
    }

    /// The groups of a list.
    fn chosen(&self, list: &List<'_>, rules: &Rules) -> Chosen {
        let count = list.operators.len();
        let ruled = |groups| Chosen { groups, cost: [0.0; 2], considered: 0, pruned: 0 };
        match (rules.aim, &self.prices) {
            (Aim::Nothing, _) | (Aim::Fastest, None) => ruled((0..count).map(|n| vec![n]).collect()),
            (Aim::Runs, _) => ruled(runs::runs(list.operators)),
            (Aim::Fewest, _) => self.covered(list, rules, &Cost::fewest()),
            (Aim::Fastest, Some(prices)) => self.covered(list, rules, &Cost::fastest(prices)),
        }
    }

    fn covered(&self, list: &List<'_>, rules: &Rules, cost: &Cost<'_>) -> Chosen {
        let Space { groups, considered, pruned } = self.priced(list, rules, cost);
        let chosen = cover::cheapest(list.operators.len(), &groups);
        let add = |sum: [f64; 2], &n: &usize| [0, 1].map(|place| sum[place] + groups[n].cost[place]);
        let cost = chosen.iter().fold([0.0; 2], add);
        let groups = chosen.iter().map(|&n| groups[n].members.clone()).collect();
        Chosen { groups, cost, considered, pruned }
    }

    /// Groups of a list with their costs.
    fn priced(&self, list: &List<'_>, rules: &Rules, cost: &Cost<'_>) -> Space {
        let margin = self.settings.prune.map_or(0.0, Share::as_f64);
        let mut space = Space { groups: Vec::new(), considered: 0, pruned: 0 };
        for first in 0..list.operators.len() {
            for group in list.groups_from(first, &rules.permitted) {
                let is_alone = group.len() == 1;
                space.considered += u64::from(!is_alone);
                if !is_alone && cost.is_hopeless(list, &group, rules, margin) {
                    space.pruned += 1;
                    continue;
                }
                let of_group = cost.of(list, &group, rules);
                if of_group[0].is_infinite() {
                    space.pruned += 1;
                    continue;
                }
                space.groups.push(Priced { members: group, cost: of_group });
            }
        }
        space
    }
}

/// Groups that a list can be cut into.
struct Space {
    groups: Vec<Priced>,
    /// Groups of several operators that were looked at.
    considered: u64,
    /// Groups among these that their bound or the limits of an SM ruled out.
    pruned: u64,
}

/// Groups that were chosen of a list.
#[derive(Clone)]
struct Chosen {
    groups: Vec<Vec<usize>>,
    /// What they cost together, where costs decide.
    cost: [f64; 2],
    /// Groups of several operators that were looked at.
    considered: u64,
    /// Groups among these that their bound or the limits of an SM ruled out.
    pruned: u64,
}

impl List<'_> {
    /// The operator that a group becomes.
    fn merged(&self, group: &[usize], precision: Precision) -> Operator {
        let members: Vec<&Operator> = group.iter().map(|&n| &self.operators[n]).collect();
        merged::merged(&members, self.tensors, precision, |tensor| self.is_needed(tensor, group))
    }
}

impl Technique for Fusion {
    fn facts(&self, _: u32) -> Facts<'_> {
        Facts { path: NAME, ..Facts::default() }
    }

    fn check(&self, around: &Around<'_>, wrong: &mut dyn FnMut(Diagnostic)) {
        if around.model == ModelKind::Profile {
            wrong(around.foreign(NAME, "its operators are not known; remove it"));
        }
        let members = self.members.as_deref().unwrap_or_default();
        let twice = members.iter().enumerate().find(|(n, member)| members[..*n].contains(member));
        if let Some((_, member)) = twice {
            let message = format!("`{member}` stands twice in `members`");
            wrong(Diagnostic::new("techniques.fusion.members", message, "name each kind of member once"));
        }
        if self.members.is_some() && !self.policy.takes_members() {
            let message = format!("policy `{}` has no members behind products and convolutions", self.policy);
            wrong(Diagnostic::new(
                "techniques.fusion.members",
                message,
                "use `policy: epilogues` or `policy: searched`, or remove `members`",
            ));
        }
        if members.contains(&Member::Anchor) && self.policy.takes_members() && !self.needs_prices() {
            let message = format!("policy `{}` cannot tell which two anchors fit into an SM", self.policy);
            wrong(Diagnostic::new(
                "techniques.fusion.members",
                message,
                "use `policy: searched`, or remove `anchor`",
            ));
        }
        if self.prune.is_some() && !self.needs_prices() {
            let message = format!("policy `{}` estimates no groups that could be dropped", self.policy);
            wrong(Diagnostic::new(
                "techniques.fusion.prune",
                message,
                "use `policy: searched`, or remove `prune`",
            ));
        }
        if self.prune.is_some_and(|prune| !(0.0..1.0).contains(&prune.as_f64())) {
            let message = "a group cannot gain all of the time that its members take";
            wrong(Diagnostic::new("techniques.fusion.prune", message, "write a share below 100 %"));
        }
    }
}
