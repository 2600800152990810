//! The dashboard: its pages, what operators do from them, who may see them, and how browsers show them.

mod access;
mod actions;
mod browser;
mod history;
mod pages;

use std::net::SocketAddr;
use std::process::Command;

use serde_json::Value;

use crate::support::http::{Answer, Connection};
use crate::support::process::Program;
use crate::support::trial::{Trial, WORKER};

/// A Redis, and a dashboard of it.
struct Site {
    trial: Trial,
    dashboard: Program,
    address: SocketAddr,
}

impl Site {
    fn new(words: &[&str]) -> Self {
        let trial = Trial::new();
        let (dashboard, address) = start(&trial, words);
        Self { trial, dashboard, address }
    }

    fn get(&self, path: &str) -> Answer {
        self.request(&format!("GET {path}"), &[], "")
    }

    /// The text of a page that is shown.
    #[track_caller]
    fn page(&self, path: &str) -> String {
        text(self.get(path).expect(200))
    }

    fn request(&self, request: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        Connection::open(self.address).request(request, headers, body.as_bytes()).expect("an answer")
    }

    /// Sends a form as a browser does.
    fn form(&self, path: &str, fields: &[(&str, &str)], more: &[(&str, &str)]) -> Answer {
        let headers = [
            &[("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "same-origin")],
            more,
        ]
        .concat();
        self.request(&format!("POST {path}"), &headers, &encoded(fields))
    }

    /// Does something as an operator, and confirms it. Returns what the next page says.
    #[track_caller]
    fn act(&self, verb: &str, fields: &[(&str, &str)]) -> String {
        let fields = [&[("verb", verb), ("confirm", "yes")], fields].concat();
        let done = self.form("/action", &fields, &[]).expect(303);
        let cookie = done.header("set-cookie").expect("expected a notice");
        let cookie = cookie.split(';').next().unwrap();
        let to = done.header("location").unwrap();
        let page = text(self.request(&format!("GET {to}"), &[("cookie", cookie)], ""));
        between(&page, "<div class=\"notice\" role=\"status\">", "</div>").to_owned()
    }

    /// Runs a command of the same program. Returns what it prints.
    #[track_caller]
    fn run(&self, words: &[&str]) -> Vec<u8> {
        let mut command: Command = self.trial.command(WORKER);
        let output = command.args(words).args(["--redis", &self.trial.server.url()]).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// The same of a command that prints JSON.
    #[track_caller]
    fn cli(&self, words: &[&str]) -> Value {
        serde_json::from_slice(&self.run(words)).unwrap()
    }
}

/// Starts a dashboard. Returns it and where it listens.
fn start(trial: &Trial, words: &[&str]) -> (Program, SocketAddr) {
    let mut command = trial.command(WORKER);
    command.args(["web", "--listen", "127.0.0.1:0", "--redis", &trial.server.url()]).args(words);
    let dashboard = Program::spawn(&mut command);
    let line: Value = serde_json::from_str(&dashboard.wait_for_line("dashboard started")).unwrap();
    let address = line["fields"]["address"].as_str().or_else(|| line["address"].as_str());
    let address = address.unwrap_or_else(|| panic!("expected an address: {line}")).parse().unwrap();
    (dashboard, address)
}

fn text(answer: Answer) -> String {
    String::from_utf8(answer.body).unwrap()
}

/// The first part of a text between two others.
#[track_caller]
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("expected {before} in {text}"));
    rest.split_once(after).unwrap_or_else(|| panic!("expected {after} in {rest}")).0
}

/// A form as browsers write it.
fn encoded(fields: &[(&str, &str)]) -> String {
    let one = |text: &str| -> String {
        text.bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
                _ => format!("%{byte:02X}"),
            })
            .collect()
    };
    let pairs: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}={}", one(name), one(value))).collect();
    pairs.join("&")
}
