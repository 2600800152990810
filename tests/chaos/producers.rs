//! Who sends the calls? Producers in three languages, which note what was acknowledged to them.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use delayed::config::{Config, RedisConfig};
use delayed::{Call, CallId, Cancelled, Client, GoTask, IntoFlow, Limit, group};
use tokio::runtime::Runtime;

use super::fleet::{Fleet, MIXED, OURS, PATH, TIMEOUT};
use super::members::Role;
use super::varied::{Ticks, varied};
use crate::support::trial::PATIENCE;
use crate::support::wait;

/// Between two calls of a producer.
pub(crate) const REST: Duration = Duration::from_millis(20);
/// Calls before the first fault, several for each slot of the fleet, and how long each takes in milliseconds.
const WARM: u64 = 300;
const WARM_LENGTH: u64 = 100;
/// Numbers of calls that one producer has for itself.
const SHARE: u64 = 10_000_000;
/// For how long the record of a call is kept: longer than the chaos lasts.
pub(crate) const KEEP: Duration = Duration::from_secs(86_400);
/// When a scheduled call is due, and one that is cancelled before.
pub(crate) const SOON: Duration = Duration::from_millis(200);
const LATER: Duration = Duration::from_secs(2);
/// The limit of some calls, and how many of them run at a time.
const LIMIT: &str = "few";
pub(crate) const MOST: u32 = 3;
/// How many keys ordered calls share.
const ORDERS: u64 = 4;
/// How many calls of a producer are sent while such a time passes: those that are unique among them share one key.
const RIVALS: u64 = 24;
/// After which a call is not to run: a day, which no clock of the fleet is off by.
const DEADLINE: Duration = Duration::from_secs(86_400);

/// What became of the calls that were sent.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub(crate) acknowledged: HashSet<u64>,
    /// Whoever sent it heard nothing: it may run or not.
    pub(crate) uncertain: HashSet<u64>,
    /// Our client said that it was not sent, since it failed or another holds its lock, or that it is cancelled: it may not run.
    pub(crate) refused: HashSet<u64>,
    /// Calls that keep a record, which is to say in the end how they ended, and when scheduled ones were due.
    pub(crate) kept: Vec<(u64, CallId)>,
    /// The keys of unique calls.
    pub(crate) keys: HashMap<u64, String>,
    /// Calls that share the limit.
    pub(crate) limited: HashSet<u64>,
    /// The keys of calls that run in the order of their numbers.
    pub(crate) orders: HashMap<u64, String>,
    /// How many were not sent, since another held their lock, and how many were cancelled while they waited.
    pub(crate) held: usize,
    pub(crate) dropped: usize,
    /// Flows that were acknowledged: their records are to say in the end that they succeeded.
    pub(crate) flows: Vec<CallId>,
    /// Calls of the small queue, which may be buried when it is full, and those that are to be buried.
    pub(crate) small: HashSet<u64>,
    pub(crate) dying: HashSet<u64>,
    /// How many went to the head of the queue, failed before they ran, took the place of others, were refused by the full queue,
    /// and were made by ticks.
    pub(crate) front: usize,
    pub(crate) tried: usize,
    pub(crate) replaced: usize,
    pub(crate) full: usize,
    pub(crate) ticks: usize,
}

pub(crate) struct Producers {
    stop: Arc<AtomicBool>,
    threads: Vec<(&'static str, JoinHandle<Sent>)>,
    ticks: Ticks,
}

impl Producers {
    /// One for each language and queue, one of flows, one of items for batches, and one of calls with other options. And periodic
    /// tasks.
    pub(crate) fn start(fleet: &Fleet) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        let url = fleet.members.iter().find(|it| it.role == Role::Producers).expect("they are members");
        let url = url.proxy.url();
        let connect = || {
            let mut config = Config::default();
            config.redis = RedisConfig::new(url);
            config.redis.timeout = TIMEOUT;
            Client::with_config_blocking(&config).expect("Redis is there at first")
        };
        let (client, halt) = (connect(), Arc::clone(&stop));
        threads.push(("Rust", std::thread::spawn(move || flows(&client, 7 * SHARE, &halt))));
        let (client, halt) = (connect(), Arc::clone(&stop));
        threads.push(("Rust", std::thread::spawn(move || items(&client, 8 * SHARE, &halt))));
        let (client, halt) = (connect(), Arc::clone(&stop));
        threads.push(("Rust", std::thread::spawn(move || varied(&client, 9 * SHARE, &halt))));
        for (queue, base) in [(OURS, 1), (MIXED, 4)] {
            let numbers = |place: u64| (base + place) * SHARE;
            let client = connect();
            let (ours, halt) = (numbers(0), Arc::clone(&stop));
            threads.push(("Rust", std::thread::spawn(move || rust(&client, queue, ours, &halt))));
            for (name, role, first) in [("Python", Role::Python, numbers(1)), ("Go", Role::Go, numbers(2))] {
                let (command, halt) = (fleet.producer(role, queue), Arc::clone(&stop));
                threads.push((name, std::thread::spawn(move || foreign(command, role, queue, first, &halt))));
            }
        }
        Self { stop, threads, ticks: Ticks::begin(fleet) }
    }

