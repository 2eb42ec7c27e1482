//! Kernels that fusion finds timed, which its file has.

use workloads::diagnostic::Diagnostic;
use workloads::passes::fusion::MEASURED;

use super::Check;
use crate::experiment::paths;
use crate::plans::machine;
use crate::schema::Scenario;

impl Check<'_> {
    /// Gives fusion the kernels of its file, some of which must be of a GPU of the machine.
    pub(super) fn measured_kernels(&mut self, scenario: &mut Scenario) {
        let Some(fusion) = &mut scenario.techniques.fusion else { return };
        let Some(file) = &fusion.measured else { return };
        let kernels = match self.named.kernels.get(self.tree.nearest_mark(&paths::keys(MEASURED)), file) {
            Ok(kernels) => kernels,
            Err(found) => return found.into_iter().for_each(|found| self.diagnostic(found)),
        };
        fusion.kernels = kernels.clone();
        let Ok(machine) = machine::of(scenario) else { return };
        let gpus: Vec<&str> = machine.gpu_kinds().iter().map(|(name, _)| name.as_str()).collect();
        if !kernels.iter().any(|kernel| gpus.contains(&kernel.gpu.as_str())) {
            let (timed, gpus) = (&kernels[0].gpu, gpus.join(" and "));
            let message = format!("its kernels were timed on `{timed}`, and the machine has {gpus}");
            let remedy = "time them on the GPU of the machine; `foretrain list gpus` has the names";
            self.diagnostic(Diagnostic::new(MEASURED, message, remedy));
        }
    }
}
