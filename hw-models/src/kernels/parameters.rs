//! Parameters of kernel times, by generation of GPU and, where measured, by device.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::tile::TileParameters;
use super::{
    CORRECTIONS, Corrections, Dtype, Flash, KernelClass, KernelError, Layout, Pass, Speedup, StreamClass,
};
use crate::provenance::Provenance;
use crate::variation::Variation;

/// Parameters of every generation, and what is known better of single devices.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelCatalogue {
    /// How far the times of products differ between GPUs of one kind at their limit of power.
    pub variation: Variation,
    /// By generation, `ampere`.
    pub generations: IndexMap<String, KernelParameters>,
    /// By device, `a100-pcie-80gb`.
    pub devices: IndexMap<String, DeviceKernels>,
    /// What measured shapes add by device and class, in place of the committed corrections of these classes.
    #[serde(skip)]
    pub corrections: BTreeMap<String, BTreeMap<KernelClass, Corrections>>,
}

/// All parameters of one GPU.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelParameters {
    /// Output tiles (rows, columns) of the library's matrix products.
    pub tiles: Vec<[u32; 2]>,
    /// Step of a tile along the contraction on tensor cores (elements).
    pub k_step: u32,
    /// Fraction of the SMs that saturates HBM.
    pub saturating_sms: f64,
    /// Products on tensor cores have as many blocks as there are SMs, each with its share of the tiles from the start.
    #[serde(default)]
    pub persistent: bool,
    /// The second-level cache.
    pub cache: CacheParameters,
    /// Matrix products by type.
    pub gemm: IndexMap<Dtype, GemmParameters>,
    /// Batches of matrix products by type, where they were measured; elsewhere they count as single ones.
    #[serde(default)]
    pub batched: IndexMap<Dtype, GemmParameters>,
    /// Grouped matrix products, of every type.
    pub grouped: GroupedParameters,
    /// Convolutions by type.
    pub convolution: IndexMap<Dtype, ConvolutionParameters>,
    /// Flash attention.
    pub attention: AttentionParameters,
    /// Passes over memory by class.
    pub stream: IndexMap<StreamClass, StreamParameters>,
    /// Kernels over edges and typed rows of graphs.
    pub graph: GraphParameters,
    /// Kernels from parts. `None`: none of the generation was measured.
    #[serde(default)]
    pub tile: Option<TileParameters>,
    /// What measured shapes add, of a device that was measured.
    #[serde(skip)]
    pub corrections: BTreeMap<KernelClass, Corrections>,
}

/// What replaces the parameters of a generation for one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeviceKernels {
    /// True if products are [persistent](KernelParameters::persistent); `None`: as in the generation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent: Option<bool>,
    /// Matrix products by type.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub gemm: IndexMap<Dtype, GemmParameters>,
    /// Batches of matrix products by type.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub batched: IndexMap<Dtype, GemmParameters>,
    /// Grouped matrix products.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grouped: Option<GroupedParameters>,
    /// Convolutions by type.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub convolution: IndexMap<Dtype, ConvolutionParameters>,
    /// Flash attention.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<AttentionParameters>,
    /// Passes over memory by class.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub stream: IndexMap<StreamClass, StreamParameters>,
}

/// Parameters of matrix products of a type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GemmParameters {
    /// Fraction of peak of a full tile in the steady state.
    pub e_max: f64,
    /// How the fraction falls with the area of smaller tiles.
    pub exponent: f64,
    /// Filling and draining a tile's pipeline, in elements of the contraction.
    pub prologue_k: f64,
    /// Ramp-up and drain of the kernel (us).
    pub start_us: f64,
    /// Factor on `e_max` of [`Layout::InputGradient`](super::Layout::InputGradient).
    pub input_gradient: f64,
    /// Factor on `e_max` of [`Layout::WeightGradient`](super::Layout::WeightGradient).
    pub weight_gradient: f64,
    /// Factor on `e_max` when a dimension is not a multiple of 16 bytes.
    pub misaligned: f64,
    /// Fraction of peak that the board's power holds with all SMs at work.
    pub sustained: f64,
    /// The same where products follow each other without end, of a part that was timed one product at a time; none: as
    /// `sustained`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuous: Option<f64>,
    /// Fraction of peak that no product goes beyond, however fast one like it was timed: what is held in a training run.
    #[serde(skip)]
    pub held: Option<f64>,
    /// Share of the shorter of compute and memory that the longer does not hide.
    pub serial: f64,
    /// Output tiles (rows, columns) where kernels of the class have others than most of the generation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiles: Vec<[u32; 2]>,
    /// The library cuts the contraction only where the tiles leave SMs idle.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole_when_full: bool,
    /// Where they are from.
    pub provenance: Provenance,
}

