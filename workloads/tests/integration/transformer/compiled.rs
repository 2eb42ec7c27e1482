//! Layers whose passes are merged, as `torch.compile` does.

use workloads::graph::operator::TensorId;
use workloads::model::transformer::{
    AttentionKernel, Block, Dtype, Execution, Fusion, Operator, SoftmaxFusion, Stream, StreamClass,
    Transformer, Work,
};
use workloads::passes::fusion::fused;
use workloads::passes::recompute::{Mode, recomputed};

use super::{preset, ranks, shard};

/// GPT-2 as Hugging Face runs it, in fp32.
fn execution() -> Execution {
    let fusion = Fusion {
        softmax: SoftmaxFusion::Off,
        activation: false,
        residual: false,
        bias: true,
        gelu: false,
        ..Fusion::ALL
    };
    Execution {
        fusion,
        ..Execution::new(4, 1_024, ranks(1, false), Dtype::Fp32, AttentionKernel::Materialised)
    }
}

fn layer(compiled: bool) -> Block {
    let model = Transformer { dropout: false, ..preset("gpt2-large") };
    executed(shard(&model, &execution()).layer(), compiled)
}

fn executed(block: Block, compiled: bool) -> Block {
    if compiled { fused(&block) } else { block }
}

fn streams(operators: &[Operator]) -> Vec<(&str, Stream)> {
    let streams = operators.iter().filter_map(|op| match op.work {
        Work::Stream(stream) => Some((&*op.name, stream)),
        _ => None,
    });
    streams.collect()
}

/// A lookup copies rows as a kernel of Triton does, not element by element; nothing is merged with it.
#[test]
fn lookups_are_copies() {
    let looked_up = |compiled| {
        let embedding = executed(shard(&preset("gpt2-large"), &execution()).embedding(), compiled);
        let (name, stream) = streams(&embedding.forward)[0];
        (name.to_owned(), stream.class, stream.looked_up)
    };
    let words = || "look up words".to_owned();
    assert_eq!(looked_up(false), (words(), StreamClass::Embedding, 4 * 1_024 * 1_280));
    assert_eq!(looked_up(true), (words(), StreamClass::Permutation, 0));
}

/// Between the products of a layer there is one kernel each: scale, mask and softmax, that of the context's layout, sum and
/// norm, GeLU, sum. Scores are read once and written once.
#[test]
fn a_pass_is_left_between_products() {
    let layer = layer(true);
    let forward = &layer.forward;
    let names: Vec<&str> = streams(forward).iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        [
            "attention norm",
            "scale to softmax",
            "transpose context",
            "attention residual addition to mlp norm",
            "mlp gelu half to mlp gelu product",
            "mlp residual addition"
        ]
    );
    let (scores, hidden) = (4 * 4 * 20 * 1_024 * 1_024, 4 * 4_096 * 1_280);
    let (_, softmax) = streams(forward)[1];
    assert_eq!((softmax.class, softmax.rows), (StreamClass::Softmax, Some(4 * 20 * 1_024)));
    assert_eq!((softmax.bytes_read, softmax.bytes_written), (scores, scores));
    // Branch and stream are read; their sum, its norm and the statistics of a row are written.
    let (_, norm) = streams(forward)[3];
    assert_eq!((norm.bytes_read, norm.bytes_written), (2 * hidden, 2 * hidden + 8 * 4_096));
}

/// Products stay what they are, what the backward pass reads is still kept, and no byte is moved that was not before.
#[test]
fn merging_takes_passes_away_and_nothing_else() {
    let (plain, merged) = (layer(false), layer(true));
    for (plain, merged) in [(&plain.forward, &merged.forward), (&plain.backward, &merged.backward)] {
        let others = |list: &[Operator]| -> Vec<Operator> {
            list.iter().filter(|op| !matches!(op.work, Work::Stream(_))).cloned().collect()
        };
        assert_eq!(others(plain), others(merged));
        let bytes = |list: &[Operator]| -> u64 {
            streams(list).iter().map(|(_, stream)| stream.bytes_read + stream.bytes_written).sum()
        };
        assert!(bytes(merged) < bytes(plain), "{} and {}", bytes(merged), bytes(plain));
        for op in merged {
            let makes = |list: &[Operator], id: &TensorId| list.iter().any(|op| op.writes.contains(id));
            assert!(op.reads.iter().all(|id| !makes(plain, id) || makes(merged, id)), "{} reads", op.name);
        }
    }
    assert_eq!(plain.saved_bytes(), merged.saved_bytes());
}

/// A merged pass fills what others read and the result of its block, however much is computed again.
#[test]
fn merged_passes_fill_what_somebody_reads() {
    for (dropout, recompute) in [(false, Mode::None), (true, Mode::None), (true, Mode::Full)] {
        let model = Transformer { dropout, ..preset("gpt2-large") };
        let block = fused(&recomputed(&shard(&model, &execution()).layer(), recompute));
        let saved = block.saved();
        for (list, result) in [(&block.forward, block.output), (&block.backward, block.input_gradient)] {
            let filled = |op: &Operator| op.writes.iter().any(|&id| Some(id) == result);
            assert!(list.iter().any(filled));
            let merged = list.iter().filter(|op| op.name.contains(" to "));
            for &id in merged.flat_map(|op| &op.writes).filter(|&&id| Some(id) != result) {
                let read = list.iter().any(|op| op.reads.contains(&id)) || saved.contains(&id);
                assert!(read, "{recompute:?}: nobody reads {}", block.tensor(id).name);
            }
        }
    }
}
