use redis::Commands;
use serde_json::json;

use super::{Site, text};
use crate::support::trial::{PATIENCE, at_gate, call, gated, marks, open, ready};
use crate::support::wait;

#[test]
fn queue_is_paused_resumed_and_emptied() {
    let mut site = Site::new(&["--allow-actions"]);
    site.trial.push(&marks(3));
    let queue = [("queue", "q"), ("back", "/queues")];
    assert_eq!(site.act("pause", &queue), "Paused q");
    assert_eq!(site.cli(&["queues", "--json"])[0]["paused"]["by"], "dashboard");
    assert!(site.page("/").contains("is paused"), "expected a warning");
    assert_eq!(site.act("pause", &queue), "q was paused already");
    assert_eq!(site.act("resume", &queue), "Resumed q");
    assert_eq!(site.cli(&["queues", "--json"])[0]["paused"], json!(null));
    let asked = text(site.form("/action", &[("verb", "purge"), ("queue", "q")], &[]).expect(200));
    assert!(asked.contains("Drop all waiting calls of q?"), "{asked}");
    assert_eq!(site.trial.left().0, 3, "expected it to ask first");
    assert_eq!(site.act("purge", &queue), "Dropped 3 waiting calls of q");
    assert_eq!(site.trial.left().0, 0);
    let log = site.page("/audit");
    for part in ["purge", "pause", "resume", "Dropped 3 waiting calls of q", "dashboard"] {
        assert!(log.contains(part), "expected {part} in {log}");
    }
}

#[test]
fn call_is_run_now_cancelled_and_enqueued_again() {
    let site = Site::new(&["--allow-actions"]);
    for id in ["order:1", "order:2"] {
        site.cli(&["enqueue", "followed.charge", "[7]", "--after", "1h", "--id", id, "--json"]);
    }
    let of = |id| [("queue", "q"), ("id", id), ("back", "/calls")];
    assert!(site.act("run-now", &of("order:1")).starts_with("Enqueued the call"));
    let again =
        text(site.form("/action", &[&[("verb", "run-now")], &of("order:1")[..]].concat(), &[]).expect(409));
    assert!(again.contains("is not scheduled any more"), "{again}");
    assert!(site.act("cancel", &of("order:2")).ends_with("was scheduled, and has been removed"));
    let form = site.page("/enqueue?queue=q&id=order%3A1");
    assert!(form.contains("&quot;task&quot;: &quot;followed.charge&quot;"), "{form}");
    let call = json!({"task": "followed.charge", "args": [8]}).to_string();
    assert!(site.act("enqueue", &[("call", &call)]).ends_with("into q"));
    let mut worker = site.trial.worker(&[]);
    wait::until("both to succeed", PATIENCE, || {
        site.page("/calls?state=succeeded&queue=q").matches("followed.charge").count() == 2
    });
    let refused = json!({"task": "followed.charge", "args": ["text"]}).to_string();
    let refused = text(site.form("/action", &[("verb", "enqueue"), ("call", &refused)], &[]).expect(422));
    assert!(refused.contains("argument"), "{refused}");
    let malformed = text(site.form("/action", &[("verb", "enqueue"), ("call", "{")], &[]).expect(422));
    assert!(malformed.contains("not JSON"), "{malformed}");
    site.trial.stop(&mut worker);
}

#[test]
fn task_is_run_with_the_values_of_its_fields() {
    let site = Site::new(&["--allow-actions"]);
    let form = site.page("/task?task=trial.pair");
    assert!(form.contains("name=\"arg.number\" type=\"number\""), "{form}");
    assert!(form.contains("name=\"arg.text\"") && form.contains("name=\"text.text\""), "{form}");
    let fields = [
        ("task", "trial.pair"),
        ("arg.number", "7"),
        ("arg.text", "[8]"),
        ("text.text", "yes"),
        ("queue", "q"),
    ];
    assert!(site.act("enqueue-task", &fields).ends_with("into q"));
    let waiting = site.page("/calls?state=waiting&queue=q");
    assert!(waiting.contains("trial.pair(7, &quot;[8]&quot;)"), "{waiting}");
    let missing = [("verb", "enqueue-task"), ("task", "trial.pair"), ("arg.number", "7")];
    let refused = text(site.form("/action", &missing, &[]).expect(422));
    assert!(refused.contains("text"), "{refused}");
}

