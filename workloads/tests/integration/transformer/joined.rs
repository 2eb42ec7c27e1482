//! Copies around what tensor ranks exchange where batches are the first axis.

use workloads::model::transformer::{
    Block, Execution, Fp8, Fusion, Operator, Parts, Scaling, ShardedTransformer, Work,
};

use super::{flash, preset, ranks, shard};

fn sharded(parts: Parts, scaling: Option<Scaling>) -> ShardedTransformer {
    let fusion = Fusion { activation: true, residual: true, norm: true, ..Fusion::TORCHTITAN };
    let fp8 = scaling.map(|scaling| Fp8 { scaling, gathers: false });
    let common = flash(2, 512, ranks(4, true));
    let execution = Execution { fusion, gathers_again: false, reduces_beside: false, parts, fp8, ..common };
    shard(&preset("llama-3-8b"), &execution)
}

fn layer(parts: Parts, scaling: Option<Scaling>) -> Block {
    sharded(parts, scaling).layer()
}

fn copies(operators: &[Operator]) -> Vec<&str> {
    let names = operators.iter().map(|op| &*op.name);
    names.filter(|name| name.starts_with("copy ")).collect()
}

/// Two gathers and two scatters a pass; in the backward pass the scatters follow sums of gradients, which compiled copy.
#[test]
fn exchanges_behind_the_batch_copy() {
    let layer_of = |parts| layer(parts, None);
    let compiled = layer_of(Parts::InPasses);
    assert_eq!((copies(&compiled.forward).len(), copies(&compiled.backward).len()), (4, 2));
    let eager = layer_of(Parts::Copied);
    assert_eq!((copies(&eager.forward).len(), copies(&eager.backward).len()), (4, 4));
    let first = layer_of(Parts::OneByOne);
    assert_eq!((copies(&first.forward).len(), copies(&first.backward).len()), (0, 0));
    // 1,024 tokens of 4,096 numbers are read and written.
    let copy = eager.forward.iter().find(|op| op.name.starts_with("copy ")).unwrap();
    let Work::Stream(pass) = copy.work else { panic!("{copy:?}") };
    assert_eq!((pass.bytes_read, pass.bytes_written), (2 * 1024 * 4096, 2 * 1024 * 4096));
}

/// What is cast to 8 bits after it was gathered is copied by the cast.
#[test]
fn compiled_casts_copy() {
    let layer = layer(Parts::InPasses, Some(Scaling::Rowwise));
    assert_eq!(copies(&layer.forward).len(), 2, "{:?}", copies(&layer.forward));
    assert!(copies(&layer.backward).is_empty(), "{:?}", copies(&layer.backward));
}

/// The gradient of the embedding is gathered, and so is the input of the head, whose gradient is cut.
#[test]
fn ends_of_the_model_copy() {
    let sharded = sharded(Parts::Copied, None);
    let (embedding, head) = (sharded.embedding(), sharded.head());
    let count = |block: &Block| (copies(&block.forward).len(), copies(&block.backward).len());
    assert_eq!((count(&embedding), count(&head)), ((0, 1), (1, 1)));
}

/// Nothing is kept that was not, and a rank alone copies nothing.
#[test]
fn copies_keep_nothing() {
    assert_eq!(layer(Parts::Copied, None).saved_bytes(), layer(Parts::OneByOne, None).saved_bytes());
    let alone = Execution { parts: Parts::Copied, ..flash(2, 512, ranks(1, false)) };
    let block = shard(&preset("llama-3-8b"), &alone).layer();
    assert!(copies(&block.forward).is_empty() && copies(&block.backward).is_empty());
}
