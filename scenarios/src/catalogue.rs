//! What is known of hardware and of published models, from the texts embedded in the crates that
//! own their types.

use std::sync::LazyLock;

use calibration::overlay::Overlay;
use hw_models::allocator::{FrameworkMemory, MEMORY};
use hw_models::catalogue::{Catalogue, look_up};
use hw_models::collectives::{COLLECTIVE_SPREADS, COLLECTIVES, CollectiveCatalogue, CollectiveSpreads};
use hw_models::copies::{COPIES, CopyCatalogue};
use hw_models::framework::{FRAMEWORKS, Framework};
use hw_models::host::HOST;
use hw_models::kernels::{GpuFacts, KERNELS, KernelCatalogue, KernelModel, SPREADS, Spreads};
use hw_models::power::{HOST_POWER, HostPower};
use hw_models::storage::{PATHS, PathCatalogue};
use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use serde_yaml::with::singleton_map_recursive;
use workloads::model::layered::{LAYERED_PRESETS, LayeredPreset};
use workloads::model::transformer::{PRESETS, Preset};
use workloads::passes::{PRESETS as TECHNIQUE_PRESETS, TechniquePreset};
use workloads::program::PROGRAMS;
use workloads::trace::Hardware;

use crate::run::step_spreads::{STEP_SPREADS, StepSpreads};
use crate::schema::ProgramPreset;

/// Constants of the catalogue, over which no hardware file is laid yet.
pub fn overlay() -> &'static Overlay {
    static OVERLAY: LazyLock<Overlay> = LazyLock::new(|| {
        Overlay::new(
            Catalogue::embedded(serde_yaml::Deserializer::from_str).expect(VALID),
            embedded(KERNELS),
            embedded(COLLECTIVES),
            embedded(HOST),
            embedded(COPIES),
            Spreads::read(SPREADS).expect(VALID),
        )
    });
    &OVERLAY
}

/// GPUs, nodes, links, network interfaces, fabrics and drives.
pub fn devices() -> &'static Catalogue {
    &overlay().devices
}

/// Constants of kernels.
pub fn kernels() -> &'static KernelCatalogue {
    &overlay().kernels
}

/// Published programs.
pub(crate) fn programs() -> &'static IndexMap<String, ProgramPreset> {
    static FOUND: LazyLock<IndexMap<String, ProgramPreset>> = LazyLock::new(|| with_choices(PROGRAMS));
    &FOUND
}

/// Costs of frameworks to issue work.
pub fn frameworks() -> &'static IndexMap<String, Framework> {
    static FOUND: LazyLock<IndexMap<String, Framework>> = LazyLock::new(|| embedded(FRAMEWORKS));
    &FOUND
}

/// Power of hosts.
pub(crate) fn host_power() -> &'static HostPower {
    static FOUND: LazyLock<HostPower> = LazyLock::new(|| embedded(HOST_POWER));
    &FOUND
}

/// How far collectives were off on what was held out.
pub fn collective_spreads() -> &'static CollectiveSpreads {
    static FOUND: LazyLock<CollectiveSpreads> =
        LazyLock::new(|| CollectiveSpreads::read(COLLECTIVE_SPREADS).expect(VALID));
    &FOUND
}

/// How far steps were off on sets of measurements.
pub fn step_spreads() -> &'static StepSpreads {
    static FOUND: LazyLock<StepSpreads> = LazyLock::new(|| StepSpreads::read(STEP_SPREADS, "").expect(VALID));
    &FOUND
}

/// The kernels of a GPU of the catalogue.
///
/// # Errors
/// When there is no such GPU, or its generation is unknown: in words.
pub fn kernels_of(gpu: &str) -> Result<KernelModel, String> {
    let facts = look_up(&devices().gpus, "GPU", gpu).map_err(|error| error.to_string())?;
    let parameters = kernels().parameters(gpu, &facts.architecture).map_err(|error| error.to_string())?;
    Ok(KernelModel::new(GpuFacts::of(facts, 1.0), parameters))
}

/// Hardware that changes of traces name.
pub fn hardware() -> Hardware<'static> {
    Hardware { devices: devices(), host: &overlay().host, kernels: kernels_of }
}

/// Constants of collectives and messages.
pub fn collectives() -> &'static CollectiveCatalogue {
    &overlay().collectives
}

/// Paths between drives and memories.
pub fn storage_paths() -> &'static PathCatalogue {
    static CONSTANTS: LazyLock<PathCatalogue> = LazyLock::new(|| embedded(PATHS));
    &CONSTANTS
}

/// Starts of copies, by class of link.
pub fn copies() -> &'static CopyCatalogue {
    &overlay().copies
}

/// Memory that a framework takes for libraries.
pub fn memory() -> &'static FrameworkMemory {
    static MEMORIES: LazyLock<FrameworkMemory> = LazyLock::new(|| embedded(MEMORY));
    &MEMORIES
}

/// Published transformers by name.
pub fn presets() -> &'static IndexMap<String, Preset> {
    static MODELS: LazyLock<IndexMap<String, Preset>> = LazyLock::new(|| embedded(PRESETS));
    &MODELS
}

/// Published models that are lists of layers by name.
pub fn layered_presets() -> &'static IndexMap<String, LayeredPreset> {
    static MODELS: LazyLock<IndexMap<String, LayeredPreset>> = LazyLock::new(|| {
        let family = |text: &&str| -> IndexMap<String, LayeredPreset> { with_choices(text) };
        LAYERED_PRESETS.iter().flat_map(family).collect()
    });
    &MODELS
}

/// Settings of techniques as real systems have them, by name.
pub fn technique_presets() -> &'static IndexMap<String, TechniquePreset> {
    static FOUND: LazyLock<IndexMap<String, TechniquePreset>> = LazyLock::new(|| embedded(TECHNIQUE_PRESETS));
    &FOUND
}

/// Choices are maps of one key, where YAML would have tags.
fn with_choices<T: DeserializeOwned>(text: &str) -> T {
    singleton_map_recursive::deserialize(serde_yaml::Deserializer::from_str(text)).expect(VALID)
}

fn embedded<T: DeserializeOwned>(text: &str) -> T {
    serde_yaml::from_str(text).expect(VALID)
}

const VALID: &str = "the embedded texts are valid, which the tests of their crates show";
