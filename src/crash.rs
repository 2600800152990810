//! Where does a process of a test die? With the feature `testing`, at the point that a variable names; without it, nowhere.
//!
//! `DELAYED_CRASH_AT=claim.replied:2` kills the process with SIGKILL when it comes to that point for the second time. It
//! leaves its process id in the file that `DELAYED_CRASH_NOTE` names; whoever finds that file goes on, so that one
//! process dies of an order and not its successors. With `DELAYED_CRASH_STAY` it does not die, but stays where it is.

#[cfg(feature = "testing")]
pub use self::armed::point;

/// A point at which a process may die, of a request or a run.
#[cfg(not(feature = "testing"))]
#[inline(always)]
pub(crate) fn point(_of: &str, _step: &str) {}

#[cfg(feature = "testing")]
mod armed {
    use std::fs;
    use std::path::PathBuf;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::getpid;

    /// What the variables say.
    struct CrashPoint {
        point: String,
        nth: u32,
        reached: AtomicU32,
        note: PathBuf,
        stays: bool,
    }

    static POINT: LazyLock<Option<CrashPoint>> = LazyLock::new(|| {
        let at = std::env::var("DELAYED_CRASH_AT").ok()?;
        let (point, nth) = at.split_once(':').unwrap_or((&at, "1"));
        Some(CrashPoint {
            point: point.to_owned(),
            nth: nth.parse().expect("DELAYED_CRASH_AT is a point, a colon and a number"),
            reached: AtomicU32::new(0),
            note: std::env::var_os("DELAYED_CRASH_NOTE").expect("DELAYED_CRASH_NOTE names a file").into(),
            stays: std::env::var_os("DELAYED_CRASH_STAY").is_some(),
        })
    });

    /// A point at which a process may die, of a request or a run.
    pub fn point(of: &str, step: &str) {
        let Some(point) = &*POINT else { return };
        let is_meant = point.point.split_once('.') == Some((of, step));
        if !is_meant || point.reached.fetch_add(1, Ordering::Relaxed) + 1 != point.nth {
            return;
        }
        // Whole from the first moment, and refused when there is one.
        let draft = point.note.with_extension(getpid().to_string());
        let left = fs::write(&draft, getpid().to_string()).and_then(|()| fs::hard_link(&draft, &point.note));
        let _ = fs::remove_file(&draft);
        if left.is_err() {
            return;
        }
        if !point.stays {
            let _ = kill(getpid(), Signal::SIGKILL);
        }
        loop {
            std::thread::park();
        }
    }
}
