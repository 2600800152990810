//! Tasks that draw at random, with generators of all kinds.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

use serde_json::json;

use super::note;

thread_local! {
    /// A generator as `rand` and `fastrand` have one: seeded once in each thread.
    static GENERATOR: Cell<u128> = Cell::new(uuid::Uuid::new_v4().as_u128());
}

fn draw() -> serde_json::Value {
    let drawn = GENERATOR.get().wrapping_mul(0xda94_2042_e4dd_58b5).wrapping_add(1);
    GENERATOR.set(drawn);
    json!({
        "uuid": uuid::Uuid::new_v4().to_string(),
        "call_id": delayed::CallId::new().to_string(),
        "hash_keys": RandomState::new().hash_one(1).to_string(),
        "thread_local": drawn.to_string(),
    })
}

/// Before there is a zygote, where the test asks for it.
pub(crate) fn draw_early() {
    if std::env::var_os("DRAW_EARLY").is_some() {
        draw();
    }
}

#[delayed::task(name = "isolation.draws")]
fn draws() {
    note(&draw().to_string());
}

#[delayed::task(name = "isolation.draws_async")]
async fn draws_async() {
    note(&draw().to_string());
}
