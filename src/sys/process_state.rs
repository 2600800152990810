//! Takes a snapshot of a process, without its memory: threads, timers, signals, descriptors, limits and other attributes.
//! Later checks whether they have changed. This takes about 6 µs and runs after each run of a reused child.

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use nix::dir::Dir;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sched::CloneFlags;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::{FileStat, Mode, fstat, stat};
use nix::unistd::{getpgrp, getsid};

/// The lines of `/proc/self/status` that contain attributes of a process, not its usage.
const ATTRIBUTES: &[&str] = &[
    "Name",
    "Umask",
    "Uid",
    "Gid",
    "Groups",
    "VmLck",
    "SigPnd",
    "ShdPnd",
    "SigBlk",
    "SigIgn",
    "SigCgt",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "NoNewPrivs",
    "Seccomp",
    "Seccomp_filters",
    "Cpus_allowed",
    "Mems_allowed",
];

/// The limits that every Unix has.
const LIMITS: [Resource; 7] = [
    Resource::RLIMIT_AS,
    Resource::RLIMIT_CORE,
    Resource::RLIMIT_CPU,
    Resource::RLIMIT_DATA,
    Resource::RLIMIT_FSIZE,
    Resource::RLIMIT_NOFILE,
    Resource::RLIMIT_STACK,
];

/// The state of a process, without its memory, its threads, and its descriptors above the standard streams.
#[derive(Debug)]
pub(crate) struct Attributes {
    status: Status,
    /// The timers of `timer_create`, and their earlier state. Not all kernels show them.
    timers: Option<(Text, Vec<u8>)>,
    environment: Environment,
    /// `None` if this process may not change them without changing its capabilities, too.
    namespaces: Option<[Option<PathBuf>; 2]>,
    others: Others,
}

impl Attributes {
    /// The current state of this process.
    ///
    /// # Errors
    /// The kernel does not report it.
    pub(crate) fn now() -> io::Result<Self> {
        let status = Status::now()?;
        let namespaces = status.may_administer().then(namespaces);
        let timers = Text::of("/proc/self/timers").ok();
        let timers = timers.map(|now| {
            let before = now.content().to_vec();
            (now, before)
        });
        Ok(Self { status, timers, environment: Environment::now(), namespaces, others: Others::now() })
    }

    /// Whether the state is unchanged.
    ///
    /// # Errors
    /// The kernel does not report it.
    pub(crate) fn are_unchanged(&mut self) -> io::Result<bool> {
        if let Some((now, before)) = &mut self.timers {
            now.read()?;
            if now.content() != before {
                return Ok(false);
            }
        }
        Ok(self.others == Others::now()
            && self.status.is_unchanged()?
            && self.environment.is_unchanged()
            && self.namespaces.as_ref().is_none_or(|before| *before == namespaces()))
    }
}

fn namespaces() -> [Option<PathBuf>; 2] {
    ["/proc/self/ns/mnt", "/proc/self/ns/net"].map(|path| fs::read_link(path).ok())
}

/// A file of `/proc` about this process, kept open.
#[derive(Debug)]
struct Text {
    file: File,
    bytes: Vec<u8>,
    length: usize,
}

impl Text {
    fn of(path: &str) -> io::Result<Self> {
        let mut text = Self { file: File::open(path)?, bytes: vec![0; 4096], length: 0 };
        text.read()?;
        Ok(text)
    }

    fn content(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn read(&mut self) -> io::Result<()> {
        loop {
            self.length = self.file.read_at(&mut self.bytes, 0)?;
            if self.length < self.bytes.len() {
                return Ok(());
            }
            self.bytes.resize(2 * self.bytes.len(), 0);
        }
    }
}

/// The attributes from `/proc/self/status`.
#[derive(Debug)]
struct Status {
    text: Text,
    /// Each line with the offset at which it was last found, and where it will probably be next time.
    lines: Vec<(usize, Vec<u8>)>,
}

impl Status {
    fn now() -> io::Result<Self> {
        let text = Text::of("/proc/self/status")?;
        let lines = attributes_of(text.content());
        Ok(Self { text, lines })
    }

    fn is_unchanged(&mut self) -> io::Result<bool> {
        self.text.read()?;
        let content = self.text.content();
        let is_there =
            |(at, line): &(usize, Vec<u8>)| content.get(*at..).is_some_and(|rest| rest.starts_with(line));
        if self.lines.iter().all(is_there) {
            return Ok(true);
        }
        let now = attributes_of(content);
        let is_same = now.iter().map(|(_, line)| line).eq(self.lines.iter().map(|(_, line)| line));
        if is_same {
            self.lines = now;
        }
        Ok(is_same)
    }