#[test]
fn run_is_killed_by_its_call_or_its_slot() {
    let mut site = Site::new(&["--allow-actions"]);
    let gate = site.trial.gate("gate");
    let mut worker = site.trial.worker(&["--lease", "2s"]);
    ready(&worker);
    site.trial.push(&[at_gate("trial.gated", "one", &gate)]);
    site.trial.wait_runs(1);
    let slot = site.cli(&["workers", "--json"])[0]["running"][0]["wire_id"].as_str().unwrap().to_owned();
    let said = site.act("kill", &[("queue", "q"), ("id", &slot), ("back", "/workers")]);
    assert!(said.ends_with("was killed, and is a dead letter"), "{said}");
    assert_eq!(site.trial.reasons(), ["killed"]);
    open(&gate);
    site.trial.stop(&mut worker);
}

#[test]
fn dead_letters_are_requeued_and_deleted_in_bulk() {
    let mut site = Site::new(&["--allow-actions"]);
    let failing = |site: &mut Site, count: u64| {
        let calls: Vec<Vec<u8>> = (0..count).map(|n| call("trial.fails", &[n.to_string().into()])).collect();
        let before = site.trial.dead();
        site.trial.push(&calls);
        let mut worker = site.trial.worker(&[]);
        wait::until("all to be buried", PATIENCE, || site.trial.dead() as u64 >= before as u64 + count);
        site.trial.stop(&mut worker);
    };
    failing(&mut site, 6);
    let letters = site.cli(&["dead", "list", "--json"]);
    let id = letters[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(site.act("requeue", &[("queue", "q"), ("id", &id)]), "Requeued 1 dead letter");
    assert_eq!(
        site.act("delete", &[("queue", "q"), ("id", letters[1]["id"].as_str().unwrap())]),
        "Deleted 1 dead letter"
    );
    let gone = [("verb", "delete"), ("confirm", "yes"), ("queue", "q"), ("id", &id)];
    let gone = text(site.form("/action", &gone, &[]).expect(409));
    assert!(gone.contains("meanwhile"), "{gone}");
    let page = site.page("/dead");
    let error = super::between(&page, "name=\"error\" value=\"", "\"").to_owned();
    let group = [("queue", "q"), ("task", "trial.fails"), ("reason", "failed"), ("error", &error)];
    assert_eq!(site.act("requeue", &group), "Requeued 4 dead letters");
    assert_eq!((site.trial.dead(), site.trial.left().0), (0, 5));
    let mut worker = site.trial.worker(&[]);
    wait::until("all to be buried again", PATIENCE, || site.trial.dead() == 5);
    site.trial.stop(&mut worker);
    assert_eq!(site.act("delete", &[("task", "trial.fails")]), "Deleted 5 dead letters");
    assert_eq!(site.trial.dead(), 0);
}

#[test]
fn periodic_tasks_and_limits_are_operated() {
    let site = Site::new(&["--allow-actions"]);
    site.cli(&["periodic", "add", "nightly", "0 3 * * *", "trial.mark", "[\"x\"]", "--queue", "q", "--json"]);
    let of = [("queue", "q"), ("name", "nightly"), ("back", "/periodic")];
    assert!(site.page("/periodic/task?queue=q&name=nightly").contains("0 3 * * *"));
    assert_eq!(site.act("periodic-pause", &of), "Paused nightly");
    assert_eq!(site.cli(&["periodic", "list", "--json"])[0]["paused"]["by"], "dashboard");
    assert_eq!(site.act("periodic-resume", &of), "Resumed nightly");
    assert!(site.act("periodic-run", &of).starts_with("Enqueued the call"));
    assert!(site.page("/periodic/task?queue=q&name=nightly").contains("by hand"));
    assert_eq!(site.act("periodic-remove", &of), "Removed nightly");
    assert_eq!(site.cli(&["periodic", "list", "--json"]), json!([]));

    let limit = [("name", "github"), ("concurrency", "4"), ("rate", "100"), ("period", "1m")];
    assert_eq!(site.act("limit-set", &limit), "Set the limit github");
    let set = &site.cli(&["limits", "list", "--json"])[0];
    assert_eq!(
        (&set["concurrency"], &set["rate"], &set["period_ms"]),
        (&json!(4), &json!(100), &json!(60_000))
    );
    let none = text(site.form("/action", &[("verb", "limit-set"), ("name", "x")], &[]).expect(422));
    assert!(none.contains("at a time"), "{none}");
    assert_eq!(site.act("limit-remove", &[("name", "github")]), "Removed the limit github");
    assert_eq!(site.cli(&["limits", "list", "--json"]), json!([]));
}

#[test]
fn nobody_acts_where_that_is_not_allowed() {
    let mut site = Site::new(&[]);
    site.trial.push(&marks(1));
    let fields = [("verb", "purge"), ("queue", "q"), ("confirm", "yes")];
    let refused = text(site.form("/action", &fields, &[]).expect(403));
    assert!(refused.contains("--allow-actions"), "{refused}");
    let allowed = Site::new(&["--allow-actions"]);
    for (headers, body) in [
        (&[("sec-fetch-site", "cross-site")][..], "verb=pause&queue=q"),
        (&[("origin", "http://evil.example")], "verb=pause&queue=q"),
    ] {
        let headers = [&[("content-type", "application/x-www-form-urlencoded")], headers].concat();
        let answer = allowed.request("POST /action", &headers, body).expect(403);
        assert!(String::from_utf8_lossy(&answer.body).contains("another site"));
    }
    for fields in [&[("verb", "explode")][..], &[("verb", "pause")], &[]] {
        allowed.form("/action", fields, &[]).expect(422);
    }
    assert_eq!(site.trial.left().0, 1);
    let mut redis = allowed.trial.server.connection();
    let paused: bool = redis.exists("q_paused").unwrap();
    assert!(!paused);
}

#[test]
fn action_without_redis_says_so() {
    let mut site = Site::new(&["--allow-actions"]);
    let gate = site.trial.gate("gate");
    site.trial.push(&[gated("one", &gate)]);
    site.page("/");
    site.trial.server.kill();
    let said = text(site.form("/action", &[("verb", "pause"), ("queue", "q")], &[]).expect(503));
    assert!(said.contains("Redis cannot be used"), "{said}");
}

#[test]
fn worker_is_quieted_and_drained() {
    let mut site = Site::new(&["--allow-actions"]);
    let gate = site.trial.gate("gate");
    let mut worker = site.trial.worker(&["--lease", "2s"]);
    ready(&worker);
    site.trial.push(&[gated("one", &gate)]);
    site.trial.wait_runs(1);
    let id = site.cli(&["workers", "--json"])[0]["id"].as_str().unwrap().to_owned();
    assert!(site.act("worker-quiet", &[("id", &id)]).ends_with("will claim nothing more"));
    wait::until("it to be quiet", PATIENCE, || {
        site.cli(&["workers", "--json"])[0]["info"]["phase"] == "quiet"
    });
    site.trial.push(&marks(1));
    assert!(site.act("worker-stop", &[("id", &id)]).ends_with("will end its runs and stop"));
    wait::until("it to drain", PATIENCE, || {
        site.cli(&["workers", "--json"])[0]["info"]["phase"] == "draining"
    });
    open(&gate);
    site.trial.ended(&mut worker);
    assert_eq!(site.trial.left(), (1, 0), "expected the other call to wait");
    let gone = [("verb", "worker-stop"), ("confirm", "yes"), ("id", &id)];
    site.form("/action", &gone, &[]).expect(404);
}
