//! Lanes of hosts and devices: launches through a queue of 1,024, and the replay of a recorded
//! step.
//!
//! `cargo bench -p workloads --bench lanes`

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

use std::time::Instant;

use sim_core::time::Time;
use workloads::lanes::{
    ActivityKind, ActivityRef, DeviceItem, DeviceStream, HostItem, HostTime, Lanes, NameId, QUEUE,
    Simulation, Thread,
};
use workloads::trace::{Traced, kineto, simulation};

fn main() {
    for (what, call_us, kernel_us) in
        [("posts alone", 0, 0), ("the queue fills", 2, 3), ("the host is late", 2, 1)]
    {
        let lanes = launching(LAUNCHES, call_us, kernel_us);
        let begun = Instant::now();
        let simulation = Simulation::new(&lanes, QUEUE, None);
        let lowered = begun.elapsed().as_secs_f64();
        simulation.run().expect("it ends");
        let took = begun.elapsed().as_secs_f64();
        let rate = f64::from(LAUNCHES) / (took - lowered) / 1e6;
        println!(
            "{LAUNCHES} launches, {what}: {rate:.1} M a second, and {:.1} M a second to lower",
            f64::from(LAUNCHES) / lowered / 1e6,
        );
    }
    let recording = kineto::read(RECORDED).expect("a trace");
    let traced = Traced::of(recording);
    let host = traced.lanes.threads.iter().map(|thread| thread.items.len()).sum::<usize>();
    let device = traced.lanes.streams.iter().map(|stream| stream.items.len()).sum::<usize>();
    let begun = Instant::now();
    let simulation = simulation(&traced, QUEUE, 0);
    let lowered = begun.elapsed().as_secs_f64();
    simulation.run().expect("it ends");
    let took = begun.elapsed().as_secs_f64() - lowered;
    let operations = (host + device) as f64;
    println!("replay of {operations} lane operations: {:.1} M a second", operations / took / 1e6);
}

const LAUNCHES: u32 = 1_000_000;

/// Six steps of DLRM on an A100; a file beside it says where it is from.
const RECORDED: &[u8] = include_bytes!("../tests/data/traces/trace_a100_dlrm_8rank_rank3.json.gz");

/// A thread that launches kernels, and the kernels.
fn launching(launches: u32, call_us: u64, kernel_us: u64) -> Lanes {
    let work = HostItem::Work(HostTime { calls: call_us * 1_000_000, ..HostTime::default() });
    let launch = |number| [work, HostItem::Launch(ActivityRef { stream: 0, number })];
    let host = Thread { name: "python".to_owned(), items: (0..launches).flat_map(launch).collect() };
    let kernel = DeviceItem {
        name: NameId(0),
        kind: ActivityKind::Kernel,
        duration: Time::from_us(kernel_us),
        skew: Time::ZERO,
        latency: Time::from_us(call_us),
        gap: Time::ZERO,
        occupied: None,
        after: Vec::new(),
    };
    let items = vec![kernel; launches as usize];
    let stream = DeviceStream { id: (0, 7), items };
    Lanes { threads: vec![host], streams: vec![stream], ..Lanes::default() }
}
