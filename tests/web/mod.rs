//! The dashboard: its pages, what operators do from them, who may see them, and how browsers show them.

mod access;
mod actions;
mod browser;
mod flows;
mod hardened;
mod history;
mod mounted;
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
    /// `None`: it is a part of this process.
    dashboard: Option<Program>,
    address: SocketAddr,
}

impl Site {
    fn new(words: &[&str]) -> Self {
        let trial = Trial::new();
        let (dashboard, address) = start(&trial, words);
        Self { trial, dashboard: Some(dashboard), address }
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
        self.notice(&self.form("/action", &fields, &[]).expect(303))
    }

    /// Presses a button of a page, and confirms that. Returns what the next page says.
    #[track_caller]
    fn press(&self, page: &str, title: &str) -> String {
        let mut answer = self.submit(&self.page(page), title);
        if answer.status == 200 {
            answer = self.submit(&text(answer), "Yes");
        }
        self.notice(&answer.expect(303))
    }

    /// Sends the form with this button, as it stands in a page.
    #[track_caller]
    fn submit(&self, page: &str, title: &str) -> Answer {
        let button = format!(">{title}</button>");
        let mut forms = page.split("<form").skip(1).filter_map(|form| form.split("</form>").next());
        let form = forms.find(|form| form.contains(&button));
        let form = form.unwrap_or_else(|| panic!("expected a button {title} in {page}"));
        let hidden = form.split("<input type=\"hidden\" ").skip(1);
        let fields: Vec<(String, String)> = hidden
            .map(|field| {
                (unescaped(between(field, "name=\"", "\"")), unescaped(between(field, "value=\"", "\"")))
            })
            .collect();
        let fields: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.form(&unescaped(between(form, "action=\"", "\"")), &fields, &[])
    }

    /// What the page says to which an answer leads.
    #[track_caller]
    fn notice(&self, done: &Answer) -> String {
        let cookie = done.header("set-cookie").expect("expected a notice");
        let cookie = cookie.split(';').next().unwrap();
        let to = done.header("location").unwrap();
        let page = text(self.request(&format!("GET {to}"), &[("cookie", cookie)], "").expect(200));
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
    command.args(["web", "--redis", &trial.server.url()]).args(words);
    if !words.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
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

/// A text of a page, as browsers read it.
fn unescaped(text: &str) -> String {
    let texts = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")];
    texts.into_iter().fold(text.to_owned(), |text, (escaped, character)| text.replace(escaped, character))
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
