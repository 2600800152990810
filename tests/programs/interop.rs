//! Tasks for callers in all three languages. Each run leaves a line in the file that RECORD_FILE names.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{Result, Write};
use std::time::{Duration, SystemTime};

use delayed::{Context, Timestamp};
use serde::{Deserialize, Serialize};

/// How often a task that is held looks whether it may go on.
const LOOK: Duration = Duration::from_millis(5);

/// Writes a line in one piece: several workers may share the file.
fn line(text: &str) -> Result<()> {
    let name = std::env::var_os("RECORD_FILE").expect("RECORD_FILE names the record");
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(name)?;
    file.write_all(format!("{text}\n").as_bytes())
}

fn seen(task: &str, arguments: &impl Debug) -> Result<()> {
    line(&format!("{task} {arguments:?}"))
}

#[derive(Debug, Serialize, Deserialize)]
struct Point(i64, f64);

/// Go sends it as an array, with nil for what is empty.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    id: u64,
    name: String,
    tags: Vec<String>,
    at: Point,
    extra: BTreeMap<String, i64>,
    note: Option<String>,
}

/// Python sends it as a map, or as an array in this order.
#[derive(Debug, Serialize, Deserialize)]
struct Item {
    id: u64,
    sku: String,
    qty: u32,
}

/// What Python mixes in a list.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Mixed {
    Whole(i64),
    Text(String),
    List(Vec<Mixed>),
}

type Map<T> = BTreeMap<String, T>;

/// Tasks that note their arguments.
macro_rules! notes {
    ($($name:ident $path:tt $parameters:tt => $seen:expr;)*) => {$(
        #[delayed::task(name = $path)]
        fn $name $parameters -> Result<()> {
            seen(stringify!($name), &$seen)
        }
    )*};
}

notes! {
    ping "demo::tasks::ping" () => ();
    square "demo::tasks::square" (n: i64) => n;
    ids "demo::tasks::ids" (n: u64) => n;
    half "demo::tasks::half" (x: f64) => x;
    flag "demo::tasks::flag" (on: bool) => on;
    greet "demo::tasks::greet" (name: String) => name;
    blob "demo::tasks::blob" (data: Vec<u8>) => data;
    sum "demo::tasks::sum" (numbers: Vec<i64>) => numbers;
    count "demo::tasks::count" (numbers: Map<i64>) => numbers;
    mv "demo::tasks::mv" (to: Point) => to;
    order "demo::tasks::order" (order: Order) => order;
    orders "demo::tasks::orders" (orders: Map<Vec<Order>>, last: Option<Order>) => (orders, last);
    path "demo::tasks::path" (points: Vec<Point>) => points;
    add "demo::tasks::add" (a: i64, b: i64) => (a, b);
    named "demo::tasks::named" (id: Option<i64>, name: String) => (id, name);
    maybe "demo::tasks::maybe" (id: i64, name: Option<String>) => (id, name);
    defaults "demo::tasks::defaults" (id: i64, #[task(default = 60)] seconds: u64) => (id, seconds);
    mixed "demo::tasks::mixed" (n: i64, text: String, on: bool) => (n, text, on);
    scale "demo::tasks::scale" (point: Point, times: i64) => (point, times);
    line_of "demo::tasks::line" (from: Point, to: Point) => (from, to);
    concat "demo::tasks::concat" (first: Vec<i64>, #[task(variadic)] rest: Vec<i64>) => (first, rest);
    four "demo::tasks::four" (a: i64, b: f64, c: String, d: Vec<u8>) => (a, b, c, d);
    many "demo::tasks::many" (#[task(variadic)] numbers: Vec<u8>) => numbers;
    at "demo::tasks::at" (moment: SystemTime) => Timestamp::from(moment);
    stamp "demo::tasks::stamp" (moment: Timestamp) => moment;
    moments "demo::tasks::moments" (moments: Vec<(Timestamp, String)>) => moments;
    floats "demo::tasks::floats" (a: f64, b: f32) => (a, b);
    flags "demo::tasks::flags" (a: Option<i64>, b: bool, c: bool) => (a, b, c);
    item "demo::tasks::item" (item: Item) => item;
    nested "demo::tasks::nested" (n: i64, a: Vec<Map<Option<Vec<Mixed>>>>, b: Map<Map<Vec<u8>>>) => (n, a, b);
    printf "fmt.Printf" (format: String, #[task(variadic)] values: Vec<Mixed>) => (format, values);
    envoyer "démo::tâches::envoyer" (n: u8) => n;
}

/// Fails in its first attempts.
#[delayed::task(name = "demo::tasks::flaky", retry = 1)]
fn flaky(failures: u32, ctx: Context) -> Result<()> {
    seen("flaky", &(failures, ctx.attempt()))?;
    if ctx.attempt() > failures { Ok(()) } else { Err(std::io::Error::other("it fails at first")) }
}

/// What the workers of all three languages run.
#[delayed::task(name = "demo_tasks:record_bytes")]
fn record_bytes(n: i64) -> Result<()> {
    line(&n.to_string())
}

/// Whether the file of HOLD_FILE is there: then tasks that are held go on.
fn is_free() -> bool {
    std::path::Path::new(&std::env::var_os("HOLD_FILE").expect("HOLD_FILE names what frees")).exists()
}

fn hold_here(n: i64) -> Result<()> {
    line(&format!("begin {n}"))?;
    while !is_free() {
        std::thread::sleep(LOOK);
    }
    line(&format!("end {n}"))
}

/// Is held as long as the test wants.
#[delayed::task(name = "demo::hold")]
async fn hold(n: i64) -> Result<()> {
    line(&format!("begin {n}"))?;
    while !is_free() {
        tokio::time::sleep(LOOK).await;
    }
    line(&format!("end {n}"))
}

#[delayed::task(name = "demo::hold_blocking")]
fn hold_blocking(n: i64) -> Result<()> {
    hold_here(n)
}

#[delayed::task(name = "demo_tasks:hold")]
fn hold_of_python(n: i64) -> Result<()> {
    hold_here(n)
}

#[delayed::task(name = "main.Hold")]
fn hold_of_go(n: i64) -> Result<()> {
    hold_here(n)
}
