//! PyTorch on the host: every task of a framework is executed by the script.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use calibration::devices::{Python, Torch};
use calibration::measure::{
    Device, DeviceError, Found, Kernel, Operation, Suite, Task, Tensor, framework_suite,
};
use hw_models::kernels::{Attention, Dtype, Pass};
use serde_json::{Value, json};

/// Debian's Python, for which `apt-get install python3-torch` installs PyTorch.
const PYTHON: &str = "/usr/bin/python3";

/// PyTorch on the host, or none where it is not there: then the test says so and ends, unless all tools have to be there.
#[expect(clippy::print_stderr, reason = "who runs tests should know what was not tested")]
fn torch() -> Option<Torch> {
    let torch = Torch::open(Path::new(PYTHON), None);
    let missing = torch.capabilities().into_iter().find(|need| matches!(need.found, Found::Missing { .. }));
    let Some(missing) = missing else { return Some(torch) };
    assert!(std::env::var_os("FORETRAIN_REQUIRE_TOOLS").is_none(), "{missing:?}");
    eprintln!("skipped: {missing:?}");
    None
}

/// A task of every kind on small tensors.
fn tasks() -> Vec<Task> {
    let suite = framework_suite(None, true);
    let mut tasks: Vec<Task> = suite.probes.into_iter().flat_map(|probe| probe.tasks).collect();
    tasks.extend(
        Operation::ALL
            .map(|operation| Task::Kernel(Kernel { operation, rows: 4, width: 64, dtype: Dtype::Fp32 })),
    );
    let attention = |pass| {
        Task::Attention(Attention {
            pass,
            batch: 2,
            heads: 3,
            kv_heads: 3,
            queries: 16,
            keys: 16,
            head_dim: 8,
            value_dim: 8,
            causal: true,
            window: None,
            dtype: Dtype::Fp32,
        })
    };
    tasks.extend([Pass::Forward, Pass::Backward].map(attention));
    tasks
}

/// What this PyTorch is too old for says so, and the rest goes on.
#[test]
fn every_task_of_a_framework_is_executed() {
    let Some(mut torch) = torch() else { return };
    let facts = torch.identity().facts;
    assert!(facts["pytorch"].ends_with(" on the host") && facts["python"].starts_with("3."), "{facts:?}");
    let mut executed = 0;
    for task in tasks() {
        match torch.prepare(&task) {
            Ok(()) => {
                executed += 1;
                let seconds = torch.time(3).unwrap_or_else(|error| panic!("{task}: {error}"));
                assert!(seconds > 0.0, "{task}: {seconds} s");
            }
            Err(DeviceError::Unable { why, .. }) => {
                assert!(why.contains("needs PyTorch"), "{task}: {why}");
                assert!(torch.time(1).is_err(), "what was ready before is not timed in its place");
            }
            Err(error) => panic!("{task}: {error}"),
        }
    }
    assert!(executed > 30, "{executed}");
    let kept = Task::Tensor(Tensor { kept: true, bytes: 1 << 20 });
    assert_eq!(
        torch.prepare(&kept).unwrap_err().to_string(),
        "PyTorch cannot do this: PyTorch has no caching allocator on the host"
    );
}

/// On a made-up GPU kernels take what they take without what the cache keeps, graphs their beginning, or a stream was held up.
#[test]
fn kernels_are_timed_between_events_or_as_differences_of_graphs() {
    if torch().is_none() {
        return;
    }
    let script = concat!(include_str!("made_up_cuda.py"), include_str!("../../src/devices/torch/probe.py"));
    let (mut python, _) = Python::start(Path::new(PYTHON), script, Duration::from_secs(100)).unwrap();
    let mut ask = |question: &Value| python.ask::<_, Option<f64>>(question);
    ask(&json!({ "open": { "gpu": 0, "cache": 1 << 20 } })).unwrap();
    // 128 KiB each: eight sets of three tensors are three caches.
    let kernel =
        Task::Kernel(Kernel { operation: Operation::Add, rows: 64, width: 1_024, dtype: Dtype::Bf16 });
    assert_eq!(kernel.bytes(), 3 << 17);
    ask(&json!({ "prepare": { "task": kernel, "bytes": kernel.bytes() } })).unwrap();
    for executions in [1_000, 1, 5, 19, 20, 1] {
        let seconds = ask(&json!({ "time": executions })).unwrap().unwrap();
        let each = seconds / f64::from(executions);
        assert!((each / 4e-6 - 1.0).abs() < 1e-9, "{executions}: {each}");
    }
    ask(&json!("rest")).unwrap();
    assert!(ask(&json!({ "time": 1 })).is_err(), "what was put aside is not timed");
}

