//! What a newcomer sees first.

use super::support::{Sandbox, assert_session};

#[test]
fn without_a_verb_there_is_help_that_opens_with_examples() {
    let sandbox = Sandbox::new("help");
    let help = sandbox.run("");
    assert!(help.out.starts_with("Examples:\n  foretrain run pipeline-schedules"), "{}", help.out);
    assert_eq!((help.exit, &help.out), (0, &sandbox.run("--help").out));
    assert_session!("help", sandbox.session(&["", "run --help", "--version"]));
}

#[test]
fn slips_on_the_command_line_are_bad_input() {
    let sandbox = Sandbox::new("usage");
    assert_session!("usage", sandbox.session(&["runn", "run", "run small.yaml --jobs 0", "list gpus"]));
}

#[test]
fn every_shell_gets_completions() {
    let sandbox = Sandbox::new("completions");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let answer = sandbox.run(&format!("completions {shell}"));
        assert_eq!(answer.exit, 0, "{shell}: {}", answer.err);
        assert!(
            answer.out.contains("foretrain") && answer.out.contains("explain"),
            "{shell}: {}",
            answer.out
        );
    }
}

#[test]
fn the_schema_is_the_committed_one() {
    let committed = include_str!("../../scenario.schema.json");
    assert!(Sandbox::new("schema").run("schema").out == committed);
}
