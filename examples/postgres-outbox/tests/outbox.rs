//! Kills processes between their steps, and checks that no order is lost and none is sent twice. Starts a PostgreSQL and a Redis.

mod postgres;

use std::collections::BTreeSet;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use delayed::testing::Redis;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::{PgPool, Postgres as Db, Transaction, query, query_scalar, raw_sql};

use self::postgres::Postgres;

const PATIENCE: Duration = Duration::from_secs(60);

/// A database, a Redis, and the programs between them.
struct Site {
    pool: PgPool,
    redis: Redis,
    // Dropped last.
    postgres: Postgres,
}

/// A process that does not outlive its test.
struct Program(Child);

impl Site {
    async fn start() -> Self {
        let (redis, postgres) = (Redis::start().await, Postgres::start());
        let pool = PgPool::connect(&postgres.url()).await.unwrap();
        raw_sql(include_str!("../schema.sql")).execute(&pool).await.unwrap();
        Self { pool, redis, postgres }
    }

    fn run(&self, words: &[&str]) -> Program {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postgres-outbox"));
        command.env("DATABASE_URL", self.postgres.url()).env("REDIS_URL", self.redis.url());
        Program(command.args(words).spawn().unwrap())
    }

    /// Takes so many orders.
    fn order(&self, count: usize) {
        let customers = vec!["ann"; count];
        let mut program = self.run(&[&["order"][..], &customers].concat());
        assert!(program.0.wait().unwrap().success());
    }

    async fn count(&self, table: &str) -> usize {
        let count: i64 =
            query_scalar(&format!("SELECT count(*) FROM {table}")).fetch_one(&self.pool).await.unwrap();
        count.try_into().unwrap()
    }

    async fn wait_count(&self, table: &str, expected: usize) {
        until(&format!("{expected} rows in {table}"), async || self.count(table).await == expected).await;
    }

    /// Locks a table in a mode that lets others read it, and lock its rows, but not change it.
    async fn lock(&self, table: &str) -> Transaction<'static, Db> {
        let mut lock = self.pool.begin().await.unwrap();
        query(&format!("LOCK TABLE {table} IN SHARE MODE")).execute(&mut *lock).await.unwrap();
        lock
    }

    /// Kills a program when it waits for the lock.
    async fn kill_at_lock(&self, program: Program) {
        until("the program to wait for the lock", async || {
            self.count("pg_locks WHERE NOT granted").await == 1
        })
        .await;
        program.kill9();
    }

    /// The numbers of the orders whose calls are enqueued, in the order of their calls.
    async fn enqueued(&self) -> Vec<i64> {
        let calls = self.redis.enqueued().await;
        calls.iter().map(|call| call.argument(0)).collect()
    }
}

impl Program {
    fn kill9(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    fn stop(mut self) {
        kill(Pid::from_raw(self.0.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a condition holds.
async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < end, "waited {PATIENCE:?} for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn relay_killed_between_send_and_delete_doubles_nothing() {
    let site = Site::start().await;
    site.order(10);
    assert_eq!((site.count("orders").await, site.count("outbox").await), (10, 10));

    // It has sent all rows, and may not delete them.
    let lock = site.lock("outbox").await;
    site.kill_at_lock(site.run(&["relay"])).await;
    assert_eq!(site.enqueued().await, (1..=10).collect::<Vec<i64>>(), "expected it to have sent all");
    lock.rollback().await.unwrap();
    assert_eq!(site.count("outbox").await, 10, "expected it to have deleted nothing");

    // The next one dies there too, when all calls have run.
    let worker = site.run(&["worker"]);
    site.wait_count("mails", 10).await;
    let lock = site.lock("outbox").await;
    site.kill_at_lock(site.run(&["relay"])).await;
    lock.rollback().await.unwrap();
    assert_eq!(site.count("outbox").await, 10);

    let relays = [site.run(&["relay"]), site.run(&["relay"])];
    site.order(5);
    site.wait_count("outbox", 0).await;
    site.wait_count("(SELECT DISTINCT order_id FROM mails) AS sent", 15).await;
    relays.into_iter().for_each(Program::kill9);
    worker.stop();
    assert_eq!(site.enqueued().await, Vec::<i64>::new());
    assert_eq!(site.count("mails").await, 15, "expected one mail for each order");
}

#[tokio::test(flavor = "multi_thread")]
async fn relays_killed_at_any_time_send_each_call_once() {
    let site = Site::start().await;
    site.order(300);
    for sent in [20, 90, 130, 210] {
        let relays = [site.run(&["relay"]), site.run(&["relay"])];
        until(&format!("{sent} calls"), async || site.redis.enqueued().await.len() >= sent).await;
        relays.into_iter().for_each(Program::kill9);
    }
    let relay = site.run(&["relay"]);
    site.wait_count("outbox", 0).await;
    relay.kill9();
    let orders = site.enqueued().await;
    assert_eq!(orders.len(), 300);
    assert_eq!(orders.into_iter().collect::<BTreeSet<i64>>(), (1..=300).collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn order_whose_transaction_dies_sends_nothing() {
    let site = Site::start().await;
    let lock = site.lock("outbox").await;
    site.kill_at_lock(site.run(&["order", "ann"])).await;
    lock.rollback().await.unwrap();
    site.order(1);
    let relay = site.run(&["relay"]);
    site.wait_count("outbox", 0).await;
    relay.kill9();
    assert_eq!(site.count("orders").await, 1, "expected the order that was not committed to be gone");
    assert_eq!(site.enqueued().await, [2]);
}
