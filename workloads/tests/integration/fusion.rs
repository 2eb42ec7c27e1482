//! Fusion of published networks, to the digit.

use std::sync::Arc;

use workloads::graph::block::Block;
use workloads::graph::cut::{Cut, PartKind, Piece};
use workloads::graph::math::Member;
use workloads::graph::operator::{Dtype, Operator, Work};
use workloads::model::layered::{LayeredExecution, LayeredModel};
use workloads::model::transformer::Step;
use workloads::passes::Pass;
use workloads::passes::fusion::{Fusion, KernelTimes, Policy, Prices};

use crate::layered::{execution, preset, yaml};

/// Each kernel takes as long as any other, and a little for its bytes.
#[derive(Debug)]
struct Counted;

impl KernelTimes for Counted {
    fn seconds(&self, work: &Work) -> Option<f64> {
        Some(1.0 + work.bytes() as f64 * 1e-15)
    }

    fn least(&self, _: &Work) -> f64 {
        0.0
    }

    fn cached(&self, _: u64, _: u64) -> u64 {
        0
    }
}

/// Prices by the number of kernels, then by bytes.
pub(crate) fn by_number() -> Prices {
    Prices(Arc::new(Counted))
}

/// A network in fp16 on eight images, forward.
fn inference(name: &str) -> Vec<Block> {
    let on = LayeredExecution { dtype: Dtype::Fp16, step: Step::Forward, ..execution(8) };
    let model = LayeredModel::new(&preset(name), &on).unwrap();
    model.blocks().iter().map(|block| block.block.clone()).collect()
}

fn epilogues(members: &[Member]) -> Fusion {
    Fusion { policy: Policy::Epilogues, members: Some(members.to_vec()), ..Fusion::default() }
}

/// Kernels of a forward pass of blocks that are models of their own, and bytes that they move.
fn counted(blocks: &[Block], fusion: &Fusion) -> (usize, u64) {
    moved(blocks.iter().map(|block| fusion.pass(None).fused(block)).flat_map(|block| block.forward))
}

fn moved(operators: impl Iterator<Item = Operator>) -> (usize, u64) {
    operators.fold((0, 0), |(count, bytes), op| (count + 1, bytes + op.work.bytes()))
}

/// Blocks one after the other on one stage.
pub(crate) fn model(blocks: &[Block]) -> Cut {
    let mut model = Cut::default();
    let kind = PartKind::Layer;
    let piece = |block| Piece { kind, block, layer: None, owned: 0, trained: 0, read: 0, experts: 0 };
    let pieces = blocks.iter().map(|block| piece(model.block(block.clone()))).collect();
    model.positions = vec![pieces];
    model
}

