//! From a published `config.json` to a first answer.

use super::support::Sandbox;

const DEEPSEEK: &str = include_str!("../../../workloads/tests/data/configs/deepseek-v3.json");
const GPT_2: &str = include_str!("../../../workloads/tests/data/configs/gpt2.json");

#[test]
fn commands_say_what_is_not_modelled() {
    let sandbox = Sandbox::new("configured");
    sandbox.write("config.json", DEEPSEEK);
    sandbox.write("my.yaml", &sandbox.run("plan config.json 32xdgx-h100").out);
    for (command, begins) in [("check my.yaml", "note: "), ("show my.yaml", "# ")] {
        let answer = sandbox.run(command);
        assert_eq!(answer.exit, 0, "{}", answer.err);
        for key in ["n_group", "num_nextn_predict_layers", "quantization_config"] {
            let line = format!("{begins}`{key}` of the config.json is not modelled: ");
            assert!(answer.out.lines().any(|said| said.starts_with(&line)), "{line} in {}", answer.out);
        }
    }
}

#[test]
fn a_plan_has_no_longer_sequences_than_a_file_has_positions() {
    let sandbox = Sandbox::new("positions");
    sandbox.write("config.json", GPT_2);
    let plan = sandbox.run("plan config.json dgx-h100").out;
    assert!(plan.contains("sequence: 1024"), "{plan}");
    sandbox.write("my.yaml", &plan);
    assert_eq!(sandbox.run("check my.yaml").exit, 0);
}
