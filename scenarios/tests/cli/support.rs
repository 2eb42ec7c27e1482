//! Runs the binary in a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A small experiment: one variant fits, one does not.
pub(crate) const PIPELINE: &str = concat!(
    "name: Small pipeline\n",
    include_str!("../model.yaml"),
    "    device: { memory: 6 GB }
training: { micro_batches: 8, micro_batch: 2 }
variants:
  gpipe: { parallelism: { schedule: gpipe } }
  1f1b:  { parallelism: { schedule: 1f1b } }
"
);

/// A folder for one test, empty at first.
pub(crate) struct Sandbox {
    folder: PathBuf,
}

impl Sandbox {
    /// `name` is that of the test.
    pub(crate) fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("the target folder can be written");
        Self { folder }
    }

    /// With `small.yaml`: [`PIPELINE`] and `more`.
    pub(crate) fn with_pipeline(name: &str, more: &str) -> Self {
        let sandbox = Self::new(name);
        sandbox.write("small.yaml", format!("{PIPELINE}{more}"));
        sandbox
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("it is in the folder")).expect("the folder can be made");
        fs::write(path, text).expect("the folder can be written");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The names in a folder, sorted.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// The binary with words separated by spaces, not yet started.
    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foretrain"));
        command.args(words.split_whitespace()).current_dir(&self.folder).stdin(Stdio::null());
        command.env_remove("NO_COLOR").env_remove("RUST_BACKTRACE").env("LC_ALL", "C.UTF-8");
        command
    }

    /// Runs the binary to its end.
    pub(crate) fn run(&self, words: &str) -> Answer {
        Answer::of(self.command(words).output().expect("the binary starts"))
    }

    /// Runs the binary where no file may have more than this number of blocks of 512 bytes.
    pub(crate) fn limited(&self, blocks: &str, words: &str) -> Answer {
        let program = self.command(words);
        let mut shell = Command::new("sh");
        // Who goes beyond the limit would be killed otherwise.
        shell.args(["-c", "trap '' XFSZ; ulimit -f $0; exec \"$@\"", blocks]).arg(program.get_program());
        shell.args(program.get_args()).current_dir(&self.folder);
        Answer::of(shell.output().expect("a shell"))
    }

    /// Runs several commands one after the other, as a session on a terminal would look.
    pub(crate) fn session(&self, commands: &[&str]) -> String {
        let one = |words: &&str| format!("$ foretrain {words}\n{}", self.run(words).shown());
        let session = commands.iter().map(one).collect::<Vec<_>>().join("\n");
        session.replace(&self.folder.display().to_string(), "[FOLDER]")
    }
}

/// How the binary answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) exit: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Answer {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("foretrain writes UTF-8");
        Self {
            exit: output.status.code().expect("foretrain ends by itself"),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// Standard output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }

    /// What a person sees, and the exit code unless it is 0.
    fn shown(&self) -> String {
        let err: String =
            self.err.lines().map(|line| format!("stderr: {line}").trim_end().to_owned() + "\n").collect();
        let exit = if self.exit == 0 { String::new() } else { format!("[exit {}]\n", self.exit) };
        format!("{}{err}{exit}", self.out)
    }
}

/// Compares with the snapshot of that name; versions and commits do not matter.
macro_rules! assert_session {
    ($name:literal, $session:expr) => {
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true, filters => vec![
            (r"\d+\.\d+\.\d+( \([0-9a-f]{10}\))?", "[VERSION]"),
            (r"of sources [0-9a-f]{16}", "of sources [SOURCES]"),
        ] }, { insta::assert_snapshot!($name, $session) });
    };
}
pub(crate) use assert_session;
