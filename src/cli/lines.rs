//! What if nobody reads the log? Then lines are dropped: a worker that waited for its reader would obey no signal and end no
//! run, while its lease goes on and nobody else gets its calls.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tracing_subscriber::fmt::MakeWriter;

/// How long a line waits for the reader to go on, unless the one before it had waited in vain.
const PATIENCE: Duration = Duration::from_secs(1);
/// What a pipe takes without a pause when it takes anything, in bytes.
const PIECE: usize = 4096;

/// Log lines on their way to a stream, each of them with one call of `write`.
pub(super) struct Lines<F> {
    to: F,
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
    pub(super) const fn new(to: F) -> Self {
        let state = State { is_stuck: false, is_cut: false, dropped: 0 };
        Self { to, state: Mutex::new(state) }
    }

    /// Whether a line could be written now, or soon.
    pub(super) fn is_open(&self) -> bool {
        self.wait(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until there is room; in vain only once, until there is some again.
    fn wait(&self, state: &mut State) -> bool {
        let patience = if state.is_stuck { Duration::ZERO } else { PATIENCE };
        let patience = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
        let mut stream = [PollFd::new(self.to.as_fd(), PollFlags::POLLOUT)];
        let ready = loop {
            match poll(&mut stream, patience) {
                Err(Errno::EINTR) => {}
                ready => break ready,
            }
        };
        // One that cannot be asked, as when it is closed, does not make anybody wait.
        state.is_stuck = ready == Ok(0);
        !state.is_stuck
    }

    /// Writes a line, or drops it.
    fn write(&self, line: &[u8]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.wait(&mut state) {
            state.dropped += 1;
            return;
        }
        let dropped = std::mem::take(&mut state.dropped);
        if dropped > 0 {
            drop(state);
            // Comes here again, as a line like all others.
            tracing::warn!(dropped, "lines of this log were dropped, since nobody read it");
            state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        }
        let end: &[u8] = if std::mem::take(&mut state.is_cut) { b"\n" } else { b"" };
        for piece in [end, line].into_iter().flat_map(|text| text.chunks(PIECE)) {
            if !self.wait(&mut state) {
                state.is_cut = true;
                state.dropped += 1;
                return;
            }
            // On a full disk, or a closed stream, there is nobody to tell.
            let _ = write_all(&self.to, piece);
        }
    }
}

fn write_all(to: &impl AsFd, mut text: &[u8]) -> nix::Result<()> {
    while !text.is_empty() {
        match nix::unistd::write(to, text) {
            Ok(length) => text = &text[length..],
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
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
    fn lines_that_nobody_reads_are_dropped_and_those_behind_are_whole() {
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
