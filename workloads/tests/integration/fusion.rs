//! Fusion of published networks, to the digit.

use workloads::graph::block::Block;
use workloads::graph::math::Member;
use workloads::graph::operator::{Dtype, Operator, Work};
use workloads::model::layered::{LayeredExecution, LayeredModel};
use workloads::model::transformer::Step;
use workloads::passes::fusion::{Fusion, Policy};

use crate::layered::{execution, preset, yaml};

/// A network in fp16 on eight images, forward.
fn inference(name: &str) -> Vec<Block> {
    let on = LayeredExecution { dtype: Dtype::Fp16, step: Step::Forward, ..execution(8) };
    let model = LayeredModel::new(&preset(name), &on).unwrap();
    model.blocks().iter().map(|block| block.block.clone()).collect()
}

fn epilogues(members: &[Member]) -> Fusion {
    Fusion { policy: Policy::Epilogues, members: Some(members.to_vec()), ..Fusion::default() }
}

/// Kernels of a forward pass, and bytes that they move.
fn counted(blocks: &[Block], fusion: &Fusion) -> (usize, u64) {
    let fused = blocks.iter().map(|block| fusion.pass(None).fused(block));
    let operators: Vec<Operator> = fused.flat_map(|block| block.forward).collect();
    (operators.len(), operators.iter().map(|op| op.work.bytes()).sum())
}

/// 33 inner ReLUs of ResNet-50 go into the convolutions before them, which saves their reading and
/// the writing of what they read; then the 16 outputs of blocks, which still read the shortcut (4
/// bytes an element of fp16).
#[test]
fn resnet_50_saves_what_a_hand_counts() {
    let blocks = inference("resnet-50");
    let (none, moved) = counted(&blocks, &epilogues(&[]));
    let (activation, less) = counted(&blocks, &epilogues(&[Member::Bias, Member::Activation]));
    let (residual, least) = counted(&blocks, &epilogues(&[Member::Bias, Member::Activation, Member::Add]));
    assert_eq!([none - activation, activation - residual], [33, 16]);
    let elements = |places: u64, channels: u64, times: u64| 8 * places * places * channels * times;
    let inner = [
        elements(112, 64, 1),
        elements(56, 64, 6) + elements(56, 128, 1),
        elements(28, 128, 7) + elements(28, 256, 1),
        elements(14, 256, 11) + elements(14, 512, 1),
        elements(7, 512, 5),
    ];
    assert_eq!(moved - less, 4 * inner.iter().sum::<u64>());
    assert_eq!(moved - less, 130_859_008);
    let outputs = [elements(56, 256, 3), elements(28, 512, 4), elements(14, 1_024, 6), elements(7, 2_048, 3)];
    assert_eq!(less - least, 4 * outputs.iter().sum::<u64>());
    assert_eq!(less - least, 176_619_520);
}

/// Statistics of a batch need all of a convolution's output: in training no activation goes into
/// one, and what compilers merge are the passes behind it.
#[test]
fn statistics_of_a_batch_stay_outside_of_convolutions() {
    let on = LayeredExecution { dtype: Dtype::Fp16, ..execution(8) };
    let model = LayeredModel::new(&preset("resnet-50"), &on).unwrap();
    let searched = [Policy::Epilogues, Policy::Xla, Policy::Inductor].map(|policy| {
        let fusion = Fusion { policy, ..Fusion::default() };
        let fused = model.blocks().iter().map(|block| fusion.pass(None).fused(&block.block));
        let operators: Vec<Operator> = fused.flat_map(|block| block.forward).collect();
        let fused = operators.iter().filter(|op| matches!(op.work, Work::Fused(_)));
        assert!(fused.into_iter().all(|op| !op.name.contains("convolution")), "{policy}");
        operators.len()
    });
    assert!(searched.windows(2).all(|pair| pair[0] == pair[1]), "{searched:?}");
    let before: usize = model.blocks().iter().map(|block| block.block.forward.len()).sum();
    // 49 ReLUs and 16 sums join the normalisation before them, and two passes of the loss each
    // other.
    assert_eq!(before - searched[0], 49 + 16 + 1);
}

/// A convolution with its bias and ReLU: the output is written once, and read by nobody on the way.
#[test]
fn a_convolution_with_its_epilogue_moves_operands_and_output_once() {
    let list = "
        input: { channels: 64, height: 56, width: 56 }
        list: [{ conv2d: { channels: 256, kernel: 1, bias: true } }, relu]";
    let on = LayeredExecution { dtype: Dtype::Fp16, step: Step::Forward, ..execution(8) };
    let model = LayeredModel::new(&yaml(list), &on).unwrap();
    let blocks: Vec<Block> = model.blocks().iter().map(|block| block.block.clone()).collect();
    let image = |channels: u64| 2 * 8 * 56 * 56 * channels;
    let weights = 2 * 64 * 256;
    let policy = |policy| Fusion { policy, ..Fusion::default() };
    assert_eq!(counted(&blocks, &policy(Policy::None)), (3, image(64) + 5 * image(256) + weights));
    assert_eq!(counted(&blocks, &policy(Policy::Inductor)), (2, image(64) + 3 * image(256) + weights));
    assert_eq!(counted(&blocks, &policy(Policy::Epilogues)), (1, image(64) + image(256) + weights));
}
