//! A Redis that speaks TLS: all that we are works over it, and where it cannot the sentence says what to do.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use delayed::config::{Config, RedisConfig};
use delayed::{BrokerErrorKind, Client, GoTask};

use crate::support::certificates::{Authority, Certificate};
use crate::support::process::{DELAYED, Program};
use crate::support::redis::{Options, TestRedis};
use crate::support::trial::{PATIENCE, QUEUE, Trial, WORKER, count, gated, mark, open, ready};
use crate::support::wait;

/// A Redis whose certificate is for `localhost`, and what more it is started with.
fn options(authority: &Authority, extra: &[&str]) -> Options {
    let extra = extra.iter().map(ToString::to_string).collect();
    Options { tls: Some(authority.sign("localhost", 2)), append_only: true, extra, ..Options::default() }
}

/// Settings that lead to it.
fn config(url: &str, ca: Option<PathBuf>) -> Config {
    let mut redis = RedisConfig::new(url);
    redis.tls_ca = ca;
    let mut config = Config::default();
    config.redis = redis;
    config
}

/// A program that is told where Redis is by the environment, and whom to trust.
fn command(trial: &Trial, program: &str, words: &[&str], ca: &Path) -> Command {
    let mut command = trial.command(program);
    command.args(words).env("DELAYED_REDIS_URL", trial.server.tls_url()).env("DELAYED_REDIS_TLS_CA", ca);
    command
}

/// Runs `delayed doctor` with these words to its end: its exit code, and what it said.
fn doctor(words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(DELAYED);
    command.args(["doctor"]).args(words).current_dir("/");
    // A port that speaks no TLS may wait for the rest of what it takes for a command.
    let output = command.env("DELAYED_REDIS_TIMEOUT", "500ms").output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

/// That it cannot connect, for which it has a code and advice.
#[track_caller]
fn assert_refused(words: &[&str], code: i32, advice: &str) {
    let (ended, said) = doctor(words);
    assert_eq!(ended, Some(code), "{words:?}: {said}");
    assert!(said.starts_with("error: ") && said.contains(advice), "expected {advice:?} of {words:?}: {said}");
}

#[test]
fn a_worker_a_client_a_sweeper_and_the_tools_work_over_tls() {
    let authority = Authority::new();
    let mut trial = Trial::with(options(&authority, &[]));
    let (url, ca) = (trial.server.tls_url(), authority.pem());
    let words = ["worker", "--queue", QUEUE, "--lease", "3s", "--no-sweep"];
    let start = |trial: &Trial| {
        let worker = Program::spawn(&mut command(trial, WORKER, &words, &ca));
        ready(&worker);
        worker
    };
    let mut first = start(&trial);
    assert!(
        first.printed().contains("(TLS)"),
        "expected the log to say how it is connected: {}",
        first.printed()
    );
    let gate = trial.gate("gate");
    trial.push(&[gated("held", &gate)]);
    trial.wait_runs(1);
    let client = Client::with_config_blocking(&config(&url, Some(ca.clone()))).unwrap();
    client
        .enqueue_many_blocking((0..50).map(|n| GoTask::new("trial.mark").arg(n.to_string()).queue(QUEUE)))
        .unwrap();
    trial.wait_runs(51);
    let tool = |words: &[&str]| {
        let output = command(&trial, DELAYED, words, &ca).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {text}");
        text
    };
    assert!(tool(&["workers"]).contains("trial.gated"), "expected the run that is held");
    assert!(tool(&["doctor"]).contains("append-only file"), "expected findings");
    tool(&["enqueue", "trial.mark", "[\"tool\"]", "--queue", QUEUE, "--as", "rust"]);
    trial.wait_runs(52);

    // A beat comes over TLS too, from a thread that blocks: the run is still its own after its lease.
    wait::pause(Duration::from_secs(4));
    let sweeper = Program::spawn(&mut command(&trial, DELAYED, &["sweeper", "--interval", "100ms"], &ca));
    sweeper.wait_for_line("\"sweeping\"");
    assert_eq!(trial.left(), (0, 1), "expected the run to be owned");
    first.kill9();
    let mut second = start(&trial);
    trial.wait_runs(53);
    // Both connections of a worker are made anew.
    trial.server.restart();
    trial.redis = trial.server.connection();
    open(&gate);
    trial.push(&[mark("after")]);
    trial.wait_settled();
    let stopped = trial.stop(&mut second);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (2, 0), "{stopped}");
    let mut names: Vec<String> = (0..50).map(|n| n.to_string()).collect();
    names.extend(["+held", "+held", "-held", "tool", "after"].map(Into::into));
    let mut lines = trial.ledger.lines();
    names.sort();
    lines.sort();
    assert_eq!(lines, names);
    trial.assert_only(&[]);
}

