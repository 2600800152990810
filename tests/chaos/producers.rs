//! Who sends the calls? Producers in three languages, which note what was acknowledged to them.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use delayed::config::{Config, RedisConfig};
use delayed::{CallId, Client, GoTask, IntoCall, IntoFlow, Limit, group};
use tokio::runtime::Runtime;

use super::fleet::{Fleet, PATH, TIMEOUT};
use super::members::Role;
use super::place::Queues;
use super::steady::{produced, steady};
use super::varied::{Ticks, varied};
use crate::support::process::Program;
use crate::support::trial::PATIENCE;
use crate::support::wait;

/// Between two calls of a producer.
pub(crate) const REST: Duration = Duration::from_millis(20);
/// Calls before the first fault, several for each slot of the fleet, and how long each takes in milliseconds.
const WARM: u64 = 300;
const WARM_LENGTH: u64 = 100;
/// How many steps a flow has, and how many items go to one queue in a row.
pub(crate) const STEPS: u64 = 4;
const TOGETHER: u64 = 5;
/// Numbers of calls that one producer has for itself.
pub(crate) const SHARE: u64 = 10_000_000;
/// For how long the record of a call is kept: longer than the chaos lasts.
pub(crate) const KEEP: Duration = Duration::from_secs(86_400);
/// When a scheduled call is due.
pub(crate) const SOON: Duration = Duration::from_millis(200);
/// The limit of some calls, and how many of them run at a time.
pub(crate) const LIMIT: &str = "few";
pub(crate) const MOST: u32 = 3;
/// What became of the calls that were sent.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub(crate) acknowledged: HashSet<u64>,
    /// Whoever sent it heard nothing: it may run or not.
    pub(crate) uncertain: HashSet<u64>,
    /// Our client said that it was not sent, since it failed or another holds its lock, or that it is cancelled: it may not run.
    pub(crate) refused: HashSet<u64>,
    /// The queue of each.
    pub(crate) queues: HashMap<u64, &'static str>,
    /// When cancellations were acknowledged: in milliseconds of the machine's clock.
    pub(crate) cancelled: HashMap<u64, u64>,
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
    /// Flows that were acknowledged, with their queues and first numbers: their records are to say in the end that they succeeded.
    pub(crate) flows: Vec<(&'static str, CallId, u64)>,
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

impl Sent {
    /// Calls that keep a record, each with its queue.
    pub(crate) fn records(&self) -> impl Iterator<Item = (u64, CallId, &'static str)> {
        self.kept.iter().map(|(n, id)| (*n, *id, self.queues[n]))
    }
}

pub(crate) struct Producers {
    stop: Arc<AtomicBool>,
    threads: Vec<(&'static str, JoinHandle<Sent>)>,
    ticks: Ticks,
}

impl Producers {
    /// One of flows, one of items for batches, and one of calls with other options. And periodic tasks. With a Cluster, the member
    /// of the fleet sends all else; else there is one for each language and queue.
    pub(crate) fn start(fleet: &mut Fleet) -> Self {
        fleet.produce();
        let stop = Arc::new(AtomicBool::new(false));
        let (url, queues) = (fleet.url_of_producers(), fleet.queues());
        let mut threads = Vec::new();
        let mut begin = |work: fn(&Client, Queues, u64, &AtomicBool) -> Sent, place: u64| {
            let (client, halt) = (connect(&url, fleet.place.durability()), Arc::clone(&stop));
            threads.push(("Rust", std::thread::spawn(move || work(&client, queues, place * SHARE, &halt))));
        };
        begin(flows, 7);
        begin(items, 8);
        begin(varied, 9);
        let Some(queue) = queues.mixed else {
            return Self { stop, threads, ticks: Ticks::begin(fleet) };
        };
        begin(steady, 1);
        begin(mixed, 4);
        for (queue, base) in [(queues.ours()[0], 1), (queue, 4)] {
            let numbers = |place: u64| (base + place) * SHARE;
            for (name, role, first) in [("Python", Role::Python, numbers(1)), ("Go", Role::Go, numbers(2))] {
                let (command, halt) = (fleet.producer(role, queue), Arc::clone(&stop));
                let is_mixed = Some(queue) == queues.mixed;
                let work = move || foreign(command, role, (queue, is_mixed), first, &halt);
                threads.push((name, std::thread::spawn(work)));
            }
        }
        Self { stop, threads, ticks: Ticks::begin(fleet) }
    }

    /// Lets them end, and gives what each language sent.
    pub(crate) fn end(self, fleet: &mut Fleet) -> Vec<(&'static str, Sent)> {
        self.stop.store(true, Ordering::Relaxed);
        let mut program =
            fleet.members.iter_mut().find(|it| it.role == Role::Producers).and_then(|it| it.program.take());
        program.iter_mut().for_each(Program::kill9);
        let end =
            |(name, thread): (_, JoinHandle<Sent>)| (name, thread.join().expect("a producer that is well"));
        let ticks = self.ticks.end(fleet);
        let others = program.map(|_| ("Rust", produced(fleet.place.directory(), fleet.queues())));
        self.threads.into_iter().map(end).chain([("ticks", ticks)]).chain(others).collect()
    }
}

/// A client of these servers, which connects when it is used.
pub(crate) fn connect(url: &str, durability: &str) -> Client {
    let mut config = Config::default();
    config.redis = RedisConfig::new(url);
    config.redis.timeout = TIMEOUT;
    config.client.durability = durability.parse().expect("a durability");
    Client::lazy_with_config(&config)
}

/// Calls until each Rust worker has been full, so that it has all that it needs for its runs.
pub(crate) fn warm_up(fleet: &Fleet) -> Sent {
    let client = connect(&fleet.place.url(), fleet.place.durability());
    let runtime = Runtime::new().expect("a runtime to set a limit in");
    let set =
        async { Client::connect(&fleet.place.url()).await?.set_limit(LIMIT, Limit::concurrent(MOST)).await };
    runtime.block_on(set).expect("Redis is there at first");
    let queues: HashMap<u64, &str> = (0..WARM).map(|n| (n, fleet.queues().of(n, WARM))).collect();
    let call = |n: u64| GoTask::new("trial.span").arg(n.to_string()).arg(WARM_LENGTH).queue(queues[&n]);
    let calls = (0..WARM).map(call);
    client.enqueue_many_blocking(calls).expect("Redis is there at first");
    for at in fleet.places(|role| matches!(role, Role::Rust(_))) {
        wait::until("each worker to run something", PATIENCE, || !fleet.ran(at).is_empty());
    }
    Sent { acknowledged: (0..WARM).collect(), queues, ..Sent::default() }
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

/// Sends calls that all languages can run.
fn mixed(client: &Client, queues: Queues, first: u64, stop: &AtomicBool) -> Sent {
    let queue = queues.mixed.expect("it is served");
    send(client, first, stop, |n| (GoTask::new(PATH).arg(n).queue(queue), queue))
}

/// Sends items for batches.
fn items(client: &Client, queues: Queues, first: u64, stop: &AtomicBool) -> Sent {
    send(client, first, stop, |n| {
        let queue = queues.of(n / TOGETHER, TOGETHER);
        (collect::call(n).queue(queue), queue)
    })
}

/// Sends calls without an answer.
fn send<C: IntoCall>(
    client: &Client,
    first: u64,
    stop: &AtomicBool,
    call: impl Fn(u64) -> (C, &'static str),
) -> Sent {
    let mut sent = Sent::default();
    for n in (first..).take_while(|_| !stop.load(Ordering::Relaxed)) {
        let (call, queue) = call(n);
        sent.queues.insert(n, queue);
        let fate = match client.enqueue_blocking(call) {
            Ok(_) => &mut sent.acknowledged,
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
fn flows(client: &Client, queues: Queues, first: u64, stop: &AtomicBool) -> Sent {
    let mut sent = Sent::default();
    let queue = |n: u64| queues.of(n, STEPS);
    let step = |n: u64| span::call(n.to_string(), length(n)).queue(queue(n)).retry(3);
    for n in (first..).step_by(STEPS as usize).take_while(|_| !stop.load(Ordering::Relaxed)) {
        let flow = group((n..n + 3).map(step)).at_most(2).then(step(n + 3)).into_flow();
        sent.queues.extend((n..n + STEPS).map(|n| (n, queue(n))));
        let fate = match client.enqueue_blocking(flow.call().queue(queue(n)).keep(KEEP)) {
            Ok(handle) => {
                sent.flows.extend(handle.id().map(|id| (queue(n), id, n)));
                &mut sent.acknowledged
            }
            Err(error) if error.may_have_been_applied() => &mut sent.uncertain,
            Err(_) => &mut sent.refused,
        };
        fate.extend(n..n + STEPS);
        wait::pause(4 * REST);
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

fn foreign(
    mut command: Command,
    role: Role,
    (queue, is_mixed): (&'static str, bool),
    first: u64,
    stop: &AtomicBool,
) -> Sent {
    let mut sent = Sent::default();
    let mut program = Foreign::start(&mut command);
    for n in (first..).take_while(|_| !stop.load(Ordering::Relaxed)) {
        sent.queues.insert(n, queue);
        let (path, arguments) = if is_mixed {
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