    /// Whether this process has CAP_SYS_ADMIN; true if that is unknown.
    fn may_administer(&self) -> bool {
        const SYS_ADMIN: u32 = 21;
        let effective = self.lines.iter().find_map(|(_, line)| line.strip_prefix(b"CapEff:"));
        let effective = effective.and_then(|digits| str::from_utf8(digits).ok());
        let effective = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
        effective.is_none_or(|capabilities| capabilities >> SYS_ADMIN & 1 == 1)
    }
}

/// The lines with attributes, including their ends, and their offsets.
fn attributes_of(status: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut lines = Vec::new();
    let mut at = 0;
    for line in status.split_inclusive(|byte| *byte == b'\n') {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        if ATTRIBUTES.iter().any(|attribute| attribute.as_bytes() == name) {
            lines.push((at, line.to_vec()));
        }
        at += line.len();
    }
    lines
}

/// The environment variables. Setting one changes a pointer in the list.
#[derive(Debug)]
struct Environment {
    pointers: Vec<usize>,
    /// A digest of all names and values.
    digest: u64,
}

impl Environment {
    fn now() -> Self {
        Self { pointers: variables().collect(), digest: digest_of_variables() }
    }

    fn is_unchanged(&mut self) -> bool {
        if variables().eq(self.pointers.iter().copied()) {
            return true;
        }
        let now = Self::now();
        let is_same = now.digest == self.digest;
        if is_same {
            *self = now;
        }
        is_same
    }
}

/// The addresses of the variables' texts.
#[expect(unsafe_code, reason = "environ")]
fn variables() -> impl Iterator<Item = usize> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: The C library keeps `environ`, a list that ends with null. This process has one thread when this is called.
    // Changing a variable while another thread reads it is an error in any use of the environment.
    let mut next = unsafe { environ };
    std::iter::from_fn(move || {
        if next.is_null() {
            return None;
        }
        // SAFETY: As above; the entries read so far were not the end.
        let (text, following) = unsafe { (*next, next.add(1)) };
        next = following;
        (!text.is_null()).then(|| text.addr())
    })
}

fn digest_of_variables() -> u64 {
    let mut hasher = DefaultHasher::new();
    std::env::vars_os().for_each(|variable| variable.hash(&mut hasher));
    hasher.finish()
}

/// State that takes one system call per item.
#[derive(Debug, PartialEq, Eq)]
struct Others {
    ticking: [bool; 3],
    directories: [nix::Result<(u64, u64)>; 2],
    limits: [nix::Result<(u64, u64)>; LIMITS.len()],
    priority: [i32; 2],
    group: i32,
    session: i32,
    streams: [nix::Result<(u64, u64, i32)>; 3],
    adopts_orphans: nix::Result<bool>,
    dies_with_parent: Option<i32>,
}

impl Others {
    fn now() -> Self {
        Self {
            ticking: [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL, libc::ITIMER_PROF].map(is_ticking),
            directories: [".", "/"].map(|path| stat(path).map(|found| identity(&found))),
            limits: LIMITS.map(getrlimit),
            priority: priority(),
            group: getpgrp().as_raw(),
            session: getsid(None).map_or(-1, nix::unistd::Pid::as_raw),
            streams: [0, 1, 2].map(stream),
            adopts_orphans: prctl::get_child_subreaper(),
            dies_with_parent: prctl::get_pdeathsig().ok().flatten().map(|signal| signal as i32),
        }
    }
}

/// The open descriptors, and the file behind each.
#[derive(Debug)]
pub(crate) struct Descriptors {
    /// Of `/proc/self/fd`, kept open.
    listing: Dir,
    open: BTreeMap<RawFd, Option<(u64, u64)>>,
}

impl Descriptors {
    /// The current descriptors of this process.
    ///
    /// # Errors
    /// The kernel does not report them.
    pub(crate) fn now() -> nix::Result<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let listing = Dir::open("/proc/self/fd", flags, Mode::empty())?;
        Ok(Self { listing, open: open_descriptors()? })
    }

    /// Treats the descriptors that `open` opens and keeps as open from the start.
    pub(crate) fn keep<T>(&mut self, open: impl FnOnce() -> T) -> T {
        let before = open_descriptors().unwrap_or_default();
        let opened = open();
        let after = open_descriptors().unwrap_or_default();
        self.open.extend(after.into_iter().filter(|(number, _)| !before.contains_key(number)));
        opened
    }

    /// Whether the set of descriptors, or the file behind one, has changed. The current descriptors become the new
    /// reference.
    ///
    /// # Errors
    /// The kernel does not report them.
    pub(crate) fn have_others(&mut self) -> nix::Result<bool> {
        // The number of descriptors, in Linux from 6.2 on.
        let count = fstat(&self.listing)?.st_size;
        let is_same = |(number, before): (&RawFd, &Option<(u64, u64)>)| stat_of(*number).ok() == *before;
        if usize::try_from(count) == Ok(self.open.len()) && self.open.iter().all(is_same) {
            return Ok(false);
        }
        let now = open_descriptors()?;
        let have_others = now.iter().any(|(number, found)| self.open.get(number) != Some(found));
        self.open = now;
        Ok(have_others)
    }
}

