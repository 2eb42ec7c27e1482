//! The plan of a transformer.

use std::collections::BTreeMap;

use hw_models::copies::HostMemory;
use sim_core::time::Time;
use workloads::chain::Chain;
use workloads::model::transformer::{
    AttentionKernel, DataParallel, Dtype, Execution, Fusion, Overlap, Parts, Rotary, Split, States, Step,
};
use workloads::passes::fusion;
use workloads::plan::{Deployment, HostBuffers, TransformerPlan, spread};

use super::drives::drives;
use super::pipelining::pipelining;
use crate::schema::{
    self, AddedTo, Attention, Bytes, BytesPerParameter, Count, Gelu, Launch, LayersOf, Mlp, Model, Optimizer,
    Parallelism, Precision, Scenario, SequenceParallel, Software, StageLayers, WhenFull,
};

/// The plan of a checked scenario whose model is `model`.
pub(crate) fn plan(scenario: &Scenario, model: &schema::Transformer) -> TransformerPlan {
    let parallelism = &scenario.parallelism;
    TransformerPlan {
        model: model.dimensions(),
        execution: execution(scenario),
        data: parallelism.data.map_or(1, |data| data.get() as u32),
        sharding: parallelism.sharding.unwrap_or_default(),
        sharing: parallelism.sharding_group.map(|group| group.get() as u32),
        overlap: overlap(scenario),
        scatter_gather: parallelism.scatter_gather == Some(true),
        deployment: deployment(scenario),
    }
}

/// How stages run on the machine.
pub(crate) fn deployment(scenario: &Scenario) -> Deployment {
    let software = scenario.software.as_ref();
    Deployment {
        placement: scenario.parallelism.placement.clone().unwrap_or_default(),
        launch: launch(scenario),
        compiled: is_compiled(scenario),
        host_overhead: software.map_or(Time::ZERO, |software| Time(software.host_overhead.picoseconds())),
        buffers: buffers(scenario),
        drives: drives(scenario),
        pipelining: pipelining(scenario),
        reserved: scenario.memory.reserved.map_or(0, Bytes::bytes),
        limit: scenario.memory.limit.map(Bytes::bytes),
        fragments: Vec::new(),
        driver: BTreeMap::new(),
    }
}

/// How hosts issue operators.
pub(super) fn launch(scenario: &Scenario) -> Launch {
    scenario.software.as_ref().map_or(Launch::default(), Software::launched)
}

/// True if a compiler made kernels, and the code that calls them.
fn is_compiled(scenario: &Scenario) -> bool {
    let fused = || scenario.techniques.fusion.as_ref().is_some_and(fusion::Fusion::is_compiled);
    scenario.software.as_ref().is_some_and(Software::is_compiled) || fused()
}

/// What of the memory of hosts is for what GPUs copy there and back.
fn buffers(scenario: &Scenario) -> HostBuffers {
    let pinned = scenario.memory.pinned;
    let facts = || scenario.techniques.all().map(|technique| technique.facts(1));
    let memory = |pinned: Option<bool>| match pinned {
        Some(false) => HostMemory::Pageable,
        None | Some(true) => HostMemory::Pinned,
    };
    HostBuffers {
        locked: pinned.map(|pinned| pinned.size.bytes()),
        overflows: pinned.is_some_and(|pinned| pinned.when_full == WhenFull::Pageable),
        activations: memory(facts().find_map(|facts| facts.activations_pinned)),
        exchanged: memory(facts().find_map(|facts| facts.exchanged_pinned)),
    }
}

/// Copies of the model, and what they share.
pub(crate) fn data_parallel(scenario: &Scenario) -> DataParallel {
    let Parallelism { data, context, sharding, sharding_group, .. } = &scenario.parallelism;
    let ranks = [data, context].map(|count| count.map_or(1, Count::get) as u32).iter().product();
    DataParallel {
        sharing: sharding_group.map_or(ranks, |group| group.get() as u32),
        overlap: overlap(scenario),
        ..DataParallel::new(ranks, sharding.unwrap_or_default())
    }
}

/// What the copies of a model exchange beside passes.
pub(crate) fn overlap(scenario: &Scenario) -> Overlap {
    let parallelism = &scenario.parallelism;
    let reduce = parallelism.overlap_gradient_reduce.as_ref();
    Overlap {
        bucket: reduce.and_then(|reduce| reduce.bucket).map(Bytes::bytes),
        align: reduce.is_some_and(|reduce| reduce.align),
        gather: parallelism.overlap_parameter_gather,
    }
}

/// Layers of each chunk, where not all have as many. Those that the check has not balanced yet differ
/// by one at most.
fn layers(scenario: &Scenario, chain: Chain) -> Option<Vec<u32>> {
    match scenario.parallelism.stage_layers.as_ref()? {
        StageLayers::Even => None,
        StageLayers::Balanced(layers) if layers.is_empty() => {
            let layers = scenario.model.transformer()?.dimensions().layers;
            Some(spread(layers, chain.positions()))
        }
        StageLayers::Balanced(layers) | StageLayers::Listed(layers) => {
            Some(layers.iter().map(|layers| layers.get() as u32).collect())
        }
    }
}

