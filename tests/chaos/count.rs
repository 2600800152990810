//! What came of it? Every call against the ledgers of those who ran it, and all that is left against what may be.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use redis::Commands;

use super::faults::Faults;
use super::fleet::Fleet;
use super::plan::Kind;
use super::producers::{MOST, Sent};
use super::spans::{Dues, Span, beyond, early, out_of_order, overlapping};
use super::varied::{letters, wrong_letters};

/// How often each call was begun and ended, and by whom.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    begun: HashMap<u64, Vec<String>>,
    ended: HashSet<u64>,
    /// Why calls were buried.
    letters: HashMap<u64, Vec<String>>,
    pub(crate) spans: Vec<Span>,
    by_worker: HashMap<String, Vec<Span>>,
    /// Runs by the kind of worker.
    shares: BTreeMap<String, u64>,
}

impl Runs {
    /// Reads all ledgers: a run leaves its number, or one line at its begin and one at its end.
    pub(crate) fn read(fleet: &Fleet) -> Self {
        let mut runs = Self { letters: letters(fleet), ..Self::default() };
        for entry in std::fs::read_dir(fleet.place.directory()).expect("it is there") {
            let path = entry.expect("it can be read").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Some(worker) = name.strip_prefix("ledger-") else { continue };
            let (mut open, before) = (HashMap::new(), runs.spans.len());
            for line in std::fs::read_to_string(&path).expect("a ledger is text").lines() {
                runs.note(worker, line, &mut open);
            }
            runs.spans.extend(open.into_values());
            let spans = runs.spans[before..].to_vec();
            runs.by_worker.insert(worker.to_owned(), spans);
        }
        runs
    }

    /// Those of one worker.
    pub(crate) fn of(&self, worker: &str) -> &[Span] {
        self.by_worker.get(worker).map_or(&[], Vec::as_slice)
    }

    /// `open` are the runs of this worker that have begun and not ended.
    fn note(&mut self, worker: &str, line: &str, open: &mut HashMap<u64, Span>) {
        let (call, time) = line.split_once('@').unwrap_or((line, ""));
        let number = call.trim_start_matches(['+', '-']).parse().expect("a ledger has numbers");
        let time: Option<u64> = time.parse().ok();
        if !call.starts_with('-') {
            let kind = worker.split('-').next().unwrap_or_default().to_owned();
            *self.shares.entry(kind).or_default() += 1;
            self.begun.entry(number).or_default().push(worker.to_owned());
            let span = time.map(|begun| Span { number, begun, ended: begun });
            self.spans.extend(span.and_then(|span| open.insert(number, span)));
        }
        if !call.starts_with('+') {
            self.ended.insert(number);
            let span = open.remove(&number).zip(time).map(|(span, ended)| Span { ended, ..span });
            self.spans.extend(span);
        }
    }
}

/// The outcome of a run, ready to be judged.
pub(crate) struct Count {
    table: Vec<(String, String)>,
    effects: Vec<Effect>,
    mistakes: Vec<String>,
}

