//! Which processes belong to a worker, how large are they, and what have they open and used? All bear its mark in their
//! environment, also those whose parents are gone.

use std::path::Path;

use crate::server::cpu_of_threads;
use crate::worker::Mark;

/// Memory of a process in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub resident: u64,
    /// Of that, what no file backs.
    pub anonymous: u64,
}

/// The processes that bear this mark, zombies aside, the oldest first.
pub fn marked((name, path): &Mark) -> Vec<u32> {
    let mark = format!("{name}={}", path.display()).into_bytes();
    let mut found: Vec<u32> = all()
        .filter(|pid| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|entry| entry == mark)
        })
        .collect();
    found.sort_unstable();
    found
}

/// The processes that have ended, but were not waited for by one of `parents`.
pub fn zombies_of(parents: &[u32]) -> usize {
    all()
        .filter(|pid| {
            let status = status(*pid);
            field(&status, "State:").is_some_and(|state| state.starts_with('Z'))
                && field(&status, "PPid:")
                    .and_then(|parent| parent.parse().ok())
                    .is_some_and(|parent| parents.contains(&parent))
        })
        .count()
}

/// Whether there is such a process, be it a zombie.
pub fn exists(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// How many descriptors a process has open.
pub fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// The size of the process among them that forks for a worker.
pub fn zygote(pids: &[u32]) -> Option<Size> {
    pids.iter().find_map(|pid| {
        let status = status(*pid);
        (field(&status, "Name:") == Some("delayed-zygote")).then(|| size_of(&status))
    })
}

/// Seconds of processor time that these have used, with what ended children of theirs have used.
pub fn cpu(pids: &[u32]) -> f64 {
    let each = pids.iter().map(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let ticks: Vec<f64> =
            after_name.split(' ').skip(11).take(4).filter_map(|field| field.parse().ok()).collect();
        let [user, system, of_children @ ..] = &ticks[..] else { return 0.0 };
        // Finer, but without the threads that have ended.
        let own = cpu_of_threads(*pid).max((user + system) / 100.0);
        own + of_children.iter().sum::<f64>() / 100.0
    });
    each.sum()
}

/// Memory of these in bytes; of what several share, each has its part.
pub fn memory(pids: &[u32]) -> u64 {
    let kib = pids.iter().filter_map(|pid| {
        let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        field(&rollup, "Pss:")?.strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    kib.sum::<u64>() * 1024
}

/// The size of this process.
pub fn own_size() -> Size {
    size_of(&status(std::process::id()))
}

fn size_of(status: &str) -> Size {
    let bytes = |name| {
        let kib = field(status, name).and_then(|text| text.strip_suffix("kB")?.trim().parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    };
    Size { resident: bytes("VmRSS:"), anonymous: bytes("RssAnon:") }
}

fn all() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn status(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default()
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}
