//! Arguments of all kinds, for a plain `fn` and for an `async fn`: what arrives is printed.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::Greeting;

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    id: u64,
    lines: Vec<Line>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    article: String,
    count: u16,
}

type Counts = BTreeMap<String, i8>;

#[delayed::task(name = "typed.plain")]
fn plain(
    order: Order,
    data: Vec<u8>,
    raw: ByteBuf,
    some: Option<Vec<i16>>,
    _shared: delayed::State<Greeting>,
    #[task(default)] counts: Counts,
) {
    note(&order, &data, &raw, &some, &counts);
}

#[delayed::task(name = "typed.asynchronous")]
async fn asynchronous(
    order: Order,
    data: Vec<u8>,
    raw: ByteBuf,
    some: Option<Vec<i16>>,
    _shared: delayed::State<Greeting>,
    #[task(default)] counts: Counts,
) {
    note(&order, &data, &raw, &some, &counts);
}

#[expect(clippy::print_stdout, reason = "tests read it")]
fn note(order: &Order, data: &[u8], raw: &[u8], some: &Option<Vec<i16>>, counts: &Counts) {
    println!("{order:?} {data:?} {raw:?} {some:?} {counts:?}");
}

/// Types that are read from a text and from another form.
#[delayed::task(name = "typed.forms")]
#[expect(clippy::print_stdout, reason = "tests read it")]
fn forms(from: IpAddr, peer: SocketAddr, at: SystemTime) {
    let seconds = at.duration_since(SystemTime::UNIX_EPOCH).map_or(-1.0, |since| since.as_secs_f64());
    println!("{from} {peer} {seconds:.3}");
}

/// What is left out is not made before it is needed: this cannot be called.
#[delayed::task(name = "typed.costly")]
fn costly(#[task(default = never())] rows: Vec<u8>) {
    drop(rows);
}

fn never() -> Vec<u8> {
    panic!("nobody is to make this where nothing is run");
}
