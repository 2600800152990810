//! A test that does not come to its end: it starts a Redis, prints where, and waits; or, as TESTER says, exits.

use std::process::ExitCode;
use std::sync::OnceLock;

use delayed::testing::Redis;

static REDIS: OnceLock<Redis> = OnceLock::new();

pub(crate) fn main(kind: &str) -> ExitCode {
    println!("redis at {}", REDIS.get_or_init(Redis::start_blocking).url());
    match kind {
        "exits" => ExitCode::SUCCESS,
        _ => loop {
            std::thread::park();
        },
    }
}