impl Count {
    pub(crate) fn of(
        sent: &[(&'static str, Sent)],
        runs: &Runs,
        dues: &Dues,
        faults: &Faults,
        left: Vec<String>,
    ) -> Self {
        let all = |pick: fn(&Sent) -> &HashSet<u64>| -> BTreeSet<u64> {
            sent.iter().flat_map(|(_, sent)| pick(sent)).copied().collect()
        };
        let (acknowledged, uncertain) = (all(|sent| &sent.acknowledged), all(|sent| &sent.uncertain));
        let refused = all(|sent| &sent.refused);
        let is_done = |n: &u64| runs.ended.contains(n) || runs.letters.contains_key(n);
        let lost: Vec<u64> = acknowledged.iter().copied().filter(|n| !is_done(n)).collect();
        let strange: Vec<u64> = runs
            .begun
            .keys()
            .copied()
            .filter(|n| !acknowledged.contains(n) && !uncertain.contains(n))
            .collect();
        let duplicates = Duplicates::of(runs, faults);
        let kinds = faults.kinds.iter().map(|(kind, ..)| *kind);
        let effects: Vec<_> = kinds.map(|kind| Effect::of(kind, faults, &duplicates)).collect();
        let in_flight: usize = effects.iter().map(|effect| effect.in_flight).sum();
        let Duplicates { total: twice, unexplained, .. } = duplicates;

        let mut languages: BTreeMap<&str, usize> = BTreeMap::new();
        for (language, sent) in sent {
            *languages.entry(language).or_default() += sent.acknowledged.len();
        }
        let listed = |parts: Vec<String>| parts.join(", ");
        let who = listed(languages.iter().map(|(name, count)| format!("{name} {count}")).collect());
        let shares = listed(runs.shares.iter().map(|(name, count)| format!("{name} {count}")).collect());
        let ran = uncertain.iter().filter(|n| runs.begun.contains_key(n)).count();
        let total: u64 = runs.shares.values().sum();
        let mut mistakes: Vec<String> = Vec::new();
        let whereabouts = |n: &u64| {
            let of_call = runs.spans.iter().filter(|span| span.number == *n);
            let times: Vec<String> = of_call.map(|span| faults.time(span.begun)).collect();
            format!("{n} (begun by {:?} at {})", runs.begun.get(n).unwrap_or(&Vec::new()), times.join(", "))
        };
        mistakes.extend(lost.iter().map(|n| format!("lost: {}", whereabouts(n))));
        mistakes.extend(strange.iter().map(|n| format!("run without having been sent: {}", whereabouts(n))));
        mistakes.extend(unexplained.iter().map(|n| format!("run too often: {}", whereabouts(n))));
        let key = |n| sent.iter().find_map(|(_, sent)| sent.keys.get(&n)).map(String::as_str);
        let was_hit = |n| faults.in_flight.iter().any(|calls| calls.contains(&n));
        let order = |n| sent.iter().find_map(|(_, sent)| sent.orders.get(&n)).map(String::as_str);
        let keys = |n| key(n).or_else(|| order(n));
        let (early, overlapping) = (early(&runs.spans, dues), overlapping(&runs.spans, keys, was_hit));
        let is_limited = |n| sent.iter().any(|(_, sent)| sent.limited.contains(&n));
        let beyond = beyond(&runs.spans, MOST as usize, is_limited, was_hit);
        let buried = wrong_letters(&runs.letters, sent, &runs.ended, was_hit);
        let out_of_order = out_of_order(&runs.spans, order, |n| acknowledged.contains(&n));
        let row_of = |found: &[String]| found.len().to_string();
        let rows = [
            ("run before they were due", row_of(&early)),
            ("unique or ordered, run beside each other", row_of(&overlapping)),
            ("limited, run beyond the limit", row_of(&beyond)),
            ("ordered, run out of their order", row_of(&out_of_order)),
            ("buried as they should not be", row_of(&buried)),
        ];
        let all_of =
            |pick: fn(&Sent) -> usize| sent.iter().map(|(_, sent)| pick(sent)).sum::<usize>().to_string();
        let (limited, ordered) = (all_of(|sent| sent.limited.len()), all_of(|sent| sent.orders.len()));
        mistakes.extend(early.into_iter().chain(overlapping).chain(beyond).chain(out_of_order).chain(buried));
        let reasons =
            |reason: &str| runs.letters.values().filter(|of| of.iter().any(|of| of == reason)).count();
        let (overflown, failed) = (reasons("overflow"), reasons("failed"));
        let out_of_place = left.len() + strange.len();
        mistakes.extend(left);
        let row = |name: &str, value: String| (name.to_owned(), value);
        let sum =
            |pick: fn(&Sent) -> usize| sent.iter().map(|(_, sent)| pick(sent)).sum::<usize>().to_string();
        let [early, beside, beyond, out_of_order, buried] = rows.map(|(name, value)| row(name, value));
        let mut table = vec![
            row("acknowledged", format!("{} ({who})", acknowledged.len())),
            row("not acknowledged", format!("{}, of which {ran} ran", uncertain.len() + refused.len())),
            row("runs", format!("{total} ({shares})")),
            row("lost", lost.len().to_string()),
            row("duplicates", format!("{twice}, of {in_flight} calls in flight at the faults")),
            row("duplicates that no fault explains", unexplained.len().to_string()),
            row("scheduled", dues.len().to_string()),
            row("not sent, since another held the lock", sum(|sent| sent.held)),
            row("cancelled while they waited", sum(|sent| sent.dropped)),
            row("limited, and ordered", format!("{limited}, and {ordered}")),
            row("flows of four steps", sum(|sent| sent.flows.len())),
            row("ticks, each of which made one call", sum(|sent| sent.ticks)),
            row("sent to the head of the queue", sum(|sent| sent.front)),
            row("failed and snoozed before they ran", sum(|sent| sent.tried)),
            row("took the place of another call", sum(|sent| sent.replaced)),
            row(
                "refused by the full queue, and buried for others",
                format!("{}, and {overflown}", all_of(|sent| sent.full)),
            ),
            row("failed for good, and were buried", failed.to_string()),
            early,
            beside,
            beyond,
            out_of_order,
            buried,
            row("could not start, because Redis could not be reached", faults.could_not_start.to_string()),
            row("out of place", out_of_place.to_string()),
        ];
        let slowest = Some(faults.slowest).filter(|time| !time.is_zero());
        table.extend(slowest.map(|time| row("longest response time of Redis", format!("{time:.0?}"))));
        Self { table, effects, mistakes }
    }

    /// Prints it, as two tables of Markdown, and gives whether all is well.
    pub(crate) fn print(&self) -> bool {
        println!("\n| | |\n|---|---|");
        for (name, value) in &self.table {
            println!("| {name} | {value} |");
        }
        println!("\n| fault | times | calls in flight | of these, run twice |\n|---|---|---|---|");
        for Effect { kind, times, in_flight, duplicates } in &self.effects {
            println!("| {kind} | {times} | {in_flight} | {duplicates} |");
        }
        println!();
        for mistake in self.mistakes.iter().take(50) {
            println!("{mistake}");
        }
        self.mistakes.is_empty()
    }
}

/// What runs that were too many are due to.
#[derive(Debug, Default)]
struct Duplicates {
    total: usize,
    /// Calls that ran more often than faults found them in flight.
    unexplained: Vec<u64>,
    by_kind: BTreeMap<Kind, usize>,
}

impl Duplicates {
    fn of(runs: &Runs, faults: &Faults) -> Self {
        let mut this = Self::default();
        for (n, workers) in runs.begun.iter().filter(|(_, workers)| workers.len() > 1) {
            let extra = workers.len() - 1;
            let hits = faults.plan.iter().zip(&faults.in_flight).filter(|(_, calls)| calls.contains(n));
            let hits: Vec<Kind> = hits.map(|(fault, _)| fault.kind).take(extra).collect();
            if hits.len() < extra {
                this.unexplained.push(*n);
            }
            this.total += extra;
            for kind in hits {
                *this.by_kind.entry(kind).or_default() += 1;
            }
        }
        this
    }
}

/// What the faults of one kind did.
struct Effect {
    kind: Kind,
    times: usize,
    in_flight: usize,
    duplicates: usize,
}

impl Effect {
    fn of(kind: Kind, faults: &Faults, duplicates: &Duplicates) -> Self {
        let of_kind = (0..faults.plan.len()).filter(|at| faults.plan[*at].kind == kind && faults.struck(*at));
        let sizes: Vec<usize> = of_kind.map(|at| faults.in_flight[at].len()).collect();
        let duplicates = duplicates.by_kind.get(&kind).copied().unwrap_or(0);
        Self { kind, times: sizes.len(), in_flight: sizes.iter().sum(), duplicates }
    }
}

/// Calls whose records do not say how they ended.
pub(crate) fn without_end(fleet: &Fleet, sent: &[(&'static str, Sent)]) -> Vec<String> {
    let mut connections: HashMap<&str, redis::Connection> = HashMap::new();
    let mut without = Vec::new();
    let calls = sent.iter().flat_map(|(_, sent)| sent.records()).map(|(_, id, queue)| (queue, id));
    let flows = sent.iter().flat_map(|(_, sent)| sent.flows.iter().map(|(queue, id, _)| (*queue, *id)));
    for (queue, id) in calls.chain(flows) {
        let redis = connections.entry(queue).or_insert_with(|| fleet.place.connection(queue));
        let record = delayed::__private::protocol::keys::record(&queue.parse().expect("a name"), id);
        let state: Option<String> = redis.hget(record, "state").expect("Redis is there");
        if !matches!(state.as_deref(), Some("succeeded" | "cancelled")) {
            without.push(format!("record of {id} in {queue} without an end: {state:?}"));
        }
    }
    without
}

/// Keys of Redis that nothing should have left there. A worker that was killed leaves its place among the workers for
/// a minute, and a foreign one its live key. Deaths of calls that a Python or Go worker ran in the end are forgotten after an hour.
pub(crate) fn stray_keys(fleet: &Fleet) -> Vec<String> {
    let queues = fleet.queues();
    let all: Vec<&str> = queues.all().collect();
    let is_one_of =
        |key: &str, ends: &[&str]| all.iter().any(|of| ends.iter().any(|end| key == format!("{of}{end}")));
    let dead = format!("{}_dead", queues.small);
    let mut stray = Vec::new();
    for mut redis in fleet.place.connections() {
        let keys: Vec<String> = redis.keys("*").expect("Redis is there");
        let finished = |key: &String| {
            queues.ours().iter().any(|of| [format!("{of}_done"), format!("{of}_flows")].contains(key))
        };
        for key in keys.into_iter().filter(|key| !finished(key)) {
            let expires = redis.pttl::<_, i64>(&key).expect("Redis is there") != -1;
            let foreign = key.len() <= 32 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
            let history = key.starts_with("delayed_history:") || key.starts_with("delayed_task_history:");
            let of_queue = all.iter().any(|queue| key.starts_with(queue));
            let expires = expires && (foreign || history || of_queue);
            let lists = is_one_of(&key, &["", "_noti", "_processing", "_dead"]) && key != dead;
            // A holder whose lease has ended is dropped by the next call that asks. A call that left the line just before its
            // master was replaced may stand there again, until it is its turn.
            let ends = [":policy", ":state", ":holders", ":line"];
            let ends = if fleet.place.nodes().is_some() { &ends[..] } else { &ends[..3] };
            let of_limit = ends.iter().any(|end| key == format!("{{delayed:few}}{end}"));
            let stays = key == dead
                || ["delayed_queues", "delayed_limits", "delayed_tasks"].contains(&key.as_str())
                || key.ends_with("_workers")
                || of_limit;
            let deaths = queues.of_rust().any(|queue| key == format!("{queue}_deaths"));
            if lists || !(expires || stays) || deaths {
                let letters: redis::RedisResult<redis::Value> =
                    redis::cmd("XRANGE").arg(&key).arg("-").arg("+").query(&mut redis);
                let letters = letters.map(|letters| format!(": {letters:?}")).unwrap_or_default();
                stray.push(format!("left in Redis: {key}{letters}"));
            }
        }
    }
    stray
}
