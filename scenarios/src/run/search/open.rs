//! Plans that are not known well enough yet, in the order of their bounds.

use super::goal::Figures;
use super::group::{Group, Place};

/// Plans with a bound.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Open {
    pub(super) bound: Figures,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// A plan whose operators are priced.
    Fine(Place),
    /// A plan.
    Rough(Place),
    /// Plans of a group from this one on, of which no work is known.
    Group(Place),
}

impl Eq for Open {}

impl Ord for Open {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let by_bound = self.bound.iter().zip(&other.bound).map(|(one, other)| one.total_cmp(other));
        // Plans that are known best go first: one may end the search.
        by_bound.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then).then(self.what.cmp(&other.what))
    }
}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Open {
    /// Places of its plans.
    pub(super) fn places(&self, groups: &[Group]) -> impl Iterator<Item = Place> + use<> {
        let (group, member) = self.what.place();
        let end = match self.what {
            What::Group(_) => groups[group].members.len(),
            What::Rough(_) | What::Fine(_) => member + 1,
        };
        (member..end).map(move |member| (group, member))
    }
}

impl What {
    /// The plan that is told more of next.
    pub(super) const fn place(self) -> Place {
        match self {
            Self::Group(place) | Self::Rough(place) | Self::Fine(place) => place,
        }
    }
}
