//! Groups of the operators of a model, one by one.

use crate::graph::Phase;
use crate::graph::cut::Cut;
use crate::graph::operator::Operator;

use super::groups::{List, Refusal};
use super::policy::{Aim, Rules};
use super::price::Cost;
use super::{Chosen, Fusing};

/// A kernel of several operators, or of one that would be slower with another.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Number of the block that it is in, from 0.
    pub block: usize,
    /// How often the block occurs.
    pub occurrences: usize,
    /// Part of the step.
    pub phase: Phase,
    /// Operators, in their order.
    pub members: Vec<String>,
    /// Bytes that members no longer read and write.
    pub bytes_saved: u64,
    /// Times, where the policy knows any.
    pub times: Option<GroupTimes>,
    /// Why it is not larger. `None`: nothing behind it shares a tensor with it.
    pub refused: Option<Refused>,
}

impl Group {
    /// True if there is something to say: several members, or one that times keep alone.
    fn is_told(&self) -> bool {
        self.members.len() > 1 || self.refused.as_ref().is_some_and(|refused| refused.by_time)
    }
}

/// Why a group is not larger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The operator behind the last member that shares a tensor with the group.
    pub operator: String,
    /// Why it is no member.
    pub because: String,
    /// It could be one, and is none as that takes longer.
    pub by_time: bool,
}

/// Times of a group (s).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupTimes {
    /// Time of its members, each as a kernel.
    pub apart: f64,
    /// Time of the kernel.
    pub together: f64,
    /// Below which it cannot be.
    pub bound: f64,
    /// True if the kernel was timed on the device.
    pub measured: bool,
}

/// Groups of a model, and how many were looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    /// Kernels of several operators, and those that are better off alone.
    pub groups: Vec<Group>,
    /// Groups of several operators that were looked at.
    pub considered: u64,
    /// Groups among these that their bound or the limits of an SM ruled out.
    pub pruned: u64,
}

impl Fusing {
    /// The groups that it makes of a model.
    pub fn explained(&self, model: &Cut) -> Explanation {
        let rules = self.settings.rules();
        let mut all = Explanation::default();
        let (blocks, positions) = self.grouped(model);
        for (number, grouped) in blocks.iter().enumerate() {
            let pieces = positions.iter().flatten();
            let occurrences = pieces.filter(|piece| piece.block == number).count();
            for (list, Chosen { groups, considered, pruned, .. }) in grouped.passes() {
                all.considered += considered;
                all.pruned += pruned;
                let told = groups.iter().map(|group| {
                    let told = self.told(&list, (group, groups), &rules);
                    Group { block: number, occurrences, ..told }
                });
                all.groups.extend(told.filter(Group::is_told));
            }
        }
        all
    }

    fn told(&self, list: &List<'_>, (group, all): (&[usize], &[Vec<usize>]), rules: &Rules) -> Group {
        let merged = list.merged(group, rules.precision);
        let members: Vec<&Operator> = group.iter().map(|&n| &list.operators[n]).collect();
        let apart: u64 = members.iter().map(|op| op.work.bytes()).sum();
        let prices = self.prices.as_ref().filter(|_| rules.aim == Aim::Fastest);
        let times = prices.map(|prices| {
            let cost = Cost::fastest(prices);
            GroupTimes {
                apart: group.iter().map(|&n| cost.of(list, &[n], rules)[0]).sum(),
                together: cost.of(list, group, rules)[0],
                bound: prices.least(list, group, rules),
                measured: prices.0.is_measured(&merged.work),
            }
        });
        Group {
            block: 0,
            occurrences: 0,
            phase: members[0].phase,
            members: members.iter().map(|op| op.name.to_string()).collect(),
            bytes_saved: apart.saturating_sub(merged.work.bytes()),
            times,
            refused: self.refused(list, (group, all), rules),
        }
    }

    /// Why a group, one of `all`, is not larger.
    fn refused(
        &self,
        list: &List<'_>,
        (group, all): (&[usize], &[Vec<usize>]),
        rules: &Rules,
    ) -> Option<Refused> {
        let behind = group.last()? + 1..list.operators.len();
        behind.into_iter().find_map(|next| {
            let (because, by_time) = match list.admits(group, next, &rules.permitted) {
                Err(Refusal::Unrelated) => return None,
                Err(refusal) => (refusal.to_string(), false),
                Ok(()) => {
                    let other = all.iter().find(|other| other.contains(&next))?;
                    self.dearer(list, (group, other), rules)
                }
            };
            Some(Refused { operator: list.operators[next].name.to_string(), because, by_time })
        })
    }

    /// Why legal members were left to another group, and whether times alone say so.
    fn dearer(&self, list: &List<'_>, (group, other): (&[usize], &[usize]), rules: &Rules) -> (String, bool) {
        let elsewhere = || ("it is in a group that saves more".to_owned(), false);
        let prices = self.prices.as_ref().filter(|_| rules.aim == Aim::Fastest);
        let Some(cost) = prices.map(Cost::fastest) else { return elsewhere() };
        let of = |group: &[usize]| cost.of(list, group, rules)[0];
        let (mut larger, mut rest) = (group.to_vec(), Vec::new());
        for &member in other {
            let admitted = rest.is_empty() && list.admits(&larger, member, &rules.permitted).is_ok();
            if admitted { larger.push(member) } else { rest.push(member) }
        }
        let (together, apart) =
            (of(&larger) + if rest.is_empty() { 0.0 } else { of(&rest) }, of(group) + of(other));
        if together.is_infinite() {
            return ("no SM has the shared memory for what is between the two".to_owned(), false);
        }
        if together <= apart {
            return elsewhere();
        }
        let names: Vec<&str> = larger[group.len()..].iter().map(|&n| &*list.operators[n].name).collect();
        let micro = |seconds: f64| format!("{:.2} us", seconds * 1e6);
        (
            format!(
                "with {} it would take {}, and takes {}",
                names.join(" and "),
                micro(together),
                micro(apart)
            ),
            true,
        )
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unrelated => f.write_str("it shares no tensor with the group"),
            Self::Phase => f.write_str("it belongs to another part of the step"),
            Self::Waits => f.write_str("ranks exchange it, or the host waits for it"),
            Self::Reduces => f.write_str("it is a reduction, which needs what all thread blocks make"),
            Self::ElsewherePlaced => {
                f.write_str("it reads elements at other places than it writes, or several operators at once")
            }
            Self::Policy => f.write_str("the policy has no such member"),
            Self::Anchor => f.write_str("it is a product, a convolution or attention by itself"),
            Self::Sequence => f.write_str("it is a second product or convolution, of something else"),
            Self::Needed => f.write_str("others read what would stay in shared memory"),
            Self::Rows => f.write_str("it is a second reduction, over other rows"),
            Self::Between(name) => write!(f, "`{name}` in between needs a member, or changes what one reads"),
        }
    }
}
