//! A connection that was closed while nothing was under way is made anew, and nobody notices.

use std::process::Command;
use std::time::{Duration, Instant};

use delayed::testing::{Fault, Mode, Requests, Side};
use delayed::{BrokerErrorKind, Client, Inspector};

use super::{marking, settings};
use crate::support::certificates::Authority;
use crate::support::process::DELAYED;
use crate::support::redis::Options;
use crate::support::trial::{PATIENCE, QUEUE, Trial, mark, marks};
use crate::support::wait;

/// Ends all connections but our own, as a server does with those that are idle.
fn close_all(trial: &mut Trial) {
    let () = redis::cmd("CLIENT")
        .arg("KILL")
        .arg("TYPE")
        .arg("normal")
        .arg("SKIPME")
        .arg("yes")
        .query(&mut trial.redis)
        .unwrap();
}

/// Waits until the server has no other connection than ours.
fn wait_closed(trial: &mut Trial) {
    wait::until("the server to have closed all others", PATIENCE, || {
        let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut trial.redis).unwrap();
        list.lines().count() == 1
    });
}

#[test]
fn connection_closed_while_idle_is_made_anew_without_an_error() {
    let mut trial = Trial::with(Options { tcp: true, ..Options::default() });
    for url in [trial.server.url(), trial.server.tcp_url()] {
        let client = Client::connect_blocking(&url).unwrap();
        for n in 0..20 {
            client.enqueue_blocking(marking(n)).unwrap();
            close_all(&mut trial);
        }
        assert_eq!(client.enqueue_many_blocking((20..30).map(marking)).unwrap(), 10);
        assert_eq!(trial.state().waiting, marks(30), "{url}");
        let () = redis::cmd("FLUSHALL").query(&mut trial.redis).unwrap();
    }
}

#[test]
fn connection_closed_by_the_timeout_of_the_server_is_made_anew() {
    let mut trial = Trial::new();
    let client = Client::connect_blocking(&trial.server.url()).unwrap();
    client.enqueue_blocking(marking(0)).unwrap();
    let () = redis::cmd("CONFIG").arg("SET").arg("timeout").arg(1).query(&mut trial.redis).unwrap();
    wait_closed(&mut trial);
    client.enqueue_blocking(marking(1)).unwrap();
    assert_eq!(trial.state().waiting, marks(2));
}

/// On a runtime whose only thread was busy while the connection was closed: nothing has noticed that.
#[test]
fn close_that_the_runtime_has_not_noticed_leaves_no_doubt() {
    let mut trial = Trial::with(Options { tcp: true, ..Options::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for url in [trial.server.url(), trial.server.tcp_url()] {
        runtime.block_on(async {
            let client = Client::connect(&url).await.unwrap();
            for n in 0..20 {
                client.enqueue(marking(n)).await.unwrap();
                close_all(&mut trial);
                wait_closed(&mut trial);
            }
        });
        assert_eq!(trial.state().waiting, marks(20), "{url}");
        let () = redis::cmd("FLUSHALL").query(&mut trial.redis).unwrap();
    }
}

#[test]
fn close_over_tls_leaves_no_doubt() {
    let authority = Authority::new();
    let tls = Some(authority.sign("localhost", 2));
    let mut trial = Trial::with(Options { tls, ..Options::default() });
    let mut config = settings(&trial.server.tls_url(), 5000);
    config.redis.tls_ca = Some(authority.pem());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::with_config(&config).await.unwrap();
        for n in 0..10 {
            client.enqueue(marking(n)).await.unwrap();
            close_all(&mut trial);
            wait_closed(&mut trial);
        }
    });
    assert_eq!(trial.state().waiting, marks(10));
}

#[test]
fn first_call_after_a_restart_of_redis_is_enqueued() {
    let mut trial = Trial::with(Options { append_only: true, ..Options::default() });
    let client = Client::connect_blocking(&trial.server.url()).unwrap();
    client.enqueue_blocking(marking(0)).unwrap();
    trial.server.restart();
    trial.redis = trial.server.connection();
    // Together: each finds the connection closed.
    let threads: Vec<_> = (1..5)
        .map(|n| {
            let client = client.clone();
            std::thread::spawn(move || client.enqueue_blocking(marking(n)))
        })
        .collect();
    threads.into_iter().for_each(|thread| drop(thread.join().unwrap().unwrap()));
    let mut waiting = trial.state().waiting;
    waiting.sort();
    assert_eq!(waiting, marks(5));
}