/// Parameters of grouped matrix products: factors on the rates of single ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupedParameters {
    /// Activations times weights.
    pub forward: f64,
    /// Gradients of the activations.
    pub input_gradient: f64,
    /// Gradients of the weights.
    pub weight_gradient: f64,
    /// From one group to the next where each is launched on its own (us); 0 where one kernel takes them all, or none was
    /// measured that waited.
    #[serde(default)]
    pub issue_us: f64,
    /// Share of the shorter of arithmetic and memory that is not hidden. `None`: that of single
    /// products.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<f64>,
    /// Where they are from.
    pub provenance: Provenance,
}

/// Parameters of convolutions of a type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvolutionParameters {
    /// Implicit products.
    pub implicit: AlgorithmParameters,
    /// Winograd's products in one kernel. `None`: the library has none for the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fused: Option<AlgorithmParameters>,
    /// Images, tiles down and tiles across of its blocks: 32 tiles of 2 x 2 outputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fused_blocks: Vec<[u64; 3]>,
    /// Winograd's products between passes that transform. `None`: the library takes none for the
    /// type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub winograd: Option<AlgorithmParameters>,
    /// Fraction of HBM bandwidth that passes which transform achieve.
    pub transforms: f64,
    /// Implicit products for gradients of inputs. `None`: as for outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_gradient: Option<AlgorithmParameters>,
    /// Implicit products for gradients of weights. `None`: as for outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_gradient: Option<AlgorithmParameters>,
    /// Kernels for outputs come in tiles of all shapes and cut their sums, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cuts_outputs: bool,
    /// Kernels for gradients of weights take the taps of a filter one by one, so that the channels
    /// of each fill tiles of their own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub taps_apart: bool,
    /// Channels of a tap that kernels take at once, so that fewer take as long: CUTLASS assumes
    /// multiples of 32 (`media/docs/implicit_gemm_convolution.md`), until kernels for first layers
    /// came with version 2.9. `None`: 16 bytes of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_step: Option<NonZeroU64>,
    /// Ramp-up and drain of the kernel (us).
    pub start_us: f64,
    /// Ramp-up and drain of the passes that transform (us).
    pub transforms_us: f64,
    /// Where they are from.
    pub provenance: Provenance,
}

/// Speed of the tiles of an algorithm of convolutions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlgorithmParameters {
    /// Fraction of peak of a full tile.
    pub e_max: f64,
    /// How it falls with the area of smaller tiles.
    #[serde(default)]
    pub exponent: f64,
    /// Filling and draining a tile's pipeline, in elements of the contraction.
    pub prologue_k: f64,
    /// Tiles of the library's kernels, outputs by channels; none are stated: all of the model's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiles: Vec<[u64; 2]>,
}

/// Parameters of flash attention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttentionParameters {
    /// The forward pass.
    pub forward: PassParameters,
    /// The backward pass.
    pub backward: PassParameters,
    /// Factor on `e_max` of heads 64 wide; those from 128 have 1, between them it is linear.
    pub head_dim_64: f64,
    /// Other implementations that are faster, or slower.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub libraries: IndexMap<Flash, Speedup>,
    /// Ramp-up and drain of the kernel (us).
    pub start_us: f64,
    /// Where they are from.
    pub provenance: Provenance,
}

/// Parameters of a pass of flash attention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassParameters {
    /// Fraction of peak of the steps 128 x 128 that are executed.
    pub e_max: f64,
    /// Part of the longest block that is left over when causal blocks are dealt out.
    pub tail: f64,
    /// Factor on `e_max` of heads 192 wide or wider, of which fewer rows fit into a block; from 128 on it is linear.
    #[serde(default = "as_narrow", skip_serializing_if = "is_as_narrow")]
    pub head_dim_192: f64,
    /// Share of the shorter of compute and memory that the longer does not hide.
    pub serial: f64,
}

const fn as_narrow() -> f64 {
    1.0
}

fn is_as_narrow(factor: &f64) -> bool {
    *factor == as_narrow()
}

