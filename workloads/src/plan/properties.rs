//! Labels and the numbers of tensors mean nothing: a model with others has the same graph.

use proptest::prelude::*;

use crate::chain::Chain;
use crate::graph::block::Block;
use crate::graph::operator::{Label, Operator, OperatorList, TensorId};
use crate::model::laid::{Laid, lay};
use crate::model::transformer::{
    AttentionKernel, ContextExchange, Dtype, Execution, PRESETS, Preset, ShardedTransformer, Split,
    Transformer,
};
use crate::passes::fusion::fused;
use crate::passes::recompute::{Mode, recomputed};

use super::timing::held;

/// Keys by which tensors are numbered and everything is named.
type Keys = Vec<u32>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn labels_and_numbers_of_tensors_mean_nothing(
        (model, execution) in executions(),
        mode in prop::sample::select(vec![
            Mode::None,
            Mode::Selective,
            Mode::Full,
            Mode::FullEarlyStop,
            Mode::Operators,
        ]),
        (splits_backward, compiled) in any::<(bool, bool)>(),
        keys in prop::collection::vec(any::<u32>(), 100..200),
    ) {
        let model = ShardedTransformer::new(&model, &execution).expect("a model that can be executed");
        let cut = model.cut(Chain::straight(1));
        let laid = |change: &dyn Fn(&Block) -> Block| {
            let mut cut = cut.clone();
            cut.rewrite(|piece| piece.layer.map_or(Mode::None, |_| mode), |block, &mode| {
                let block = recomputed(&change(block), mode);
                if compiled { fused(&block) } else { block }
            });
            lay(&cut, Chain::straight(1), splits_backward, &OperatorList::default(), |_| OperatorList::default())
        };
        let plain = nameless(laid(&Block::clone));
        prop_assert_eq!(&plain, &nameless(laid(&|block| renamed(block, &keys))));
        prop_assert_eq!(&plain, &nameless(laid(&|block| renumbered(block, &keys))));
    }

    #[test]
    fn a_cut_holds_no_more_than_it_does_once_laid(
        (model, execution) in executions(),
        mode in prop::sample::select(vec![Mode::None, Mode::Selective, Mode::Full, Mode::Operators]),
        (splits_backward, compiled, stages) in (any::<bool>(), any::<bool>(), 1u32..3),
    ) {
        let split = Split { stages, ..execution.split.clone() };
        let execution = Execution { split, ..execution };
        let model = ShardedTransformer::new(&model, &execution).expect("a model that can be executed");
        let chain = Chain::straight(stages);
        let mut cut = model.cut(chain);
        cut.rewrite(|piece| piece.layer.map_or(Mode::None, |_| mode), |block, &mode| {
            let block = recomputed(block, mode);
            if compiled { fused(&block) } else { block }
        });
        let laid = lay(&cut, chain, splits_backward, &OperatorList::default(), |_| OperatorList::default());
        for stage in 0..stages {
            let (least, held) = (cut.held(stage), held(&laid.graph, stage, 0));
            prop_assert!(least <= held, "{least} {held}");
            // It is not a bound of nothing.
            prop_assert!(2 * least > held, "{least} {held}");
        }
    }
}

/// Layers in all parts of which something is named: scores, experts, latent vectors, rings.
fn executions() -> impl Strategy<Value = (Transformer, Execution)> {
    let presets: std::collections::BTreeMap<String, Preset> =
        serde_yaml::from_str(PRESETS).expect("the embedded presets");
    let model = move |name: &str| Transformer { layers: 2, ..presets[name].model.clone() };
    let split = |tensor, context| Split {
        tensor,
        context,
        context_exchange: ContextExchange::Ring,
        sequence_parallel: tensor > 1,
        ..Split::NONE
    };
    let execution = |split, attention| Execution::new(2, 512, split, Dtype::Bf16, attention);
    prop::sample::select(vec![
        (model("gpt2"), execution(split(1, 1), AttentionKernel::Materialised)),
        (model("megatron-22b"), execution(split(4, 1), AttentionKernel::Materialised)),
        (model("bert-base"), execution(split(2, 1), AttentionKernel::Flash)),
        (model("llama-3-8b"), execution(split(2, 4), AttentionKernel::Flash)),
        (model("mixtral-8x7b"), execution(split(1, 1), AttentionKernel::Flash)),
    ])
}

/// A block whose operators and tensors have some of a few names.
fn renamed(block: &Block, keys: &Keys) -> Block {
    let mut keys = keys.iter().cycle();
    let mut name = move || Label::Owned(format!("name {}", keys.next().map_or(0, |key| key % 16)));
    let mut renamed = block.clone();
    renamed.tensors.iter_mut().for_each(|tensor| tensor.name = name());
    renamed.forward.iter_mut().chain(&mut renamed.backward).for_each(|op| op.name = name());
    renamed
}

/// A block whose tensors are numbered by their keys.
fn renumbered(block: &Block, keys: &Keys) -> Block {
    let mut order: Vec<usize> = (0..block.tensors.len()).collect();
    order.sort_by_key(|&n| keys[n % keys.len()]);
    let numbers = |id: TensorId| {
        let at = order.iter().position(|&n| n == id.0 as usize);
        TensorId(at.expect("a tensor of the block") as u32)
    };
    let all = |ids: &[TensorId]| ids.iter().copied().map(numbers).collect();
    let list = |list: &[Operator]| -> Vec<Operator> {
        list.iter()
            .map(|op| Operator { reads: all(&op.reads), writes: all(&op.writes), ..op.clone() })
            .collect()
    };
    Block {
        tensors: order.iter().map(|&n| block.tensors[n].clone()).collect(),
        input: numbers(block.input),
        output: block.output.map(numbers),
        output_gradient: block.output_gradient.map(numbers),
        input_gradient: block.input_gradient.map(numbers),
        forward: list(&block.forward),
        backward: list(&block.backward),
        middle: block.middle.map(|middle| middle.map(numbers)),
        handed: block.handed.clone(),
    }
}

/// All of a laid model but labels and numbers of tensors.
fn nameless(laid: Laid) -> String {
    let Laid { graph, mut reused, parts, ends } = laid;
    reused.iter_mut().for_each(|reused| reused.sort_by_key(|reuse| (reuse.bytes, reuse.distance)));
    let work = |op: &Operator| (op.phase, op.work, op.workspace, op.choice.clone(), op.awaited);
    let works: Vec<_> = graph.operators().iter().map(work).collect();
    format!("{:#?}", (graph.ops(), graph.storages(), works, reused, parts, ends))
}
