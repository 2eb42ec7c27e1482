//! A list of layers on the stages of a pipeline: blocks one after the other, cut where the stage with the most
//! multiplications has the least.

use crate::chain::Chain;
use crate::graph::cut::{Cut, LayerPlace, PartKind, Piece};

use super::model::{LayeredModel, ModelBlock, flops};

impl LayeredModel {
    /// The blocks of every position of `chain`, which has one chunk for each stage. The first and the last block are what
    /// the embedding and the head of a transformer are.
    pub(crate) fn cut(&self, chain: Chain) -> Cut {
        let mut cut = Cut::default();
        let last = self.blocks().len().saturating_sub(1);
        let mut first = 0;
        for count in self.split(chain.stages) {
            let piece = |(n, ModelBlock { block, parameters, .. }): (usize, &ModelBlock)| {
                let kind = match first + n {
                    0 => PartKind::Embedding,
                    n if n == last => PartKind::Head,
                    _ => PartKind::Layer,
                };
                let block = cut.block(block.clone());
                Piece {
                    kind,
                    block,
                    layer: Some(LayerPlace { in_chunk: n as u32, on_stage: n as u32 }),
                    owned: *parameters,
                    trained: *parameters,
                    read: *parameters,
                    experts: 0,
                }
            };
            let pieces = self.blocks()[first..first + count].iter().enumerate().map(piece).collect();
            cut.positions.push(pieces);
            first += count;
        }
        cut
    }

    /// By stage, parameters of its blocks.
    pub(crate) fn stage_parameters(&self, stages: u32) -> Vec<u64> {
        let of_blocks = |blocks: &[ModelBlock]| blocks.iter().map(|block| block.parameters).sum();
        self.of_stages(stages, of_blocks)
    }

    /// By stage, bytes that it sends to the next for a micro-batch.
    pub(crate) fn boundaries(&self, stages: u32) -> Vec<u64> {
        let input = |blocks: &[ModelBlock]| blocks.first().map_or(0, |first| first.input_bytes);
        let mut inputs = self.of_stages(stages, input);
        inputs.rotate_left(1);
        if let Some(last) = inputs.last_mut() {
            *last = 0;
        }
        inputs
    }

    fn of_stages<T>(&self, stages: u32, of: impl Fn(&[ModelBlock]) -> T) -> Vec<T> {
        let mut rest = self.blocks();
        let mut each = |count| {
            let (blocks, others) = rest.split_at(count);
            rest = others;
            of(blocks)
        };
        self.split(stages).into_iter().map(&mut each).collect()
    }

    /// By stage, how many blocks it has.
    fn split(&self, stages: u32) -> Vec<usize> {
        // A block without products counts for something, too.
        let weights: Vec<u64> =
            self.blocks().iter().map(|block| flops(&block.block.forward) as u64 + 1).collect();
        balanced(&weights, stages as usize)
    }
}

/// Splits a row of weights into so many runs, none empty, of which the heaviest is as light as can be: the least weight
/// for which a run after the other, each as long as it may be, is enough.
fn balanced(weights: &[u64], runs: usize) -> Vec<usize> {
    let runs = runs.clamp(1, weights.len().max(1));
    let greedy = |most: u64| {
        let mut counts = vec![0_usize];
        let mut sum = 0_u64;
        for &weight in weights {
            if counts.last() != Some(&0) && sum.saturating_add(weight) > most {
                counts.push(0);
                sum = 0;
            }
            sum = sum.saturating_add(weight);
            if let Some(last) = counts.last_mut() {
                *last += 1;
            }
        }
        counts
    };
    let (mut least, mut enough) = (weights.iter().copied().max().unwrap_or(0), weights.iter().sum::<u64>());
    while least < enough {
        let middle = least + (enough - least) / 2;
        if greedy(middle).len() <= runs { enough = middle } else { least = middle + 1 }
    }
    let mut counts = greedy(enough);
    // Where fewer runs are enough, the longest are halved, which makes none heavier.
    while counts.len() < runs
        && let Some(longest) = (0..counts.len()).max_by_key(|&run| counts[run])
    {
        let half = counts[longest] / 2;
        counts[longest] -= half;
        counts.insert(longest + 1, half);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::balanced;

    #[test]
    fn the_heaviest_run_is_as_light_as_can_be() {
        assert_eq!(balanced(&[1, 2, 3, 4, 5], 2), [3, 2]);
        assert_eq!(balanced(&[9, 1, 1, 1], 3), [1, 2, 1]);
        assert_eq!(balanced(&[5], 3), [1]);
    }
}
