//! Catalogue and kernels as they come with foretrain.

use std::sync::LazyLock;

use hw_models::catalogue::Catalogue;
use hw_models::kernels::{GpuFacts, KERNELS, KernelCatalogue, KernelModel};

pub(crate) fn catalogue() -> Catalogue {
    Catalogue::embedded(serde_yaml::Deserializer::from_str).unwrap_or_else(|error| panic!("{error}"))
}

/// The kernels of a GPU of the catalogue.
pub(crate) fn model(device: &str) -> KernelModel {
    static CATALOGUES: LazyLock<(Catalogue, KernelCatalogue)> =
        LazyLock::new(|| (catalogue(), serde_yaml::from_str(KERNELS).unwrap()));
    let (parts, kernels) = &*CATALOGUES;
    let gpu = parts.gpus.get(device).unwrap_or_else(|| panic!("no {device} in the catalogue"));
    KernelModel::new(GpuFacts::of(gpu, 1.0), kernels.parameters(device, &gpu.architecture).unwrap())
}
