use std::collections::BTreeSet;

use serde_json::json;

use super::Site;

const KEY: &str = "idempotency-key";

#[test]
fn simultaneous_requests_with_one_key_make_one_call() {
    let site = Site::new(&[]);
    let body = json!({"task": "trial.mark", "args": ["once"], "queue": "q"}).to_string();
    let send = |key: &str, body: &str| site.request("POST /v1/calls", &[(KEY, key)], body.as_bytes());
    let answers: Vec<(u16, String)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..50).map(|_| scope.spawn(|| send("k1", &body))).collect();
        let answers = threads.into_iter().map(|thread| thread.join().unwrap());
        answers.map(|answer| (answer.status, String::from_utf8(answer.body).unwrap())).collect()
    });
    let distinct: BTreeSet<_> = answers.iter().collect();
    assert_eq!(distinct.len(), 1, "expected one answer for all: {distinct:?}");
    assert_eq!(answers[0].0, 202, "{answers:?}");
    let mut redis = site.trial.server.connection();
    let waiting: u64 = redis::cmd("LLEN").arg("q").query(&mut redis).unwrap();
    assert_eq!(waiting, 1);

    let other = json!({"task": "trial.mark", "args": ["another"], "queue": "q2"}).to_string();
    let refused = send("k1", &other).expect(409).json();
    assert_eq!(refused["code"], "key_taken", "{refused}");
    send("k2", &other).expect(202);

    // Also after the call has run.
    let mut worker = site.trial.worker(&["--queue", "q2", "--burst"]);
    site.trial.ended(&mut worker);
    let later = send("k1", &body).expect(202);
    assert_eq!(String::from_utf8(later.body).unwrap(), answers[0].1);
    site.trial.ledger.assert_each_once(["once", "another"]);
    let waiting: u64 = redis::cmd("LLEN").arg("q").query(&mut redis).unwrap();
    assert_eq!(waiting, 0);
}

#[test]
fn array_with_a_key_makes_each_call_once() {
    let site = Site::new(&[]);
    let calls: Vec<_> = (0..20)
        .map(|n| json!({"task": "trial.mark", "args": [format!("{n}")], "queue": format!("q{}", n % 3)}))
        .collect();
    let body = json!(calls).to_string();
    let send = || site.request("POST /v1/calls", &[(KEY, "many")], body.as_bytes()).expect(202).json();
    let (first, second) = (send(), send());
    assert_eq!(first, second);
    let ids: BTreeSet<_> = first.as_array().unwrap().iter().map(|one| one["id"].to_string()).collect();
    assert_eq!(ids.len(), 20, "{first}");
    let mut redis = site.trial.server.connection();
    let waiting: (u64, u64, u64) = redis::pipe().llen("q0").llen("q1").llen("q2").query(&mut redis).unwrap();
    assert_eq!(waiting, (7, 7, 6));
}

#[test]
fn key_beside_what_it_cannot_keep_is_refused() {
    let site = Site::new(&[]);
    for (body, told) in [
        (json!({"task": "f.f:f", "language": "python"}), "Python or Go"),
        (json!({"task": "trial.mark", "args": ["x"], "unique": "until-done"}), "unique"),
        (json!({"task": "trial.mark", "args": ["x"], "id": "7"}), "leave out `id`"),
    ] {
        let answer = site.request("POST /v1/calls", &[(KEY, &body.to_string())], body.to_string().as_bytes());
        let problem = answer.expect(422).json();
        assert!(problem["detail"].as_str().unwrap().contains(told), "{problem}");
    }
    // It was not taken by what could not be made.
    let wrong = json!({"task": "trial.mark", "args": [7], "queue": "q"}).to_string();
    site.request("POST /v1/calls", &[(KEY, "corrected")], wrong.as_bytes()).expect(422);
    let right = json!({"task": "trial.mark", "args": ["7"], "queue": "q"}).to_string();
    site.request("POST /v1/calls", &[(KEY, "corrected")], right.as_bytes()).expect(202);
    let long = "k".repeat(256);
    site.request("POST /v1/calls", &[(KEY, &long)], b"{}").expect(400);
}
