//! Collectives and messages of the GPUs of a machine, by NCCL (NVIDIA, "NCCL API", 2.26).
//!
//! One thread calls for all GPUs, within a group, each on a stream of its own. The stream of the measured one is held up until
//! all is queued: when its time begins the others have arrived, and the host's pace does not count, which in training is that of
//! a process for each GPU. The library is loaded by the name that its packages install, which `cudarc` does not look for.
#![expect(unsafe_code, reason = "a library of C is called")]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

use cudarc::driver::sys::CUstream;
use cudarc::driver::{CudaContext, CudaStream};
use libloading::Library;

use super::errors::failed;
use super::libraries::NCCL;
use super::peers::Placed;
use super::timer::Timer;
use super::{Gpu, Timed};
use crate::measure::{Collective, DeviceError, SendReceive};
use hw_models::collectives::CollectiveKind;
use hw_models::kernels::Dtype;

/// Communicators by the number of their ranks, or why there are none. They are kept from task to task: making them takes a second,
/// and failing to may take longer.
#[derive(Default)]
pub(super) struct Communicators {
    made: BTreeMap<u32, Result<Rc<Group>, DeviceError>>,
}

/// GPUs that communicate, the measured one first.
struct Group {
    ranks: Vec<Rank>,
    calls: Calls,
}

struct Rank {
    communicator: Communicator,
    stream: Arc<CudaStream>,
    context: Arc<CudaContext>,
}

/// What is timed, with memory of every rank: what it sends, and where it receives.
pub(super) struct Exchange {
    what: What,
    bytes: u64,
    memory: Vec<[Placed; 2]>,
    group: Rc<Group>,
}

#[derive(Clone, Copy)]
enum What {
    Collective(CollectiveKind),
    /// To the next rank of a ring.
    Message,
}

impl Communicators {
    /// Makes a collective ready.
    pub(super) fn collective(&mut self, gpu: &mut Gpu, task: &Collective) -> Result<Exchange, DeviceError> {
        let group = self.group(gpu, task.ranks)?;
        Exchange::of(gpu, group, What::Collective(task.kind), task.bytes)
    }

    /// Makes messages ready.
    pub(super) fn messages(&mut self, gpu: &mut Gpu, task: &SendReceive) -> Result<Exchange, DeviceError> {
        let group = self.group(gpu, task.ranks)?;
        Exchange::of(gpu, group, What::Message, task.bytes)
    }

    fn group(&mut self, gpu: &mut Gpu, ranks: u32) -> Result<Rc<Group>, DeviceError> {
        self.made.entry(ranks).or_insert_with(|| Group::of(gpu, ranks).map(Rc::new)).clone()
    }
}

impl Group {
    fn of(gpu: &mut Gpu, ranks: u32) -> Result<Self, DeviceError> {
        let calls = Calls::load()?;
        let numbers: Vec<u32> = gpu.peers.numbers.iter().copied().take(ranks as usize).collect();
        let mut streams = Vec::new();
        for &number in &numbers {
            let context = gpu.peers.context(number)?;
            let stream = match streams.len() {
                0 => gpu.timer.stream.clone(),
                _ => context.new_stream().map_err(|error| failed("making a stream", error))?,
            };
            streams.push((stream, context));
        }
        let devices: Vec<c_int> = numbers.iter().map(|&number| number as c_int).collect();
        let mut communicators = vec![ptr::null_mut(); devices.len()];
        // SAFETY: it writes as many communicators as it is told of GPUs, of which all are there.
        let made =
            unsafe { (calls.init_all)(communicators.as_mut_ptr(), devices.len() as c_int, devices.as_ptr()) };
        calls.ended("making communicators", made)?;
        let rank = |(communicator, (stream, context))| Rank { communicator, stream, context };
        Ok(Self { ranks: communicators.into_iter().zip(streams).map(rank).collect(), calls })
    }

    /// Waits until no rank does anything.
    fn wait(&self) -> Result<(), DeviceError> {
        let waited = self.ranks.iter().try_for_each(|rank| rank.stream.synchronize());
        waited.map_err(|error| failed("waiting for the GPUs", error))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for rank in &self.ranks {
            // SAFETY: it was made by `of`, nothing of it runs any more, and it is given back once.
            unsafe { (self.calls.destroy)(rank.communicator) };
        }
    }
}

