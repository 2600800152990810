//! A producer of calls with all options, each of which ends in a fate: in this process, or in one that is killed at times and
//! notes each fate in a file.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use delayed::{Call, CallId, Cancelled, Client};
use tokio::runtime::Runtime;

use super::place::Queues;
use super::producers::{KEEP, LIMIT, REST, SHARE, SOON, Sent, connect, length, span};
use super::times::now;
use crate::support::ledger::Ledger;
use crate::support::wait;

/// When a scheduled call is due that is cancelled before.
const LATER: Duration = Duration::from_secs(2);
/// How many keys ordered calls share.
const ORDERS: u64 = 4;
/// How many calls of a producer are sent while such a time passes: those that are unique among them share one key.
const RIVALS: u64 = 24;
/// After which a call is not to run: a day, which no clock of the fleet is off by.
const DEADLINE: Duration = Duration::from_secs(86_400);
/// How many numbers each process has for itself.
const TURN: u64 = 100_000;
/// The files of the processes begin with this.
const FILE: &str = "sent-";

/// What is asked of a call of our queues.
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

fn call(n: u64, queues: Queues) -> Call {
    let mut call = span::call(n.to_string(), length(n)).queue(queues.of(n, RIVALS));
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

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is to be sent.
    Open,
    Acknowledged,
    /// Whoever sent it heard nothing of it, or of its cancellation.
    Uncertain,
    Refused,
    /// Another holds its lock.
    Held,
    /// Cancelled while it was scheduled, and while it waited.
    Early,
    Late,
}

impl Fate {
    const NAMES: [(Self, &str); 7] = [
        (Self::Open, "open"),
        (Self::Acknowledged, "acknowledged"),
        (Self::Uncertain, "uncertain"),
        (Self::Refused, "refused"),
        (Self::Held, "held"),
        (Self::Early, "early"),
        (Self::Late, "late"),
    ];

    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(fate, _)| *fate == self).expect("each has a name").1
    }

    fn of(name: &str) -> Self {
        Self::NAMES.iter().find(|(_, of)| *of == name).expect("the name of a fate").0
    }
}

/// Sends one, and gives what became of it.
fn send(client: &Client, runtime: &Runtime, n: u64, queues: Queues) -> (Fate, Option<CallId>) {
    let kind = Kind::of(n);
    match client.enqueue_blocking(call(n, queues)) {
        Ok(handle) if !handle.is_new() => (Fate::Held, None),
        Ok(handle) => {
            let id = handle.id().filter(|_| kind != Kind::Plain);
            let fate = match kind.is_cancelled().then(|| runtime.block_on(handle.cancel())) {
                None => Fate::Acknowledged,
                Some(Ok(Cancelled::Scheduled)) => Fate::Early,
                Some(Ok(Cancelled::Waiting)) => Fate::Late,
                Some(_) => Fate::Uncertain,
            };
            (fate, id)
        }
        Err(error) if error.may_have_been_applied() => (Fate::Uncertain, None),
        Err(_) => (Fate::Refused, None),
    }
}

/// Takes down what became of a call, at that time.
fn note(sent: &mut Sent, n: u64, fate: Fate, id: Option<CallId>, time: u64, queues: Queues) {
    let queue = queues.of(n, RIVALS);
    sent.queues.insert(n, queue);
    sent.keys.extend(key(n).map(|key| (n, key)));
    sent.orders.extend(order(n).map(|key| (n, format!("{key} of {queue}"))));
    sent.limited.extend((Kind::of(n) == Kind::Limited).then_some(n));
    sent.kept.extend(id.map(|id| (n, id)));
    sent.held += usize::from(fate == Fate::Held);
    sent.dropped += usize::from(fate == Fate::Late);
    if matches!(fate, Fate::Early | Fate::Late) {
        sent.cancelled.insert(n, time);
    }
    let fates = match fate {
        Fate::Acknowledged => &mut sent.acknowledged,
        Fate::Open | Fate::Uncertain => &mut sent.uncertain,
        Fate::Refused | Fate::Held | Fate::Early | Fate::Late => &mut sent.refused,
    };
    fates.insert(n);
}

/// Sends them until it is told to end.
pub(crate) fn steady(client: &Client, queues: Queues, first: u64, stop: &AtomicBool) -> Sent {
    let mut sent = Sent::default();
    let runtime = Runtime::new().expect("a runtime to cancel in");
    for n in (first..).take_while(|_| !stop.load(Ordering::Relaxed)) {
        let (fate, id) = send(client, &runtime, n, queues);
        note(&mut sent, n, fate, id, now(), queues);
        wait::pause(REST);
    }
    sent
}

/// The same in a process of its own, which is the `turn`-th and has no end: its file has a line before and after each call.
pub(crate) fn produce(turn: u64, url: &str, queues: Queues) {
    let file = std::env::var_os("LEDGER").expect("it is told where to note");
    let client = connect(url, "replicas(1)");
    let runtime = Runtime::new().expect("a runtime to cancel in");
    println!("READY");
    for n in SHARE + turn * TURN.. {
        let line = |fate: Fate, id: Option<CallId>| {
            let mut line = format!("{n} {} {}", fate.name(), now());
            id.iter().for_each(|id| write!(line, " {id}").expect("a text takes all"));
            Ledger::append(Path::new(&file), &line).expect("the file can be written");
        };
        line(Fate::Open, None);
        let (fate, id) = send(&client, &runtime, n, queues);
        line(fate, id);
        wait::pause(REST);
    }
}

/// What those processes have sent.
pub(crate) fn produced(directory: &Path, queues: Queues) -> Sent {
    let mut sent = Sent::default();
    for entry in std::fs::read_dir(directory).expect("it is there") {
        let path = entry.expect("it can be read").path();
        if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(FILE)) {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a file of lines");
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let [n, fate, time, ref rest @ ..] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("expected a number, a fate and a time: {line}")
            };
            // The next line says more of the same call, unless its producer has ended.
            if fate == Fate::Open.name() && lines.peek().is_some() {
                continue;
            }
            let id = rest.first().map(|id| id.parse().expect("an id"));
            let number = |text: &str| text.parse().expect("a number");
            note(&mut sent, number(n), Fate::of(fate), id, number(time), queues);
        }
    }
    sent
}
