//! Tasks with limits, and what they use.

use std::io::Write;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::hangs::ignore;
use super::{hang, note};

/// Has so many megabytes in its hands.
fn take(megabytes: usize) -> Vec<Vec<u8>> {
    // A byte that is not zero in each page: all of it is resident.
    (0..megabytes).map(|_| std::hint::black_box(vec![1; 1 << 20])).collect()
}

/// Is never given back, and never looked at again.
#[delayed::task(name = "isolation.eats", memory = "64MB")]
fn eats(n: String, megabytes: usize) {
    note(&n);
    let _taken = take(megabytes);
    note(&format!("{n} has it"));
    hang()
}

/// Takes memory and gives it back.
#[delayed::task(name = "isolation.tastes")]
fn tastes(n: String, megabytes: usize) {
    drop(take(megabytes));
    note(&format!("{n} {}", std::process::id()));
}

/// Takes memory and keeps it after its end.
#[delayed::task(name = "isolation.hoards")]
fn hoards(n: String, megabytes: usize) {
    std::mem::forget(take(megabytes));
    note(&format!("{n} {}", std::process::id()));
}

#[delayed::task(name = "isolation.reserves", address_space = "512MB")]
fn reserves(n: String) {
    note(&n);
    let reserved: Vec<u8> = Vec::with_capacity(1 << 30);
    note(&format!("{n} has {}", reserved.capacity()));
}

/// Burns CPU time, not only time.
fn burn(time: Duration) {
    let begun = cpu();
    while cpu().saturating_sub(begun) < time {
        let until = Instant::now() + Duration::from_millis(1);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }
}

/// The CPU time of this process.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("a process can see its time");
    Duration::from_nanos(text.split_whitespace().next().and_then(|ns| ns.parse().ok()).expect("its time"))
}

#[delayed::task(name = "isolation.burns", cpu = "1s")]
fn burns(n: String, ms: u64) {
    note(&n);
    burn(Duration::from_millis(ms));
    note(&format!("{n} burnt it"));
}

#[delayed::task(name = "isolation.burns_async", cpu = "1s")]
async fn burns_async(n: String, ms: u64) {
    note(&n);
    burn(Duration::from_millis(ms));
    note(&format!("{n} burnt it"));
}

/// Does not heed that it has used its time.
#[delayed::task(name = "isolation.burns_deaf", cpu = "1s")]
fn burns_deaf(n: String, ms: u64) {
    ignore(Signal::SIGXCPU);
    burns(n, ms);
}

#[delayed::task(name = "isolation.shouts", output = "1MB")]
fn shouts(n: String, bytes: usize) {
    note(&n);
    let line = [b"x".repeat(99), b"\n".to_vec()].concat();
    for _ in 0..bytes / line.len() {
        std::io::stdout().write_all(&line).expect("the standard output can be written");
        std::io::stdout().flush().expect("the standard output can be written");
    }
    note(&format!("{n} shouted it"));
}

/// A field of this process's stat, numbered as proc(5) does.
fn stat(field: usize) -> String {
    let text = std::fs::read_to_string("/proc/self/stat").expect("a process can see itself");
    let (_, rest) = text.rsplit_once(')').expect("its name stands in brackets");
    rest.split_whitespace().nth(field - 3).expect("it has that many fields").to_owned()
}

fn status(name: &str) -> String {
    let text = std::fs::read_to_string("/proc/self/status").expect("a process can see itself");
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.expect("its status has that line").trim().to_owned()
}

fn namespace(kind: &str) -> String {
    let link = std::fs::read_link(format!("/proc/self/ns/{kind}")).expect("a process has namespaces");
    link.to_string_lossy().into_owned()
}

/// A soft limit of this process, as it is written there.
fn limit(name: &str) -> String {
    let text = std::fs::read_to_string("/proc/self/limits").expect("a process can see its limits");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("there is such a limit");
    line.split_whitespace().next().expect("it has a value").to_owned()
}

