//! Replays of recorded programs: traces of others, timelines by hand, and files that are no traces.

mod by_hand;
mod chakra;
mod changed;
mod recorded;
mod wrong;

use std::fmt::Write;

use sim_core::time::Time;
use workloads::trace::{Recording, Replayed, Traced, kineto, replay};

/// Launches that a stream may have waiting.
const QUEUE: u64 = 1_024;

/// A trace as somebody may have recorded it (us).
#[derive(Default)]
struct Text {
    events: String,
}

impl Text {
    fn event(
        &mut self,
        category: &str,
        name: &str,
        lane: (u32, u32),
        [begin, duration]: [f64; 2],
        args: &str,
    ) {
        let comma = if self.events.is_empty() { "" } else { ",\n" };
        let (process, thread) = lane;
        write!(
            self.events,
            r#"{comma}{{"ph":"X","cat":"{category}","name":"{name}","pid":{process},"tid":{thread},"ts":{begin},"dur":{duration},"args":{{{args}}}}}"#
        )
        .expect("text grows");
    }

    /// A call of thread 1 or 2, and the kernel that it launches on a stream.
    fn kernel(&mut self, number: u32, thread: u32, call: [f64; 2], stream: u32, kernel: [f64; 2]) {
        let correlation = format!(r#""correlation":{number}"#);
        self.event("cuda_runtime", "cudaLaunchKernel", (100, thread), call, &correlation);
        let args = format!(r#"{correlation},"device":0,"stream":{stream}"#);
        self.event("kernel", &format!("kernel {number}"), (0, stream), kernel, &args);
    }

    fn call(&mut self, name: &str, number: u32, thread: u32, times: [f64; 2]) {
        self.event("cuda_runtime", name, (100, thread), times, &format!(r#""correlation":{number}"#));
    }

    fn step(&mut self, number: u32, times: [f64; 2]) {
        self.event("user_annotation", &format!("ProfilerStep#{number}"), (100, 1), times, "");
    }

    fn json(&self) -> String {
        format!(r#"{{"schemaVersion":1,"traceEvents":[{}]}}"#, self.events)
    }

    fn recording(&self) -> Recording {
        kineto::read(self.json().as_bytes()).expect("it is a trace")
    }

    fn traced(&self) -> Traced {
        Traced::of(self.recording())
    }
}

fn replayed(traced: &Traced) -> Replayed {
    replay(traced, QUEUE).expect("it ends")
}

fn us(time: Time) -> f64 {
    time.0 as f64 * 1e-6
}