/// The second-level cache of a generation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheParameters {
    /// What an SM reads from it (bytes per clock).
    pub bytes_per_clock: f64,
    /// Bytes touched from one use of a tensor to the next, as a share of the cache: so far all of it is still there.
    pub kept: f64,
    /// The same: from here on nothing of it is.
    pub lost: f64,
    /// Where they are from.
    pub provenance: Provenance,
}

/// Parameters of a class of streaming kernels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamParameters {
    /// Achieved fraction of the nominal HBM bandwidth on large tensors.
    pub achieved: f64,
    /// Ramp-up and drain of the kernel (us).
    pub start_us: f64,
    /// Elements that an SM finds by index in a clock, where the class looks elements up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_clock: Option<f64>,
    /// Where they are from.
    pub provenance: Provenance,
}

/// Parameters of kernels over edges and typed rows of graphs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphParameters {
    /// Ramp-up and drain of a kernel (us): the shortest that there is.
    pub start_us: f64,
    /// Fraction of peak of products of segments.
    pub products: f64,
    /// Time from a row to the next of the longest segment, in the block that sums its gradient
    /// (ns).
    pub walked_row_ns: f64,
    /// Share of the shorter of memory and walks that the longer does not hide.
    pub serial: f64,
    /// Life of a thread block of few edges: pointers, index and row, each awaited (us).
    pub block_us: f64,
    /// Time from an edge to the next of a destination that a block sums, out of memory (ns).
    pub edge_ns: f64,
    /// Bytes of a row that such a block takes in a nanosecond beyond that.
    pub bytes_per_ns: f64,
    /// Read of memory that a thread awaits before the next (ns).
    pub read_ns: f64,
    /// Latency of the second-level cache over that of memory.
    pub cached: f64,
    /// Elements that an SM adds by atomics in a clock.
    pub atomics_per_clock: f64,
    /// Time from an addition to the next to the same row (ns).
    pub conflict_ns: f64,
    /// Where they are from.
    pub provenance: Provenance,
}

impl KernelCatalogue {
    /// The parameters of a device: its generation's, replaced by what is known of the device itself.
    ///
    /// # Errors
    /// When the generation is unknown.
    pub fn parameters(&self, device: &str, generation: &str) -> Result<KernelParameters, KernelError> {
        let mut parameters = self.generations.get(generation).cloned().ok_or_else(|| {
            let what = format!("generation `{generation}` of `{device}`");
            KernelError::no_parameters(&what, self.generations.keys().cloned())
        })?;
        if let Some(known_better) = self.devices.get(device) {
            parameters.replace(known_better.clone());
        }
        parameters.corrections = Corrections::of_device(CORRECTIONS, device)?;
        if let Some(measured) = self.corrections.get(device) {
            parameters.corrections.extend(measured.clone());
        }
        Ok(parameters)
    }
}

impl DeviceKernels {
    /// Takes over everything that is in another.
    pub fn replace(&mut self, better: Self) {
        self.persistent = better.persistent.or(self.persistent);
        self.gemm.extend(better.gemm);
        self.batched.extend(better.batched);
        self.grouped = better.grouped.or(self.grouped.take());
        self.convolution.extend(better.convolution);
        self.attention = better.attention.or(self.attention.take());
        self.stream.extend(better.stream);
    }
}

impl KernelParameters {
    /// Takes over everything that is known better.
    pub fn replace(&mut self, better: DeviceKernels) {
        self.persistent = better.persistent.unwrap_or(self.persistent);
        self.gemm.extend(better.gemm);
        self.batched.extend(better.batched);
        if let Some(grouped) = better.grouped {
            self.grouped = grouped;
        }
        self.convolution.extend(better.convolution);
        if let Some(attention) = better.attention {
            self.attention = attention;
        }
        self.stream.extend(better.stream);
    }

    /// Parameters of matrix products of a type; the two 16-bit types run on the same units and stand in for each other.
    ///
    /// # Errors
    /// When there are none.
    pub fn gemm(&self, dtype: Dtype) -> Result<&GemmParameters, KernelError> {
        of_type(&self.gemm, dtype, "matrix products")
    }

