//! Hardware files: what `calibrate` writes, and scenarios lay over their machine.

mod difference;

use calibration::hardware::{FORM, Found, Hardware};
use calibration::interference::{SharedGpu, Slowdown, slowdowns};
use calibration::measure::Record;
use calibration::overlay::Overlay;
use serde::Deserialize;

use crate::catalogue;

pub use difference::{Difference, differences, kernel_constants};

/// Longest hardware file (bytes): constants, and corrections of every class of kernels of a GPU.
pub const MAX_BYTES: usize = 4 << 20;

/// What every form has.
#[derive(Deserialize)]
struct Form {
    form: u32,
}

/// Reads a hardware file.
///
/// # Errors
/// What is wrong with it and what to do about it, to be said of its name: "is no hardware file".
pub fn read(bytes: &[u8]) -> Result<Hardware, String> {
    const NONE: &str = "is no hardware file of `foretrain calibrate`";
    if bytes.len() > MAX_BYTES {
        return Err(format!(
            "is longer than {} MiB: give a hardware file of `foretrain calibrate`",
            MAX_BYTES >> 20
        ));
    }
    let none = |error: serde_yaml::Error| format!("{NONE}: {error}");
    let Form { form } = serde_yaml::from_slice(bytes).map_err(none)?;
    if form != FORM {
        return Err(format!("has form {form}, this version of foretrain reads form {FORM}: calibrate again"));
    }
    serde_yaml::from_slice(bytes).map_err(none)
}

/// What of a file no scenario rests on: a law where that is all of it, `memory.write`, or else its constants,
/// `memory.copy.core`.
pub fn unused(hardware: &Hardware) -> Vec<String> {
    let unused: Vec<String> = laid(hardware).files.into_iter().flat_map(|laid| laid.unused).collect();
    let of_law = |(law, found): (&String, &Found)| {
        let constants = found.constants.keys().map(|name| format!("{law}.{name}"));
        let constants: Vec<String> = constants.filter(|constant| unused.contains(constant)).collect();
        if constants.len() == found.constants.len() { vec![law.clone()] } else { constants }
    };
    hardware.laws.iter().flat_map(of_law).collect()
}

/// What was measured of work beside other work, and what the engine says with the constants of the file; none without a GPU.
pub fn interference(hardware: &Hardware, records: &[Record]) -> Vec<Slowdown> {
    let gpu = hardware.gpu.as_ref().and_then(|gpu| SharedGpu::of(&laid(hardware), gpu));
    gpu.map(|gpu| slowdowns(&gpu, records)).unwrap_or_default()
}

/// The catalogue with the file laid over it.
fn laid(hardware: &Hardware) -> Overlay {
    let mut overlay = catalogue::overlay().clone();
    // Whoever lays the file over a scenario is told what is wrong with it.
    let _ = overlay.lay("", hardware);
    overlay
}
