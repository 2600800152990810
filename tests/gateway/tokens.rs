use serde_json::{Value, json};

use super::Site;
use crate::support::http::{Answer, Connection};
use crate::support::process::Program;
use crate::support::trial::{PATIENCE, Trial, WORKER};
use crate::support::wait;

fn operate(trial: &Trial, words: &[&str]) -> String {
    let mut command = trial.command(WORKER);
    let mut program = Program::spawn(command.args(words).args(["--redis", &trial.server.url()]));
    let text = program.last_words();
    assert!(program.wait_exit(PATIENCE).success(), "{words:?}: {text}");
    text
}

#[test]
fn token_permits_its_tasks_and_queues_until_it_is_revoked() {
    let site = Site::new(&[]);
    let send = |token: Option<&str>, task: &str, queue: &str| -> Answer {
        let body = json!({"task": task, "args": ["x"], "queue": queue}).to_string();
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
        site.request("POST /v1/calls", &headers, body.as_bytes())
    };
    // Nobody else can reach it, and there is no token.
    send(None, "trial.mark", "q").expect(202);
    let created = operate(
        &site.trial,
        &["gateway", "token", "create", "shop", "--task", "trial.m*", "--queue", "q", "--json"],
    );
    let created: Value = serde_json::from_str(&created).unwrap();
    let token = created["token"].as_str().unwrap();
    wait::until("a token to be needed", PATIENCE, || send(None, "trial.mark", "q").status == 401);
    let refused = send(None, "trial.mark", "q").expect(401);
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    send(Some("wrong"), "trial.mark", "q").expect(401);
    let accepted = send(Some(token), "trial.mark", "q").expect(202).json();
    assert_eq!(send(Some(token), "trial.mark", "q2").expect(403).json()["code"], "forbidden");
    // Whether such tasks exist, and what they take, is not told.
    for task in ["trial.never", "trial.fails", "trial.pair", "missing"] {
        assert_eq!(send(Some(token), task, "q").expect(403).json()["code"], "forbidden", "{task}");
    }

    let bearer = format!("Bearer {token}");
    let get = |path: &str| site.request(&format!("GET {path}"), &[("authorization", &bearer)], b"");
    get(&format!("/v1/calls/{}", accepted["id"].as_str().unwrap())).expect(200);
    let tasks = get("/v1/tasks").expect(200).json();
    assert!(
        tasks.as_array().unwrap().iter().all(|task| task["task"].as_str().unwrap().starts_with("trial.m"))
    );

    let mut redis = site.trial.server.connection();
    let stored: String = redis::cmd("HGET").arg("delayed_tokens").arg("shop").query(&mut redis).unwrap();
    assert!(!stored.contains(token), "{stored}");
    let listed = operate(&site.trial, &["gateway", "token", "list"]);
    assert!(listed.contains("shop") && listed.contains("trial.m*") && !listed.contains(token), "{listed}");

    let _ = operate(&site.trial, &["gateway", "token", "create", "other"]);
    operate(&site.trial, &["gateway", "token", "revoke", "shop"]);
    wait::until("the token to be refused", PATIENCE, || send(Some(token), "trial.mark", "q").status == 401);
}

#[test]
fn web_page_cannot_use_a_gateway_without_tokens() {
    let site = Site::new(&[]);
    let body = json!({"task": "trial.mark", "args": ["x"], "queue": "q"}).to_string();
    let send = |headers: &[(&str, &str)]| {
        let mut connection = Connection::open(site.address);
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!("POST /v1/calls HTTP/1.1\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
        connection.write(format!("{head}{body}").as_bytes()).unwrap();
        connection.read().unwrap()
    };
    send(&[("host", "localhost:8080")]).expect(202);
    send(&[("host", "localhost:8080"), ("origin", "https://evil.example")]).expect(403);
    let refused = send(&[("host", "evil.example:8080")]).expect(403).json();
    assert!(refused["detail"].as_str().unwrap().contains("web page"), "{refused}");
}

#[test]
fn address_beyond_the_machine_needs_a_token() {
    let trial = Trial::new();
    let words = ["gateway", "--listen", "0.0.0.0:0", "--redis", &trial.server.url()];
    let mut command = trial.command(WORKER);
    let mut refused = Program::spawn(command.args(words));
    let text = refused.last_words();
    assert_eq!(refused.wait_exit(PATIENCE).code(), Some(5), "{text}");
    assert!(text.contains("gateway token create"), "{text}");
}
