//! Operators of all presets, to the last byte: what a rework of the graph must not change without saying so.
//!
//! A list is told by its number of operators and a hash. Where one differs, all lists are written to a folder that the test
//! names, to be compared with those of another commit. `FORETRAIN_UPDATE=1 cargo test --release -p workloads golden` renews
//! what is committed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use workloads::graph::operator::Operator;
use workloads::model::layered::{LayeredModel, ModelBlock};
use workloads::model::transformer::{AttentionKernel, Block, Dtype, Execution, ShardedTransformer, Split};
use workloads::passes::fusion::fused;
use workloads::passes::recompute::{Mode, recomputed};

use crate::{layered, transformer};

/// A list of operators in words, by the name of what it is of.
type Lists = BTreeMap<String, String>;

#[test]
fn operators_of_all_presets_are_as_committed() {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden.txt");
    let mut lists = transformers();
    lists.extend(lists_of_layers());
    let digest = |(name, list): (&String, &String)| {
        format!("{name}: {} operators, {:016x}\n", list.lines().count(), hash(list))
    };
    let digests: String = lists.iter().map(digest).collect();
    if std::env::var_os("FORETRAIN_UPDATE").is_some() {
        std::fs::write(&committed, &digests).expect("the tree can be written");
    }
    let expected = std::fs::read_to_string(&committed).expect("lists are committed");
    if digests == expected {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("golden");
    std::fs::create_dir_all(&folder).expect("a folder below target");
    for (name, list) in &lists {
        std::fs::write(folder.join(format!("{name}.txt")), list).expect("a file below target");
    }
    let changed = digests.lines().filter(|line| expected.lines().all(|known| known != *line));
    panic!(
        "{} differ, all lists are in {}:\n{}",
        changed.clone().count(),
        folder.display(),
        changed.collect::<Vec<_>>().join("\n")
    );
}

/// A rank of every published transformer: alone with flash attention, and one of eight that share it, with scores in memory.
fn transformers() -> Lists {
    let mut lists = Lists::new();
    for (name, preset) in transformer::presets() {
        let sequence = preset.model.max_positions.min(2_048);
        let alone = Execution::new(2, sequence, Split::NONE, Dtype::Bf16, AttentionKernel::Flash);
        let split = Split { tensor: 8, sequence_parallel: true, ..Split::NONE };
        let shared = Execution::new(1, sequence, split, Dtype::Fp16, AttentionKernel::Materialised);
        for (how, execution, recompute) in [
            ("alone", &alone, Mode::None),
            ("shared", &shared, Mode::Selective),
            ("recomputed", &shared, Mode::Full),
        ] {
            // Not every model can be shared by eight.
            let Ok(model) = ShardedTransformer::new(&preset.model, execution) else { continue };
            let mut list = String::new();
            for block in [
                model.embedding(),
                recomputed(&model.layer(), recompute),
                recomputed(&model.expert_layer(), recompute),
                model.head(),
            ] {
                tell(&mut list, &block);
            }
            lists.insert(format!("{name}-{how}"), list);
        }
    }
    lists
}

/// Every published list of layers, as PyTorch executes it and compiled.
fn lists_of_layers() -> Lists {
    let mut lists = Lists::new();
    for name in layered::names() {
        for compiled in [false, true] {
            let model = LayeredModel::new(&layered::preset(&name), &layered::execution(2)).unwrap();
            let mut list = String::new();
            for ModelBlock { block, .. } in model.blocks() {
                tell(&mut list, &if compiled { fused(block) } else { block.clone() });
            }
            lists.insert(if compiled { format!("{name}-compiled") } else { name.clone() }, list);
        }
    }
    lists
}

fn tell(list: &mut String, block: &Block) {
    let operators = [("forward", &block.forward), ("backward", &block.backward)];
    for (pass, op) in operators.into_iter().flat_map(|(pass, list)| list.iter().map(move |op| (pass, op))) {
        let Operator { name, phase, work, reads, writes, workspace, choice, awaited, .. } = op;
        let reads: Vec<&str> = reads.iter().map(|&id| &*block.tensor(id).name).collect();
        let filled = writes.iter().map(|&id| block.tensor(id));
        let fills: Vec<String> = filled.map(|tensor| format!("{} {}", tensor.name, tensor.bytes)).collect();
        writeln!(
            list,
            "{pass}, {}: {name}; {work:?}; reads {}; fills {}; workspace {workspace}; {choice:?}; awaited {awaited}",
            phase.name(),
            reads.join(", "),
            fills.join(", ")
        )
        .expect("a string takes all");
    }
}

/// FNV-1a (Fowler, Noll and Vo) of 64 bits.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