#[test]
fn a_certificate_that_does_not_fit_is_told_with_what_to_do() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = TestRedis::with(options(&authority, &[]));
    let (url, ca) = (server.tls_url(), authority.pem());
    let (ca, others) = (ca.to_str().unwrap(), other.pem());
    let (code, said) = doctor(&["--redis", &url, "--tls-ca", ca]);
    assert_eq!(code, Some(0), "{said}");
    assert_refused(&["--redis", &url], 5, "set the file of the authority that signed it");
    assert_refused(
        &["--redis", &url, "--tls-ca", others.to_str().unwrap()],
        5,
        "`redis.tls_ca`, DELAYED_REDIS_TLS_CA",
    );
    let error = Client::with_config_blocking(&config(&url, None)).unwrap_err();
    assert_eq!(error.broker_kind(), Some(BrokerErrorKind::Tls), "{error}");
    assert!(!error.may_have_been_applied() && !error.is_retryable(), "{error}");

    for (name, days, advice) in [
        ("elsewhere", 2, "is for another name"),
        // Ends within the second in which it was made.
        ("localhost", 0, "has expired"),
    ] {
        let options = Options { tls: Some(authority.sign(name, days)), ..Options::default() };
        let server = TestRedis::with(options);
        let words = ["--redis", &server.tls_url(), "--tls-ca", ca];
        wait::until_ok(PATIENCE, || match doctor(&words) {
            (Some(5), said) if said.contains(advice) => Ok(()),
            (code, said) => Err(format!("{advice}; exit code {code:?}: {said}")),
        });
    }
}

#[test]
fn a_worker_outlives_a_certificate_that_does_not_fit() {
    let (authority, other) = (Authority::new(), Authority::new());
    let right = authority.sign("localhost", 2);
    let wrong = other.sign("localhost", 2);
    let mut trial = Trial::with(Options { tls: Some(right.clone()), ..Options::default() });
    let ca = authority.pem();
    let words = ["--tls-ca", ca.to_str().unwrap(), "--lease", "2s", "--log-level", "delayed=debug"];
    let mut worker = trial.worker_at(&trial.server.tls_url(), &words);
    let mut present = |certificate: &Certificate| {
        let mut pipe = redis::pipe();
        pipe.cmd("CONFIG").arg("SET").arg("tls-cert-file").arg(&*certificate.cert.to_string_lossy());
        pipe.arg("tls-key-file").arg(&*certificate.key.to_string_lossy()).ignore();
        pipe.cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal").arg("SKIPME").arg("yes").ignore();
        let () = pipe.query(&mut trial.redis).unwrap();
    };
    present(&wrong);
    let line = worker.wait_for_line("is not trusted");
    assert!(line.contains("redis.tls_ca"), "expected advice: {line}");
    worker.wait_for_line("\"request\":\"heartbeat\"");
    present(&right);
    trial.push(&[mark("after")]);
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["after"]);
    trial.assert_only(&[]);
}

