//! Tasks that leave something behind in their process, and tasks that do not.

use std::fs::File;
use std::io::Write;
use std::sync::Mutex;
use std::time::Duration;

use delayed::State;
use nix::libc;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};

use super::hangs::ignore;
use super::note;

/// How long after the run what it left is noticed.
const LATER: Duration = Duration::from_millis(60);

/// A thread that does something a little later.
fn later(what: impl FnOnce() + Send + 'static) {
    std::thread::spawn(move || {
        std::thread::sleep(LATER);
        what();
    });
}

/// Lets a timer run out a little later.
#[allow(unsafe_code, reason = "setitimer")]
fn set_timer(which: libc::c_int) {
    let interval = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let value = libc::timeval { tv_sec: 0, tv_usec: 60_000 };
    // SAFETY: the struct lives through the call.
    let set = unsafe {
        libc::setitimer(
            which as _,
            &libc::itimerval { it_interval: interval, it_value: value },
            std::ptr::null_mut(),
        )
    };
    assert_eq!(set, 0);
}

/// The same with a timer of POSIX: by itself it sends SIGALRM.
#[allow(unsafe_code, reason = "timer_create")]
fn set_posix_timer() {
    let mut timer: libc::timer_t = std::ptr::null_mut();
    let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let value =
        libc::itimerspec { it_interval: zero, it_value: libc::timespec { tv_sec: 0, tv_nsec: 60_000_000 } };
    // SAFETY: all that is pointed to lives through the calls.
    unsafe {
        assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, std::ptr::null_mut(), &raw mut timer), 0);
        assert_eq!(libc::timer_settime(timer, 0, &raw const value, std::ptr::null_mut()), 0);
    }
}

fn leave(kind: &str) {
    match kind {
        "nothing" => {}
        "thread" => later(|| std::thread::sleep(Duration::from_secs(3600))),
        "thread_aborts" => later(|| std::process::abort()),
        "thread_exits" => later(|| std::process::exit(3)),
        "thread_panics" => later(|| panic!("a thread that nobody waits for")),
        "thread_prints" => {
            std::thread::spawn(|| {
                while writeln!(std::io::stdout(), "printed by a thread").is_ok() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
        "thread_eats" => later(|| std::mem::forget(std::hint::black_box(vec![1_u8; 200 << 20]))),
        "alarm" => set_timer(libc::ITIMER_REAL),
        "profiler" => set_timer(libc::ITIMER_PROF),
        "posix_timer" => set_posix_timer(),
        "ignored" => ignore(Signal::SIGTERM),
        "blocked" => {
            sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None).expect("signals can be blocked");
        }
        "directory" => std::env::set_current_dir("/").expect("there is a root"),
        "umask" => drop(nix::sys::stat::umask(nix::sys::stat::Mode::empty())),
        "limit" => {
            let (_, hard) = getrlimit(Resource::RLIMIT_FSIZE).expect("there is a limit");
            setrlimit(Resource::RLIMIT_FSIZE, 1 << 30, hard).expect("it can be set");
        }
        "descriptors_limit" => {
            let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("there is a limit");
            setrlimit(Resource::RLIMIT_NOFILE, 10, hard).expect("it can be set");
        }
        "descriptor" => std::mem::forget(File::open("/dev/null").expect("it can be opened")),
        "replaced_descriptor" => replace_descriptor(),
        "group" => {
            let zygote = nix::unistd::getpgid(Some(nix::unistd::getppid())).expect("it has a group");
            nix::unistd::setpgid(nix::unistd::Pid::from_raw(0), zygote).expect("it can be joined");
        }
        "orphans" => prctl::set_child_subreaper(false).expect("it can be set"),
        _ => leave_unsafely(kind),
    }
}

/// Puts another file in the place of one that the process has open, under the same number.
#[allow(unsafe_code, reason = "dup2")]
fn replace_descriptor() {
    let listed = std::fs::read_dir("/proc/self/fd").expect("it can be listed");
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
    let is_directory =
        |entry: &std::fs::DirEntry| std::fs::metadata(entry.path()).is_ok_and(|file| file.is_dir());
    let directories = listed.map_while(Result::ok).filter(is_directory).filter_map(number);
    // The first is the child's, the other that of the listing.
    let first = directories.min().expect("a child keeps a directory open");
    // SAFETY: both are open, and nobody reads this directory but to count.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        assert_eq!(libc::dup3(null, first, libc::O_CLOEXEC), first);
        assert_eq!(libc::close(null), 0);
    }
}

#[allow(unsafe_code, reason = "what belongs to the whole process")]
fn leave_unsafely(kind: &str) {
    // SAFETY: this process has one thread; the calls take numbers.
    unsafe {
        match kind {
            "variable" => std::env::set_var("LEFT_BEHIND", "1"),
            "nice" => assert_eq!(libc::setpriority(libc::PRIO_PROCESS as _, 0, 5), 0),
            "nonblocking" => assert_eq!(libc::fcntl(1, libc::F_SETFL, libc::O_NONBLOCK), 0),
            "output" => {
                let null = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY);
                assert_eq!(libc::dup2(null, 1), 1);
                assert_eq!(libc::close(null), 0);
            }
            _ => panic!("nothing is called {kind:?}"),
        }
    }
}

fn told(n: &str) {
    note(&serde_json::json!({ "n": n, "pid": std::process::id() }).to_string());
}

#[delayed::task(name = "isolation.leaves")]
fn leaves(n: String, kind: String) {
    leave(&kind);
    told(&n);
}

#[delayed::task(name = "isolation.leaves_a_future")]
async fn leaves_a_future(n: String) {
    tokio::spawn(async {
        tokio::time::sleep(LATER).await;
        std::process::abort();
    });
    told(&n);
}

/// Has threads, files and futures, and waits for their end.
#[delayed::task(name = "isolation.cleans_up")]
fn cleans_up(n: String) {
    std::thread::spawn(|| File::open("/dev/null").map(drop))
        .join()
        .expect("it does not panic")
        .expect("it opens");
    told(&n);
}

#[delayed::task(name = "isolation.cleans_up_async")]
async fn cleans_up_async(n: String) {
    tokio::task::spawn_blocking(|| File::open("/dev/null").map(drop))
        .await
        .expect("it ends")
        .expect("it opens");
    tokio::spawn(async {}).await.expect("it ends");
    told(&n);
}

/// A state that opens what it needs when it is first used.
#[derive(Default)]
pub(crate) struct Files(Mutex<Vec<File>>);

#[delayed::task(name = "isolation.uses_files")]
fn uses_files(n: String, files: State<Files>) {
    let mut files = files.0.lock().expect("nothing panics with it");
    if files.is_empty() {
        files.push(File::open("/dev/null").expect("it can be opened"));
    }
    told(&n);
}

/// Leaks memory, or uses some and gives it back.
#[delayed::task(name = "isolation.leaks", memory = "64MB")]
fn leaks(n: String, leaked: usize, used: usize) {
    let take = |megabytes: usize| std::hint::black_box(vec![1_u8; megabytes << 20]);
    std::mem::forget(take(leaked));
    let used = take(used);
    if !used.is_empty() {
        // Several looks at the memory fall into it.
        std::thread::sleep(Duration::from_millis(50));
    }
    told(&n);
}