/// What lasts as long as a process does: priority, privileges, namespaces and limits.
fn terms(n: &str) {
    let routes = std::fs::read_to_string("/proc/self/net/route").expect("routes can be seen");
    let terms = serde_json::json!({
        "n": n,
        "nice": stat(19),
        "no_new_privileges": status("NoNewPrivs"),
        "network": namespace("net"),
        // Below a headline.
        "routes": routes.lines().count().saturating_sub(1),
        "mounts": namespace("mnt"),
        "files": limit("Max open files"),
        "space": limit("Max address space"),
    });
    note(&terms.to_string());
}

#[delayed::task(name = "isolation.plain")]
fn plain(n: String) {
    terms(&n);
}

#[delayed::task(name = "isolation.nice", nice = 10)]
fn nice(n: String) {
    terms(&n);
}

#[delayed::task(name = "isolation.humble", no_new_privileges = true)]
fn humble(n: String) {
    terms(&n);
}

#[delayed::task(name = "isolation.private_network", private_network = true)]
fn private_network(n: String) {
    terms(&n);
}

#[delayed::task(name = "isolation.private_mounts", private_mounts = true)]
fn private_mounts(n: String) {
    terms(&n);
}

#[delayed::task(name = "isolation.few_files", open_files = 64, address_space = "8GB")]
fn few_files(n: String) {
    terms(&n);
}

/// The shape in memory of a file, or of nothing, all of which is read.
#[allow(unsafe_code, reason = "mmap")]
fn map(length: usize, file: Option<&std::fs::File>) -> &'static [u8] {
    use std::os::fd::AsRawFd;

    use nix::libc::{MAP_ANONYMOUS, MAP_FAILED, MAP_SHARED, PROT_READ, PROT_WRITE, mmap};
    let (protection, flags) = match file {
        Some(_) => (PROT_READ, MAP_SHARED),
        None => (PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS),
    };
    let descriptor = file.map_or(-1, AsRawFd::as_raw_fd);
    // SAFETY: nobody changes the file, and it stays mapped.
    let bytes = unsafe {
        let at = mmap(std::ptr::null_mut(), length, protection, flags, descriptor, 0);
        assert_ne!(at, MAP_FAILED, "it can be mapped");
        let at = at.cast::<u8>();
        if file.is_none() {
            at.write_bytes(1, length);
        }
        std::slice::from_raw_parts(at, length)
    };
    read_all(bytes);
    bytes
}

/// Touches each page, for long enough that somebody looks.
fn read_all(bytes: &[u8]) {
    let sum: u64 = bytes.iter().step_by(4096).map(|byte| u64::from(*byte)).sum();
    assert!(std::hint::black_box(sum) > 0);
    std::thread::sleep(Duration::from_millis(50));
}

#[delayed::task(name = "isolation.reads_mapped", memory = "64MB")]
fn reads_mapped(n: String, file: String) -> std::io::Result<()> {
    let file = std::fs::File::open(file)?;
    map(usize::try_from(file.metadata()?.len()).expect("it fits"), Some(&file));
    note(&n);
    Ok(())
}

/// `tail` keeps a line of any length.
#[delayed::task(name = "isolation.subprocess_eats", memory = "64MB")]
fn subprocess_eats(n: String, megabytes: usize) -> std::io::Result<()> {
    let script = format!("(head -c {}000000 /dev/zero; sleep 0.1) | tail > /dev/null", megabytes);
    std::process::Command::new("sh").args(["-c", &script]).status()?;
    note(&n);
    Ok(())
}

/// Forks twice, so that three processes have the same memory.
#[delayed::task(name = "isolation.shares", memory = "64MB")]
#[allow(unsafe_code, reason = "fork")]
fn shares(n: String, megabytes: usize) {
    let shared = map(megabytes << 20, None);
    let children = [(); 2].map(|()| {
        // SAFETY: this process has one thread.
        match unsafe { nix::unistd::fork() }.expect("it can be forked") {
            nix::unistd::ForkResult::Child => {
                read_all(shared);
                // SAFETY: nothing of the other process is to be cleaned up here.
                unsafe { nix::libc::_exit(0) }
            }
            nix::unistd::ForkResult::Parent { child } => child,
        }
    });
    for child in children {
        nix::sys::wait::waitpid(child, None).expect("it is a child");
    }
    note(&n);
}