    /// Parameters of batches of matrix products of a type: those of single ones where batches were not measured.
    ///
    /// # Errors
    /// When there are none of either.
    pub fn batched(&self, dtype: Dtype) -> Result<&GemmParameters, KernelError> {
        self.batched
            .get(&dtype)
            .or_else(|| self.batched.get(&kin(dtype)))
            .map_or_else(|| self.gemm(dtype), Ok)
    }

    /// Parameters of grouped matrix products, for a type that has parameters of single ones.
    ///
    /// # Errors
    /// When there are none of single ones.
    pub fn grouped(&self, dtype: Dtype) -> Result<&GroupedParameters, KernelError> {
        self.gemm(dtype).map(|_| &self.grouped)
    }

    /// Parameters of convolutions of a type; the two 16-bit types stand in for each other.
    ///
    /// # Errors
    /// When there are none.
    pub fn convolution(&self, dtype: Dtype) -> Result<&ConvolutionParameters, KernelError> {
        of_type(&self.convolution, dtype, "convolutions")
    }

    /// What measured shapes of a class add; 16-bit types stand in for each other where the parameters do.
    pub(super) fn corrections(&self, class: KernelClass) -> Option<&Corrections> {
        let kin = match class {
            KernelClass::Gemm(dtype) if !self.gemm.contains_key(&dtype) => KernelClass::Gemm(kin(dtype)),
            KernelClass::Batched(dtype) if !self.batched.contains_key(&dtype) => {
                KernelClass::Batched(kin(dtype))
            }
            KernelClass::Convolution(dtype) if !self.convolution.contains_key(&dtype) => {
                KernelClass::Convolution(kin(dtype))
            }
            other => other,
        };
        self.corrections.get(&kin)
    }

    /// Parameters of a class of streaming kernels; a class that was not measured counts as elementwise.
    ///
    /// # Errors
    /// When there are neither its own nor those of elementwise kernels.
    pub fn stream(&self, class: StreamClass) -> Result<&StreamParameters, KernelError> {
        self.stream.get(&class).or_else(|| self.stream.get(&StreamClass::Elementwise)).ok_or_else(|| {
            let known = self.stream.keys().map(|class| format!("{class:?}"));
            KernelError::no_parameters(&format!("{class:?} kernels"), known)
        })
    }
}

/// The other 16-bit type; others have no kin.
pub(super) const fn kin(dtype: Dtype) -> Dtype {
    match dtype {
        Dtype::Fp16 => Dtype::Bf16,
        Dtype::Bf16 => Dtype::Fp16,
        other => other,
    }
}

fn of_type<'a, P>(by_type: &'a IndexMap<Dtype, P>, dtype: Dtype, what: &str) -> Result<&'a P, KernelError> {
    by_type.get(&dtype).or_else(|| by_type.get(&kin(dtype))).ok_or_else(|| {
        KernelError::no_parameters(&format!("{what} of {dtype}"), by_type.keys().map(Dtype::to_string))
    })
}

impl GemmParameters {
    /// Factor on the rates of a layout.
    pub(super) const fn layout(&self, layout: Layout) -> f64 {
        match layout {
            Layout::Forward => 1.0,
            Layout::InputGradient => self.input_gradient,
            Layout::WeightGradient => self.weight_gradient,
        }
    }

    /// Fraction of peak that no product goes beyond whose rates have a factor.
    pub(super) fn most(&self, factor: f64) -> f64 {
        self.held.map_or(1.0, |held| (held * factor).min(1.0))
    }
}

impl GroupedParameters {
    /// Factor on the rates of a layout.
    pub(super) const fn layout(&self, layout: Layout) -> f64 {
        match layout {
            Layout::Forward => self.forward,
            Layout::InputGradient => self.input_gradient,
            Layout::WeightGradient => self.weight_gradient,
        }
    }
}

impl AttentionParameters {
    /// The parameters of a pass.
    pub const fn pass(&self, pass: Pass) -> &PassParameters {
        match pass {
            Pass::Forward => &self.forward,
            Pass::Backward => &self.backward,
        }
    }

    /// Factor on `e_max` of a pass for a width of head.
    pub(super) fn width(&self, pass: Pass, head_dim: u64) -> f64 {
        let above = |width: f64| ((head_dim as f64 - width) / 64.0).clamp(0.0, 1.0);
        let narrow = self.head_dim_64 + (1.0 - self.head_dim_64) * above(64.0);
        narrow * (1.0 - (1.0 - self.pass(pass).head_dim_192) * above(128.0))
    }
}
