//! Blocks of a file through io_uring: as many in flight as asked for, from one thread.
#![expect(unsafe_code, reason = "the kernel writes to buffers while requests are in flight")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, types};

use super::blocks::{Block, Buffer};
use crate::measure::{Access, Found};

/// Whether the kernel lets this process use io_uring.
pub(super) fn found() -> Found {
    match IoUring::new(1) {
        Ok(_) => Found::Present("allowed".to_owned()),
        Err(error) => Found::missing(
            error.to_string(),
            "allow it (`sysctl kernel.io_uring_disabled=0`, or the container's seccomp profile); threads stand in \
             until then",
        ),
    }
}

/// Moves blocks of a file, one buffer for each that is in flight.
pub(super) fn transfer(
    ring: &mut IoUring,
    file: &File,
    access: Access,
    buffers: &mut [Buffer],
    blocks: &mut dyn Iterator<Item = Block>,
) -> io::Result<()> {
    let descriptor = types::Fd(file.as_raw_fd());
    let mut free: Vec<usize> = (0..buffers.len()).collect();
    let mut flying = 0;
    let mut sizes = vec![0; buffers.len()];
    loop {
        while let Some(&at) = free.last() {
            let Some(block) = blocks.next() else { break };
            let (buffer, length) = (&mut buffers[at], block.length as u32);
            let entry = match access {
                Access::Read => {
                    opcode::Read::new(descriptor, buffer.bytes(block.length).as_mut_ptr(), length)
                        .offset(block.offset)
                        .build()
                }
                Access::Write => opcode::Write::new(descriptor, buffer.bytes(block.length).as_ptr(), length)
                    .offset(block.offset)
                    .build(),
            };
            // SAFETY: the buffer is as long as the request says, and neither it nor the file goes away before the request has
            // completed: this function returns when nothing is in flight any more, and no buffer is given to two requests.
            let pushed = unsafe { ring.submission().push(&entry.user_data(at as u64)) };
            pushed.map_err(io::Error::other)?;
            free.pop();
            sizes[at] = block.length;
            flying += 1;
        }
        if flying == 0 {
            return Ok(());
        }
        ring.submit_and_wait(1)?;
        let completed: Vec<(usize, i32)> =
            ring.completion().map(|entry| (entry.user_data() as usize, entry.result())).collect();
        let mut failure = None;
        for (at, result) in completed {
            flying -= 1;
            free.push(at);
            if result < 0 {
                failure = Some(io::Error::from_raw_os_error(-result));
            } else if result as usize != sizes[at] {
                failure = Some(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
        }
        if let Some(failure) = failure {
            while flying > 0 {
                ring.submit_and_wait(1)?;
                flying -= ring.completion().count();
            }
            return Err(failure);
        }
    }
}
