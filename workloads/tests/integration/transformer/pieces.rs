//! Products in pieces beside what tensor ranks exchange for them.

use workloads::model::transformer::{
    Block, Collective, CollectiveKind, Execution, Fp8, Fusion, Operator, Scaling, ShardedTransformer, Work,
    beside,
};

use super::{flash, preset, ranks, shard};

/// Llama 3 8B on four tensor ranks, as Megatron-LM or as torchtitan has it.
fn layer(torchtitan: bool, in_pieces: bool, scaling: Option<Scaling>) -> Block {
    let fusion = if torchtitan { Fusion::TORCHTITAN } else { Fusion::ALL };
    let fp8 = scaling.map(|scaling| Fp8 { scaling, gathers: false });
    let common = flash(2, 512, ranks(4, true));
    let reduces_beside = !torchtitan;
    let execution =
        Execution { fusion, gathers_again: !torchtitan, reduces_beside, in_pieces, fp8, ..common };
    shard(&preset("llama-3-8b"), &execution).layer()
}

fn exchanges(operators: &[Operator]) -> Vec<(&str, Collective)> {
    let exchanges = operators.iter().filter_map(|op| match op.work {
        Work::Collective(collective) => Some((&*op.name, collective)),
        _ => None,
    });
    exchanges.collect()
}

/// What runs beside each exchange by copies, product by product.
fn covered(operators: &[Operator]) -> Vec<(&str, Vec<&str>)> {
    let by_copies = |op: &Operator| matches!(op.work, Work::Collective(collective) if collective.copied);
    let covers = |n: usize| {
        let following = &operators[n + 1..=n + beside(&operators[n..])];
        following.iter().filter(|op| matches!(op.work, Work::Gemm(_))).map(|op| &*op.name).collect()
    };
    (0..operators.len())
        .filter(|&n| by_copies(&operators[n]))
        .map(|n| (&*operators[n].name, covers(n)))
        .collect()
}

/// Nothing is multiplied or exchanged that was not before.
#[test]
fn pieces_are_the_whole() {
    for torchtitan in [false, true] {
        let (whole, cut) = (layer(torchtitan, false, None), layer(torchtitan, true, None));
        for (whole, cut) in [(&whole.forward, &cut.forward), (&whole.backward, &cut.backward)] {
            let flops = |operators: &[Operator]| operators.iter().map(|op| op.work.flops()).sum::<f64>();
            assert_eq!(flops(whole), flops(cut));
            let bytes = |operators: &[Operator]| {
                exchanges(operators)
                    .iter()
                    .map(|(name, exchange)| ((*name).to_owned(), exchange.bytes))
                    .collect::<Vec<_>>()
            };
            assert_eq!(bytes(whole), bytes(cut));
        }
        assert_eq!(whole.saved_bytes(), cut.saved_bytes());
    }
}

/// Three of four pieces run beside each exchange: of every product that reads what is gathered, of the one that is summed. The
/// sum over parts reads four and leaves one.
#[test]
fn all_but_one_piece_run_beside() {
    let block = layer(true, true, None);
    let thrice = |names: &[&'static str]| names.iter().flat_map(|&name| [name; 3]).collect::<Vec<_>>();
    let forward = [
        ("gather query input", thrice(&["query", "key", "value"])),
        ("reduce projection output", thrice(&["projection"])),
        ("gather mlp gate input", thrice(&["mlp gate", "mlp up"])),
        ("reduce mlp down output", thrice(&["mlp down"])),
    ];
    assert_eq!(covered(&block.forward), forward);
    let sum = block.forward.iter().find(|op| op.name == "sum parts").map(|op| op.work);
    let whole = 2 * 2 * 512 * 4_096;
    assert!(matches!(sum, Some(Work::Stream(s)) if (s.bytes_read, s.bytes_written) == (whole, whole / 4)));
}

/// In the backward pass of torchtitan's layer gradients of several products are added before ranks sum them, which waits;
/// those of Megatron-LM's one product run beside pieces of it, unless weight gradients do already.
#[test]
fn sums_of_several_products_wait() {
    let block = layer(true, true, None);
    let names: Vec<_> = covered(&block.backward).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["gather mlp down output gradient", "gather projection output gradient"]);
    let waiting = exchanges(&block.backward).into_iter().filter(|(_, exchange)| !exchange.overlaps_next);
    assert!(waiting.clone().all(|(_, exchange)| exchange.kind == CollectiveKind::ReduceScatter));
    assert_eq!(waiting.count(), 2);
    let megatron = layer(false, true, None);
    assert!(exchanges(&megatron.backward).iter().all(|(_, exchange)| exchange.overlaps_next));
}

/// Operands that are cast before the gather are multiplied as they come; rowwise ones are cast after, from the whole.
#[test]
fn what_is_cast_after_the_gather_waits() {
    let by_copies = |scaling| covered(&layer(true, true, Some(scaling)).forward).len();
    assert_eq!([Scaling::Tensorwise, Scaling::Delayed, Scaling::Rowwise].map(by_copies), [4, 4, 2]);
}

#[test]
fn pieces_need_sequence_parallelism() {
    let execution = Execution { in_pieces: true, ..flash(2, 512, ranks(4, false)) };
    let refused = ShardedTransformer::new(&preset("llama-3-8b"), &execution).expect_err("it is refused");
    assert_eq!(refused.iter().map(|invalid| invalid.path).collect::<Vec<_>>(), ["in_pieces"]);
}
