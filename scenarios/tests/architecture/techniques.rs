//! Reach of a technique: lines of code outside its own files that name it. A technique that is added or removed touches no more.

use std::fs;

use super::{CRATES, root, sources};

/// Words that name a technique in code, its own files, and lines elsewhere that name it: at most 25, or as many as are left of earlier
/// days, which may only become fewer.
const TECHNIQUES: [(&[&str], &str, usize); 6] = [
    (&["bpipe", "Bpipe", "BPipe"], "passes/bpipe", 49),
    (&["activation_offload", "ActivationOffload", "passes::offload"], "passes/offload", 41),
    (&["techniques.swap", "Swap", "passes::swap", "swapped"], "passes/swap", 71),
    (&["RecomputeMode", "techniques.recompute", "passes::recompute"], "passes/recompute", 62),
    (&["zero_offload", "ZeroOffload"], "passes/zero_offload", 25),
    (&["zero_infinity", "ZeroInfinity"], "passes/zero_infinity", 25),
];

#[test]
fn techniques_are_named_in_few_places() {
    let mut files = Vec::new();
    for (_, folder) in CRATES {
        sources(&root().join(folder).join("src"), &mut files);
    }
    let texts: Vec<(String, String)> = files
        .iter()
        .map(|path| (path.display().to_string(), fs::read_to_string(path).expect("UTF-8")))
        .collect();
    for (words, own, known) in TECHNIQUES {
        let elsewhere = texts.iter().filter(|(path, _)| !path.contains(own));
        let lines = elsewhere.flat_map(|(_, text)| text.lines());
        let code = lines.filter(|line| !line.trim_start().starts_with("//"));
        let count = code.filter(|line| words.iter().any(|word| line.contains(word))).count();
        assert!(count <= known, "{own}: {count} lines elsewhere name it, {known} are known");
    }
}