/// On a made-up GPU steps take 10 ms alone, and longer beside copies or blocks that hold SMs, which are under way as a step begins and
/// as it ends: a step that takes longer than they go on is refused.
#[test]
fn steps_are_timed_alone_and_beside_other_work_of_a_gpu() {
    if torch().is_none() {
        return;
    }
    let script = concat!(
        include_str!("../../src/devices/torch/device.py"),
        include_str!("../../src/devices/torch/step.py"),
        include_str!("../../src/devices/torch/beside.py"),
        include_str!("made_up_streams.py"),
    );
    let (mut python, _) = Python::start(Path::new(PYTHON), script, Duration::from_secs(100)).unwrap();
    let mut ask = |sms: u32, [to_device, to_host]: [bool; 2], slowed_s: f64| {
        let beside = json!({ "sms": sms, "to_device": to_device, "to_host": to_host });
        let question = json!({ "device": "cuda", "samples": 4, "slowed_s": slowed_s, "beside": beside });
        python.ask::<_, BTreeMap<String, Vec<f64>>>(&question)
    };
    // The host takes 10 us to issue a step.
    let taken =
        |samples: &[f64], ms: f64| samples.iter().all(|taken| (taken - 1e-5 - ms * 1e-3).abs() < 1e-9);
    for (sms, ways, expected_ms) in [
        (0, [false, false], 10.0),
        (0, [true, false], 12.0),
        (0, [false, true], 12.0),
        (0, [true, true], 12.0),
        (24, [false, false], 12.0),
    ] {
        let found = ask(sms, ways, 12e-3).unwrap_or_else(|error| panic!("{sms} {ways:?}: {error}"));
        assert!(
            found["step_s"].len() == 4 && taken(&found["step_s"], expected_ms),
            "{sms} {ways:?}: {found:?}"
        );
        assert!(found["alone_s"].len() == 4 && taken(&found["alone_s"], 10.0), "{sms} {ways:?}: {found:?}");
    }
    // Five copies tell what one takes; 40 ms are nine, behind one that has begun.
    let found = ask(0, [true, true], 12e-3).unwrap();
    let once = [5.0 + 4.0 * 10.0, 4.0 * 10.0];
    assert_eq!(found["copies"], [2.0 * once[0] + once[0], once[0] + 2.0 * once[1]]);
    assert_eq!(found["let_go"], [24.0; 4], "nobody waits until blocks may end by themselves");
    for (sms, ways) in [(0, [true, false]), (0, [false, true]), (24, [false, false])] {
        let refused = ask(sms, ways, 50e-3).unwrap_err().to_string();
        assert!(refused.contains("the other work ended before a step of 0.05 s"), "{refused}");
    }
    let refused = ask(132, [false, false], 12e-3).unwrap_err().to_string();
    assert!(refused.contains("132 of 132 SMs cannot be held"), "{refused}");
}

#[test]
fn what_pytorch_lacks_is_told_with_its_remedy() {
    let torch = Torch::open(Path::new("no-such-python"), Some(0));
    let [need] = &torch.capabilities()[..] else { panic!("{:?}", torch.capabilities()) };
    let Found::Missing { why, remedy } = &need.found else { panic!("{need:?}") };
    assert_eq!((need.name, need.required, &**why), ("python", true, "`no-such-python` is missing"));
    assert!(remedy.contains("`--python`"), "{remedy}");
    assert_eq!(torch.suite(true), Suite { probes: Vec::new(), sentinels: Vec::new() });
}
