//! A Python process that answers: what frameworks do is asked of scripts that this program carries.
//!
//! A script goes to the interpreter through its standard input, so that nothing is written to a drive. It is asked a JSON line and
//! answers with one; the first line it says by itself is a [`Greeting`]. The loop around a script, its greeting and its errors are
//! [`COMMON`], which goes before every script: a script defines functions and ends with `serve(answer)`, `answer` being given what
//! was asked. What a library prints goes to standard error, whose last lines are told when the process ends before its time.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::measure::{DeviceError, Found};

/// What every script begins with.
const COMMON: &str = include_str!("common.py");
/// Reads the script, a JSON text on the first line, and runs it; modules of the folder it is started in are none of Python's.
const FIRST: &str = "import sys; sys.path[:] = filter(None, sys.path); import json; \
                     exec(compile(json.loads(sys.stdin.readline()), 'script of foretrain', 'exec'))";
/// How to get Python.
const REMEDY: &str = "install Python 3.8 or newer with PyTorch, or name one that is there with `--python`";
/// Longest line that is read (bytes).
const LONGEST: u64 = 64 << 20;
/// Lines of standard error that are told.
const COMPLAINTS: usize = 6;
/// How long the greeting may take (s): importing PyTorch from a slow drive takes a minute.
const GREETING: Duration = Duration::from_secs(180);
/// How long a process that ended may take to hand over what it said: a moment, but on a machine that is busy with other things.
const PARTING: Duration = Duration::from_secs(30);
/// How often it is looked at meanwhile.
const LOOKS: u32 = 3_000;

/// A process that answers. It ends with this.
#[derive(Debug)]
pub struct Python {
    process: Child,
    questions: ChildStdin,
    answers: Receiver<String>,
    complaints: Complaints,
    limit: Duration,
}

/// What a process says of itself.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Greeting {
    /// Version of Python.
    pub python: String,
    /// Version of PyTorch.
    pub torch: Found,
    /// The CUDA that PyTorch uses.
    pub cuda: Found,
    /// GPUs that PyTorch sees, in the order of CUDA.
    pub gpus: Vec<TorchGpu>,
    /// Threads that PyTorch uses on the host.
    pub threads: u32,
}

/// A GPU, as PyTorch knows it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TorchGpu {
    /// Its name.
    pub name: String,
    /// Compute capability, `90` for 9.0.
    pub capability: u32,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Memory (bytes).
    pub memory: u64,
    /// Second-level cache (bytes); 0 where PyTorch does not tell it.
    pub cache: u64,
}

/// A line of an answer.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Reply<A> {
    Answer(A),
    Error(DeviceError),
}

