//! A transactional outbox in PostgreSQL: an order and the call that belongs to it are written in one transaction, and a relay
//! sends the call.
//!
//! ```sh
//! export DATABASE_URL='postgres:///shop?host=/run/postgresql' REDIS_URL=redis://127.0.0.1:6379
//! psql shop -f schema.sql
//! cargo run -- worker & cargo run -- relay &
//! cargo run -- order ann bob
//! ```

use std::time::Duration;

use delayed::{Client, Error, State, Worker};
use sqlx::postgres::PgListener;
use sqlx::{PgPool, query, query_as};
use tokio::time::timeout;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// How many rows are sent in one transaction.
const BATCH: i64 = 100;
/// For how long the id of a call is known after its end: longer than a relay may be away between sending a row and deleting it.
const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);
/// When the relay looks for rows although nothing has woken it: those that another relay has left when it died.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Confirms an order. It may run twice, like every call.
#[delayed::task(name = "shop.confirm", retry = 10)]
async fn confirm(order: i64, pool: State<PgPool>) -> Result<(), sqlx::Error> {
    query("INSERT INTO mails (order_id) VALUES ($1)").bind(order).execute(&*pool).await.map(drop)
}

/// Takes an order: both rows are there, or neither.
async fn take_order(pool: &PgPool, customer: &str) -> Result<i64, sqlx::Error> {
    let mut transaction = pool.begin().await?;
    let (order,): (i64,) = query_as("INSERT INTO orders (customer) VALUES ($1) RETURNING id")
        .bind(customer)
        .fetch_one(&mut *transaction)
        .await?;
    query("INSERT INTO outbox (order_id) VALUES ($1)").bind(order).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(order)
}

/// Sends rows of the outbox, and deletes them. Returns how many.
async fn relay_some(pool: &PgPool, client: &Client) -> Result<usize, Box<dyn std::error::Error>> {
    let mut transaction = pool.begin().await?;
    // Another relay skips these rows until this transaction ends, and so does ours if it dies.
    let rows: Vec<(i64, i64)> =
        query_as("SELECT id, order_id FROM outbox ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED")
            .bind(BATCH)
            .fetch_all(&mut *transaction)
            .await?;
    for (id, order) in &rows {
        match client.enqueue(confirm::call(*order).id(format!("shop.outbox:{id}")).keep(KEEP)).await {
            // It was sent before: by a relay that died before it could delete the row.
            Ok(_) | Err(Error::Exists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let ids: Vec<i64> = rows.iter().map(|(id, _)| *id).collect();
    query("DELETE FROM outbox WHERE id = ANY($1)").bind(ids).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(rows.len())
}

/// Sends rows as they come, until an error ends it: start it again then, as systemd does.
async fn relay(pool: &PgPool, client: &Client) -> Outcome {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen("outbox").await?; // before the first look, so that no row is missed
    println!("relaying");
    loop {
        while relay_some(pool, client).await? > 0 {}
        if let Ok(woken) = timeout(LOOK_EVERY, listener.recv()).await {
            woken?;
        }
    }
}

async fn work(pool: PgPool, redis: &str) -> Outcome {
    let worker = Worker::builder(redis).state(pool).signals(true).connect().await?;
    println!("serving");
    worker.run().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Outcome {
    let variable = |name: &str| std::env::var(name).map_err(|_| format!("set {name}"));
    let (database, redis) = (variable("DATABASE_URL")?, variable("REDIS_URL")?);
    let pool = PgPool::connect(&database).await?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["worker"] => work(pool, &redis).await,
        ["relay"] => relay(&pool, &Client::connect(&redis).await?).await,
        ["order", ref customers @ ..] => {
            for customer in customers {
                println!("order {}", take_order(&pool, customer).await?);
            }
            Ok(())
        }
        _ => Err("write `worker`, `relay` or `order CUSTOMER…`".into()),
    }
}
