//! Writing to what may be full, with nobody who reads it.

use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::write;

/// What a pipe takes without blocking when it is ready to be written to: PIPE_BUF.
const AT_ONCE: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

/// Writes all of `bytes` to `out`, and waits until `deadline` for whoever takes them. What `out` can
/// take at once it is given even after that.
///
/// No buffer and no lock of the standard library is in between: another thread that writes to the
/// same standard output may hold that for as long as nobody reads.
///
/// # Errors
///
/// Why not all of it is written.
pub fn write_by(deadline: Instant, out: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        await_room(deadline, &out)?;
        match write(&out, bytes.get(..AT_ONCE).unwrap_or(bytes)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(Errno::EINTR) => {}
            // Somebody else's bytes took the room.
            Err(Errno::EAGAIN) if Instant::now() < deadline => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn await_room(deadline: Instant, out: &impl AsFd) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut awaited = [PollFd::new(out.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut awaited, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)) {
            Ok(0) if left.is_zero() => {
                return Err(io::Error::other("not all of it was taken in time"));
            }
            Ok(0) | Err(Errno::EINTR) => {}
            // Whatever else is wrong with it, writing tells at once.
            _ => return Ok(()),
        }
    }
}