impl Python {
    /// Starts `script` in the interpreter `program`; no answer may take longer than `limit`.
    ///
    /// # Errors
    /// [`DeviceError::Missing`] where there is no such program or its version is too old; [`DeviceError::Failed`] where it does
    /// not greet. PyTorch may be missing: the greeting says so.
    pub fn start(program: &Path, script: &str, limit: Duration) -> Result<(Self, Greeting), DeviceError> {
        let shown = program.display();
        let started = Command::new(program)
            .args(["-u", "-c", FIRST])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut process = started.map_err(|error| match error.kind() {
            ErrorKind::NotFound => DeviceError::missing(format!("`{shown}`"), REMEDY),
            _ => DeviceError::failed(format!("starting `{shown}`"), error.to_string()),
        })?;
        let taken = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (Some(questions), Some(said), Some(complained)) = taken else {
            unreachable!("all three were asked to be pipes")
        };
        let complaints = Complaints::of(complained);
        let mut python = Self { process, questions, answers: lines(said), complaints, limit };
        let doing = format!("starting Python (`{shown}`)");
        python.say(&doing, &format!("{COMMON}\n{script}"))?;
        let greeting = python.hear(&doing, GREETING)?;
        Ok((python, greeting))
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// What the script says went wrong, and [`DeviceError::Failed`] where the process ended, says nothing for longer than its
    /// limit, or something that is no answer: it is ended then.
    pub fn ask<Q: Serialize, A: DeserializeOwned>(&mut self, question: &Q) -> Result<A, DeviceError> {
        const DOING: &str = "asking Python";
        self.say(DOING, question)?;
        self.hear(DOING, self.limit)
    }

    fn say<Q: Serialize + ?Sized>(&mut self, doing: &str, question: &Q) -> Result<(), DeviceError> {
        let line =
            serde_json::to_string(question).map_err(|error| DeviceError::failed(doing, error.to_string()))?;
        let sent = writeln!(self.questions, "{line}").and_then(|()| self.questions.flush());
        match sent {
            // What it has said before it ended is heard first.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            sent => sent.map_err(|_| self.ended(doing)),
        }
    }

    fn hear<A: DeserializeOwned>(&mut self, doing: &str, limit: Duration) -> Result<A, DeviceError> {
        let line = match self.answers.recv_timeout(limit) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return Err(self.ended(doing)),
            Err(RecvTimeoutError::Timeout) => {
                let why = format!("it said nothing for {} s and was ended", limit.as_secs_f64());
                return Err(self.failed(doing, &why));
            }
        };
        match serde_json::from_str(&line) {
            Ok(Reply::Answer(answer)) => Ok(answer),
            Ok(Reply::Error(error)) => Err(error),
            Err(error) => {
                let beginning: String = line.trim_end().chars().take(200).collect();
                let why = format!("it said `{beginning}`, which is no answer ({error})");
                Err(self.failed(doing, &why))
            }
        }
    }

    /// The error of a process that ended by itself.
    fn ended(&mut self, doing: &str) -> DeviceError {
        // Its output is closed a moment before it has ended.
        let status = (0..LOOKS).find_map(|_| {
            let status = self.process.try_wait().ok().flatten();
            if status.is_none() {
                thread::sleep(PARTING / LOOKS);
            }
            status
        });
        let why = status.map_or("it closed its output".to_owned(), |status| format!("it ended ({status})"));
        self.failed(doing, &why)
    }

    /// Ends the process; the error has its last words.
    fn failed(&mut self, doing: &str, why: &str) -> DeviceError {
        self.end();
        self.complaints.wait();
        let last = self.complaints.told();
        let last = if last.is_empty() { last } else { format!(": {last}") };
        DeviceError::failed(doing, format!("{why}{last}"))
    }

    fn end(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        self.end();
    }
}

/// The last lines of a stream.
#[derive(Debug)]
struct Complaints {
    lines: Arc<Mutex<VecDeque<String>>>,
    /// Nothing is sent: it closes with the stream.
    ended: Receiver<()>,
}

impl Complaints {
    fn of(stream: impl Read + Send + 'static) -> Self {
        let (open, ended) = sync_channel(0);
        let lines: Arc<Mutex<VecDeque<String>>> = Arc::default();
        let kept = lines.clone();
        thread::spawn(move || {
            let _open: SyncSender<()> = open;
            each_line(stream, |line| {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push_back(line);
                if kept.len() > COMPLAINTS {
                    kept.pop_front();
                }
                true
            });
        });
        Self { lines, ended }
    }

    /// Waits until the stream is closed, but not for long: children of the process may hold it open.
    fn wait(&self) {
        let _ = self.ended.recv_timeout(PARTING);
    }

    fn told(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<&str> = lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
        lines.join("; ")
    }
}

/// The lines of a stream, no more than one ahead of who takes them.
fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = sync_channel(1);
    thread::spawn(move || each_line(stream, |line| sender.send(line).is_ok()));
    receiver
}

/// Gives each line until the stream ends or `take` says no. A line that is too long is given in pieces, and one that is no text
/// with marks in the place of what is none.
fn each_line(stream: impl Read, mut take: impl FnMut(String) -> bool) {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    while let Ok(1..) = (&mut stream).take(LONGEST).read_until(b'\n', &mut line) {
        if !take(String::from_utf8_lossy(&line).into_owned()) {
            return;
        }
        line.clear();
    }
}