/// The calls that look at a queue before the first one is enqueued do no harm when they are made twice.
#[test]
fn reply_that_is_lost_before_the_enqueue_leaves_no_doubt() {
    for command in ["SADD", "LLEN"] {
        let mut trial = Trial::new();
        let proxy = trial.server.proxy();
        let client = Client::connect_blocking(proxy.url()).unwrap();
        let lost = proxy.trap(Side::Reply, Requests::command(command).nth(1), Fault::End);
        client.enqueue_blocking(marking(command)).unwrap();
        assert_eq!(lost.struck(), 1, "{command}");
        assert_eq!(trial.state().waiting, [mark(command)]);
    }
    // Where it is lost each time, the call is not in the queue.
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let client = Client::with_config_blocking(&settings(proxy.url(), 300)).unwrap();
    proxy.trap(Side::Reply, Requests::command("LLEN"), Fault::End);
    let error = client.enqueue_blocking(marking(0)).unwrap_err();
    assert!(!error.may_have_been_applied() && error.is_retryable(), "{error}");
    assert!(!error.to_string().contains("may have been"), "{error}");
    let mut command = Command::new(DELAYED);
    command.args(["enqueue", "a", "--as", "rust", "--queue", QUEUE, "--redis", proxy.url()]);
    let output = command.current_dir("/").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(3) && !said.contains("may have been"), "{output:?}");
    assert_eq!(trial.state().waiting.len(), 0);
}

/// A request whose bytes were written and whose connection ends may have been applied, whichever way it ends.
#[test]
fn doubt_is_told_when_the_call_was_written() {
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let client = Client::connect_blocking(proxy.url()).unwrap();
    client.enqueue_blocking(marking(0)).unwrap();
    proxy.trap(Side::Reply, Requests::command("EXEC").nth(1), Fault::End);
    let error = client.enqueue_blocking(marking(1)).unwrap_err();
    assert!(error.may_have_been_applied(), "{error}");
    assert_eq!(trial.state().waiting, marks(2));
    // While nothing listens: certainly not applied.
    proxy.set(Mode::Refuse);
    proxy.cut();
    let client = Client::lazy_with_config(&settings(proxy.url(), 200));
    let error = client.enqueue_blocking(marking(2)).unwrap_err();
    assert!(!error.may_have_been_applied(), "{error}");
}

#[test]
fn inspector_goes_on_after_a_close() {
    let mut trial = Trial::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let inspector = Inspector::connect(&trial.server.url()).await.unwrap();
        for _ in 0..5 {
            assert!(inspector.queues().await.unwrap().is_empty());
            close_all(&mut trial);
            wait_closed(&mut trial);
        }
    });
}

/// A peer that takes everything and answers nothing, as after a lost route: the request is over in time, and the next one
/// finds a new connection.
#[test]
fn silent_connection_is_found_out_within_the_timeout() {
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let client = Client::with_config_blocking(&settings(proxy.url(), 300)).unwrap();
    client.enqueue_blocking(marking(0)).unwrap();
    let swallowed = proxy.trap(Side::Request, Requests::command("EXEC").nth(1), Fault::Hold);
    let began = Instant::now();
    let error = client.enqueue_blocking(marking(1)).unwrap_err();
    let took = began.elapsed();
    assert_eq!(error.broker_kind(), Some(BrokerErrorKind::Uncertain), "{error}");
    assert!(took >= Duration::from_millis(250) && took < Duration::from_secs(2), "it took {took:?}");
    client.enqueue_blocking(marking(2)).unwrap();
    assert_eq!(trial.state().waiting, [mark(0), mark(2)]);
    swallowed.release();
}

/// Each socket of a worker, a client and an inspector asks every 30 s whether its peer is there.
#[test]
fn all_connections_are_kept_alive() {
    let trial = Trial::with(Options { tcp: true, ..Options::default() });
    let url = trial.server.tcp_url();
    let port: u16 = url.rsplit_once(':').unwrap().1.parse().unwrap();
    let _worker = trial.worker_at(&url, &[]);
    let client = Client::connect_blocking(&url).unwrap();
    client.enqueue_blocking(marking(0)).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inspector = runtime.block_on(Inspector::connect(&url)).unwrap();
    // The worker's four: commands, notifications, heartbeat, schedules.
    wait::until_ok(PATIENCE, || {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let timers: Vec<String> = table.lines().filter_map(|line| timer_of_socket_to(port, line)).collect();
        // 02: of keepalive, and when it goes off, in hundredths of a second.
        let is_kept = |timer: &String| {
            let when = timer.strip_prefix("02:").and_then(|when| u32::from_str_radix(when, 16).ok());
            when.is_some_and(|when| when <= 3000)
        };
        if timers.len() == 6 && timers.iter().all(is_kept) {
            Ok(())
        } else {
            Err(format!("6 sockets that are kept alive: {timers:?}"))
        }
    });
}

/// The timer in a line of the kernel's table of sockets, of one that is connected to this port.
fn timer_of_socket_to(port: u16, line: &str) -> Option<String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let is_it = fields.get(2)?.ends_with(&format!(":{port:04X}")) && fields.get(3) == Some(&"01");
    is_it.then(|| fields[5].to_owned())
}
