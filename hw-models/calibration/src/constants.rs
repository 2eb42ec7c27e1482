//! What was found, as the catalogue writes it: constants by device for `kernels.yaml`, rows for `corrections.csv`.

use indexmap::IndexMap;
use serde::Serialize;

use super::Calibrated;
use hw_models::kernels::{
    AttentionParameters, CORRECTIONS_HEADER, ConvolutionParameters, DeviceKernels, GemmParameters,
    GraphParameters, GroupedParameters, KernelClass, KernelError, KernelModel, Pass, PassParameters,
    StreamParameters,
};
use hw_models::provenance::Provenance;

/// The constants of one class of kernels.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Constants {
    /// Matrix products of a type, or batches of them.
    Gemm(GemmParameters),
    /// Grouped matrix products.
    Grouped(GroupedParameters),
    /// Convolutions of a type.
    Convolution(ConvolutionParameters),
    /// A pass of flash attention.
    Attention(PassParameters),
    /// Passes over memory of a class.
    Stream(StreamParameters),
    /// Kernels over edges and typed rows of graphs.
    Graph(GraphParameters),
}

impl Constants {
    /// Those of a class in a model.
    ///
    /// # Errors
    /// When it has none for the class.
    pub fn of(model: &KernelModel, class: KernelClass) -> Result<Self, KernelError> {
        let parameters = &model.parameters;
        Ok(match class {
            KernelClass::Gemm(dtype) => Self::Gemm(parameters.gemm(dtype)?.clone()),
            KernelClass::Batched(dtype) => Self::Gemm(parameters.batched(dtype)?.clone()),
            KernelClass::Grouped(dtype) => Self::Grouped(parameters.grouped(dtype)?.clone()),
            KernelClass::Convolution(dtype) => Self::Convolution(parameters.convolution(dtype)?.clone()),
            KernelClass::Attention(Pass::Forward) => Self::Attention(parameters.attention.forward.clone()),
            KernelClass::Attention(Pass::Backward) => Self::Attention(parameters.attention.backward.clone()),
            KernelClass::Stream(class) => Self::Stream(parameters.stream(class)?.clone()),
            KernelClass::Segments(_) | KernelClass::Traversal => Self::Graph(parameters.graph.clone()),
        })
    }
}

/// What replaces the constants of a class in `known`, the model that the fit began with. Starts of kernels stay as they
/// were, see the [module above](super).
///
/// # Errors
/// When either model has no constants of the class.
pub(super) fn replacing(
    known: &KernelModel,
    found: &KernelModel,
    class: KernelClass,
    provenance: Provenance,
) -> Result<DeviceKernels, KernelError> {
    let (known, found) = (&known.parameters, &found.parameters);
    let mut kernels = DeviceKernels::default();
    match class {
        KernelClass::Gemm(dtype) => {
            let start_us = known.gemm(dtype)?.start_us;
            let found = GemmParameters { start_us, provenance, ..found.gemm(dtype)?.clone() };
            kernels.gemm.insert(dtype, found);
        }
        KernelClass::Batched(dtype) => {
            let start_us = known.batched(dtype)?.start_us;
            let found = GemmParameters { start_us, provenance, ..found.batched(dtype)?.clone() };
            kernels.batched.insert(dtype, found);
        }
        KernelClass::Grouped(dtype) => {
            kernels.grouped = Some(GroupedParameters { provenance, ..found.grouped(dtype)?.clone() });
        }
        KernelClass::Convolution(dtype) => {
            let ConvolutionParameters { start_us, transforms_us, .. } = *known.convolution(dtype)?;
            let found = found.convolution(dtype)?.clone();
            let found = ConvolutionParameters { start_us, transforms_us, provenance, ..found };
            kernels.convolution.insert(dtype, found);
        }
        KernelClass::Attention(_) => {
            kernels.attention = Some(AttentionParameters { provenance, ..found.attention.clone() });
        }
        KernelClass::Stream(class) => {
            let start_us = known.stream(class)?.start_us;
            let found = StreamParameters { start_us, provenance, ..found.stream(class)?.clone() };
            kernels.stream.insert(class, found);
        }
        // No table of kernels has them; a generation has one set.
        KernelClass::Segments(_) | KernelClass::Traversal => {}
    }
    Ok(kernels)
}

impl Calibrated {
    /// The constants found, with the start that explains the table.
    ///
    /// # Errors
    /// None where the class was fitted.
    pub fn constants(&self) -> Result<Constants, KernelError> {
        Constants::of(&self.model, self.class)
    }
}

/// The `devices` of a catalogue of kernels with what was found, in the order found.
pub fn devices(found: &[Calibrated]) -> IndexMap<String, DeviceKernels> {
    let mut devices: IndexMap<String, DeviceKernels> = IndexMap::new();
    for one in found {
        devices.entry(one.device.clone()).or_default().replace(one.kernels.clone());
    }
    devices
}

/// The table of corrections that were found, as the catalogue has it.
pub fn corrections(found: &[Calibrated]) -> String {
    let known = found.iter().filter_map(|one| Some((one, one.model.parameters.corrections.get(&one.class)?)));
    let rows = known.flat_map(|(one, corrections)| corrections.rows(&one.device, one.class));
    std::iter::once(CORRECTIONS_HEADER.to_owned()).chain(rows).map(|row| row + "\n").collect()
}
