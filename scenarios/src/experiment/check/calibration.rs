//! Whether the hardware files of a scenario can be laid over its machine.

use hw_models::machine::Machine;
use workloads::diagnostic::split;

use super::Check;
use crate::experiment::calibrations::CALIBRATION;
use crate::schema::Scenario;

impl Check<'_> {
    /// Lays the hardware files over the catalogue.
    pub(super) fn calibrated(&mut self, scenario: &mut Scenario) {
        let calibrations = &self.named.calibrations;
        match self
            .tree
            .child(CALIBRATION)
            .map_or(Ok(calibrations.plain.clone()), |list| calibrations.get(list))
        {
            Ok(constants) => scenario.constants = constants,
            Err(mistakes) => {
                for mistake in mistakes {
                    let (message, help) = split(&mistake.message);
                    self.report(&[(&entry(mistake.entry), String::new())], message, help);
                }
            }
        }
    }

    /// What was measured on another GPU says nothing of this one.
    pub(super) fn calibrated_gpu(&mut self, scenario: &Scenario, machine: &Machine) {
        let Some(overlay) = scenario.constants.overlay() else { return };
        for (at, file) in overlay.files.iter().enumerate() {
            let mut own = machine.gpu_kinds().iter().map(|(name, _)| name);
            if let Some(measured) = &file.gpu
                && let Some(own) = own.find(|own| *own != measured)
            {
                let about =
                    [(&*entry(at), format!("measured on {measured}")), ("machine", format!("has {own}"))];
                let message = format!("`{}` is of another GPU than the machine's", file.file);
                self.report(&about, message, "calibrate the machine's GPU, or leave the file out");
            }
        }
    }
}

fn entry(at: usize) -> String {
    format!("{CALIBRATION}.{at}")
}
