//! What a child has: a group of its own, default signals, and no descriptor of anybody else's.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Case, pid, task_with, told};
use crate::support::tree::Process;
use crate::support::trial::{PATIENCE, open};
use crate::support::wait;

both! {
    a_child_leads_its_group_below_a_zygote_with_one_thread
    signals_are_as_they_were_at_the_beginning
    two_children_share_no_pipe_and_none_has_the_workers
    a_child_has_no_connection_to_redis
}

/// A blocking and an asynchronous run that wait for the file `gate`, and what they told.
fn two(case: &mut Case) -> [Value; 2] {
    let gate = case.trial.gate("gate");
    let call = |name| task_with(name, &[name.into(), gate.to_str().unwrap().into()]);
    case.trial.push(&[call("belongings"), call("belongings_async")]);
    wait::until("two runs", PATIENCE, || told(&case.trial).len() == 2);
    told(&case.trial).try_into().unwrap()
}

#[track_caller]
fn end(mut case: Case) {
    open(&case.trial.gate("gate"));
    case.end_with(&[]);
    assert_eq!(case.trial.ledger.total(), 2, "expected one run each");
}

fn a_child_leads_its_group_below_a_zygote_with_one_thread(mode: &'static str) {
    let mut case = Case::new(mode, &[]);
    let told = two(&mut case);
    let [worker, subreaper, zygote] = &case.family;
    assert_eq!((subreaper.parent, zygote.parent), (worker.pid, subreaper.pid), "{:?}", case.family);
    assert_eq!((zygote.threads(), subreaper.threads()), (1, 1), "expected one thread each");
    let mut groups = BTreeSet::from([worker.group]);
    for told in &told {
        assert_eq!(pid(told, "group"), pid(told, "pid"), "expected a group of its own: {told}");
        assert_eq!(pid(told, "parent"), zygote.pid, "expected the zygote above it: {told}");
        assert!(groups.insert(pid(told, "group")), "expected a group that nobody else has: {told}");
        assert_eq!(told["threads"], 1, "expected one thread: {told}");
    }
    assert!(!groups.contains(&zygote.group) || zygote.group == worker.group, "{:?}", case.family);
    end(case);
}

fn signals_are_as_they_were_at_the_beginning(mode: &'static str) {
    let mut case = Case::new(mode, &[]);
    let told = two(&mut case);
    let of = |signals: &[i32]| signals.iter().fold(0_u64, |mask, signal| mask | 1 << (signal - 1));
    for told in &told {
        let mask = |name: &str| told["signals"][name].as_u64().unwrap();
        assert_eq!(mask("blocked"), 0, "expected no signal to be blocked: {told}");
        // Every Rust program ignores SIGPIPE, and looks for an overflow of its stack at SIGSEGV and SIGBUS; 32 and 33
        // are the C library's own, which nobody may set.
        let ignored = of(&[nix::libc::SIGPIPE, 32, 33]);
        assert_eq!(mask("ignored") & !ignored, 0, "expected none to be ignored: {told}");
        let own = of(&[nix::libc::SIGSEGV, nix::libc::SIGBUS, 32, 33]);
        assert_eq!(mask("caught") & !own, 0, "expected none to be caught: {told}");
    }
    end(case);
}

/// The pipes and sockets among what a child has open.
fn channels(told: &Value) -> BTreeSet<String> {
    let open = told["open"].as_array().unwrap().iter().map(|open| open[1].as_str().unwrap().to_owned());
    open.filter(|name| name.starts_with("pipe:") || name.starts_with("socket:")).collect()
}

/// The same of any process.
fn channels_of(process: &Process) -> BTreeSet<String> {
    let entries = std::fs::read_dir(format!("/proc/{}/fd", process.pid)).unwrap();
    let names = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("pipe:") || name.starts_with("socket:")).collect()
}

fn two_children_share_no_pipe_and_none_has_the_workers(mode: &'static str) {
    let mut case = Case::new(mode, &[]);
    let [one, other] = two(&mut case);
    let shared: Vec<String> = channels(&one).intersection(&channels(&other)).cloned().collect();
    assert!(shared.is_empty(), "expected nothing to be shared: {shared:?}: {one} {other}");
    let sockets = |mut names: BTreeSet<String>| {
        names.retain(|name| name.starts_with("socket:"));
        names
    };
    for told in [&one, &other] {
        for (process, most) in case.family.iter().zip([1, 0, 0]) {
            // The worker may hold on to what it gave to this child, and to nobody else.
            let theirs = sockets(channels_of(process));
            let shared: Vec<&String> = theirs.iter().filter(|name| channels(told).contains(*name)).collect();
            assert!(shared.len() <= most, "expected no socket of {process}: {shared:?}: {told}");
        }
        // Its own pipe in both directions, its standard streams, and the two with which a runtime hears of signals.
        assert!(channels(told).len() <= 6, "expected its own pipe alone: {told}");
        let files = told["open"].as_array().unwrap().iter();
        let files: Vec<&str> =
            files.map(|open| open[1].as_str().unwrap()).filter(|name| name.starts_with('/')).collect();
        let strange: Vec<_> =
            files.iter().filter(|name| !name.starts_with("/dev/") && !name.starts_with("/proc/")).collect();
        assert!(strange.is_empty(), "expected no files of others: {strange:?}");
    }
    end(case);
}

fn a_child_has_no_connection_to_redis(mode: &'static str) {
    let mut case = Case::new(mode, &[]);
    let clients = |case: &mut Case| -> usize {
        let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut case.trial.redis).unwrap();
        list.lines().count()
    };
    case.goes_on();
    let before = clients(&mut case);
    let gate = case.trial.gate("gate");
    let calls =
        [0, 1, 2, 3].map(|n| task_with("gated", &[n.to_string().into(), gate.to_str().unwrap().into()]));
    case.trial.push(&calls);
    case.trial.wait_runs(5);
    let during = clients(&mut case);
    assert!(during <= before, "expected as many connections as before the runs: {before}, not {during}");
    open(&gate);
    case.end_with(&[]);
}
