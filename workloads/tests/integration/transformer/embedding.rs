//! The embedding: what its gradient moves.

use workloads::model::transformer::{StreamClass, Work};

use super::{flash, preset, ranks, shard};

/// Four sequences of 1,024 tokens, 1,280 numbers of 2 bytes each: all words may differ, but there are 1,024 positions.
#[test]
fn rows_of_a_table_sum_in_single_precision() {
    let embedding = shard(&preset("gpt2-large"), &flash(4, 1_024, ranks(1, false))).embedding();
    let gradients: Vec<_> = (embedding.backward.iter())
        .filter_map(|op| match op.work {
            Work::Stream(stream) if stream.class == StreamClass::EmbeddingGradient => {
                Some((&*op.name, stream.bytes_read, stream.bytes_written))
            }
            _ => None,
        })
        .collect();
    let (tokens, positions) = (4 * 1_024 * 1_280, 1_024 * 1_280);
    let expected = [("position gradient", positions), ("word gradient", tokens)]
        .map(|(name, rows)| (name, 2 * tokens + 4 * rows, (4 + 2) * rows));
    assert_eq!(gradients, expected);
}
