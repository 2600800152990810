//! Keeps the standard streams of a worker writable: `println!` panics if nobody reads its pipe or the disk is full, which is not
//! the task's fault. Such a stream is reported once, and later output is discarded.

use std::fs::{File, OpenOptions};
use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::sys::streams::{Stream, wait_until_broken};

/// For this long after a stream was repaired, panics that report its failure are excused.
const LATE: Duration = Duration::from_secs(10);
/// How often a stream is made blocking again if something else keeps making it nonblocking.
const MOST_UNBLOCKED: u32 = 100;

static KEEPER: OnceLock<Keeper> = OnceLock::new();

/// The state of the standard streams.
#[derive(Debug)]
struct Keeper {
    /// Opened ahead, because no descriptor may be left when it is needed.
    nothing: File,
    streams: Mutex<[State; 2]>,
}

/// What was done about a stream.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    unblocked: u32,
    is_discarded: bool,
    mended: Option<Instant>,
}

/// Keeps the streams of this process writable from now on. For a process that is only a worker.
#[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "for `delayed::main()`"))]
pub(crate) fn keep() -> io::Result<()> {
    let nothing = OpenOptions::new().write(true).open("/dev/null")?;
    if KEEPER.set(Keeper { nothing, streams: Mutex::default() }).is_ok() {
        std::thread::Builder::new().name("delayed-streams".into()).stack_size(64 << 10).spawn(watch)?;
    }
    Ok(())
}

/// Replaces a stream before a write fails because its reader is gone.
fn watch() {
    let mut watched = Stream::BOTH.to_vec();
    while let Some(broken) = wait_until_broken(&watched) {
        watched.retain(|stream| *stream != broken);
        mend(broken, "its reader has exited");
    }
}

/// Whether a panic with this text reports an unwritable stream that is writable by now. The call then runs again, and uses
/// up no attempt.
pub(crate) fn excuses(panic: &str) -> bool {
    Stream::of_panic(panic).is_some_and(|(stream, error)| mend(stream, error))
}

/// Makes a stream writable. Returns false if the streams are not kept, or if this one was repaired long ago.
fn mend(stream: Stream, error: &str) -> bool {
    let Some(keeper) = KEEPER.get() else { return false };
    let mut streams = keeper.streams.lock().unwrap_or_else(PoisonError::into_inner);
    let state = &mut streams[stream as usize - 1];
    let now = Instant::now();
    if !state.is_discarded && state.unblocked < MOST_UNBLOCKED && stream.make_blocking() {
        (state.unblocked, state.mended) = (state.unblocked + 1, Some(now));
        return true;
    }
    // The same panic was checked before, or another one of the same moment.
    let was_mended = state.mended.is_some_and(|mended| now - mended < LATE);
    let would_block = error.ends_with(&format!("(os error {})", Errno::EAGAIN as i32));
    if state.is_discarded || (would_block && was_mended) {
        return was_mended;
    }
    stream.discard(&keeper.nothing);
    (state.is_discarded, state.mended) = (true, Some(now));
    drop(streams);
    tracing::warn!(
        stream = stream.name(),
        error,
        "standard stream cannot be written; its output is discarded"
    );
    true
}
