use std::io::Write;
use std::process::{Command, Stdio};

use super::{Site, start, text};
use crate::support::http::Connection;
use crate::support::process::Program;
use crate::support::trial::{PATIENCE, Trial, WORKER, marks};

/// The line of a user.
fn user(name: &str, role: &str, password: &str) -> String {
    let mut command = Command::new(WORKER);
    command.args(["web", "user", name, "--role", role]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = command.spawn().unwrap();
    program.stdin.take().unwrap().write_all(format!("{password}\n").as_bytes()).unwrap();
    String::from_utf8(program.wait_with_output().unwrap().stdout).unwrap()
}

pub(super) fn with_users() -> Site {
    let mut trial = Trial::new();
    trial.push(&marks(1));
    let users = trial.server.directory().join("users");
    let lines = [user("ann", "operator", "correct horse"), user("bob", "viewer", "battery")].concat();
    std::fs::write(&users, lines).unwrap();
    let words = ["--allow-actions", "--users", users.to_str().unwrap()];
    let (dashboard, address) = start(&trial, &words);
    Site { trial, dashboard: Some(dashboard), address }
}

/// Logs in, and returns the cookie.
#[track_caller]
pub(super) fn log_in(site: &Site, name: &str, password: &str) -> String {
    let fields = [("name", name), ("password", password), ("to", "/queues")];
    let answer = site.form("/login", &fields, &[]).expect(303);
    assert_eq!(answer.header("location"), Some("/queues"));
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"), "{cookie}");
    cookie.split(';').next().unwrap().to_owned()
}

#[test]
fn users_log_in_and_do_what_their_roles_allow() {
    let site = with_users();
    let to_login = site.get("/call?queue=q&id=7").expect(303);
    assert_eq!(to_login.header("location"), Some("/login?to=%2Fcall%3Fqueue%3Dq%26id%3D7"));
    assert!(text(site.get("/login?to=%2F").expect(200)).contains("type=\"password\""));
    for (name, password) in [("ann", "wrong"), ("nobody", "correct horse"), ("", "")] {
        let refused = text(site.form("/login", &[("name", name), ("password", password)], &[]).expect(401));
        assert!(refused.contains("is wrong"), "{refused}");
    }
    let pause = [("verb", "pause"), ("queue", "q")];
    site.form("/action", &pause, &[]).expect(401);

    let bob = log_in(&site, "bob", "battery");
    let page = text(site.request("GET /", &[("cookie", &bob)], "").expect(200));
    assert!(page.contains("bob") && page.contains("read-only") && page.contains("Log out"), "{page}");
    let refused = text(site.form("/action", &pause, &[("cookie", &bob)]).expect(403));
    assert!(refused.contains("viewer"), "{refused}");

    let ann = log_in(&site, "ann", "correct horse");
    site.form("/action", &pause, &[("cookie", &ann)]).expect(303);
    assert_eq!(site.cli(&["queues", "--json"])[0]["paused"]["by"], "ann");
    let log = text(site.request("GET /audit", &[("cookie", &bob)], "").expect(200));
    assert!(log.contains("<td>ann</td>"), "{log}");

    for forged in [bob.replace("bob", "ann"), format!("{ann}0"), "delayed_session=ann".to_owned()] {
        site.request("GET /", &[("cookie", &forged)], "").expect(303);
    }
    let out = site.form("/logout", &[], &[("cookie", &ann)]).expect(303);
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    site.get("/livez").expect(200);
}

#[test]
fn users_of_a_proxy_are_believed_from_its_address() {
    let words = ["--allow-actions", "--user-header", "X-User", "--operator", "ann"];
    let site = Site::new(&[&words[..], &["--proxy", "127.0.0.0/8"]].concat());
    let pause = [("verb", "pause"), ("queue", "q")];
    site.get("/").expect(401);
    site.form("/action", &pause, &[("x-user", "bob")]).expect(403);
    site.form("/action", &pause, &[("x-user", "ann")]).expect(303);
    // A socket of IPv6 sees addresses of IPv4 in its own form.
    let (_dashboard, both) =
        start(&site.trial, &[&words[..], &["--proxy", "127.0.0.0/8", "--listen", "[::]:0"]].concat());
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], both.port()));
    let answer = Connection::open(address).request("GET /", &[("x-user", "bob")], b"");
    answer.expect("an answer").expect(200);
    let stranger = Site::new(&[&words[..], &["--proxy", "10.0.0.1"]].concat());
    stranger.request("GET /", &[("x-user", "ann")], "").expect(401);
}

#[test]
fn dashboard_beyond_this_machine_needs_authentication() {
    let trial = Trial::new();
    let refused = |words: &[&str], expected: &str| {
        let mut command = trial.command(WORKER);
        command.args(["web", "--redis", &trial.server.url()]).args(words);
        let mut program = Program::spawn(&mut command);
        assert!(!program.wait_exit(PATIENCE).success(), "{words:?}");
        let printed = program.printed();
        assert!(printed.contains(expected), "expected {expected} in {printed}");
    };
    refused(&["--listen", "0.0.0.0:0"], "--users or --user-header");
    refused(&["--listen", "[::]:0", "--allow-actions"], "--users or --user-header");
    refused(&["--users", "/nowhere"], "/nowhere cannot be read");
    let users = trial.server.directory().join("users");
    std::fs::write(&users, "ann:boss:secret\n").unwrap();
    refused(&["--users", users.to_str().unwrap()], "line 1: the role is neither");
    refused(&["--user-header", "x-user"], "--proxy");
    refused(&["--user-header", "x-user", "--proxy", "here"], "10.0.0.0/8");
}

#[test]
fn page_that_attacks_by_another_name_is_refused() {
    let site = Site::new(&["--allow-actions"]);
    // A name that leads to this machine, but is that of another site.
    let mut connection = Connection::open(site.address);
    connection.write(b"GET / HTTP/1.1\r\nhost: evil.example\r\n\r\n").unwrap();
    let answer = connection.read().unwrap().expect(403);
    assert!(text(answer).contains("localhost"));
}

#[test]
fn password_that_is_missing_makes_no_user() {
    assert_eq!(user("ann", "viewer", ""), "");
    assert_eq!(user("a:b", "viewer", "x"), "");
}