    /// Lets them end, and gives what each language sent.
    pub(crate) fn end(self, fleet: &Fleet) -> Vec<(&'static str, Sent)> {
        self.stop.store(true, Ordering::Relaxed);
        let end =
            |(name, thread): (_, JoinHandle<Sent>)| (name, thread.join().expect("a producer that is well"));
        let ticks = self.ticks.end(fleet);
        self.threads.into_iter().map(end).chain([("ticks", ticks)]).collect()
    }
}

/// Calls until each Rust worker has been full, so that it has all that it needs for its runs.
pub(crate) fn warm_up(fleet: &Fleet) -> Sent {
    let client = Client::connect_blocking(&fleet.server.url()).expect("Redis is there at first");
    let runtime = Runtime::new().expect("a runtime to set a limit in");
    let set =
        async { Client::connect(&fleet.server.url()).await?.set_limit(LIMIT, Limit::concurrent(MOST)).await };
    runtime.block_on(set).expect("Redis is there at first");
    let calls = (0..WARM).map(|n| GoTask::new("trial.span").arg(n.to_string()).arg(WARM_LENGTH).queue(OURS));
    client.enqueue_many_blocking(calls).expect("Redis is there at first");
    for at in fleet.places(|role| matches!(role, Role::Rust(_))) {
        wait::until("each worker to run something", PATIENCE, || !fleet.ran(at).is_empty());
    }
    Sent { acknowledged: (0..WARM).collect(), ..Sent::default() }
}

/// How long the run of a call takes, in milliseconds.
pub(crate) fn length(n: u64) -> u64 {
    n % 401
}

/// Stands for the task of the workers: only messages of ours have options.
#[delayed::task(name = "trial.span")]
pub(crate) async fn span(_n: String, _ms: u64) {}

/// Stands for the task of the workers that runs in batches.
#[delayed::task(name = "trial.collect", batch(max = 5, within = "300ms"))]
async fn collect(_items: Vec<u64>) {}

/// What is asked of a call of our queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Kept,
    /// Unique among those that are sent at about the same time.
    Shared,
    /// Unique by itself, and scheduled.
    Scheduled,
    /// Scheduled, and cancelled before it is due.
    CancelledEarly,
    /// Cancelled as soon as it waits.
    CancelledLate,
    /// Runs while a limit lets it.
    Limited,
    /// Runs in its order.
    Ordered,
}

impl Kind {
    fn of(n: u64) -> Self {
        let kinds = [
            Self::Plain,
            Self::Kept,
            Self::Shared,
            Self::Scheduled,
            Self::CancelledEarly,
            Self::Limited,
            Self::Ordered,
        ];
        kinds.get((n % 8) as usize).copied().unwrap_or(Self::CancelledLate)
    }

    fn is_cancelled(self) -> bool {
        matches!(self, Self::CancelledEarly | Self::CancelledLate)
    }
}

/// The key of a call that runs in its order.
fn order(n: u64) -> Option<String> {
    (Kind::of(n) == Kind::Ordered).then(|| format!("order {}", n / 8 % ORDERS))
}

/// The key of a call that is unique.
fn key(n: u64) -> Option<String> {
    match Kind::of(n) {
        Kind::Shared => Some(format!("shared {}", n / RIVALS)),
        Kind::Scheduled => Some(n.to_string()),
        _ => None,
    }
}

fn ours(n: u64) -> Call {
    let mut call = span::call(n.to_string(), length(n)).queue(OURS);
    call = call.retry(3).with_id().expires_at(SystemTime::now() + DEADLINE);
    if let Some(key) = key(n) {
        call = call.unique_key(key);
    }
    if let Some(key) = order(n) {
        call = call.ordered(key);
    }
    match Kind::of(n) {
        Kind::Plain => call,
        Kind::Limited => call.keep(KEEP).limit(LIMIT),
        Kind::Kept | Kind::Shared | Kind::Ordered | Kind::CancelledLate => call.keep(KEEP),
        Kind::Scheduled => call.keep(KEEP).after(SOON),
        Kind::CancelledEarly => call.keep(KEEP).after(LATER),
    }
}

