//! What is not promised: a Redis that forgets what it acknowledged forgets calls. What it takes that it does not.

use delayed::{BrokerErrorKind, Client, GoTask};
use redis::Commands;

use crate::support::redis::{Options, TestRedis};
use crate::support::wait;

const QUEUE: &str = "q";

fn enqueue(server: &TestRedis) -> Result<(), delayed::Error> {
    Client::connect_blocking(&server.url()).unwrap().enqueue_blocking(GoTask::new("a").queue(QUEUE)).map(drop)
}

fn waiting(server: &TestRedis) -> (usize, usize) {
    let mut connection = server.connection();
    (connection.llen(QUEUE).unwrap(), connection.llen("q_noti").unwrap())
}

#[test]
fn a_restart_forgets_what_is_in_no_file() {
    for (append_only, left) in [(false, 0), (true, 1)] {
        let extra = ["--appendfsync", "always"].map(Into::into).into();
        let mut server = TestRedis::with(Options { append_only, extra, ..Options::default() });
        enqueue(&server).unwrap();
        assert_eq!(waiting(&server), (1, 1), "expected the call to be acknowledged and there");
        server.kill();
        server.restart();
        assert_eq!(waiting(&server), (left, left), "with the append-only file {append_only}");
    }
}

#[test]
fn failover_loses_what_is_not_replicated_unless_redis_refuses() {
    let mut master = TestRedis::with(Options { tcp: true, ..Options::default() });
    let url = master.tcp_url();
    let port = url.rsplit(':').next().unwrap().to_owned();
    let replica = TestRedis::with(Options {
        extra: ["--replicaof", "127.0.0.1", port.as_str()].map(Into::into).into(),
        ..Options::default()
    });
    let mut there = replica.connection();
    let replicas = |master: &TestRedis| -> String {
        redis::cmd("INFO").arg("replication").query(&mut master.connection()).unwrap()
    };
    wait::until("the replica to follow", std::time::Duration::from_secs(30), || {
        replicas(&master).contains("state=online")
    });
    enqueue(&master).unwrap();
    wait::until("the call on the replica", std::time::Duration::from_secs(30), || {
        waiting(&replica) == (1, 1)
    });

    // It loses its master, and the master goes on.
    let () = redis::cmd("REPLICAOF").arg("127.0.0.1").arg(1).query(&mut there).unwrap();
    wait::until("the master to be alone", std::time::Duration::from_secs(30), || {
        replicas(&master).contains("connected_slaves:0")
    });
    enqueue(&master).unwrap();
    assert_eq!(waiting(&master), (2, 2), "expected the second call to be acknowledged");
    let set = ["min-replicas-to-write", "1"];
    let () = redis::cmd("CONFIG").arg("SET").arg(&set).query(&mut master.connection()).unwrap();
    let error = enqueue(&master).unwrap_err();
    assert_eq!(error.broker_kind(), Some(BrokerErrorKind::ReadOnly), "{error}");
    assert!(!error.may_have_been_applied(), "{error}");
    assert_eq!(waiting(&master), (2, 2), "expected the third call not to be taken");

    master.kill();
    let () = redis::cmd("REPLICAOF").arg("NO").arg("ONE").query(&mut there).unwrap();
    assert_eq!(waiting(&replica), (1, 1), "expected the second call to be forgotten");
    enqueue(&replica).unwrap();
    assert_eq!(waiting(&replica), (2, 2), "expected the new master to take calls");
}