#[test]
fn an_authority_that_the_system_trusts_needs_no_setting() {
    let authority = Authority::new();
    let server = TestRedis::with(options(&authority, &[]));
    let mut command = Command::new(DELAYED);
    command.args(["doctor", "--redis", &server.tls_url()]).current_dir("/");
    let output = command.env("SSL_CERT_FILE", authority.pem()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn a_server_that_speaks_tls_1_2_only_will_do() {
    let authority = Authority::new();
    let server = TestRedis::with(options(&authority, &["--tls-protocols", "TLSv1.2"]));
    let (code, said) = doctor(&["--redis", &server.tls_url(), "--tls-ca", authority.pem().to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_client_shows_its_certificate_when_it_is_asked() {
    let (authority, other) = (Authority::new(), Authority::new());
    let mut trial = Trial::with(options(&authority, &["--tls-auth-clients", "yes"]));
    let (url, ca) = (trial.server.tls_url(), authority.pem());
    let ours = authority.sign("localhost", 2);
    let strangers = other.sign("localhost", 2);
    let text = |path: &'_ Path| path.to_str().unwrap().to_owned();
    let (ca, cert, key) = (text(&ca), text(&ours.cert), text(&ours.key));
    let trusting = ["--redis", &url, "--tls-ca", &ca];
    assert_refused(&trusting, 5, "if it requires a client certificate, set one that it trusts");
    let words = [&trusting[..], &["--tls-cert", &text(&strangers.cert), "--tls-key", &text(&strangers.key)]];
    assert_refused(&words.concat(), 5, "set one that it trusts");
    let words = [&trusting[..], &["--tls-cert", &cert, "--tls-key", &text(&strangers.key)]];
    assert_refused(&words.concat(), 5, "can be made with these settings");
    let words = [&trusting[..], &["--tls-cert", &cert]];
    assert_refused(&words.concat(), 5, "only one of them is set");

    let mut worker = trial.worker_at(&url, &["--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &key]);
    trial.push(&[mark("seen")]);
    trial.wait_runs(1);
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["seen"]);
    trial.assert_only(&[]);
}

#[test]
fn a_port_that_speaks_otherwise_is_told_with_what_to_do() {
    let authority = Authority::new();
    let server = TestRedis::with(options(&authority, &[]));
    let plain = server.tls_url().replacen("rediss://", "redis://", 1);
    assert_refused(&["--redis", &plain], 3, "if it uses TLS, begin the address with rediss://");

    let plain = TestRedis::with(Options { tcp: true, ..Options::default() });
    let url = plain.tcp_url().replacen("redis://", "rediss://", 1);
    // It takes the greeting for a command if there is a line's end in it, and else waits for one.
    let (code, said) = doctor(&["--redis", &url]);
    let known = [
        (Some(5), "the server does not use TLS at this port: use its TLS port, or an address with redis://"),
        (Some(3), "check that it is running, and that it uses TLS at this port, or use redis://"),
    ];
    let found = known.iter().any(|(known, advice)| code == *known && said.contains(advice));
    assert!(found, "expected advice, with {code:?}: {said}");
}

#[test]
fn files_and_addresses_that_cannot_be_used_are_named() {
    let authority = Authority::new();
    let directory = authority.directory();
    std::fs::write(directory.join("empty.pem"), "nothing").unwrap();
    std::fs::write(
        directory.join("broken.pem"),
        "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
    )
    .unwrap();
    let file = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let url = "rediss://127.0.0.1:1";
    let at = |words: &[&str], advice: &str| assert_refused(&[&["--redis", url], words].concat(), 5, advice);
    at(&["--tls-ca", "/nowhere.pem"], "/nowhere.pem cannot be used as `redis.tls_ca`: No such file");
    at(&["--tls-ca", &file("empty.pem")], "it contains no PEM certificate");
    at(&["--tls-ca", &file("broken.pem")], "broken.pem cannot be used as `redis.tls_ca`");
    let words = ["--tls-cert", &file("authority.pem"), "--tls-key", &file("empty.pem")];
    at(&words, "empty.pem cannot be used as `redis.tls_key`: it contains no PEM key");
    // In PEM, and no certificate: alone, and in a bundle.
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let good = std::fs::read_to_string(directory.join("authority.pem")).unwrap();
    std::fs::write(directory.join("garbage.pem"), garbage).unwrap();
    std::fs::write(directory.join("bundle.pem"), format!("{good}{garbage}")).unwrap();
    at(
        &["--tls-ca", &file("bundle.pem")],
        "bundle.pem cannot be used as `redis.tls_ca`: certificate 2 in it",
    );
    let (ours, other) = (authority.sign("localhost", 2), authority.sign("elsewhere", 2));
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let words = ["--tls-cert", &file("garbage.pem"), "--tls-key", &path(&ours.key)];
    at(&words, "garbage.pem cannot be used as `redis.tls_cert`: the certificate in it cannot be read");
    let words = ["--tls-cert", &path(&ours.cert), "--tls-key", &path(&other.key)];
    at(&words, "cannot be used as `redis.tls_key`: it is not the key of the certificate in");
    for words in [
        &["--tls-ca", &file("garbage.pem")][..],
        &["--tls-cert", &file("garbage.pem"), "--tls-key", &path(&ours.key)],
    ] {
        let (_, said) = doctor(&[&["--redis", url], words].concat());
        assert!(!said.contains("peer") && !said.contains("address is invalid"), "{said}");
    }
    let mut command = Command::new(DELAYED);
    command
        .args(["doctor", "--redis", url])
        .env("SSL_CERT_FILE", file("garbage.pem"))
        .env("SSL_CERT_DIR", "/nowhere");
    let output = command.current_dir("/").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(
        said.contains("the certificate authorities that this system trusts")
            && said.contains("`redis.tls_ca`"),
        "{said}"
    );
    let words = ["--redis", "redis://127.0.0.1:1", "--tls-ca", &file("authority.pem")];
    assert_refused(&words, 5, "are for an address with rediss://");
    assert_refused(&["--redis", "rediss://127.0.0.1:1/#insecure"], 5, "`#insecure` is not supported");
}
