//! What do our scripts and Redis allow, with nothing around them? Messages are counted, not read; until a reply comes, the
//! loop sleeps, where a worker looks for it.

use std::collections::VecDeque;
use std::ops::Range;
use std::process::ExitCode;
use std::time::Duration;

use delayed::__private::script_text;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Connection, Value};

use crate::sending::Sends;
use crate::tally::Tally;

/// Works until it is killed: a loop that claims, one that waits to be handed something, or nothing at all.
pub fn work(words: &[String]) -> ExitCode {
    match words {
        [_, way, _] if way == "ping" => loop {
            std::thread::park();
        },
        [url, way, _] if way == "hand-over" => wait(url),
        [url, _, slots] => claim(url, slots.parse().expect("a number")),
        _ => ExitCode::from(2),
    }
}

/// So many bytes does a claim bring, about, as for a worker.
const CLAIM_BYTES: usize = 1 << 20;

/// One connection, and calls of our own claim script, each of which releases a batch and claims the next. One is in
/// flight, which has all slots; two when messages are so large that one would bring more than a worker's does, so that
/// Redis works while the last reply is read.
struct Claims {
    connection: Connection,
    script: redis::Script,
    ids: Vec<String>,
    seq: u64,
    /// The slots of those in flight.
    in_flight: VecDeque<Range<usize>>,
}

impl Claims {
    fn connect(url: &str, slots: usize) -> Self {
        let info = redis::IntoConnectionInfo::into_connection_info(url).expect("an address");
        let settings = redis::io::tcp::TcpSettings::default().set_nodelay(true);
        let client = redis::Client::open(info.set_tcp_settings(settings)).expect("an address");
        let mut connection = client.get_connection().expect("Redis answers");
        let script = redis::Script::new(script_text("claim").expect("a script of ours"));
        script.prepare_invoke().load(&mut connection).expect("loads");
        let ids = (0..slots).map(|slot| format!("bench:aaaaaaaaaaaaaaaa:{slot}")).collect();
        Self { connection, script, ids, seq: 0, in_flight: VecDeque::new() }
    }

    /// Claims for these slots, the first of which own what is released.
    fn send(&mut self, slots: Range<usize>, released: usize) {
        self.seq += 1;
        let mut call = redis::cmd("EVALSHA");
        call.arg(self.script.get_hash()).arg(8).arg("bench").arg("bench_noti").arg("bench_processing");
        call.arg("bench:aaaaaaaaaaaaaaaa").arg("bench_deaths").arg("bench_hand");
        call.arg("bench_paused").arg("bench_cancelled");
        call.arg(self.seq)
            .arg(60_000)
            .arg(0)
            .arg(0)
            .arg(0)
            .arg(released)
            .arg(0)
            .arg(&self.ids[slots.clone()]);
        self.connection.send_packed_command(&call.get_packed_command()).expect("is sent");
        self.in_flight.push_back(slots);
    }

    /// The slots of the claim that was sent first, how many messages they own now, and the bytes of one of them.
    fn receive(&mut self) -> (Range<usize>, usize, usize) {
        let slots = self.in_flight.pop_front().expect("is in flight");
        let Value::Array(reply) = self.connection.recv_response().expect("claims") else {
            panic!("claim answers an array")
        };
        match reply.get(3) {
            Some(Value::Array(messages)) => {
                let size =
                    if let Some(Value::BulkString(first)) = messages.first() { first.len() } else { 0 };
                (slots, messages.len(), size)
            }
            // Many that are short, as one string: an array of MessagePack.
            Some(Value::BulkString(packed)) => {
                let [0xdc, high, low, ..] = packed[..] else { panic!("it is one of sixteen or more") };
                let count = usize::from(u16::from_be_bytes([high, low]));
                (slots, count, packed.len() / count)
            }
            _ => panic!("claim answers with messages"),
        }
    }
}

fn claim(url: &str, slots: usize) -> ExitCode {
    let tally = Tally::of_environment();
    let mut claims = Claims::connect(url, slots);
    let (mut total, mut known) = (0, false);
    claims.send(0..1, 0);
    loop {
        let (own, claimed, size) = claims.receive();
        for _ in 0..claimed {
            tally.count(total);
            total += 1;
        }
        if claimed == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        if known || claimed == 0 {
            claims.send(own, claimed);
            continue;
        }
        // The first message tells how large they are.
        known = true;
        let batch = (CLAIM_BYTES / size.max(1)).clamp(1, slots);
        claims.send(0..batch, claimed);
        if 2 * batch <= slots {
            claims.send(batch..2 * batch, 0);
        }
    }
}

/// The list that [`Hand`] pushes to.
const HANDED: &str = "bench_bare";

/// Waits in `BLPOP`, again and again.
fn wait(url: &str) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    // In a task, as a program that serves would: what `block_on` polls is woken from another thread each time.
    let url = url.to_owned();
    let waiting = runtime.spawn(async move {
        let mut connection = connect(&url).await;
        let mut wait = redis::cmd("BLPOP");
        wait.arg(HANDED).arg(0);
        loop {
            let (_, number): (String, u64) = wait.query_async(&mut connection).await.expect("is handed one");
            Tally::of_environment().mark(number);
        }
    });
    runtime.block_on(waiting).expect("is ended from outside")
}

/// Hands over numbers with `RPUSH`.
#[derive(Clone)]
pub struct Hand(ConnectionManager);

impl Hand {
    pub async fn connect(url: &str) -> Self {
        Self(connect(url).await)
    }
}

impl Sends for Hand {
    async fn bulk(&self, _: &str, numbers: Range<u64>, _: usize) {
        let numbers: Vec<u64> = numbers.collect();
        let push = redis::cmd("RPUSH").arg(HANDED).arg(numbers).exec_async(&mut self.0.clone()).await;
        push.expect("answers");
    }

    async fn one(&self, task: &str, number: u64) {
        self.bulk(task, number..number + 1, 0).await;
    }
}

/// Runs each call itself, as soon as Redis has answered a `PING`.
#[derive(Clone)]
pub struct Ping(ConnectionManager);

impl Ping {
    pub async fn connect(url: &str) -> Self {
        Self(connect(url).await)
    }
}

impl Sends for Ping {
    async fn bulk(&self, task: &str, numbers: Range<u64>, _: usize) {
        let (mut connection, is_counted) = (self.0.clone(), task == "mark");
        // In a task, as above.
        let asked = tokio::spawn(async move {
            redis::cmd("PING").exec_async(&mut connection).await.expect("answers");
            for number in numbers.filter(|_| is_counted) {
                Tally::of_environment().mark(number);
            }
        });
        asked.await.expect("is not ended");
    }

    async fn one(&self, task: &str, number: u64) {
        self.bulk(task, number..number + 1, 0).await;
    }
}

async fn connect(url: &str) -> ConnectionManager {
    let redis = redis::Client::open(url).expect("an address");
    let settings = ConnectionManagerConfig::new().set_response_timeout(None);
    ConnectionManager::new_with_config(redis, settings).await.expect("connects")
}