/// Bytes of a number.
const HALF: u64 = 2;

impl Exchange {
    fn of(gpu: &mut Gpu, group: Rc<Group>, what: What, bytes: u64) -> Result<Self, DeviceError> {
        let of_rank =
            |rank: &Rank| Ok([Placed::on(&rank.context, bytes)?, Placed::on(&rank.context, bytes)?]);
        let memory = group.ranks.iter().map(of_rank).collect::<Result<Vec<_>, DeviceError>>()?;
        gpu.timer.bind()?;
        // The same random numbers for all.
        let stream = &gpu.timer.stream;
        let (first, others) = memory.split_first().ok_or_else(super::errors::unready)?;
        gpu.kernels.fill(stream.cu_stream(), Dtype::Fp16, &first[0].memory, bytes)?;
        others.iter().try_for_each(|[send, _]| first[0].copy_to(send, stream))?;
        Ok(Self { what, bytes, memory, group })
    }

    /// Enqueues it once on the streams of all ranks.
    fn enqueue(&self) -> Result<(), DeviceError> {
        let calls = &self.group.calls;
        // SAFETY: a group takes nothing; it is ended whatever was called within it.
        calls.ended("beginning a group of calls", unsafe { (calls.group_start)() })?;
        let called = (0..self.group.ranks.len()).try_for_each(|rank| self.of_rank(rank));
        // SAFETY: one was begun.
        let ended = calls.ended("ending a group of calls", unsafe { (calls.group_end)() });
        called.and(ended)
    }

    /// The calls of a rank.
    fn of_rank(&self, at: usize) -> Result<(), DeviceError> {
        let Calls { all_reduce, all_gather, reduce_scatter, broadcast, reduce, send, receive, .. } =
            self.group.calls;
        let Rank { communicator, stream, .. } = &self.group.ranks[at];
        let (communicator, stream): (Communicator, CUstream) = (*communicator, stream.cu_stream());
        let [from, to] = &self.memory[at];
        let (from, to) = (from.memory.at(0) as *const c_void, to.memory.at(0) as *mut c_void);
        let ranks = self.group.ranks.len();
        let all = (self.bytes / HALF) as usize;
        let part = all / ranks;
        // SAFETY: both places are as long as the tensor, of which each rank's part is that share.
        let status = unsafe {
            match self.what {
                What::Collective(CollectiveKind::AllReduce) => {
                    all_reduce(from, to, all, FLOAT16, SUM, communicator, stream)
                }
                What::Collective(CollectiveKind::AllGather) => {
                    all_gather(from, to, part, FLOAT16, communicator, stream)
                }
                What::Collective(CollectiveKind::ReduceScatter) => {
                    reduce_scatter(from, to, part, FLOAT16, SUM, communicator, stream)
                }
                What::Collective(CollectiveKind::Broadcast) => {
                    broadcast(from, to, all, FLOAT16, 0, communicator, stream)
                }
                What::Collective(CollectiveKind::Reduce) => {
                    reduce(from, to, all, FLOAT16, SUM, 0, communicator, stream)
                }
                What::Collective(CollectiveKind::AllToAll) => (0..ranks)
                    .flat_map(|peer| {
                        let offset = peer * part * HALF as usize;
                        [
                            send(from.byte_add(offset), part, FLOAT16, peer as c_int, communicator, stream),
                            receive(to.byte_add(offset), part, FLOAT16, peer as c_int, communicator, stream),
                        ]
                    })
                    .find(|&status| status != SUCCESS)
                    .unwrap_or(SUCCESS),
                What::Message => {
                    let [next, before] = [at + 1, at + ranks - 1].map(|rank| (rank % ranks) as c_int);
                    match send(from, all, FLOAT16, next, communicator, stream) {
                        SUCCESS => receive(to, all, FLOAT16, before, communicator, stream),
                        status => status,
                    }
                }
            }
        };
        self.group.calls.ended("calling NCCL", status)
    }
}

