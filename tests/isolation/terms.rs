//! What lasts as long as a process does holds for the task that asked for it, and for no other.

use serde_json::Value;

use super::{Case, task, told};
use crate::support::trial::PATIENCE;
use crate::support::wait;

both! {
    each_task_has_its_own_terms
}

/// What a run of the task tells of its process.
fn run(case: &mut Case, name: &str) -> Value {
    let before = told(&case.trial).len();
    case.trial.push(&[task(name, name)]);
    wait::until(name, PATIENCE, || told(&case.trial).len() > before);
    case.trial.wait_settled();
    told(&case.trial).remove(before)
}

fn own(pid: i32, kind: &str) -> String {
    std::fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap().to_string_lossy().into_owned()
}

/// Whether this user may have a namespace of this kind: asked of the kernel, not of the library.
fn allows(option: &str) -> bool {
    let bare = std::process::Command::new("unshare").args([option, "true"]).output().unwrap();
    let in_user = std::process::Command::new("unshare").args(["--user", option, "true"]).output().unwrap();
    bare.status.success() || in_user.status.success()
}

fn each_task_has_its_own_terms(mode: &'static str) {
    let pool: &[&str] = if mode == "prefork" { &["--children", "1"] } else { &[] };
    let mut case = Case::new(mode, &[&["--concurrency", "1"][..], pool].concat());
    // Its children may raise it, and are not to.
    let (zygote, files) = (case.zygote().pid.to_string(), "--nofile=200:");
    let done = std::process::Command::new("prlimit").args(["--pid", &zygote, files]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let plain = run(&mut case, "plain");
    assert_eq!(plain["files"], "200", "{plain}");
    let of = |told: &Value, name: &str| told[name].clone();
    let worker = case.worker.pid().as_raw();
    assert_eq!(of(&plain, "network"), own(worker, "net"), "{plain}");
    assert_eq!(of(&plain, "mounts"), own(worker, "mnt"), "{plain}");
    let nicer = (of(&plain, "nice").as_str().unwrap().parse::<i32>().unwrap() + 10).min(19).to_string();
    let cases = [
        ("nice", "nice", Some(nicer.as_str())),
        ("humble", "no_new_privileges", Some("1")),
        ("private_network", "network", None),
        ("private_mounts", "mounts", None),
        ("few_files", "files", Some("64")),
        ("few_files", "space", None),
    ];
    for (name, what, expected) in cases {
        let told = run(&mut case, name);
        let allowed = match name {
            "private_network" => allows("--net"),
            "private_mounts" => allows("--mount"),
            _ => true,
        };
        if !allowed {
            // Where the kernel does not allow it, the task runs all the same.
            assert_eq!(of(&told, what), of(&plain, what), "{told}");
            continue;
        }
        assert_ne!(of(&told, what), of(&plain, what), "{name}: {told}");
        if let Some(expected) = expected {
            assert_eq!(of(&told, what), expected, "{name}: {told}");
        }
        if name == "private_network" {
            assert_eq!(of(&told, "routes"), 0, "expected no way out: {told}");
        }
        // The next one has nothing of it.
        let next = run(&mut case, "plain");
        for what in ["nice", "no_new_privileges", "network", "mounts", "files", "space"] {
            assert_eq!(of(&next, what), of(&plain, what), "`{what}` after {name}: {next}");
        }
    }
    assert_eq!(case.trial.dead(), 0, "{:#?}", case.letters());
    case.end_with(&[]);
}