/// Whether this process has this number of threads.
pub(crate) fn has_threads(count: usize) -> bool {
    if count == 1 {
        // The quickest check: unshare does nothing in a process with one thread, and is refused in any other; see
        // unshare(2).
        match nix::sched::unshare(CloneFlags::CLONE_THREAD) {
            Ok(()) => return true,
            Err(nix::Error::EINVAL) => return false,
            // The call is not allowed, as in some containers.
            Err(_) => {}
        }
    }
    threads() == Some(count)
}

/// The number of threads of this process. The kernel reports it as a number of directories.
pub(crate) fn threads() -> Option<usize> {
    let stat = nix::sys::stat::stat("/proc/self/task").ok()?;
    usize::try_from(stat.st_nlink).ok()?.checked_sub(2)
}

/// The open descriptors, without that of the listing itself, and the file behind each.
fn open_descriptors() -> nix::Result<BTreeMap<RawFd, Option<(u64, u64)>>> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut listing = Dir::open("/proc/self/fd", flags, Mode::empty())?;
    let itself = listing.as_raw_fd();
    let numbers = listing.iter().filter_map(|entry| entry.ok()?.file_name().to_str().ok()?.parse().ok());
    let others = numbers.filter(|number| *number != itself);
    Ok(others.map(|number| (number, stat_of(number).ok())).collect())
}

/// Whether an interval timer of this kind is running, such as `alarm` starts.
#[expect(unsafe_code, reason = "getitimer")]
pub(crate) fn is_ticking(which: libc::c_int) -> bool {
    // SAFETY: All-zero bytes are a valid `itimerval`, a struct of numbers.
    let mut timer: libc::itimerval = unsafe { std::mem::zeroed() };
    // SAFETY: The struct outlives the call.
    let told = unsafe { libc::getitimer(which as _, &raw mut timer) };
    told == 0 && (timer.it_value.tv_sec != 0 || timer.it_value.tv_usec != 0)
}

/// Whether the timer of `alarm` and `setitimer` runs.
pub(crate) fn has_alarm() -> bool {
    is_ticking(libc::ITIMER_REAL)
}

#[expect(unsafe_code, reason = "getpriority and sched_getscheduler")]
fn priority() -> [i32; 2] {
    // SAFETY: Both take and return numbers. -1 may be a priority or an error: either is the same the next time.
    unsafe { [libc::getpriority(libc::PRIO_PROCESS as _, 0), libc::sched_getscheduler(0)] }
}

/// The file behind a standard stream, and its flags.
fn stream(number: RawFd) -> nix::Result<(u64, u64, i32)> {
    let (device, inode) = stat_of(number)?;
    Ok((device, inode, flags_of(number)?))
}

#[expect(unsafe_code, reason = "fstat of a descriptor that may not be open")]
fn stat_of(number: RawFd) -> nix::Result<(u64, u64)> {
    // SAFETY: The descriptor is only passed to the kernel, which reports an error if it is not open.
    fstat(unsafe { BorrowedFd::borrow_raw(number) }).map(|found| identity(&found))
}

fn identity(found: &FileStat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}

#[expect(unsafe_code, reason = "fcntl of a standard stream")]
fn flags_of(number: RawFd) -> nix::Result<i32> {
    // SAFETY: As in `stat_of`.
    fcntl(unsafe { BorrowedFd::borrow_raw(number) }, FcntlArg::F_GETFL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_that_is_opened_is_found() {
        let mut descriptors = Descriptors::now().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(descriptors.have_others().unwrap());
        assert!(descriptors.open.contains_key(&file.as_raw_fd()));
    }

    #[test]
    fn the_attributes_of_a_process_are_known() {
        let mut attributes = Attributes::now().unwrap();
        for name in ["Umask", "SigBlk", "SigCgt", "Uid", "CapEff"] {
            let has_it = |(_, line): &(usize, Vec<u8>)| line.starts_with(name.as_bytes());
            assert!(attributes.status.lines.iter().any(has_it), "expected {name} in {attributes:?}");
        }
        assert!(attributes.others.streams.iter().all(Result::is_ok), "{attributes:?}");
        assert!(attributes.status.is_unchanged().unwrap() && attributes.environment.is_unchanged());
        assert!(threads().is_some_and(|count| count >= 2), "expected the threads of the tests");
        assert!(!has_threads(1));
    }

    #[test]
    fn lines_that_only_move_are_unchanged() {
        let status = |text: &str| attributes_of(text.as_bytes()).into_iter().map(|(_, line)| line);
        let before = "Name:\ta\nSigQ:\t1/2\nSigBlk:\t0\n";
        assert!(status(before).eq(status("Name:\ta\nSigQ:\t10/2\nSigBlk:\t0\n")));
        assert!(!status(before).eq(status("Name:\ta\nSigQ:\t1/2\nSigBlk:\t1\n")));
    }
}
