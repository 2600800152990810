//! What lasts as long as a process does holds for the task that asked for it, and for no other.

use serde_json::Value;

use super::{Case, family, task, told};
use crate::support::process::Program;
use crate::support::trial::{PATIENCE, QUEUE, Trial, WORKER, ready};
use crate::support::wait;

both! {
    each_task_has_its_own_terms
    without_its_terms_a_task_does_not_run
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
    let mut refused = 0;
    for (name, what, expected) in cases {
        let allowed = match name {
            "private_network" => allows("--net"),
            "private_mounts" => allows("--mount"),
            _ => true,
        };
        if !allowed {
            refused += 1;
            case.trial.push(&[task(name, name)]);
            case.wait_dead(refused);
            continue;
        }
        let told = run(&mut case, name);
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
    assert_eq!(case.trial.dead(), refused, "{:#?}", case.letters());
    case.end();
}

/// Where the kernel refuses them: here, since the worker is in a user namespace that may have no others.
fn without_its_terms_a_task_does_not_run(mode: &'static str) {
    let trial = Trial::new();
    // Where there can be no such user namespace, there can be none for the task either.
    let script = "may_none() { for kind in user net mnt; do echo 0 > /proc/sys/user/max_${kind}_namespaces || exit 1; done; }
        if [ \"$1\" = inside ]; then shift; may_none; exec \"$@\"; fi
        if unshare --user --map-root-user true; then exec unshare --user --map-root-user sh \"$0\" inside \"$@\"; fi
        exec \"$@\"";
    let file = trial.server.directory().join("within");
    std::fs::write(&file, script).unwrap();
    let mut command = trial.command("sh");
    command.arg(&file).args([WORKER, "worker", "--redis", &trial.server.url(), "--queue", QUEUE]);
    let worker = Program::spawn(command.args(["--isolation", mode]));
    ready(&worker);
    let family = family(&trial, &worker);
    let mut case = Case { trial, worker, family, mode };
    for (n, name) in ["private_network", "private_mounts"].into_iter().enumerate() {
        case.trial.push(&[task(name, name)]);
        case.wait_dead(n + 1);
        let letter = case.letters().remove(n);
        assert_eq!(letter.reason, "failed", "{letter:?}");
        let says = letter.detail.starts_with(&format!("{name}: the kernel refuses it"));
        assert!(says, "expected it to say what was refused: {letter:?}");
    }
    assert_eq!(case.trial.ledger.total(), 0, "expected no run");
    case.goes_on();
    case.end_with(&["q_dead"]);
}
