//! The proxy of `delayed::testing` does what it says, so that a test which uses it proves something.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use delayed::testing::{Fault, Mode, Proxy, Requests, Side};
use redis::{Commands, Connection, RedisResult};

use crate::support::redis::{Options, TestRedis};
use crate::support::wait;

const PATIENCE: Duration = Duration::from_secs(30);
/// How long something that never comes is waited for.
const NEVER: Duration = Duration::from_millis(100);

fn connect(url: &str) -> RedisResult<Connection> {
    let connection = redis::Client::open(url)?.get_connection()?;
    connection.set_read_timeout(Some(PATIENCE))?;
    Ok(connection)
}

/// A Redis on a port, a proxy before it, and a connection through that which shows bytes.
fn bare() -> (TestRedis, Proxy, TcpStream) {
    let server = TestRedis::with(Options { tcp: true, ..Options::default() });
    let proxy = Proxy::to(&server.tcp_url()).unwrap();
    let stream = TcpStream::connect(proxy.url().strip_prefix("redis://").unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    (server, proxy, stream)
}

/// The bytes that come for these requests, until so many have come.
fn exchange(mut stream: &TcpStream, requests: &str, length: usize) -> String {
    stream.write_all(requests.as_bytes()).unwrap();
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// What comes in the end: nothing more, or what is wrong.
fn rest(mut stream: &TcpStream) -> Result<String, ErrorKind> {
    let mut text = String::new();
    stream.read_to_string(&mut text).map(|_| text).map_err(|error| error.kind())
}

#[test]
fn loses_a_reply_after_redis_has_run_the_request() {
    let server = TestRedis::with(Options { password: Some("secret"), ..Options::default() });
    let proxy = server.proxy();
    let mut connection = connect(proxy.url()).unwrap();
    let trap = proxy.trap(Side::Reply, Requests::with("marked").nth(2), Fault::End);
    let mut push = |value: &str| connection.rpush::<_, _, u64>("q", value);
    assert_eq!(push("marked").unwrap(), 1, "expected the first to pass");
    assert_eq!(push("other").unwrap(), 2, "expected another request to pass");
    push("marked").expect_err("expected the second to lose its reply");
    assert_eq!((trap.met(), trap.struck()), (2, 1), "expected one connection to be cut");
    assert_eq!(server.connection().llen::<_, u64>("q").unwrap(), 3, "expected Redis to have run it");
    let mut again = connect(proxy.url()).unwrap();
    assert_eq!(again.rpush::<_, _, u64>("q", "marked").unwrap(), 4, "expected everything to pass again");
    assert!(!format!("{proxy:?}").contains("secret"), "expected the password not to be shown: {proxy:?}");
}

#[test]
fn drops_a_request_before_redis_by_its_place_in_a_pipeline() {
    let server = TestRedis::start();
    let proxy = server.proxy();
    let pushes = Requests::command("rpush");
    proxy.trap(Side::Request, pushes.clone().nth(1), Fault::End);
    connect(proxy.url()).unwrap().rpush::<_, _, u64>("q", "a").expect_err("expected a cut");
    assert_eq!(server.connection().llen::<_, u64>("q").unwrap(), 0, "expected Redis not to have it");

    let mut connection = connect(proxy.url()).unwrap();
    let trap = proxy.trap(Side::Reply, pushes.nth(2), Fault::End);
    let mut pipe = redis::pipe();
    pipe.rpush("q", "1").cmd("LRANGE").arg("q").arg(0).arg(-1).rpush("q", "2").llen("q");
    pipe.query::<redis::Value>(&mut connection).expect_err("expected a cut");
    assert_eq!(trap.struck(), 1, "expected a second cut");
    assert_eq!(server.connection().llen::<_, u64>("q").unwrap(), 2, "expected both to have run");
}

#[test]
fn refuses_cuts_holds_and_delays() {
    let server = TestRedis::with(Options { tcp: true, ..Options::default() });
    let proxy = Proxy::to(&server.tcp_url()).unwrap();
    let mut connection = connect(proxy.url()).unwrap();
    proxy.set(Mode::Refuse);
    assert!(connect(proxy.url()).is_err(), "expected a new connection to be refused");
    assert_eq!(connection.llen::<_, u64>("q").unwrap(), 0, "expected the old connection to stay");
    proxy.cut();
    connection.llen::<_, u64>("q").expect_err("expected the old connection to be cut");

    proxy.set(Mode::Delay(Duration::from_millis(30)));
    let began = Instant::now();
    let mut connection = connect(proxy.url()).unwrap();
    assert_eq!(connection.llen::<_, u64>("q").unwrap(), 0, "expected a late reply");
    assert!(began.elapsed() >= Duration::from_millis(60), "expected a delay on either way");

    proxy.set(Mode::Hold);
    connection.set_read_timeout(Some(NEVER)).unwrap();
    connection.llen::<_, u64>("q").expect_err("expected no reply while it holds");
    proxy.set(Mode::Pass);
    let mut connection = connect(proxy.url()).unwrap();
    assert_eq!(connection.llen::<_, u64>("q").unwrap(), 0, "expected it to pass again");

    let (url, kept) = (proxy.url().to_owned(), connection);
    drop(proxy);
    wait::until("nobody to listen", PATIENCE, || connect(&url).is_err());
    let mut kept = kept;
    kept.llen::<_, u64>("q").expect_err("expected its connections to end with it");
}

#[test]
fn drops_doubles_and_delays_the_bytes_of_one_and_goes_on() {
    let (_server, proxy, stream) = bare();
    let counts = |fault| proxy.trap(Side::Reply, Requests::command("INCR").nth(1), fault);
    counts(Fault::Drop);
    assert_eq!(exchange(&stream, "INCR n\r\n", 0), "");
    assert_eq!(
        exchange(&stream, "*1\r\n$4\r\nPING\r\n", 11),
        ":1\r\n+PONG\r\n",
        "a line typed is no command"
    );
    let incr = "*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n";
    assert_eq!(exchange(&stream, &format!("{incr}PING\r\n"), 7), "+PONG\r\n", "expected no reply to be left");
    counts(Fault::Double);
    assert_eq!(exchange(&stream, incr, 8), ":3\r\n:3\r\n");
    let began = Instant::now();
    counts(Fault::Delay(NEVER));
    assert_eq!(exchange(&stream, &format!("{incr}PING\r\n"), 11), ":4\r\n+PONG\r\n");
    assert!(began.elapsed() >= NEVER, "expected it to be late: {:?}", began.elapsed());

    let asks = |fault| proxy.trap(Side::Request, Requests::command("INCR").nth(1), fault);
    asks(Fault::Drop);
    assert_eq!(exchange(&stream, &format!("{incr}PING\r\n"), 7), "+PONG\r\n");
    asks(Fault::Double);
    // The reply to the second one is known to be nobody's: the next is not taken for it.
    let late = proxy.trap(Side::Reply, Requests::command("GET").nth(1), Fault::Double);
    let get = "*2\r\n$3\r\nGET\r\n$1\r\nn\r\n";
    assert_eq!(exchange(&stream, &format!("{incr}{get}"), 22), ":5\r\n:6\r\n$1\r\n6\r\n$1\r\n6\r\n");
    assert_eq!(late.struck(), 1);
}

#[test]
fn halves_the_bytes_and_ends_resets_or_says_nothing_more() {
    let get = "*2\r\n$3\r\nGET\r\n$1\r\nn\r\n";
    let reply = "$10\r\n0123456789\r\n";
    for (fault, comes, ends) in [
        (Fault::End, 0, Ok(String::new())),
        (Fault::Reset, 0, Err(ErrorKind::ConnectionReset)),
        (Fault::HalfThenEnd, 8, Ok(String::new())),
        (Fault::HalfThenNothing, 8, Err(ErrorKind::WouldBlock)),
        (Fault::Hold, 0, Err(ErrorKind::WouldBlock)),
    ] {
        for side in [Side::Reply, Side::Request] {
            let (server, proxy, stream) = bare();
            let () = server.connection().set("n", "0123456789").unwrap();
            let trap = proxy.trap(side, Requests::all().nth(2), fault);
            assert_eq!(exchange(&stream, get, reply.len()), reply);
            let comes = if side == Side::Reply { comes } else { 0 };
            assert_eq!(exchange(&stream, get, comes), &reply[..comes], "{fault:?} of a {side:?}");
            wait::until("the fault", PATIENCE, || trap.struck() == 1);
            stream
                .set_read_timeout(Some(if ends == Err(ErrorKind::WouldBlock) { NEVER } else { PATIENCE }))
                .unwrap();
            assert_eq!(rest(&stream), ends, "{fault:?} of a {side:?}");
            trap.release();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            if fault == Fault::Hold {
                assert_eq!(exchange(&stream, "", reply.len()), reply, "expected what was held to go on");
            } else if fault == Fault::HalfThenNothing {
                assert_eq!(rest(&stream), Ok(String::new()), "expected an end when it is over");
            }
        }
    }
}

#[test]
fn a_direction_that_is_held_is_not_read_and_the_other_one_is() {
    let (server, proxy, stream) = bare();
    let trap = proxy.trap(Side::Request, Requests::with("held"), Fault::Hold);
    // More than all buffers on the way take.
    let value = "x".repeat(64 << 20);
    let set = format!("*3\r\n$3\r\nSET\r\n$4\r\nheld\r\n${}\r\n{value}\r\n", value.len());
    let mut writer = stream.try_clone().unwrap();
    let small = "*3\r\n$3\r\nSET\r\n$4\r\nheld\r\n$1\r\n1\r\n";
    let written = std::thread::spawn(move || writer.write_all(format!("{small}{set}").as_bytes()));
    wait::until("the first to be held", PATIENCE, || trap.struck() == 1);
    wait::pause(NEVER);
    assert!(!written.is_finished(), "expected nobody to read the second");
    assert!(!server.connection().exists::<_, bool>("held").unwrap(), "expected nothing to arrive");
    trap.release();
    written.join().unwrap().unwrap();
    assert_eq!(exchange(&stream, "", 10), "+OK\r\n+OK\r\n");
}

#[test]
fn request_arrives_though_its_sender_is_gone() {
    let server = TestRedis::start();
    let proxy = server.proxy();
    let path = proxy.url().strip_prefix("unix://").unwrap();
    let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
    let first = proxy.trap(Side::Reply, Requests::command("INCR").nth(1), Fault::Hold);
    let second = proxy.trap(Side::Request, Requests::command("INCR").nth(2), Fault::Hold);
    stream.write_all("*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n".repeat(2).as_bytes()).unwrap();
    wait::until("both to be held", PATIENCE, || (first.struck(), second.struck()) == (1, 1));
    drop(stream);
    first.release();
    wait::until("the first to be answered", PATIENCE, || proxy.unanswered() == 1);
    // No sign tells when the reply has met nobody.
    wait::pause(NEVER);
    second.release();
    wait::until("the connection to end", PATIENCE, || proxy.unanswered() == 0);
    assert_eq!(server.connection().get::<_, u64>("n").unwrap(), 2, "expected the second to arrive");
}

#[test]
fn unsupported_address_is_refused_and_an_absent_server_is_not() {
    assert_eq!(Proxy::to("rediss://h:1").unwrap_err().kind(), ErrorKind::InvalidInput);
    let proxy = Proxy::to("unix:///nowhere/redis.sock").unwrap();
    assert!(connect(proxy.url()).is_err(), "expected no connection without a server");
}
