//! Measures the memory of processes that the kernel cannot simply drop: anonymous and shared memory, without file pages.

use std::collections::BTreeSet;
use std::fs;

/// The anonymous and shared memory of one process in bytes; `None` if the process is gone.
pub(crate) fn of_process(pid: i32) -> Option<u64> {
    resident(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

/// The address space of this process in bytes.
pub(crate) fn address_space() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    kilobytes(&text, "VmSize:").unwrap_or(0)
}

/// Whether a process and its descendants together use more than `limit` bytes; false if the process is gone.
///
/// Memory that several of them share counts once, as far as the kernel reports it.
pub(crate) fn is_above(pid: i32, limit: u64) -> bool {
    let Some(alone) = of_process(pid) else { return false };
    let others = descendants(pid);
    let sum = |of: fn(i32) -> Option<u64>| others.iter().filter_map(|pid| of(*pid)).sum::<u64>();
    // Memory shared by two of them is in both numbers. Proportional shares are exact, but take longer to read.
    alone.saturating_add(sum(of_process)) > limit
        && (others.is_empty() || share(pid).unwrap_or(alone).saturating_add(sum(share_or_all)) > limit)
}

fn share_or_all(pid: i32) -> Option<u64> {
    share(pid).or_else(|| of_process(pid))
}

/// The same, with each page divided by the number of processes that map it.
fn share(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    Some(kilobytes(&text, "Pss_Anon:")? + kilobytes(&text, "Pss_Shmem:")?)
}

/// Parses `/proc/PID/status`, see proc(5). A kernel before 4.5 does not distinguish the kinds of memory.
fn resident(status: &str) -> Option<u64> {
    match (kilobytes(status, "RssAnon:"), kilobytes(status, "RssShmem:")) {
        (Some(anonymous), Some(shared)) => Some(anonymous + shared),
        _ => kilobytes(status, "VmRSS:"),
    }
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The children of a process, their children, and so on. Orphans among them are children of the process that adopts them.
fn descendants(pid: i32) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    let mut pending = vec![pid];
    while let Some(pid) = pending.pop() {
        pending.extend(children(pid).into_iter().filter(|child| found.insert(*child)));
    }
    found
}

/// The children of all threads of a process.
fn children(pid: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_files_do_not_count() {
        let status = "Name:\tx\nVmRSS:\t  300 kB\nRssAnon:\t  20 kB\nRssFile:\t 270 kB\nRssShmem:\t  10 kB\n";
        assert_eq!(resident(status), Some(30 << 10));
        assert_eq!(resident("VmRSS:\t 300 kB\n"), Some(300 << 10));
        assert_eq!(resident("Name:\tzombie\n"), None);
    }

    #[test]
    fn the_memory_of_this_process_is_known() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let now = of_process(pid).expect("the kernel to tell");
        assert!(share(pid).is_some_and(|share| share > 0), "expected the kernel to tell the share");
        assert!(is_above(pid, now / 2) && !is_above(pid, now.saturating_mul(100)), "{now}");
        assert!(!is_above(-1, 0), "expected nobody to use nothing");
    }

    #[test]
    fn a_child_of_any_thread_is_a_descendant() {
        let mut child = std::thread::spawn(|| {
            std::process::Command::new("sh")
                .args(["-c", "read line"])
                .stdin(std::process::Stdio::piped())
                .spawn()
        })
        .join()
        .unwrap()
        .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let this = i32::try_from(std::process::id()).unwrap();
        assert!(descendants(this).contains(&pid), "expected {pid} among {:?}", descendants(this));
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
