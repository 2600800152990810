//! Counts how often the kernel has killed a process for lack of memory: in the control group of this process if that has
//! such a count, else on the whole host.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The interval within which processes that the kernel killed together are reported as dead.
const TOGETHER: Duration = Duration::from_secs(1);

/// Starts to count.
pub(crate) fn begin() {
    let mut kills = KILLS.lock().unwrap_or_else(PoisonError::into_inner);
    *kills = Some(Kills { seen: count().unwrap_or(u64::MAX), unclaimed: 0, seen_at: Instant::now() });
}

/// Attributes one of the kernel's kills to a dead process. Returns false if all kills are already attributed.
pub(crate) fn claim_one() -> bool {
    let mut kills = KILLS.lock().unwrap_or_else(PoisonError::into_inner);
    let now = count();
    kills.as_mut().zip(now).is_some_and(|(kills, now)| kills.claim_one(now, Instant::now()))
}

static KILLS: Mutex<Option<Kills>> = Mutex::new(None);

/// The known kills of the kernel.
#[derive(Debug)]
struct Kills {
    seen: u64,
    seen_at: Instant,
    /// Kills that are not attributed to a dead process yet.
    unclaimed: u64,
}

impl Kills {
    fn claim_one(&mut self, count: u64, now: Instant) -> bool {
        if now.duration_since(self.seen_at) > TOGETHER {
            // They hit processes of other programs.
            self.unclaimed = 0;
        }
        let new = count.saturating_sub(self.seen);
        if new > 0 {
            (self.seen, self.seen_at) = (count, now);
            self.unclaimed += new;
        }
        let is_one = self.unclaimed > 0;
        self.unclaimed -= u64::from(is_one);
        is_one
    }
}

/// The count so far; `None` if the kernel provides none.
fn count() -> Option<u64> {
    let read = |path: &Path| number(&fs::read_to_string(path).ok()?);
    of_own_group().iter().find_map(|path| read(path)).or_else(|| read(Path::new("/proc/vmstat")))
}

/// The files that may contain the count of this process's control group.
fn of_own_group() -> Vec<PathBuf> {
    let text = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
    files(&text("cgroup"), &text("mountinfo"))
}

/// Finds them from `/proc/self/cgroup`, see cgroups(7), and `/proc/self/mountinfo`, see proc(5).
fn files(groups: &str, mounts: &str) -> Vec<PathBuf> {
    let group = |is_meant: fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            is_meant(controllers).then_some(path)
        })
    };
    let memory = |list: &str| list.split(',').any(|name| name == "memory");
    let mounts = mounts.lines().filter_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (mount.next()?, mount.next()?);
        let (group, file) = match system.split(' ').next()? {
            "cgroup2" => (group(str::is_empty)?, "memory.events"),
            "cgroup" if memory(system.rsplit(' ').next()?) => (group(memory)?, "memory.oom_control"),
            _ => return None,
        };
        // The mount may show only a part of the groups, as in a container.
        let below = Path::new(group).strip_prefix(root).ok()?;
        Some(Path::new(point).join(below).join(file))
    });
    mounts.collect()
}

fn number(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_files(groups: &str, mounts: &str, expected: &[&str]) {
        let expected: Vec<_> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(files(groups, mounts), expected);
    }

    #[test]
    fn the_count_of_the_own_group_is_found() {
        let unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_files(
            "0::/app.slice/w.service\n",
            unified,
            &["/sys/fs/cgroup/app.slice/w.service/memory.events"],
        );
        assert_files("0::/\n", unified, &["/sys/fs/cgroup/memory.events"]);
        let memory = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let others = "33 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n41 31 0:38 / /u rw - cgroup2 none rw\n";
        let groups = "4:memory:/a/b\n3:cpu:/c\n1:name=systemd:/\n0::/\n";
        let expected = ["/u/memory.events", "/sys/fs/cgroup/memory/a/b/memory.oom_control"];
        assert_files(groups, &[others, memory].concat(), &expected);
    }

    #[test]
    fn a_part_of_the_groups_may_be_mounted() {
        let mount = |root: &str| format!("35 31 0:32 {root} /memory rw - cgroup cgroup rw,memory\n");
        assert_files("4:memory:/docker/1/w\n", &mount("/docker/1"), &["/memory/w/memory.oom_control"]);
        assert_files("4:memory:/docker/1\n", &mount("/docker/1"), &["/memory/memory.oom_control"]);
        assert_files("4:memory:/elsewhere\n", &mount("/docker/1"), &[]);
        assert_files("", "", &[]);
    }

    #[test]
    fn processes_that_were_killed_together_are_each_found() {
        let began = Instant::now();
        let mut kills = Kills { seen: 7, seen_at: began, unclaimed: 0 };
        assert!(!kills.claim_one(7, began));
        assert!(kills.claim_one(9, began), "expected two kills to be known");
        assert!(kills.claim_one(9, began + TOGETHER));
        assert!(!kills.claim_one(9, began + TOGETHER), "expected no third one");
        assert!(kills.claim_one(11, began + TOGETHER));
        let late = began + TOGETHER * 3;
        assert!(!kills.claim_one(11, late), "expected the other to have been nobody's of ours");
    }

    #[test]
    fn the_count_is_read_wherever_it_stands() {
        assert_eq!(number("low 0\noom 3\noom_kill 2\noom_group_kill 1\n"), Some(2));
        assert_eq!(number("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"), Some(4));
        assert_eq!(number("pgfault 5\noom_kill 6\n"), Some(6));
        assert_eq!(number("oom_kill_disable 0\n"), None);
        assert!(count().is_some(), "expected the kernel to count");
    }
}