/// The blocks of a model as a policy makes kernels of them, in the order of the forward pass.
pub(crate) fn across(model: &Cut, policy: Policy) -> Vec<Block> {
    let mut fused = model.clone();
    Fusion { policy, ..Fusion::default() }.pass(Some(by_number())).rewrite(&mut fused);
    fused.positions.iter().flatten().map(|piece| fused.blocks[piece.block].clone()).collect()
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

/// A layer of a DenseNet begins with a normalisation and a ReLU of what all before it have made: they
/// join the copy, or the pooling, with which the block before ends. That saves one kernel a layer, and
/// reading its input once; the input is written nevertheless, as later layers read it.
#[test]
fn passes_join_those_of_the_block_before() {
    let blocks = inference("densenet-121");
    let inductor = Fusion { policy: Policy::Inductor, ..Fusion::default() };
    let apart = counted(&blocks, &inductor);
    let whole = across(&model(&blocks), Policy::Inductor);
    let together = moved(whole.into_iter().flat_map(|block| block.forward));
    // Places, channels at the start, and layers that add 32 to them.
    let stages = [(56, 64, 6), (28, 128, 12), (14, 256, 24), (7, 512, 16)];
    assert_eq!(apart.0 - together.0, 6 + 12 + 24 + 16);
    let read = |(places, channels, layers): (u64, u64, u64)| -> u64 {
        (0..layers).map(|layer| 2 * 8 * places * places * (channels + 32 * layer)).sum()
    };
    assert_eq!(apart.1 - together.1, stages.map(read).iter().sum::<u64>());
}

/// The backward pass of a residual block ends with a sum of two gradients, that of the one before
/// begins with a ReLU's, which the compiler merges with the normalisation's: one kernel less for
/// each of the 15 seams between blocks, and the sum neither written nor read.
#[test]
fn sums_of_gradients_join_the_backward_pass_of_the_block_before() {
    let on = LayeredExecution { dtype: Dtype::Fp16, ..execution(8) };
    let read = LayeredModel::new(&preset("resnet-50"), &on).unwrap();
    let blocks: Vec<Block> = read.blocks().iter().map(|block| block.block.clone()).collect();
    let inductor = Fusion { policy: Policy::Inductor, ..Fusion::default() };
    let apart = moved(blocks.iter().flat_map(|block| inductor.pass(None).fused(block).backward));
    let whole = across(&model(&blocks), Policy::Inductor);
    let together = moved(whole.into_iter().flat_map(|block| block.backward));
    assert_eq!(apart.0 - together.0, 15);
    // Of a block that reads the output of the one before twice, its own gradient is written.
    let outputs = |places: u64, channels: u64, blocks: u64| 2 * 8 * places * places * channels * blocks;
    let sums = outputs(56, 256, 3) + outputs(28, 512, 4) + outputs(14, 1_024, 6) + outputs(7, 2_048, 2);
    assert_eq!(apart.1 - together.1, 2 * sums);
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

/// The kernels of a forward pass of eight images that a search by their number finds.
fn searched(list: &str) -> Vec<Operator> {
    let on = LayeredExecution { dtype: Dtype::Fp16, step: Step::Forward, ..execution(8) };
    let model = LayeredModel::new(&yaml(list), &on).unwrap();
    let pass = Fusion::default().pass(Some(by_number()));
    model.blocks().iter().flat_map(|block| pass.fused(&block.block).forward).collect()
}

/// Two convolutions of a basic block, with the shortcut: the image between them is neither written
/// nor read, and the shortcut, which is the input, not read again.
#[test]
fn two_convolutions_and_a_shortcut_are_one_kernel() {
    let convolution = "conv2d: { channels: 64, kernel: 3, padding: 1, bias: false }";
    let list = format!(
        "
        input: {{ channels: 64, height: 56, width: 56 }}
        list: [{{ residual: {{ body: [{{ {convolution} }}, relu, {{ {convolution} }}] }} }}, relu]"
    );
    let kernels = searched(&list);
    let image = 2 * 8 * 56 * 56 * 64;
    let weights = 2 * 64 * 64 * 9;
    let [kernel] = &kernels[..] else { panic!("{kernels:?}") };
    assert_eq!((kernel.members, kernel.work.bytes()), (5, 2 * image + 2 * weights));
    let apart = 2.0 * (8 * 56 * 56 * 64 * 64 * 9) as f64;
    assert_eq!(kernel.work.flops(), 2.0 * apart);
}

/// A layer of a DenseNet normalises before it convolves: both are a prologue of the convolution,
/// which reads the images as they are.
#[test]
fn a_normalisation_before_a_convolution_is_its_prologue() {
    let list = "
        input: { channels: 64, height: 56, width: 56 }
        list:
        - concat:
            branches:
            - []
            - [batch_norm, relu, { conv2d: { channels: 32, kernel: 1, bias: false } }]";
    let kernels = searched(list);
    let image = |channels: u64| 2 * 8 * 56 * 56 * channels;
    let found = kernels.iter().find(|op| matches!(op.work, Work::Fused(_)));
    let Some(Operator { work: Work::Fused(fused), members: 3, .. }) = found else { panic!("{kernels:?}") };
    assert!(fused.attached.before.is_some());
    // A factor and a shift for each channel come with the normalisation.
    let moved = image(64) + image(32) + 2 * 64 * 32;
    assert!((moved..moved + 1_024).contains(&fused.bytes()), "{} {moved}", fused.bytes());
}

/// Twelve million groups: twice as many blocks as may be, each of a convolution and functions of
/// its output that do not depend on each other.
#[test]
fn a_space_that_is_too_large_is_refused() {
    let functions = vec!["[sigmoid]"; 17].join(", ");
    let blocks = (1..=60).map(|n| {
        format!("{{ conv2d: {{ channels: {n}, kernel: 1 }} }}, {{ concat: {{ branches: [{functions}] }} }}")
    });
    let blocks: Vec<String> = blocks.collect();
    let list = format!("{{ input: {{ channels: 8, height: 8, width: 8 }}, list: [{}] }}", blocks.join(", "));
    let on = LayeredExecution { dtype: Dtype::Fp16, step: Step::Forward, ..execution(1) };
    let model = LayeredModel::new(&yaml(&list), &on).unwrap();
    let cut =
        Cut { blocks: model.blocks().iter().map(|block| block.block.clone()).collect(), ..Cut::default() };
    let pass = Fusion::default().pass(None);
    let refused = pass.beyond(&cut).expect("a refusal");
    assert!(refused.message.contains("groups to search in"), "{}", refused.message);
    assert!(refused.message.contains("more than 10000000"), "{}", refused.message);
    assert!(refused.remedy.contains("members"), "{}", refused.remedy);
    let half = Cut { blocks: cut.blocks[..4].to_vec(), ..Cut::default() };
    assert_eq!(pass.beyond(&half), None);
}