impl Timed for Exchange {
    fn time(&mut self, timer: &Timer, executions: u32) -> Result<f64, DeviceError> {
        timer.hold_up(u64::from(executions) * self.group.ranks.len() as u64)?;
        let seconds = timer.span(|_| (0..executions).try_for_each(|_| self.enqueue()));
        self.group.wait()?;
        timer.bind()?;
        seconds
    }
}

type Communicator = *mut c_void;
/// `ncclResult_t`, `ncclDataType_t` and `ncclRedOp_t` of `nccl.h`.
type Status = c_int;
const SUCCESS: Status = 0;
const FLOAT16: c_int = 6;
const SUM: c_int = 0;

type Version = unsafe extern "C" fn(*mut c_int) -> Status;
type Words = unsafe extern "C" fn(Status) -> *const c_char;
type InitAll = unsafe extern "C" fn(*mut Communicator, c_int, *const c_int) -> Status;
type Destroy = unsafe extern "C" fn(Communicator) -> Status;
type Bracket = unsafe extern "C" fn() -> Status;
/// With an operation, or with the rank that has the data.
type Reduce =
    unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Communicator, CUstream) -> Status;
/// With an operation, and the rank that gets its result.
type ToRoot = unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    usize,
    c_int,
    c_int,
    c_int,
    Communicator,
    CUstream,
) -> Status;
type Gather =
    unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, Communicator, CUstream) -> Status;
type Send = unsafe extern "C" fn(*const c_void, usize, c_int, c_int, Communicator, CUstream) -> Status;
type Receive = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, Communicator, CUstream) -> Status;

/// The functions that are called; the library stays loaded as long.
pub(super) struct Calls {
    version: Version,
    words: Words,
    init_all: InitAll,
    destroy: Destroy,
    group_start: Bracket,
    group_end: Bracket,
    all_reduce: Reduce,
    all_gather: Gather,
    reduce_scatter: Reduce,
    broadcast: Reduce,
    reduce: ToRoot,
    send: Send,
    receive: Receive,
    _library: Library,
}

impl Calls {
    pub(super) fn load() -> Result<Self, DeviceError> {
        let library = NCCL.library()?;
        // SAFETY: the types are those of its header.
        unsafe {
            Ok(Self {
                version: NCCL.function(&library, b"ncclGetVersion\0")?,
                words: NCCL.function(&library, b"ncclGetErrorString\0")?,
                init_all: NCCL.function(&library, b"ncclCommInitAll\0")?,
                destroy: NCCL.function(&library, b"ncclCommDestroy\0")?,
                group_start: NCCL.function(&library, b"ncclGroupStart\0")?,
                group_end: NCCL.function(&library, b"ncclGroupEnd\0")?,
                all_reduce: NCCL.function(&library, b"ncclAllReduce\0")?,
                all_gather: NCCL.function(&library, b"ncclAllGather\0")?,
                reduce_scatter: NCCL.function(&library, b"ncclReduceScatter\0")?,
                broadcast: NCCL.function(&library, b"ncclBroadcast\0")?,
                reduce: NCCL.function(&library, b"ncclReduce\0")?,
                send: NCCL.function(&library, b"ncclSend\0")?,
                receive: NCCL.function(&library, b"ncclRecv\0")?,
                _library: library,
            })
        }
    }

    /// As people write it, `2.26.2`; `NCCL_VERSION` of its header packs it, in another way up to 2.8.
    pub(super) fn version(&self) -> String {
        let mut packed = 0;
        // SAFETY: it writes to the integer alone, and needs no GPU.
        let _ = unsafe { (self.version)(&raw mut packed) };
        let major = if packed < 10_000 { 1_000 } else { 10_000 };
        format!("{}.{}.{}", packed / major, packed % major / 100, packed % 100)
    }

    fn ended(&self, doing: &str, status: Status) -> Result<(), DeviceError> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: it gives words that stay where they are, whatever the status.
        let words = unsafe { CStr::from_ptr((self.words)(status)) }.to_string_lossy();
        let why = format!("{words}; with `NCCL_DEBUG=WARN` in the environment NCCL tells more");
        Err(DeviceError::failed(doing, why))
    }
}
