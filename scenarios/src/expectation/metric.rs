//! The figures of a run that expectations can be about.

use std::fmt;

use reports::summary::{AllocatorPeak, RunSummary};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::FigureKind;

/// A figure of a run, by its name in `results.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Time of one training step, in seconds.
    StepTimeS,
    /// Time of an epoch of mini-batches of a graph network, in seconds.
    EpochTimeS,
    /// Time in which lanes gather and copy the features of an epoch, in seconds.
    FeatureTimeS,
    /// Time in which neighbours of an epoch are drawn, in seconds.
    SamplingTimeS,
    /// Time in which kernels of the network run in an epoch, in seconds.
    TrainingTimeS,
    /// Samples per second; there if `training.micro_batch` is given.
    SamplesPerS,
    /// Tokens per second of a transformer.
    TokensPerS,
    /// Micro-batches per second.
    MicroBatchesPerS,
    /// Model FLOPs utilisation of a transformer: what the model needs over what the GPUs could compute.
    Mfu,
    /// The largest share of a stage's own span in which it was not busy.
    BubbleFraction,
    /// The most memory that any stage held, in bytes.
    PeakMemoryBytes,
    /// The most bytes of activations and workspaces that a step adds to any stage.
    PeakActivationBytes,
    /// The most bytes that tensors of any stage had at a time, as the framework's allocator counts them.
    PeakAllocatedBytes,
    /// The most bytes that the framework's allocator had taken from the driver on any stage.
    PeakReservedBytes,
    /// The most micro-batches whose activations any stage held at once.
    ResidentMicroBatches,
    /// Mean power of a GPU's board during a step, in watts.
    BoardPowerW,
    /// Energy of the boards of all GPUs for one step, in joules.
    StepEnergyJ,
    /// Mean power of the processors and memories of a host during a step, in watts; there if its processors are known.
    HostPowerW,
    /// Mean power of all boards of GPUs and all hosts, in watts; there if processors of hosts are known.
    SystemPowerW,
    /// Years that the drives last that activations are written to.
    DriveLifetimeYears,
    /// Share of the expected time of a campaign that makes progress.
    Goodput,
    /// Cost of a million tokens of a campaign, in the currency of its prices.
    CostPerMillionTokens,
}

/// The name in scenarios and results.
impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl Metric {
    /// What its figures measure.
    pub(crate) fn kind(self) -> FigureKind {
        match self {
            Self::StepTimeS
            | Self::EpochTimeS
            | Self::FeatureTimeS
            | Self::SamplingTimeS
            | Self::TrainingTimeS => FigureKind::Seconds,
            Self::PeakMemoryBytes
            | Self::PeakActivationBytes
            | Self::PeakAllocatedBytes
            | Self::PeakReservedBytes => FigureKind::Bytes,
            Self::SamplesPerS
            | Self::TokensPerS
            | Self::MicroBatchesPerS
            | Self::Mfu
            | Self::BubbleFraction
            | Self::ResidentMicroBatches
            | Self::BoardPowerW
            | Self::StepEnergyJ
            | Self::HostPowerW
            | Self::SystemPowerW
            | Self::DriveLifetimeYears
            | Self::Goodput
            | Self::CostPerMillionTokens => FigureKind::Number,
        }
    }

    /// Whether it is a share, of which one names the difference in percentage points.
    pub(crate) fn is_share(self) -> bool {
        matches!(self, Self::BubbleFraction | Self::Mfu | Self::Goodput)
    }

    /// Its value in a run, in seconds, bytes or bare; `None` where it has no meaning.
    pub fn of(self, run: &RunSummary) -> Option<f64> {
        match self {
            Self::StepTimeS => run.step_time(),
            Self::EpochTimeS => run.epoch.as_ref()?.epoch_time_s,
            Self::FeatureTimeS => Some(run.epoch.as_ref()?.parts.features_s),
            Self::SamplingTimeS => Some(run.epoch.as_ref()?.parts.sampling_s),
            Self::TrainingTimeS => Some(run.epoch.as_ref()?.parts.training_s),
            Self::SamplesPerS => run.samples_per_s,
            Self::TokensPerS => run.tokens_per_s,
            Self::Mfu => run.mfu,
            Self::DriveLifetimeYears => run.drive_lifetime_years,
            Self::BoardPowerW => Some(run.power.as_ref()?.board_power_w),
            Self::StepEnergyJ => Some(run.power.as_ref()?.step_energy_j),
            Self::HostPowerW => Some(run.power.as_ref()?.hosts.as_ref()?.host_power_w),
            Self::SystemPowerW => Some(run.power.as_ref()?.hosts.as_ref()?.system_power_w),
            Self::Goodput => run.campaign.as_ref()?.goodput,
            Self::CostPerMillionTokens => run.campaign.as_ref()?.cost.as_ref()?.per_million_tokens,
            Self::MicroBatchesPerS => Some(run.micro_batches? as f64 / run.step_time()?),
            Self::BubbleFraction => run.bubble_fraction,
            Self::PeakMemoryBytes => {
                run.peak_memory_bytes.iter().map(|device| device.peak_bytes as f64).reduce(f64::max)
            }
            Self::PeakActivationBytes => run.peak_activation_bytes.map(|bytes| bytes as f64),
            Self::PeakAllocatedBytes => most(run, |stage| stage.peak_allocated_bytes),
            Self::PeakReservedBytes => most(run, |stage| stage.peak_reserved_bytes),
            Self::ResidentMicroBatches => {
                let resident =
                    run.peak_memory_bytes.iter().filter_map(|device| device.resident_micro_batches);
                resident.max().map(|count| count as f64)
            }
        }
    }
}

/// The most over the allocators of all stages.
fn most(run: &RunSummary, bytes: impl Fn(&AllocatorPeak) -> u64) -> Option<f64> {
    run.allocator.iter().map(|stage| bytes(stage) as f64).reduce(f64::max)
}
