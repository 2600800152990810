//! What if nobody reads the log? Then lines are dropped: a worker that waited for its reader would obey no signal and end no
//! run, while its lease goes on and nobody else gets its calls.

use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{Mode, SFlag, fstat};
use tracing_subscriber::fmt::MakeWriter;

/// How long a line waits for the reader to go on, unless the one before it had waited in vain.
const PATIENCE: Duration = Duration::from_secs(1);
/// For how long it is not asked again, where a stream takes nothing though it says that it would.
const PAUSE: Duration = Duration::from_millis(5);
/// What a pipe takes without a pause when it takes anything, in bytes.
const PIECE: usize = 4096;

/// Log lines on their way to a stream, each of them with one call of `write`.
pub(super) struct Lines<F> {
    to: F,
    /// The same once more: whatever takes the place of the stream, lines go where they went. A write to a pipe or a terminal
    /// never waits there.
    ours: Option<OwnedFd>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last line could not be written.
    is_stuck: bool,
    /// Of the last line only a part could.
    is_cut: bool,
    /// How many lines were dropped since that was told.
    dropped: u64,
}

impl<F: AsFd> Lines<F> {
    pub(super) fn new(to: F) -> Self {
        let ours = reopened(&to).or_else(|| to.as_fd().try_clone_to_owned().ok());
        Self { to, ours, state: Mutex::default() }
    }

    /// Whether a line could be written now, or soon.
    pub(super) fn is_open(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_stuck = !self.wait(until(&state));
        !state.is_stuck
    }

    fn stream(&self) -> BorrowedFd<'_> {
        self.ours.as_ref().map_or_else(|| self.to.as_fd(), AsFd::as_fd)
    }

    /// Waits until there is room, or that moment.
    fn wait(&self, until: Instant) -> bool {
        let mut stream = [PollFd::new(self.stream(), PollFlags::POLLOUT)];
        loop {
            let left = PollTimeout::try_from(until.saturating_duration_since(Instant::now()));
            match poll(&mut stream, left.unwrap_or(PollTimeout::ZERO)) {
                Err(Errno::EINTR) => {}
                // One that cannot be asked, as when it is closed, does not make anybody wait.
                ready => return ready != Ok(0),
            }
        }
    }

    /// Writes a line, or a text of several, or drops it.
    pub(super) fn write(&self, line: &[u8]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let until = until(&state);
        state.is_stuck = !self.wait(until);
        if state.is_stuck {
            state.dropped += 1;
            return;
        }
        let dropped = std::mem::take(&mut state.dropped);
        if dropped > 0 {
            drop(state);
            // Comes here again, as a line like all others.
            tracing::warn!(dropped, "log lines dropped");
            state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_cut && self.put(&mut state, b"\n", until) == 1 {
            state.is_cut = false;
        }
        let put = self.put(&mut state, line, until);
        if put < line.len() {
            state.is_cut |= put > 0;
            state.dropped += 1;
        }
    }

    /// Writes as much of a text as is taken, the first of it until then.
    fn put(&self, state: &mut State, text: &[u8], mut until: Instant) -> usize {
        let mut put = 0;
        while put < text.len() {
            state.is_stuck = !self.wait(until);
            if state.is_stuck {
                break;
            }
            let piece = &text[put..text.len().min(put + PIECE)];
            match nix::unistd::write(self.stream(), piece) {
                Ok(length) => {
                    put += length;
                    until = Instant::now() + PATIENCE;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) if Instant::now() < until => std::thread::sleep(PAUSE),
                Err(Errno::EAGAIN) => {
                    state.is_stuck = true;
                    break;
                }
                // On a full disk, or a closed stream, there is nobody to tell.
                Err(_) => break,
            }
        }
        put
    }
}

/// Until when a line waits.
fn until(state: &State) -> Instant {
    Instant::now() + if state.is_stuck { Duration::ZERO } else { PATIENCE }
}

/// Opens a pipe or a terminal once more, for writes that never wait: others may have filled it since it was asked whether it
/// has room, and a terminal may say so with less than a line. How the stream itself is written to is not ours alone to say.
fn reopened(to: &impl AsFd) -> Option<OwnedFd> {
    let to = to.as_fd();
    let kind = SFlag::from_bits_truncate(fstat(to).ok()?.st_mode) & SFlag::S_IFMT;
    if kind != SFlag::S_IFIFO && !to.is_terminal() {
        return None;
    }
    let path = format!("/proc/self/fd/{}", to.as_raw_fd());
    let flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    open(path.as_str(), flags, Mode::empty()).ok()
}

impl<F: AsFd> Write for &Lines<F> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        Lines::write(self, line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a, F: AsFd + 'a> MakeWriter<'a> for &'static Lines<F> {
    type Writer = &'static Lines<F>;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_terminal_that_nobody_reads_makes_nobody_wait() {
        let pty = nix::pty::openpty(None, None).expect("a terminal");
        let lines = Lines::new(pty.slave);
        let began = Instant::now();
        for _ in 0..1_000 {
            lines.write(&[b'x'; 200]);
        }
        assert!(lines.state.lock().expect("no panic").dropped > 0, "expected most of it to be dropped");
        assert!(began.elapsed() < 30 * PATIENCE, "expected to wait once, not for {:?}", began.elapsed());
    }

    #[test]
    fn unread_lines_are_dropped_and_later_ones_are_whole() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let lines = Lines::new(writer);
        let line = |letter: u8| [vec![letter; 9_999], b"\n".to_vec()].concat();
        for _ in 0..100 {
            lines.write(&line(b'a'));
        }
        assert!(!lines.is_open(), "expected the pipe to be full");
        let mut came = vec![0; 1 << 20];
        let length = reader.read(&mut came).expect("what is in the pipe");
        came.truncate(length);
        assert!(lines.is_open(), "expected room");
        lines.write(&line(b'b'));
        drop(lines);
        reader.read_to_end(&mut came).expect("the rest");
        let came: Vec<&[u8]> = came.split(|byte| *byte == b'\n').collect();
        let (last, before) = came[..came.len() - 1].split_last().expect("lines");
        assert_eq!(*last, &line(b'b')[..9_999], "expected the last line to be whole");
        let (cut, whole) = before.split_last().expect("the first lines");
        assert!(!whole.is_empty() && cut.len() < 9_999, "expected the last of the first lines to be cut");
        assert!(whole.iter().all(|came| **came == line(b'a')[..9_999]), "expected the others to be whole");
    }
}
