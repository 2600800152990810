//! Tasks that misuse what their process was given: its descriptors, and its right to have children.

use std::fs::File;
use std::os::fd::{BorrowedFd, RawFd};
use std::process::{Command, Stdio};

use nix::errno::Errno;

use super::{hang, note, wait_at};

/// Descriptors that are none of the standard streams.
fn others() -> Vec<RawFd> {
    let entries: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")
        .expect("a process can see its descriptors")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    // Without the one of that look itself.
    entries
        .into_iter()
        .filter(|fd| *fd > 2 && std::fs::read_link(format!("/proc/self/fd/{fd}")).is_ok())
        .collect()
}

/// Closes what it was given to report through, and runs on.
#[delayed::task(name = "isolation.closes")]
fn closes(n: String) {
    note(&n);
    for fd in others() {
        let _ = nix::unistd::close(fd);
    }
    hang()
}

/// Closes it and ends as if nothing were.
#[delayed::task(name = "isolation.closes_and_ends")]
fn closes_and_ends(n: String) {
    note(&n);
    for fd in others() {
        let _ = nix::unistd::close(fd);
    }
}

/// Writes `bytes` bytes of `byte` to every descriptor, each from a thread of its own.
#[allow(unsafe_code, reason = "the descriptors are somebody else's, which is the matter")]
fn soil(byte: u8, bytes: usize) {
    let write = move |fd: RawFd| {
        // SAFETY: nobody closes it meanwhile; that it belongs to others is what is tried.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let chunk = vec![byte; bytes.min(1 << 16)];
        let mut left = bytes;
        while left > 0 {
            match nix::unistd::write(fd, &chunk[..left.min(chunk.len())]) {
                Ok(written) => left -= written,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => std::thread::yield_now(),
                Err(_) => return,
            }
        }
    };
    let writers: Vec<_> = others().into_iter().map(|fd| std::thread::spawn(move || write(fd))).collect();
    for writer in writers {
        let _ = writer.join();
    }
}

#[delayed::task(name = "isolation.soils")]
fn soils(n: String, byte: u8, bytes: usize) {
    note(&n);
    soil(byte, bytes);
    hang()
}

/// Ends well after it wrote where it should not.
#[delayed::task(name = "isolation.soils_and_ends")]
fn soils_and_ends(n: String, byte: u8, bytes: usize) {
    note(&n);
    soil(byte, bytes);
}

/// Opens files until it cannot, and keeps them.
fn fill() -> std::io::Error {
    loop {
        match File::open("/dev/null") {
            Ok(file) => std::mem::forget(file),
            Err(error) => return error,
        }
    }
}

#[delayed::task(name = "isolation.fills")]
fn fills(n: String) {
    note(&n);
    fill();
}

#[delayed::task(name = "isolation.fills_and_fails")]
fn fills_and_fails(n: String) -> Result<(), String> {
    note(&n);
    fill();
    Err("it is full".into())
}

#[delayed::task(name = "isolation.fills_and_hangs")]
fn fills_and_hangs(n: String) {
    note(&n);
    fill();
    hang()
}

/// The same against a limit of its own.
#[delayed::task(name = "isolation.opens_too_many", open_files = 64)]
fn opens_too_many(n: String) -> std::io::Result<()> {
    note(&n);
    Err(fill())
}

/// Children and grandchildren in its group, silent ones.
#[allow(clippy::zombie_processes, reason = "it is left to whoever cleans up after the task")]
fn beget(script: &str) {
    let null = || Stdio::null();
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).stdin(null()).stdout(null()).stderr(null());
    shell.spawn().expect("a shell can be started");
}

/// How each of the families is begun; each has processes that sleep for long.
fn begin(kind: &str) {
    match kind {
        "group" => beget("sleep 1001 & (sleep 1002; true) & wait"),
        "session" => beget("setsid sleep 1003 & wait"),
        "daemon" => beget("(setsid sh -c 'sleep 1004 & sleep 1005' &) ; exit 0"),
        "nohup" => beget("nohup setsid sleep 1006 & exit 0"),
        "deaf" => beget("trap '' TERM HUP INT; setsid sleep 1007 & sleep 1008 & wait"),
        _ => panic!("there is no family {kind:?}"),
    }
}

/// Has a family and waits for the file `gate`.
#[delayed::task(name = "isolation.family")]
fn family(n: String, kind: String, gate: String) {
    begin(&kind);
    note(&format!("+{n}"));
    wait_at(&gate);
    note(&format!("-{n}"));
}

/// Has a family whose members hold its standard streams, and ends.
#[delayed::task(name = "isolation.holds_streams")]
fn holds_streams(n: String) {
    Command::new("sh")
        .args(["-c", "setsid sleep 1009 & exit 0"])
        .stdin(Stdio::null())
        .status()
        .expect("a shell can be started");
    note(&n);
}
