//! The gateway and the dashboard in front of a Cluster, and one whose nodes speak TLS.

use delayed::config::Config;
use delayed::{Client, GoTask};
use redis::Commands;
use serde_json::Value;

use super::{Site, texts};
use crate::support::certificates::Authority;
use crate::support::cluster::TestCluster;
use crate::support::http::Connection;
use crate::support::process::Program;
use crate::support::trial::WORKER;

/// A server of the test's program, and where it listens.
fn serve(site: &Site, words: &[&str], told: &str) -> (Program, std::net::SocketAddr) {
    let program = Program::spawn(&mut site.command(WORKER, words));
    let line: Value = serde_json::from_str(&program.wait_for_line(told)).unwrap();
    let address = line["address"].as_str().unwrap_or_else(|| panic!("expected an address: {line}"));
    (program, address.parse().unwrap())
}

#[test]
fn gateway_and_dashboard_reach_all_shards() {
    let site = Site::new(3, 0);
    let queues = site.queues(3);
    let queues = texts(&queues);
    let (_gateway, address) = serve(&site, &["gateway", "--listen", "127.0.0.1:0"], "gateway started");
    for (n, queue) in queues.iter().enumerate() {
        let body = format!(r#"{{"task": "trial.mark", "args": ["{n}"], "queue": "{queue}"}}"#);
        let headers = [("content-type", "application/json"), ("idempotency-key", queue)];
        for _ in 0..2 {
            let mut gateway = Connection::open(address);
            gateway.request("POST /v1/calls", &headers, body.as_bytes()).expect("an answer").expect(202);
        }
        let waiting: u64 = site.cluster.connection(queue).llen(*queue).unwrap();
        assert_eq!(waiting, 1, "expected one call of two requests with one key");
    }
    let (_web, address) = serve(&site, &["web", "--listen", "127.0.0.1:0"], "dashboard started");
    for page in
        ["/", "/queues", "/calls", "/workers", "/tasks", "/periodic", "/limits", "/flows", "/dead", "/doctor"]
    {
        let answer = Connection::open(address).request(&format!("GET {page}"), &[], b"").expect("an answer");
        let text = String::from_utf8_lossy(&answer.expect(200).body).into_owned();
        if page == "/queues" {
            assert!(queues.iter().all(|queue| text.contains(queue)), "{text}");
        }
    }
    let mut worker = site.worker(&queues, &[]);
    site.wait_runs(3);
    site.stop(&mut worker);
    site.ledger.assert_each_once(0..3);
}

#[test]
fn nodes_are_reached_over_tls() {
    let authority = Authority::new();
    let cluster = TestCluster::with(2, 0, Some(authority.sign("localhost", 2)));
    let mut config = Config::default();
    config.redis.url = cluster.url();
    config.redis.tls_ca = Some(authority.pem());
    let client = Client::with_config_blocking(&config).unwrap();
    for index in 0..2 {
        let queue = cluster.queue_on(index, "q");
        client.enqueue_blocking(GoTask::new("a").queue(queue.clone())).unwrap();
        assert_eq!(cluster.left(&queue), (1, 0), "{queue}");
    }
}
