//! What is measured of a framework.

use super::cuda::{CudaFacts, fitting, sizes};
use super::{KIB, MIB, Probe, Suite, probe};
use crate::measure::{Backward, Kernel, Operation, Operator, Task, Tensor, Update};
use hw_models::host::OpClass;
use hw_models::kernels::{Attention, Dtype, Pass};

/// What is measured of a framework on a GPU, or on the host where there is none: what operators take without one says what
/// Python and the framework take; `quick`: what scenarios ask for most.
pub fn framework_suite(gpu: Option<&CudaFacts>, quick: bool) -> Suite {
    let mut probes = vec![
        probe(
            "operator",
            "what operators of the framework take on the host",
            operators(gpu.is_some(), quick),
        ),
        probe("backward", "what gradients take on the host, by operator", backward(quick)),
        probe("update", "what a step of the optimizer takes on the host", updates()),
    ];
    let Some(gpu) = gpu else { return Suite { probes, sentinels: Vec::new() } };
    if quick {
        probes.push(probe("attention", "rates of flash attention", attention(gpu, quick)));
    } else {
        probes.extend(whole(gpu));
    }
    fitting(Suite { probes, sentinels: Vec::new() }, gpu)
}

/// What takes longer.
fn whole(gpu: &CudaFacts) -> Vec<Probe> {
    vec![
        probe("attention", "rates of flash attention", attention(gpu, false)),
        probe("normalisation", "rates of normalisations, softmax and losses", of_rows(gpu)),
        probe("elementwise", "rates of other passes of the framework", elementwise(gpu)),
        probe("adam", "rates of fused updates", adam()),
        probe("tensor", "what the framework's allocator takes", tensors()),
    ]
}

/// So small that even a host has next to no work with them. Communication among one needs NCCL, which is there with a GPU.
fn operators(gpu: bool, quick: bool) -> Vec<Task> {
    let sides: &[u32] = if quick { &[4, 8, 16] } else { &[2, 4, 6, 8, 12, 16] };
    let of =
        |class, recorded| sides.iter().map(move |&side| Task::Operator(Operator { class, recorded, side }));
    let with_gradient = [OpClass::Metadata, OpClass::Pointwise, OpClass::MatrixProduct, OpClass::Attention];
    let mut tasks: Vec<Task> =
        with_gradient.into_iter().flat_map(|class| of(class, false).chain(of(class, true))).collect();
    tasks.extend(of(OpClass::Copy, false));
    if gpu {
        tasks.extend(of(OpClass::Communication, false));
    }
    tasks
}

fn backward(quick: bool) -> Vec<Task> {
    let lengths: &[u32] = if quick { &[1, 2, 20, 200] } else { &[1, 2, 3, 5, 20, 50, 100, 200] };
    [OpClass::Pointwise, OpClass::MatrixProduct, OpClass::Attention]
        .into_iter()
        .flat_map(|class| lengths.iter().map(move |&operators| Task::Backward(Backward { class, operators })))
        .collect()
}

fn updates() -> Vec<Task> {
    [1, 2, 5, 10, 30, 100, 300].map(|tensors| Task::Update(Update { tensors })).to_vec()
}

fn tensors() -> Vec<Task> {
    let of = |kept, bytes| Task::Tensor(Tensor { kept, bytes });
    let kept = sizes(KIB, 256 * MIB, 8).map(|bytes| of(true, bytes));
    // Larger than what the allocator takes from the driver at a time.
    let fresh = sizes(32 * MIB, 8 << 30, 2).map(|bytes| of(false, bytes));
    kept.chain(fresh).collect()
}

/// Forward and backward over 16,384 tokens, which are one long sequence or many short ones; and over so few that the heads of
/// one sequence do not fill the GPU.
fn attention(gpu: &CudaFacts, quick: bool) -> Vec<Task> {
    const TOKENS: u64 = 16_384;
    let sequences: &[u64] = if quick { &[1_024, 4_096] } else { &[512, 1_024, 2_048, 4_096, 8_192, 16_384] };
    let of = |pass, batch, heads, sequence, head_dim, causal| {
        let (queries, keys) = (sequence, sequence);
        let (kv_heads, value_dim, dtype) = (heads, head_dim, gpu.half());
        let causal = causal == 1;
        Task::Attention(Attention {
            pass,
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            head_dim,
            value_dim,
            causal,
            window: None,
            dtype,
        })
    };
    let mut tasks = Vec::new();
    for pass in [Pass::Forward, Pass::Backward] {
        for &sequence in sequences {
            tasks.push(of(pass, TOKENS / sequence, 16, sequence, 128, 1));
            if sequence < TOKENS {
                tasks.push(of(pass, 1, 16, sequence, 128, 1));
            }
            if !quick {
                tasks.push(of(pass, TOKENS / sequence, 16, sequence, 64, 1));
                tasks.push(of(pass, TOKENS / sequence, 4, sequence, 128, 0));
            }
        }
        tasks.extend([4, 64].map(|heads| of(pass, 4, heads, 2_048, 128, 1)));
    }
    tasks
}

const WIDTHS: [u64; 4] = [1_024, 4_096, 8_192, 16_384];
const ROWS: [u64; 3] = [512, 4_096, 16_384];
/// Vocabularies, and tokens whose logits are in fp32.
const VOCABULARIES: [u64; 3] = [32_000, 50_304, 128_256];
const TOKENS: [u64; 4] = [256, 1_024, 2_048, 4_096];

fn grid(operation: Operation, rows: &[u64], widths: &[u64], dtype: Dtype) -> Vec<Task> {
    let of = |&rows: &u64| {
        widths
            .iter()
            .map(move |&width| Task::Kernel(Kernel { operation, rows, width, dtype }))
            .collect::<Vec<_>>()
    };
    rows.iter().flat_map(of).collect()
}

fn of_rows(gpu: &CudaFacts) -> Vec<Task> {
    let norms = [
        Operation::LayerNorm,
        Operation::LayerNormGradient,
        Operation::LayerNormWeightGradient,
        Operation::RmsNorm,
        Operation::RmsNormGradient,
        Operation::BiasGradient,
    ];
    let mut tasks: Vec<Task> =
        norms.into_iter().flat_map(|operation| grid(operation, &ROWS, &WIDTHS, gpu.half())).collect();
    // Scores of attention that are materialised.
    tasks.extend(grid(Operation::Softmax, &[4_096, 32_768, 131_072], &WIDTHS, gpu.half()));
    for operation in [Operation::LogSoftmax, Operation::LogSoftmaxGradient] {
        tasks.extend(grid(operation, &TOKENS, &VOCABULARIES, Dtype::Fp32));
    }
    tasks
}

fn elementwise(gpu: &CudaFacts) -> Vec<Task> {
    [Operation::Add, Operation::Gelu, Operation::GeluGradient, Operation::Dropout, Operation::Embedding]
        .into_iter()
        .flat_map(|operation| grid(operation, &ROWS, &WIDTHS, gpu.half()))
        .collect()
}

/// From a million to a billion parameters, as one tensor, ten or a hundred.
fn adam() -> Vec<Task> {
    let of = |tensors: u64| {
        [1_000_000, 10_000_000, 100_000_000, 1_000_000_000].map(|parameters: u64| {
            let (operation, width) = (Operation::Adam, parameters / tensors);
            Task::Kernel(Kernel { operation, rows: tensors, width, dtype: Dtype::Fp32 })
        })
    };
    [1, 10, 100].into_iter().flat_map(of).collect()
}
