//! Rows of a movement plan, which its file has.

use workloads::passes::movement_plan::FILE;

use super::Check;
use crate::experiment::paths;
use crate::schema::Scenario;

impl Check<'_> {
    /// Gives a movement plan the rows of its file.
    pub(super) fn movement_plan(&mut self, scenario: &mut Scenario) {
        let Some(plan) = &mut scenario.techniques.movement_plan else { return };
        match self.named.movement_plans.get(self.tree.nearest_mark(&paths::keys(FILE)), &plan.file) {
            Ok(rows) => plan.rows = rows,
            Err(found) => found.into_iter().for_each(|found| self.diagnostic(found)),
        }
    }
}
