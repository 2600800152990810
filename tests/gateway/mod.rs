//! The gateway: calls that come over HTTP, and what is refused.

mod bad_input;
mod bounds;
mod calls;
mod once;
mod openapi;
mod published;
mod tokens;

use std::net::SocketAddr;

use serde_json::Value;

use crate::support::http::{Answer, Connection};
use crate::support::process::Program;
use crate::support::redis::Options;
use crate::support::trial::{Trial, WORKER};

/// A Redis, and a gateway in front of it.
struct Site {
    trial: Trial,
    gateway: Program,
    address: SocketAddr,
}

/// Starts a gateway of the test's program. Returns it and where it listens.
pub(crate) fn gateway(trial: &Trial, words: &[&str]) -> (Program, SocketAddr) {
    gateway_of(trial, WORKER, words)
}

/// The same of this program.
fn gateway_of(trial: &Trial, program: &str, words: &[&str]) -> (Program, SocketAddr) {
    let mut command = trial.command(program);
    command.args(["gateway", "--listen", "127.0.0.1:0", "--redis", &trial.server.url()]).args(words);
    let gateway = Program::spawn(&mut command);
    let line: Value = serde_json::from_str(&gateway.wait_for_line("gateway started")).unwrap();
    let address = line["fields"]["address"].as_str().or_else(|| line["address"].as_str());
    let address = address.unwrap_or_else(|| panic!("expected an address: {line}")).parse().unwrap();
    (gateway, address)
}

impl Site {
    fn new(words: &[&str]) -> Self {
        Self::with(Options::default(), words)
    }

    fn with(options: Options, words: &[&str]) -> Self {
        let trial = Trial::with(options);
        let (gateway, address) = gateway(&trial, words);
        Self { trial, gateway, address }
    }

    fn request(&self, request: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        Connection::open(self.address).request(request, headers, body).expect("an answer")
    }

    fn get(&self, path: &str) -> Answer {
        self.request(&format!("GET {path}"), &[], b"")
    }

    fn post(&self, body: &Value) -> Answer {
        self.request("POST /v1/calls", &[("content-type", "application/json")], body.to_string().as_bytes())
    }
}
