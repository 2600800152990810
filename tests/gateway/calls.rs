use serde_json::{Value, json};

use super::Site;
use crate::support::http::Connection;
use crate::support::trial::PATIENCE;
use crate::support::trial::open;
use crate::support::wait;

#[test]
fn call_that_was_accepted_runs_and_its_result_is_told() {
    let site = Site::new(&[]);
    let accepted = site.post(&json!({"task": "followed.charge", "args": [7]})).expect(202).json();
    assert_eq!((&accepted["queue"], &accepted["new"]), (&json!("q"), &json!(true)), "{accepted}");
    let id = accepted["id"].as_str().unwrap();
    let early = site.get(&format!("/v1/calls/{id}/result")).expect(202).json();
    assert_eq!((&early["state"], &early["result"]), (&json!("waiting"), &Value::Null), "{early}");
    let mut worker = site.trial.worker(&[]);
    let ended = site.get(&format!("/v1/calls/{id}/result?wait=60s")).expect(200).json();
    assert_eq!(ended["state"], "succeeded", "{ended}");
    assert_eq!(ended["result"], json!({"order": 7, "paid": "7 EUR"}), "{ended}");
    let shown = site.get(&format!("/v1/calls/{id}?queue=q")).expect(200).json();
    assert_eq!(
        (&shown["state"], &shown["task"]),
        (&json!("succeeded"), &json!("followed.charge")),
        "{shown}"
    );
    site.trial.stop(&mut worker);
}

