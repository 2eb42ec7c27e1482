//! Models of `config.json` files: what is said of them, and that it is the model that dimensions
//! say.

use reports::summary::RunSummary;
use scenarios::{Experiment, Point};

use crate::support::{messages, read_all, run};

const GEMMA: &str = include_str!("../../../workloads/tests/data/configs/gemma-3-1b.json");
const GEMMA_2: &str = include_str!("../../../workloads/tests/data/configs/gemma-2-9b.json");
const OSS: &str = include_str!("../../../workloads/tests/data/configs/gpt-oss-20b.json");

const NODE: &str = "name: test
machine: { node: dgx-h100 }
model: { transformer: { config: config.json } }
training: { global_batch: 32, micro_batch: 1, sequence: 4096 }
parallelism: { pipeline: 2 }
software: { attention: flash }
";

/// Twelve layers of Gemma 3 1B without its windows.
const WITHOUT_WINDOWS: &str = "config: none, layers: 12, hidden: 1152, heads: 4, kv_heads: 1, head_dim: 256, ffn: 6912, \
                               vocabulary: 262144, max_positions: 32768, norm: rms, mlp: geglu, bias: none, \
                               positions: rotary, dropout: false, query_key_norm: weighted, post_norms: true, \
                               scaled_embedding: true";

/// The scenario above with more lines, of a model with this number of layers.
fn experiment(config: &str, layers: u32, more: &str) -> Experiment {
    let text = NODE.replace("config.json }", &format!("config.json, layers: {layers} }}")) + more;
    read_all(&[("test.yaml", &text), ("config.json", config)], &[])
        .unwrap_or_else(|failure| panic!("{failure}"))
}

/// A run but for its name and the settings that it has from the file.
fn nameless(run: &RunSummary) -> RunSummary {
    RunSummary { variant: String::new(), notes: Vec::new(), relative_to_first: None, ..run.clone() }
}

#[test]
fn dimensions_say_what_a_file_says() {
    let dimensions = format!("{WITHOUT_WINDOWS}, window: 512, global_every: 6");
    let more = format!(
        "variants: {{ file: {{}}, dimensions: {{ model: {{ transformer: {{ {dimensions} }} }} }} }}\n"
    );
    let summary = run(&experiment(GEMMA, 12, &more));
    let [file, dimensions] = &summary.variants[..] else { panic!("two runs") };
    assert!(file.step_time_s.is_some());
    assert_eq!(nameless(file), nameless(dimensions));
}

/// A window saves time and no memory, wide ones nothing.
#[test]
fn windows_save_time_as_far_as_they_hide_keys() {
    let more = format!(
        "variants:
  file: {{}}
  wide: {{ model: {{ transformer: {{ window: 4096 }} }} }}
  wider: {{ model: {{ transformer: {{ window: 32768, global_every: 3 }} }} }}
  none: {{ model: {{ transformer: {{ {WITHOUT_WINDOWS} }} }} }}
"
    );
    let summary = run(&experiment(GEMMA, 12, &more));
    let [file, wide, wider, none] = &summary.variants[..] else { panic!("four runs") };
    assert_eq!(nameless(wide), nameless(none));
    assert_eq!(nameless(wider), nameless(none));
    let step = |run: &RunSummary| run.step_time_s.expect("it fits");
    assert!(step(file) < step(none), "{} of {}", step(file), step(none));
    let peak = |run: &RunSummary| run.worst_device().map(|device| device.peak_bytes);
    assert_eq!(peak(file), peak(none));
}

#[test]
fn runs_say_what_is_not_modelled() {
    let unknown = OSS.replacen('{', "{ \"zebra\": true,", 1);
    let experiment = experiment(&unknown, 4, "memory: { limit: 79 GiB }\n");
    let resolved = experiment.resolve("base", &Point::default()).expect("feasible");
    let notes = &run(&experiment).variants[0].notes;
    for part in [
        "`quantization_config` of the config.json",
        "`swiglu_limit` of the config.json",
        "not known, and change nothing here: `zebra`",
    ] {
        assert_eq!(notes.iter().filter(|note| note.contains(part)).count(), 1, "{part} in {notes:?}");
    }
    assert_eq!(notes[..3], resolved.scenario.model.not_modelled()[..3]);
}

#[test]
fn kernels_without_a_cap_are_refused() {
    for kernel in ["cudnn", "flash-triton"] {
        let text = NODE.replace("attention: flash", &format!("attention: {kernel}"));
        let files = [("test.yaml", &*text), ("config.json", GEMMA_2)];
        let failure = read_all(&files, &[]).expect_err("a kernel without a cap");
        assert_eq!(messages(&failure).len(), 1, "{failure}");
        assert!(messages(&failure)[0].contains("takes no cap on scores"), "{failure}");
    }
    assert!(read_all(&[("test.yaml", NODE), ("config.json", GEMMA_2)], &[]).is_ok());
}

#[test]
fn windows_that_are_none_have_places() {
    let refused = |settings: &str| {
        let model = WITHOUT_WINDOWS.replace("config: none, ", "");
        let text = NODE.replace("config: config.json", &format!("{model}, {settings}"));
        read_all(&[("test.yaml", &text)], &[]).expect_err(settings).to_string()
    };
    assert!(refused("window: 0").contains("window"));
    assert!(refused("global_every: 2").contains("`model.transformer.global_every`"));
    assert!(refused("global_positions: false").contains("`model.transformer.global_positions`"));
    assert!(
        refused("experts: { count: 4, top_k: 1, ffn: 64, every: 99 }")
            .contains("`model.transformer.experts.every`")
    );
}
