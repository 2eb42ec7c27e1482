//! What a plan is executed on.

use crate::lower::Lowered;
use crate::memo::Memo;
use crate::site::Site;
use crate::transfer::Dispositions;

use super::PlanError;

/// Makes sites for whatever is decided.
pub(super) trait Grounds {
    /// The site for what was decided.
    fn site(&self, table: &Dispositions) -> Result<Site, PlanError>;

    /// Makes ranks as slow as they are there.
    fn slow_clocks(&self, lowered: &mut Lowered);

    /// Memory of plans before.
    fn memo(&self) -> Option<&Memo> {
        None
    }
}

/// Those of a profile.
pub(super) struct ProfiledGrounds {
    pub(super) stages: u32,
    pub(super) partner_rate: Option<f64>,
}

impl Grounds for ProfiledGrounds {
    fn site(&self, table: &Dispositions) -> Result<Site, PlanError> {
        Ok(Site::of_profile(self.stages, self.partner_rate, table))
    }

    fn slow_clocks(&self, _lowered: &mut Lowered) {}
}