fn rust(client: &Client, queue: &'static str, first: u64, stop: &AtomicBool) -> Sent {
    let mut sent = Sent::default();
    let runtime = Runtime::new().expect("a runtime to cancel in");
    for n in (first..).take_while(|_| !stop.load(Ordering::Relaxed)) {
        let call = if queue == MIXED { GoTask::new(PATH).arg(n).queue(MIXED) } else { ours(n) };
        if queue == OURS {
            sent.keys.extend(key(n).map(|key| (n, key)));
            sent.orders.extend(order(n).map(|key| (n, key)));
            sent.limited.extend((Kind::of(n) == Kind::Limited).then_some(n));
        }
        let fate = match client.enqueue_blocking(call) {
            Ok(handle) if !handle.is_new() => {
                sent.held += 1;
                &mut sent.refused
            }
            Ok(handle) => {
                let kind = if queue == OURS { Kind::of(n) } else { Kind::Plain };
                sent.kept.extend(handle.id().filter(|_| kind != Kind::Plain).map(|id| (n, id)));
                match kind.is_cancelled().then(|| runtime.block_on(handle.cancel())) {
                    None => &mut sent.acknowledged,
                    Some(Ok(found @ (Cancelled::Scheduled | Cancelled::Waiting))) => {
                        sent.dropped += usize::from(found == Cancelled::Waiting);
                        &mut sent.refused
                    }
                    Some(_) => &mut sent.uncertain,
                }
            }
            Err(error) if error.may_have_been_applied() => &mut sent.uncertain,
            Err(_) => &mut sent.refused,
        };
        fate.insert(n);
        wait::pause(REST);
    }
    sent
}

/// Sends flows of three steps, two at a time, and one behind them. Each step has a number: it is to run as any other call. The
/// record of the flow is to say that it succeeded.
fn flows(client: &Client, first: u64, stop: &AtomicBool) -> Sent {
    let mut sent = Sent::default();
    let step = |n: u64| span::call(n.to_string(), length(n)).queue(OURS).retry(3);
    for n in (first..).step_by(4).take_while(|_| !stop.load(Ordering::Relaxed)) {
        let flow = group((n..n + 3).map(step)).at_most(2).then(step(n + 3)).into_flow();
        let fate = match client.enqueue_blocking(flow.call().keep(KEEP)) {
            Ok(handle) => {
                sent.flows.extend(handle.id());
                &mut sent.acknowledged
            }
            Err(error) if error.may_have_been_applied() => &mut sent.uncertain,
            Err(_) => &mut sent.refused,
        };
        fate.extend(n..n + 4);
        wait::pause(4 * REST);
    }
    sent
}

/// Sends items for batches.
fn items(client: &Client, first: u64, stop: &AtomicBool) -> Sent {
    let mut sent = Sent::default();
    for n in (first..).take_while(|_| !stop.load(Ordering::Relaxed)) {
        let fate = match client.enqueue_blocking(collect::call(n).queue(OURS)) {
            Ok(_) => &mut sent.acknowledged,
            Err(error) if error.may_have_been_applied() => &mut sent.uncertain,
            Err(_) => &mut sent.refused,
        };
        fate.insert(n);
        wait::pause(REST);
    }
    sent
}

/// A program that reads a line for each call, and says when it was sent. It ends when a connection breaks.
struct Foreign {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Foreign {
    fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("a producer starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        Self { child, input, output }
    }

    fn send(&mut self, line: &str) -> bool {
        let Some(input) = &mut self.input else { return false };
        let mut answer = String::new();
        let sent = input.write_all(line.as_bytes()).is_ok() && self.output.read_line(&mut answer).is_ok();
        sent && answer == "acknowledged\n"
    }

    fn end(mut self) {
        drop(self.input.take());
        self.child.wait().expect("it was started");
    }
}

fn foreign(mut command: Command, role: Role, queue: &str, first: u64, stop: &AtomicBool) -> Sent {
    let mut sent = Sent::default();
    let mut program = Foreign::start(&mut command);
    for n in (first..).take_while(|_| !stop.load(Ordering::Relaxed)) {
        let (path, arguments) = if queue == MIXED {
            (PATH, if role == Role::Go { format!("[{n}]") } else { n.to_string() })
        } else {
            ("trial.span", format!("[\"{n}\", {}]", length(n)))
        };
        let line = format!("{{\"kind\": \"go\", \"path\": \"{path}\", \"args\": {arguments}}}\n");
        if program.send(&line) {
            sent.acknowledged.insert(n);
        } else {
            sent.uncertain.insert(n);
            program.end();
            program = Foreign::start(&mut command);
        }
        wait::pause(REST);
    }
    program.end();
    sent
}
