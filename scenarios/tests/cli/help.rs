//! What a newcomer sees first.

use std::fs;

use super::support::{Sandbox, assert_session};

#[test]
fn without_a_verb_there_is_help_that_says_first_what_it_is() {
    let sandbox = Sandbox::new("help");
    let help = sandbox.run("");
    assert!(help.out.starts_with("Rehearses a training run before anyone pays for it"), "{}", help.out);
    assert!(help.out.contains("Examples:\n  foretrain run pipeline-schedules"), "{}", help.out);
    assert_eq!((help.exit, &help.out), (0, &sandbox.run("--help").out));
    assert_session!("help", sandbox.session(&["", "run --help", "--version"]));
}

#[test]
fn slips_on_the_command_line_are_bad_input() {
    let sandbox = Sandbox::new("usage");
    assert_session!("usage", sandbox.session(&["runn", "run", "run small.yaml --jobs 0", "list gpus"]));
}

#[test]
fn every_command_has_a_man_page() {
    let sandbox = Sandbox::new("man");
    fs::create_dir(sandbox.path("pages")).expect("the folder can be made");
    assert_eq!(sandbox.run("man pages").exit, 0);
    let names = sandbox.names("pages");
    for name in ["foretrain.1", "foretrain-run.1", "foretrain-validate.1"] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
    assert!(sandbox.read("pages/foretrain-run.1").contains("fail\\-if\\-none\\-fits"));
    let nowhere = sandbox.run("man nowhere/at/all");
    assert_eq!(nowhere.exit, 2, "{}", nowhere.err);
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
