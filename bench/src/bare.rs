//! The ceiling: what our scripts and Redis allow, with nothing around them. Messages are counted, not read.

use std::ops::Range;
use std::process::ExitCode;
use std::time::Duration;

use redis::Value;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};

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

/// One connection, one call of our own claim script in flight, which releases a batch and claims the next.
fn claim(url: &str, slots: usize) -> ExitCode {
    let info = redis::IntoConnectionInfo::into_connection_info(url).expect("an address");
    let settings = redis::io::tcp::TcpSettings::default().set_nodelay(true);
    let client = redis::Client::open(info.set_tcp_settings(settings)).expect("an address");
    let mut connection = client.get_connection().expect("Redis answers");
    let tally = Tally::of_environment();
    let script = redis::Script::new(include_str!("../../lua/claim.lua"));
    script.prepare_invoke().load(&mut connection).expect("loads");
    let ids: Vec<String> = (0..slots).map(|slot| format!("bench:aaaaaaaaaaaaaaaa:{slot}")).collect();
    let (mut seq, mut released, mut total) = (0, 0, 0);
    loop {
        seq += 1;
        let mut call = redis::cmd("EVALSHA");
        call.arg(script.get_hash()).arg(6).arg("bench").arg("bench_noti").arg("bench_processing");
        call.arg("bench:aaaaaaaaaaaaaaaa").arg("bench_deaths").arg("bench_hand");
        call.arg(seq).arg(60_000).arg(0).arg(0).arg(0).arg(released).arg(0).arg(&ids);
        let Value::Array(reply) = call.query(&mut connection).expect("claims") else {
            panic!("claim answers an array")
        };
        released = reply.len() - 3;
        for _ in 0..released {
            tally.count(total);
            total += 1;
        }
        if released == 0 {
            std::thread::sleep(Duration::from_millis(1));
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
