//! An operator does all that the commands and the dashboard can do with the permissions of the role.

use serde_json::json;

use super::other_roles::{between, serve};
use super::{QUEUES, Site};
use crate::batches::tasks as batches;
use crate::flows::tasks as flows;
use crate::followed::tasks as followed;
use crate::support::http::Connection;
use crate::support::process::DELAYED;
use crate::support::trial::{PATIENCE, QUEUE, WORKER, call, gated, mark, open};
use crate::support::wait;

#[test]
fn operator_uses_every_command() {
    let mut site = Site::new();
    let url = site.user("operator", &QUEUES);
    let admin = site.trial.server.url();
    let client = site.client(&admin);
    site.runtime.block_on(client.enqueue(batches::whole::call(7))).unwrap();
    let mut worker = site.trial.worker(&["--queue", "other", "--concurrency", "4"]);
    site.trial.push(&[
        call("trial.fails", &["1".into()]),
        call("trial.fails", &["2".into()]),
        b"junk".to_vec(),
    ]);
    wait::until("the failures to be buried", PATIENCE, || site.trial.dead() == 3);
    site.run_all(
        &url,
        &[
            "queues --scan",
            "queues pause q --by ann",
            "enqueue followed.charge [1] --id order:1",
            "enqueue followed.charge [2] --id order:2 --after 1h",
            "enqueue followed.charge [3] --id order:3 --after 1h",
            "enqueue limited.span [\"a\",1] --with-id",
            "calls list",
            "calls show order:1",
            "calls cancel order:1",
            "calls cancel order:3 --queue q",
            "calls run order:2",
            "calls cancel --task limited.span --yes",
            "queues resume q",
            "calls wait order:2 --queue q",
            "enqueue followed.charge [4] --wait=30s",
            "limits set few --concurrency 1 --rate 10/1m",
            "limits list",
            "limits remove few",
            "periodic add nightly @daily trial.mark [\"x\"] --queue q --overlap queue",
            "periodic list nightly",
            "periodic pause nightly",
            "periodic run nightly",
            "periodic resume nightly",
            "periodic history nightly",
            "periodic remove nightly",
            "batches list",
            "batches flush batches.whole",
            "dead list --queue q",
            "dead requeue --task trial.fails",
            "dead delete --all --yes --queue q",
            "workers",
            "peek q",
            "doctor",
            "purge q --yes",
            "gateway token create shop",
            "gateway token list",
            "gateway token revoke shop",
        ],
    );
    let gate = site.trial.gate("gate");
    let running = site.runtime.block_on(client.enqueue(followed::gated::call(gate.clone()))).unwrap();
    let id = running.id().unwrap().to_string();
    wait::until("the call to run", PATIENCE, || {
        site.runtime.block_on(running.state()).unwrap() == Some(delayed::CallState::Running)
    });
    site.run(&url, WORKER, &["tasks", "kill", &id, "--by", "ann"]);
    for verb in ["cancel", "retry"] {
        let flow = delayed::chain(flows::gated::call(verb.into(), gate.clone()))
            .then(flows::note_run::call("b".into()));
        let flow = site.runtime.block_on(client.enqueue_flow(flow)).unwrap();
        let id = flow.id().unwrap().to_string();
        wait::until("the flow to begin", PATIENCE, || site.runtime.block_on(flow.tree()).unwrap().is_some());
        for words in [&["flows", "list"][..], &["flows", "show", &id], &["flows", "cancel", &id]] {
            site.run(&url, WORKER, words);
        }
        site.runtime.block_on(flow.wait(PATIENCE)).unwrap_err();
        if verb == "retry" {
            open(&gate);
            site.run(&url, WORKER, &["flows", "retry", &id]);
            site.runtime.block_on(flow.wait(PATIENCE)).unwrap();
        }
    }
    site.trial.wait_settled();
    site.trial.stop(&mut worker);
    site.assert_nothing_refused();
}

#[test]
fn operator_acts_in_the_dashboard_and_serves_a_gateway() {
    let mut site = Site::new();
    let url = site.user("operator", &QUEUES);
    let mut worker = site.trial.worker(&["--concurrency", "1"]);
    let (_dashboard, address) = serve(&site.trial, &url, &["web", "--allow-actions"]);
    let post = |path: &str, form: &str, headers: &[(&str, &str)]| {
        let request = format!("POST {path}");
        Connection::open(address).request(&request, headers, form.as_bytes()).expect("an answer")
    };
    let act = |form: &str| {
        let headers =
            [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "same-origin")];
        post("/action", &format!("confirm=yes&back=%2F&{form}"), &headers).expect(303)
    };
    site.trial.push(&[call("trial.fails", &["1".into()]), call("trial.fails", &["2".into()])]);
    wait::until("the failures to be buried", PATIENCE, || site.trial.dead() == 2);
    act("verb=pause&queue=q");
    let call = json!({"task": "trial.mark", "args": ["x"], "queue": "q"}).to_string();
    act(&format!("verb=enqueue&call={}", call.replace('"', "%22")));
    act("verb=requeue&queue=q&task=trial.fails");
    act("verb=purge&queue=q");
    act("verb=resume&queue=q");
    act("verb=limit-set&name=few&concurrency=2");
    act("verb=limit-remove&name=few");
    let page = Connection::open(address).request("GET /workers", &[], b"").unwrap().expect(200);
    let page = String::from_utf8(page.body).unwrap();
    let id = between(&page, "name=\"id\" value=\"", "\"");
    act(&format!("verb=worker-quiet&id={id}"));
    act(&format!("verb=worker-stop&id={id}"));
    worker.wait_exit(PATIENCE);
    let log = Connection::open(address).request("GET /audit", &[], b"").unwrap().expect(200);
    assert!(String::from_utf8(log.body).unwrap().contains("worker-stop"));

    let (_gateway, address) = serve(&site.trial, &url, &["gateway"]);
    let body = json!({"task": "followed.charge", "args": [7], "queue": QUEUE}).to_string();
    let send = |request: &str, body: &str| {
        let headers = [("content-type", "application/json"), ("idempotency-key", "k1")];
        Connection::open(address).request(request, &headers, body.as_bytes()).expect("an answer")
    };
    let [id, again] =
        [(); 2].map(|()| send("POST /v1/calls", &body).expect(202).json()["id"].as_str().unwrap().to_owned());
    assert_eq!(id, again);
    send(&format!("GET /v1/calls/{id}"), "").expect(200);
    send("GET /v1/tasks", "").expect(200);
    let mut worker = site.trial.worker(&["--burst"]);
    site.trial.ended(&mut worker);
    send(&format!("GET /v1/calls/{id}/result?wait=10s"), "").expect(200);
    send(&format!("DELETE /v1/calls/{id}"), "").expect(200);
    site.assert_nothing_refused();
    site.trial.push(&[mark(1), gated(2, &site.trial.gate("gate"))]);
    assert_eq!(site.try_run(&url, DELAYED, &["peek", "q"]).status.code(), Some(0));
}
