//! A Python process that answers, and all the ways in which it does not.

use std::path::Path;
use std::time::Duration;

use calibration::devices::Python;
use calibration::measure::{DeviceError, Found};

/// Whether there is a Python: a test that needs it says so and ends where there is none, unless all tools have to be there.
#[expect(clippy::print_stderr, reason = "who runs tests should know what was not tested")]
fn there_is_python() -> bool {
    let there = std::process::Command::new("python3").arg("--version").output().is_ok();
    assert!(there || std::env::var_os("FORETRAIN_REQUIRE_TOOLS").is_none(), "there is no `python3`");
    if !there {
        eprintln!("skipped: there is no `python3`");
    }
    there
}

const LIMIT: Duration = Duration::from_secs(100);

fn python(script: &str) -> Python {
    Python::start(Path::new("python3"), script, LIMIT).unwrap_or_else(|error| panic!("{error}")).0
}

/// The error in words of a script that is asked something.
fn trouble(script: &str) -> String {
    let mut python = python(script);
    python.ask::<_, u32>(&1).unwrap_err().to_string()
}

#[test]
fn a_script_is_asked_and_answers() {
    if !there_is_python() {
        return;
    }
    let script = "
asked = []
def answer(question):
    asked.append(question)
    print('libraries print what they like')
    if question == 'all':
        return asked
    raise unable('only strings are known here') if not isinstance(question, str) else MemoryError()
serve(answer)";
    let (mut python, greeting) = Python::start(Path::new("python3"), script, LIMIT).unwrap();
    assert!(greeting.python.starts_with("3."), "{greeting:?}");
    assert_eq!(matches!(greeting.torch, Found::Present(_)), greeting.threads > 0, "{greeting:?}");
    assert_eq!(matches!(greeting.cuda, Found::Present(_)), !greeting.gpus.is_empty(), "{greeting:?}");
    // Errors are answers: the process goes on.
    let unable =
        DeviceError::Unable { device: "PyTorch".to_owned(), why: "only strings are known here".to_owned() };
    assert_eq!(python.ask::<_, ()>(&7), Err(unable));
    assert!(matches!(python.ask::<_, ()>(&"ünïcode\n"), Err(DeviceError::Exhausted { .. })));
    assert_eq!(python.ask(&"all"), Ok((7, "ünïcode\n".to_owned(), "all".to_owned())));
}

#[test]
fn a_program_that_does_not_answer_is_told() {
    let start = |program: &str| {
        let started = Python::start(Path::new(program), "serve(None)", LIMIT);
        started.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(
        start("no-such-python"),
        "`no-such-python` is missing: install Python 3.8 or newer with PyTorch, or name one that is there with `--python`"
    );
    assert!(start("/").starts_with("starting `/`: "), "{}", start("/"));
    if cfg!(unix) {
        let said = start("echo");
        assert!(said.starts_with("starting Python (`echo`): it said `-u -c import sys"), "{said}");
        let said = start("true");
        assert!(said.starts_with("starting Python (`true`): it ended (exit status: 0)"), "{said}");
    }
}

#[test]
fn a_script_that_breaks_is_told_with_its_last_words() {
    if !there_is_python() {
        return;
    }
    let wrong = trouble("serve(lambda question: question / 0)");
    assert_eq!(wrong, "running PyTorch: ZeroDivisionError: division by zero");
    let dies = trouble("serve(lambda question: (sys.stderr.write('last words\\n'), os._exit(7)))");
    assert_eq!(dies, "asking Python: it ended (exit status: 7): last words");
    let garbage = trouble("serve(lambda question: _answers.write('{\"answer\": 1,\\n'))");
    assert!(
        garbage.starts_with("asking Python: it said `{\"answer\": 1,`, which is no answer ("),
        "{garbage}"
    );
    let other = trouble("serve(lambda question: 'words')");
    assert!(other.contains("which is no answer (invalid type: string"), "{other}");
    // What is no Python does not even greet.
    let syntax = Python::start(Path::new("python3"), "serve(", LIMIT).err().map(|error| error.to_string());
    assert!(syntax.as_ref().is_some_and(|said| said.contains("SyntaxError")), "{syntax:?}");
}

#[test]
fn a_process_that_hangs_is_ended() {
    if !there_is_python() {
        return;
    }
    let script = "import time; serve(lambda question: time.sleep(1000))";
    let limit = Duration::from_millis(50);
    let (mut python, _) = Python::start(Path::new("python3"), script, limit).unwrap();
    let error = python.ask::<_, ()>(&1).unwrap_err().to_string();
    assert_eq!(error, "asking Python: it said nothing for 0.05 s and was ended");
    // Nothing answers any more, and that is told at once.
    let after = python.ask::<_, ()>(&1).unwrap_err().to_string();
    assert!(after.starts_with("asking Python: it ended (signal: 9"), "{after}");
}
