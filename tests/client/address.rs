//! An address means what it means to other programs that use the same Redis, or is refused.

use std::process::Command;

use delayed::Client;
use redis::Commands;

use super::marking;
use crate::support::process::DELAYED;
use crate::support::redis::Options;
use crate::support::trial::{QUEUE, Trial, mark};

#[test]
fn database_in_a_parameter_is_used_by_client_worker_and_tools() {
    let mut trial = Trial::with(Options { tcp: true, ..Options::default() });
    for url in [format!("{}/?db=3", trial.server.tcp_url()), format!("{}?db=3", trial.server.url())] {
        let client = Client::connect_blocking(&url).unwrap();
        client.enqueue_blocking(marking(&url)).unwrap();
        let () = redis::cmd("SELECT").arg(3).query(&mut trial.redis).unwrap();
        let waiting: Vec<Vec<u8>> = trial.redis.lrange(QUEUE, 0, -1).unwrap();
        assert_eq!(waiting, [mark(&url)], "{url}");
        let output = Command::new(DELAYED).args(["queues", "--redis", &url]).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains(QUEUE), "{url}: {output:?}");
        let mut worker = trial.start_at(&url, &["--queue", QUEUE, "--burst"]);
        trial.ended(&mut worker);
    }
    assert_eq!(trial.ledger.lines().len(), 2);
}

#[test]
fn password_with_special_characters_is_read_when_it_is_encoded() {
    let mut trial = Trial::with(Options { tcp: true, ..Options::default() });
    let () =
        redis::cmd("CONFIG").arg("SET").arg("requirepass").arg("p@s/s?#%").query(&mut trial.redis).unwrap();
    let port = trial.server.tcp_url().rsplit_once(':').unwrap().1.to_owned();
    let socket = trial.server.socket();
    for url in [
        format!("redis://:p%40s%2Fs%3F%23%25@127.0.0.1:{port}"),
        format!("unix://:p%40s%2Fs%3F%23%25@{}", socket.display()),
        format!("unix://{}?password=p@s/s?%23%25", socket.display()),
    ] {
        Client::connect_blocking(&url).unwrap_or_else(|error| panic!("{url}: {error}"));
    }
}

#[test]
fn unusable_address_is_refused_by_the_tools_with_what_to_do() {
    for (url, advice) in [
        ("redis://u:se/cret@h", "percent-encoded: write / as %2F"),
        ("redis://h?timeout=3&db=1", "the parameter `timeout` is unknown: set `redis.timeout`"),
        ("redis+sentinel://:cret@h", "name the master"),
        ("redis+cluster://:cret@h/3", "only the database 0"),
    ] {
        let output = Command::new(DELAYED).args(["queues", "--redis", url]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(5), "{url}: {text}");
        assert!(text.contains(advice) && !text.contains("cret@"), "{url}: {text}");
    }
}
