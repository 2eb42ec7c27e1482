//! Blocks of a file that go to the GPU and come from there, by cuFile (NVIDIA, "cuFile API Reference Guide", 1.14).
//!
//! The library is loaded by the one name that its package installs. Where the file system or the drive's driver has no way past
//! the host, cuFile copies through buffers of its own and says nothing: what is measured is what a program gets.
#![expect(unsafe_code, reason = "a library of C is called")]

use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr;
use std::rc::Rc;
use std::time::Instant;

use libloading::Library;

use super::Timed;
use super::libraries::CUFILE;
use super::memory::Buffer;
use super::timer::Timer;
use crate::devices::host::Laid;
use crate::measure::{Access, DeviceError, Storage};

/// The drive that a folder is on. Its file is made for the first task and kept for the others.
pub(super) struct Drive {
    folder: PathBuf,
    file: Option<Rc<Laid>>,
}

impl Drive {
    pub(super) fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), file: None }
    }

    /// Makes blocks of its file ready, and memory of the current GPU.
    pub(super) fn blocks(&mut self, task: &Storage) -> Result<Blocks, DeviceError> {
        let calls = Calls::load()?;
        let file = match &self.file {
            Some(file) => Rc::clone(file),
            None => Rc::clone(self.file.insert(Rc::new(Laid::on(&self.folder)?))),
        };
        Blocks::of(task, calls, file)
    }
}

/// A file that cuFile knows, and memory of the GPU.
pub(super) struct Blocks {
    access: Access,
    memory: Buffer,
    /// Where the next block is, in blocks.
    next: u64,
    handle: *mut c_void,
    file: Rc<Laid>,
    calls: Calls,
}

/// What cuFile is told of a file (`CUfileDescr_t`).
#[repr(C)]
struct Description {
    kind: c_int,
    /// A union of a descriptor and a pointer.
    file: Descriptor,
    operations: *const c_void,
}

#[repr(C)]
union Descriptor {
    number: c_int,
    pointer: *mut c_void,
}

/// `CU_FILE_HANDLE_TYPE_OPAQUE_FD`.
const FILE_DESCRIPTOR: c_int = 1;

/// How a call ended (`CUfileError_t`): an error of cuFile's own, and one of the driver.
#[repr(C)]
#[derive(Clone, Copy)]
struct Ended {
    own: c_int,
    driver: c_int,
}

type Register = unsafe extern "C" fn(*mut *mut c_void, *mut Description) -> Ended;
type Deregister = unsafe extern "C" fn(*mut c_void);
type Open = unsafe extern "C" fn() -> Ended;
type Read = unsafe extern "C" fn(*mut c_void, *mut c_void, usize, i64, i64) -> isize;
type Write = unsafe extern "C" fn(*mut c_void, *const c_void, usize, i64, i64) -> isize;

/// The functions that are called; the library stays loaded as long.
struct Calls {
    open: Open,
    register: Register,
    deregister: Deregister,
    read: Read,
    write: Write,
    _library: Library,
}

impl Blocks {
    fn of(task: &Storage, calls: Calls, file: Rc<Laid>) -> Result<Self, DeviceError> {
        let descriptor = file.direct()?.as_raw_fd();
        // SAFETY: it takes nothing; opened twice it stays open.
        ended("opening cuFile", unsafe { (calls.open)() })?;
        let (mut handle, number) = (ptr::null_mut(), Descriptor { number: descriptor });
        let mut description = Description { kind: FILE_DESCRIPTOR, file: number, operations: ptr::null() };
        // SAFETY: both live as long as the call, and the file as long as the handle.
        let registered = unsafe { (calls.register)(&raw mut handle, &raw mut description) };
        ended("telling cuFile of a file", registered)?;
        let memory = Buffer::of(task.block);
        let blocks = |memory| Self { access: task.access, memory, next: 0, handle, file, calls };
        memory.map(blocks)
    }
}

impl Timed for Blocks {
    fn time(&mut self, _: &Timer, executions: u32) -> Result<f64, DeviceError> {
        let block = self.memory.bytes();
        let all = (self.file.length / block).max(1);
        let memory = self.memory.at(0) as *mut c_void;
        let begun = Instant::now();
        for _ in 0..executions {
            let offset = (self.next % all * block) as i64;
            self.next += 1;
            // SAFETY: the memory is as long as the block, and nothing else uses it.
            let moved = unsafe {
                match self.access {
                    Access::Read => (self.calls.read)(self.handle, memory, block as usize, offset, 0),
                    Access::Write => (self.calls.write)(self.handle, memory, block as usize, offset, 0),
                }
            };
            if moved != block as isize {
                return Err(DeviceError::failed(
                    "moving a block by cuFile",
                    format!("it says {moved} for {block} bytes"),
                ));
            }
        }
        Ok(begun.elapsed().as_secs_f64())
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        // SAFETY: it was registered by `of`, and the file is still open.
        unsafe { (self.calls.deregister)(self.handle) };
    }
}

impl Calls {
    fn load() -> Result<Self, DeviceError> {
        let library = CUFILE.library()?;
        // SAFETY: the types are those of its header.
        unsafe {
            Ok(Self {
                open: CUFILE.function(&library, b"cuFileDriverOpen\0")?,
                register: CUFILE.function(&library, b"cuFileHandleRegister\0")?,
                deregister: CUFILE.function(&library, b"cuFileHandleDeregister\0")?,
                read: CUFILE.function(&library, b"cuFileRead\0")?,
                write: CUFILE.function(&library, b"cuFileWrite\0")?,
                _library: library,
            })
        }
    }
}

fn ended(doing: &str, ended: Ended) -> Result<(), DeviceError> {
    let Ended { own, driver } = ended;
    if own == 0 {
        return Ok(());
    }
    Err(DeviceError::failed(
        doing,
        format!("cuFile says {own}, the driver {driver}: `gdscheck -p` tells more"),
    ))
}
