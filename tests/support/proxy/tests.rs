//! The proxy does what it says, so that a fault test proves something.

use super::*;
use crate::support::redis::Options;
use redis::{Commands, Connection, RedisResult};

fn connect(url: &str) -> RedisResult<Connection> {
    let connection = redis::Client::open(url)?.get_connection()?;
    connection.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(connection)
}

#[test]
fn loses_a_reply_after_redis_has_run_the_request() {
    let server = TestRedis::with(Options { password: Some("secret"), ..Options::default() });
    let proxy = Proxy::unix(&server);
    let mut connection = connect(proxy.url()).unwrap();
    proxy.lose(Lose::Reply, "marked", 2);
    let mut push = |value: &str| connection.rpush::<_, _, u64>("q", value);
    assert_eq!(push("marked").unwrap(), 1, "expected the first to pass");
    assert_eq!(push("other").unwrap(), 2, "expected another request to pass");
    push("marked").expect_err("expected the second to lose its reply");
    assert_eq!(proxy.lost(), 1, "expected one connection to be cut");
    assert_eq!(server.connection().llen::<_, u64>("q").unwrap(), 3, "expected Redis to have run it");
    let mut again = connect(proxy.url()).unwrap();
    assert_eq!(again.rpush::<_, _, u64>("q", "marked").unwrap(), 4, "expected everything to pass again");
}

#[test]
fn loses_a_request_before_redis_has_it_and_knows_its_place_in_a_pipeline() {
    let server = TestRedis::start();
    let proxy = Proxy::unix(&server);
    proxy.lose(Lose::Request, "marked", 1);
    connect(proxy.url()).unwrap().rpush::<_, _, u64>("q", "marked").expect_err("expected a cut");
    assert_eq!(server.connection().llen::<_, u64>("q").unwrap(), 0, "expected Redis not to have it");

    let mut connection = connect(proxy.url()).unwrap();
    proxy.lose(Lose::Reply, "marked", 1);
    let mut pipe = redis::pipe();
    pipe.rpush("q", "1").cmd("LRANGE").arg("q").arg(0).arg(-1).rpush("q", "marked").llen("q");
    pipe.query::<redis::Value>(&mut connection).expect_err("expected a cut");
    assert_eq!(proxy.lost(), 2, "expected a second cut");
    assert_eq!(server.connection().llen::<_, u64>("q").unwrap(), 2, "expected both to have run");
}

#[test]
fn refuses_cuts_holds_and_delays() {
    let server = TestRedis::start();
    let proxy = Proxy::tcp(&server);
    let mut connection = connect(proxy.url()).unwrap();
    proxy.set(Mode::Refuse);
    assert!(connect(proxy.url()).is_err(), "expected a new connection to be refused");
    assert_eq!(connection.llen::<_, u64>("q").unwrap(), 0, "expected the old connection to stay");
    proxy.cut();
    connection.llen::<_, u64>("q").expect_err("expected the old connection to be cut");

    proxy.set(Mode::Delay(Duration::from_millis(30)));
    let began = std::time::Instant::now();
    let mut connection = connect(proxy.url()).unwrap();
    assert_eq!(connection.llen::<_, u64>("q").unwrap(), 0, "expected a late reply");
    assert!(began.elapsed() >= Duration::from_millis(60), "expected a delay on either way");

    proxy.set(Mode::Hold);
    connection.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
    connection.llen::<_, u64>("q").expect_err("expected no reply while it holds");
    proxy.set(Mode::Pass);
    let mut connection = connect(proxy.url()).unwrap();
    assert_eq!(connection.llen::<_, u64>("q").unwrap(), 0, "expected it to pass again");
}