#[test]
fn each_call_of_an_array_has_its_outcome() {
    let site = Site::new(&[]);
    let mut redis = site.trial.server.connection();
    let calls = json!([
        {"task": "trial.mark", "args": ["a"], "queue": "q"},
        {"task": "trial.missing", "args": [], "queue": "q"},
        {"task": "trial.pair", "kwargs": {"number": 7, "text": "b"}, "queue": "q"},
        {"task": "trial.mark", "args": [7], "queue": "q"},
        {"task": "mails.tasks:send", "language": "python", "args": [1], "kwargs": {}, "queue": "python"},
        {"task": "mails.Send", "language": "go", "args": [1, "two"], "queue": "go"},
    ]);
    let outcomes = site.post(&calls).expect(202).json();
    let statuses: Vec<u64> =
        outcomes.as_array().unwrap().iter().map(|one| one["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [202, 404, 202, 422, 202, 202], "{outcomes}");
    assert_eq!(outcomes[1]["code"], "unknown_task");
    assert!(outcomes[3]["detail"].as_str().unwrap().contains("argument `n`"), "{outcomes}");
    let lengths: (u64, u64, u64) =
        redis::pipe().llen("q").llen("python").llen("go").query(&mut redis).unwrap();
    assert_eq!(lengths, (2, 1, 1));
    let refused = site
        .post(&json!([{"task": "trial.missing"}, {"task": "trial.mark", "args": [1]}]))
        .expect(404)
        .json();
    assert_eq!(refused[1]["status"], 422, "{refused}");
    assert_eq!(site.post(&json!([])).expect(202).json(), json!([]));
}

#[test]
fn message_pack_and_json_become_the_same_message() {
    let site = Site::new(&["--accept-unknown"]);
    let mut redis = site.trial.server.connection();
    let value = json!({"task": "any.task", "args": [1, -7, 1.5, "x", [true, null], {"a": {"b": 2}}], "queue": "q", "id": "order:7", "after": "1h"});
    site.post(&value).expect(202);
    let first: Vec<Vec<u8>> = redis::cmd("HVALS").arg("q_later").query(&mut redis).unwrap();
    let () = redis::cmd("FLUSHALL").query(&mut redis).unwrap();
    let packed = rmp_serde::to_vec_named(&value).unwrap();
    let headers = [("content-type", "application/msgpack"), ("accept", "application/msgpack")];
    let answer = site.request("POST /v1/calls", &headers, &packed).expect(202);
    assert_eq!(answer.header("content-type"), Some("application/msgpack"));
    let read: Value = rmp_serde::from_slice(&answer.body).unwrap();
    assert_eq!(read["status"], 202);
    let second: Vec<Vec<u8>> = redis::cmd("HVALS").arg("q_later").query(&mut redis).unwrap();
    assert_eq!(first, second);
    assert_eq!(first.len(), 1);
}

#[test]
fn scheduled_call_is_cancelled_and_stays_known() {
    let site = Site::new(&[]);
    let body = json!({"task": "followed.charge", "args": [7], "after": "1h", "id": "order/7\nx"});
    let accepted = site.post(&body).expect(202).json();
    let taken = site.post(&body).expect(409).json();
    assert_eq!(taken["code"], "exists", "{taken}");
    // By the text, or by the id that stands for it.
    let shown = site.get("/v1/calls/order%2F7%0Ax").expect(200).json();
    assert_eq!((&shown["state"], &shown["id"]), (&json!("scheduled"), &accepted["id"]), "{shown}");
    let path = format!("/v1/calls/{}", accepted["id"].as_str().unwrap());
    let cancelled = site.request(&format!("DELETE {path}"), &[], b"").expect(200).json();
    assert_eq!(cancelled["found"], "scheduled", "{cancelled}");
    let ended = site.get(&format!("{path}/result?wait=30s")).expect(200).json();
    assert_eq!(ended["state"], "cancelled", "{ended}");
    let missing = site.get("/v1/calls/order:8").expect(404).json();
    assert_eq!(missing["code"], "not_found", "{missing}");
}

#[test]
fn waiter_is_told_how_its_call_ended() {
    let site = Site::new(&[]);
    let mut worker = site.trial.worker(&[]);
    let enqueue = |body: Value| site.post(&body).expect(202).json()["id"].as_str().unwrap().to_owned();
    let dead = enqueue(json!({"task": "followed.fail", "args": ["no money"]}));
    let ended = site.get(&format!("/v1/calls/{dead}/result?wait=60s")).expect(200).json();
    assert_eq!((&ended["state"], &ended["reason"]), (&json!("dead"), &json!("failed")), "{ended}");
    assert!(ended["error"].as_str().unwrap().contains("no money"), "{ended}");
    let expired =
        enqueue(json!({"task": "followed.charge", "args": [7], "expires": "1ms", "after": "200ms"}));
    let ended = site.get(&format!("/v1/calls/{expired}/result?wait=60s")).expect(200).json();
    assert!(matches!(ended["state"].as_str(), Some("expired" | "succeeded")), "{ended}");
    site.trial.stop(&mut worker);
    let plain = enqueue(json!({"task": "trial.mark", "args": ["x"], "queue": "q"}));
    let refused = site.get(&format!("/v1/calls/{plain}/result?wait=60s")).expect(409).json();
    assert_eq!(refused["code"], "no_record", "{refused}");
}

#[test]
fn events_tell_progress_log_and_result() {
    let site = Site::new(&[]);
    let gate = site.trial.gate("gate");
    let accepted = site.post(&json!({"task": "followed.steps", "args": [gate]})).expect(202).json();
    let id = accepted["id"].as_str().unwrap();
    let mut stream = Connection::open(site.address);
    stream
        .write(format!("GET /v1/calls/{id}/events HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes())
        .unwrap();
    let mut worker = site.trial.worker(&[]);
    let mut lines = Vec::new();
    let mut is_open = false;
    wait::until("the result", PATIENCE, || {
        let line = stream.line();
        if line.starts_with("event:") || line.starts_with("data:") {
            lines.push(line);
        }
        // Only once it has been told that the run reports something.
        if !is_open && lines.iter().any(|line| line == "event: progress") {
            open(&gate);
            is_open = true;
        }
        lines.iter().any(|line| line == "event: result")
    });
    let data = stream.line();
    let result: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(result["state"], "succeeded", "{result}");
    assert_eq!(lines[0], "event: state");
    for event in ["event: progress", "event: log", "event: state"] {
        assert!(lines.iter().any(|line| line == event), "expected {event}: {lines:#?}");
    }
    site.trial.stop(&mut worker);
}

#[test]
fn tasks_are_listed_with_schemas_and_the_api_describes_itself() {
    let site = Site::new(&[]);
    let tasks = site.get("/v1/tasks").expect(200).json();
    let pair = tasks.as_array().unwrap().iter().find(|task| task["task"] == "trial.pair").unwrap();
    assert_eq!(
        pair["arguments"]["properties"],
        json!({"number": {"type": "integer"}, "text": {"type": "string"}})
    );
    assert_eq!(pair["arguments"]["required"], json!(["number", "text"]));
    let document = site.get("/openapi.json").expect(200).json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"), "{}", document["openapi"]);
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    for path in ["/v1/calls", "/v1/calls/{id}", "/v1/calls/{id}/result", "/v1/calls/{id}/events", "/v1/tasks"]
    {
        assert!(paths.iter().any(|known| *known == path), "{paths:?}");
    }
    let properties = document["components"]["schemas"]["NewCall"]["properties"].as_object().unwrap();
    assert!(properties.contains_key("unique_key") && properties.contains_key("kwargs"), "{properties:?}");
}

#[test]
fn trace_of_the_request_is_that_of_the_call() {
    let site = Site::new(&[]);
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let body = json!({"task": "trial.mark", "args": ["x"], "queue": "q", "headers": {"tenant": "acme"}});
    let send = |traceparent| {
        site.request("POST /v1/calls", &[("traceparent", traceparent)], body.to_string().as_bytes())
    };
    let accepted = send(parent).expect(202).json();
    let path = format!("/v1/calls/{}", accepted["id"].as_str().unwrap());
    let shown = site.get(&path).expect(200).json();
    assert_eq!(shown["headers"], json!({"tenant": "acme"}), "{shown}");
    assert!(shown.to_string().contains(parent), "{shown}");
    // One that is none is no reason to refuse a call.
    send("nonsense").expect(202);
}