/// How the transformer of a scenario is executed.
pub(crate) fn execution(scenario: &Scenario) -> Execution {
    let parallelism = &scenario.parallelism;
    let training = &scenario.training;
    let stages = scenario.stages() as u32;
    let split = Split {
        tensor: parallelism.tensor.map_or(1, |tensor| tensor.get() as u32),
        sequence_parallel: parallelism.sequence_parallel == Some(SequenceParallel::On),
        stages,
        chunks: parallelism.schedule.chain(stages).chunks,
        layers: layers(scenario, parallelism.schedule.chain(stages)),
        context: parallelism.context.map_or(1, |ranks| ranks.get() as u32),
        context_exchange: parallelism.context_exchange.unwrap_or_default(),
        expert: parallelism.expert.map_or(1, |ranks| ranks.get() as u32),
    };
    let dtype = dtype(scenario);
    let software = scenario.software.clone().unwrap_or_default();
    let attention = match software.attention {
        Attention::Materialised => AttentionKernel::Materialised,
        Attention::Flash | Attention::FlashTriton | Attention::Flash3 | Attention::Cudnn => {
            AttentionKernel::Flash
        }
    };
    let micro_batch = training.micro_batch.map_or(1, |size| size.get() as u32);
    let sequence = training.sequence.map_or(1, |length| length.get() as u32);
    let common = Execution::new(micro_batch, sequence, split, dtype, attention);
    let vocabulary_multiple =
        software.vocabulary_multiple.map_or(common.vocabulary_multiple, |multiple| multiple.get() as u32);
    let states = match scenario.memory.bytes_per_parameter {
        Some(bytes) if dtype != Dtype::Fp32 => states(bytes),
        _ => common.states,
    };
    let torchtitan = software.layers == LayersOf::Torchtitan;
    let beside = !matches!(software.layers, LayersOf::Torchtitan | LayersOf::MegatronLm2019);
    let layers = match software.layers {
        LayersOf::MegatronLm => Fusion::ALL,
        LayersOf::MegatronLm2019 => Fusion::MEGATRON_2019,
        LayersOf::HuggingFace => Fusion {
            activation: false,
            residual: false,
            bias: true,
            strided_heads: false,
            query_key_value: !projects_apart(&scenario.model),
            gate: !projects_apart(&scenario.model),
            norm: software.is_compiled(),
            rotary: if software.is_compiled() { Rotary::Kernel } else { Rotary::Halves },
            ..Fusion::ALL
        },
        LayersOf::Torchtitan if software.is_compiled() => {
            Fusion { activation: true, residual: true, norm: true, ..Fusion::TORCHTITAN }
        }
        LayersOf::Torchtitan => Fusion::TORCHTITAN,
    };
    let fusion = Fusion {
        softmax: match software.layers {
            LayersOf::MegatronLm2019 => layers.softmax,
            _ => software.fused_softmax,
        },
        softmax_keys: software.fused_softmax_keys.get() as u32,
        gelu: software.gelu == Gelu::Kernel,
        optimizer: software.optimizer == Optimizer::Fused,
        // Automatic differentiation of PyTorch adds by operators of its own.
        gradient_accumulation: match software.layers {
            LayersOf::MegatronLm => software.products_add_to,
            LayersOf::MegatronLm2019 | LayersOf::HuggingFace | LayersOf::Torchtitan => AddedTo::Nothing,
        },
        adapters: software.is_compiled(),
        cross_entropy: software.cross_entropy,
        loss_metrics: software.loss_metrics.get() as u32,
        query_key_value: software.joined_qkv.unwrap_or(layers.query_key_value),
        ..layers
    };
    let step = step(scenario);
    let reduces_beside = parallelism.overlap_tensor_reduce.unwrap_or(beside);
    let in_pieces = parallelism.asynchronous_tensor == Some(true);
    let (exchanges_beside, gathers_again) = (!software.is_compiled(), !torchtitan);
    let parts = match torchtitan {
        false => Parts::OneByOne,
        true if software.is_compiled() => Parts::InPasses,
        true => Parts::Copied,
    };
    Execution {
        vocabulary_multiple,
        fusion,
        states,
        step,
        fp8: training.fp8,
        adapters: training.adapters.clone(),
        in_pieces,
        reduces_beside,
        exchanges_beside,
        gathers_again,
        parts,
        ..common
    }
}

/// What a step does.
pub(crate) fn step(scenario: &Scenario) -> Step {
    scenario.training.step.unwrap_or_default()
}

/// Whether Hugging Face Transformers project to queries, keys and values, and to an MLP's gate, by products of their own: in
/// BERT and in models of the Llama and Gemma families, not in those of the GPT family.
fn projects_apart(model: &Model) -> bool {
    model
        .transformer()
        .is_some_and(|model| model.encoder.is_some() || matches!(model.mlp, Some(Mlp::Swiglu | Mlp::Geglu)))
}

/// What so many bytes of a parameter in mixed precision are.
fn states(bytes: BytesPerParameter) -> States {
    match bytes {
        BytesPerParameter::Sixteen => States::HalfGradients,
        BytesPerParameter::Eighteen => States::FullGradients,
        BytesPerParameter::Twenty => States::CopiedGradients,
    }
}

/// Type of activations and of the parameters that kernels read.
pub(crate) fn dtype(scenario: &Scenario) -> Dtype {
    scenario.training.precision.map_or(Dtype::Bf16, Precision::dtype)
}
