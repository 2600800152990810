//! Computes from saved figures how many shards a thousand workers and a billion calls a day need. Writes a section of
//! `docs/scaling.md`.

use serde_json::Value;

/// The part about splitting a queue, which ends the section.
const SPLIT: &str = include_str!("split.md");

/// Numbers of the queues that are shown, in the order of the text.
const PARTS: [u32; 8] = [0, 1, 2, 3, 10, 11, 12, 13];

/// The systems of `bench/cluster` that are compared.
const SYSTEMS: [&str; 5] = [
    "plain Redis, 1 queue",
    "plain Redis, 3 queues",
    "Cluster of 1, 1 queue",
    "Cluster of 2, 2 queues",
    "Cluster of 3, 3 queues",
];

const SHARDS: [u32; 5] = [1, 2, 4, 8, 16];
const SECONDS_OF_A_DAY: f64 = 86_400.0;

// The load that is assumed.

const CALLS_A_DAY: f64 = 1e9;
/// Calls in the busiest second, divided by the mean.
const PEAK: f64 = 3.0;
const WORKERS: f64 = 1_000.0;
const PRODUCERS: f64 = 1_000.0;
/// Bytes.
const MESSAGE: f64 = 200.0;
/// The share of calls whose result is kept.
const KEPT: f64 = 0.1;
/// How long a result is kept, in seconds.
const KEPT_FOR: f64 = 3_600.0;
/// For how many seconds without workers the memory lasts, at the mean rate.
const STANDSTILL: f64 = 3_600.0;
/// The part of a core that Redis may use.
const BUSY: f64 = 0.5;
/// `maxclients` of Redis, unless it is set.
const MAX_CLIENTS: f64 = 10_000.0;

/// Measured figures. Unless stated otherwise: microseconds of processor time of Redis for each call.
struct Measured {
    /// Enqueued one by one and run by one of many idle workers, while Redis sleeps in between: on one Redis, and in a Cluster of
    /// several.
    alone: [f64; 2],
    /// Enqueued one by one, in the same two.
    enqueue: [f64; 2],
    bulk: f64,
    drained_alone: f64,
    drained: f64,
    /// The cost of a call that is run alone on a master with a replica, divided by that without one.
    replica: f64,
    /// An enqueue that a replica confirms.
    confirmed: f64,
    /// Microseconds each second of a worker's queue: while that is empty, and while it is not.
    beat: [f64; 2],
    connections: f64,
    /// Bytes of Redis for a worker, a record, and a waiting message besides its own.
    worker: f64,
    record: f64,
    token: f64,
}

/// The load of each shard, for some number of shards.
struct Load {
    /// Of a core of each shard: on average and at the peak, each call alone; at the peak if each also wakes Redis, and in
    /// bulk; heartbeats.
    mean: f64,
    peak: f64,
    woken: f64,
    bulk: f64,
    beats: f64,
    connections: f64,
    /// Bytes of a shard.
    memory: f64,
}

/// The section, from the files `docs/scaling.json` and `docs/cluster.json`.
///
/// # Errors
/// A figure is missing.
pub(crate) fn section(scaling: &Value, cluster: &Value) -> Result<String, String> {
    let measured = Measured::read(scaling, cluster)?;
    let mut text = compared(cluster)?;
    text.push_str(
        "\n## A thousand workers and a billion calls a day\n\nComputed, not measured: from the costs above and those of \
         `bench/cluster`. With other inputs, use the formulas below, or change the constants in \
         `bench/src/scale/capacity.rs`.\n\n",
    );
    text.push_str(&inputs());
    text.push_str(&measured.table());
    text.push_str(&measured.outputs());
    text.push_str(&measured.bounds());
    text.push('\n');
    text.push_str(&SPLIT.replace("SHARDS\n", &spread()));
    Ok(text)
}

/// The table that compares the costs of a Cluster with those of one Redis.
fn compared(cluster: &Value) -> Result<String, String> {
    let load = |index: usize| cluster["load"][index].as_f64().ok_or("the run of bench/cluster has no load");
    let mut text = format!(
        "\n## Redis Cluster\n\nMade by `bench/cluster`: one worker with a concurrency of 64 drains a queue of each master, or as \
         many of one Redis. The load was {:.1} before and {:.1} after. All masters and the worker share two cores, so the costs are higher \
         than above, and only their ratios count. A Cluster of one shard costs nearly what one Redis does. Several queues \
         cost more, on one Redis too: a claim is of one queue, and with weights it brings at most a quarter of the calls that the \
         worker may own.\n\n\
         | | Redis for a drained call, µs | worker for a drained call, µs |\n|---|--:|--:|\n",
        load(0)?,
        load(1)?
    );
    for system in SYSTEMS {
        let (redis, worker) = (of_calls(cluster, system, "redis")?, of_calls(cluster, system, "worker")?);
        text.push_str(&format!("| {system} | {redis:.2} | {worker:.2} |\n"));
    }
    Ok(text)
}

fn inputs() -> String {
    let rows = [
        ("D", "calls each day", grouped(CALLS_A_DAY)),
        ("P", "the busiest second, compared with the mean", format!("{PEAK}")),
        ("W", "worker processes, which all serve all queues", grouped(WORKERS)),
        ("C", "producers, each with one connection to each shard", grouped(PRODUCERS)),
        ("M", "bytes of a message", grouped(MESSAGE)),
        (
            "K",
            "calls whose result is kept, and for how long",
            format!("{} %, {} s", KEPT * 100.0, grouped(KEPT_FOR)),
        ),
        (
            "O",
            "how long calls may wait without any worker, at the mean rate",
            format!("{} s", grouped(STANDSTILL)),
        ),
        (
            "U",
            "the part of its core that Redis may use at the peak: the rest is for failovers, slow commands and other days",
            format!("{} %", BUSY * 100.0),
        ),
    ];
    let mut text = String::from("| input | | |\n|---|---|--:|\n");
    rows.iter().for_each(|(name, what, value)| text.push_str(&format!("| {name} | {what} | {value} |\n")));
    text
}

impl Measured {
    fn read(scaling: &Value, cluster: &Value) -> Result<Self, String> {
        let call = |system: &str, name: &str| of_calls(cluster, system, name);
        let worker = |system: &str, name: &str| {
            cluster["workers"][system][name].as_f64().ok_or_else(|| format!("{system} has no {name}"))
        };
        let (plain, three, replica) =
            ("plain Redis, 1 queue", "Cluster of 3, 3 queues", "plain Redis with a replica, 1 queue");
        Ok(Self {
            alone: [worker(plain, "alone")?, worker(three, "alone")?],
            enqueue: [call(plain, "one")?, call(three, "one")?],
            bulk: call(plain, "bulk")?,
            drained_alone: of_scaling(scaling, "slots of one worker, Redis for a call", "1")?,
            drained: of_scaling(scaling, "worker processes, Redis for a call", "1")?,
            replica: call(replica, "alone")? / call(plain, "alone")?,
            confirmed: call(replica, "one")?,
            beat: [worker(plain, "idle")?, worker(plain, "busy")?],
            connections: worker(plain, "connections")?,
            worker: worker(plain, "memory")?,
            record: call(plain, "record")?,
            token: of_scaling(scaling, "messages that wait, memory of Redis for each", "1,000,000")?,
        })
    }

    fn table(&self) -> String {
        let cluster = "`bench/cluster`, plain Redis";
        let rows = [
            ("e", "an enqueue, one by one: one Redis", format!("{:.1} µs", self.enqueue[0]), cluster),
            (
                "e'",
                "the same in a Cluster",
                format!("{:.1} µs", self.enqueue[1]),
                "`bench/cluster`, Cluster of 3",
            ),
            (
                "c",
                "a claim and a release of one call, one after the other",
                format!("{:.1} µs", self.drained_alone),
                "slots of one worker: 1",
            ),
            (
                "a",
                "a call every few milliseconds, from its enqueue to its release by one of 50 idle workers: Redis sleeps \
                 and wakes several times",
                format!("{:.0} µs", self.alone[0]),
                cluster,
            ),
            (
                "a'",
                "the same in a Cluster, by workers with a queue on each of three shards",
                format!("{:.0} µs", self.alone[1]),
                "`bench/cluster`, Cluster of 3",
            ),
            ("b", "a call that is enqueued in bulk", format!("{:.2} µs", self.bulk), cluster),
            (
                "d",
                "a call that is drained in large claims",
                format!("{:.2} µs", self.drained),
                "worker processes: 1",
            ),
            (
                "f",
                "how many times as much a call costs the master if it has a replica",
                format!("{:.2}", self.replica),
                "`bench/cluster`, with a replica",
            ),
            (
                "",
                "an enqueue that a replica confirms (`WAIT`)",
                format!("{:.1} µs", self.confirmed),
                "`bench/cluster`, with a replica",
            ),
            ("h", "heartbeats of a worker for an empty queue", format!("{:.0} µs/s", self.beat[0]), cluster),
            (
                "h'",
                "heartbeats and sweeps of a worker for a queue with calls",
                format!("{:.0} µs/s", self.beat[1]),
                cluster,
            ),
            (
                "n",
                "connections of a worker to one shard with one of its queues",
                format!("{:.0}", self.connections),
                cluster,
            ),
            ("m", "memory of Redis for a worker", format!("{} B", grouped(self.worker)), cluster),
            ("k", "memory of a kept result", format!("{} B", grouped(self.record)), cluster),
            (
                "t",
                "memory of a waiting call besides its message",
                format!("{:.1} B", self.token),
                "messages that wait: 1,000,000",
            ),
        ];
        let mut text = String::from("\n| measured | | | source |\n|---|---|--:|---|\n");
        for (name, what, value, source) in rows {
            text.push_str(&format!("| {name} | {what} | {value} | {source} |\n"));
        }
        text
    }

    /// One queue on each shard, which has a replica.
    fn load(&self, shards: u32) -> Load {
        let of_cluster = usize::from(shards > 1);
        let alone = (self.enqueue[of_cluster] + self.drained_alone) * self.replica;
        let (mean, shards) = (CALLS_A_DAY / SECONDS_OF_A_DAY, f64::from(shards));
        let beats = WORKERS * self.beat[1] / 1e6;
        let core = |rate: f64, cost: f64| rate / shards * cost / 1e6 + beats;
        let waiting = STANDSTILL * mean * (MESSAGE + self.token);
        let records = KEPT * KEPT_FOR * mean * self.record;
        Load {
            mean: core(mean, alone),
            peak: core(PEAK * mean, alone),
            woken: core(PEAK * mean, self.alone[of_cluster] * self.replica),
            bulk: core(PEAK * mean, (self.bulk + self.drained) * self.replica),
            beats,
            connections: WORKERS * self.connections + PRODUCERS,
            memory: (waiting + records) / shards + WORKERS * self.worker,
        }
    }

    fn outputs(&self) -> String {
        let mean = CALLS_A_DAY / SECONDS_OF_A_DAY;
        let mut text = format!(
            "\nOn average {} calls begin each second, at the peak {} (R = D × P ÷ 86,400): {:.0} and {:.0} for each worker. So \
             most calls find an idle worker, and are enqueued, claimed and released one by one, which is dear. The column \
             *woken* is the upper bound, where Redis also sleeps before each request, as it does on a shard with little to \
             do. *In bulk* is the lower bound, with `enqueue_many` and large claims. S shards, each with one queue of each \
             worker and one replica:\n\n\
             | shards | core, mean | core, peak | woken | in bulk | of it heartbeats | connections | memory, GB |\n\
             |---|--:|--:|--:|--:|--:|--:|--:|\n",
            grouped(mean),
            grouped(mean * PEAK),
            mean / WORKERS,
            mean * PEAK / WORKERS,
        );
        for shards in SHARDS {
            let load = self.load(shards);
            text.push_str(&format!(
                "| {shards} | {:.0} % | {:.0} % | {:.0} % | {:.0} % | {:.0} % | {} | {:.1} |\n",
                load.mean * 100.0,
                load.peak * 100.0,
                load.woken * 100.0,
                load.bulk * 100.0,
                load.beats * 100.0,
                grouped(load.connections),
                load.memory / 1e9
            ));
        }
        text.push_str(
            "\nAll columns are of one shard. Core: R × (e + c) × f ÷ S + W × h', with e' in a Cluster; on average R ÷ P in place \
             of R; woken with a or a' in place of e + c; in bulk with b + d. Connections: W × n + C, of the shard to which \
             workers also subscribe; the others have W fewer. Memory: (O × M' + K × k) × D ÷ 86,400 ÷ S + W × m, where M' is \
             M + t and K counts calls times seconds; leave half as much again for the time in which Redis rewrites its file. A \
             replica needs the same. Heartbeats and connections do not shrink with more shards, because each worker serves \
             all of them.\n",
        );
        text
    }

    fn bounds(&self) -> String {
        let enough = SHARDS.iter().find(|shards| self.load(**shards).peak <= BUSY);
        let woken = self.load(*enough.unwrap_or(&SHARDS[SHARDS.len() - 1])).woken * 100.0;
        let enough = enough.map_or("more than 16".into(), u32::to_string);
        let free = BUSY - WORKERS * self.beat[1] / 1e6;
        let day = |cost: f64| free * 1e6 / (cost * self.replica) / PEAK * SECONDS_OF_A_DAY / 1e6;
        format!(
            "\n**{enough} shards** keep the peak below {:.0} % of a core where requests come so densely that Redis seldom sleeps. The upper \
             bound is {woken:.0} %, so measure a shard with your own calls. One Redis takes {} million calls a day so, and {} million \
             in bulk: (U − W × h') ÷ ((e + c) × f) ÷ P × 86,400. Its `maxclients` of {} are used up by {} workers, (10,000 − C) ÷ \
             n, and that part of its core by the heartbeats of {}, U ÷ h'.\n\n`replicas(1)` makes an enqueue cost {:.1} µs in \
             place of {:.1} µs, and its producer waits for a round trip of the replica. Others do not wait for it.\n",
            BUSY * 100.0,
            grouped(day(self.enqueue[0] + self.drained_alone)),
            grouped(day(self.bulk + self.drained)),
            grouped(MAX_CLIENTS),
            grouped((MAX_CLIENTS - PRODUCERS) / self.connections),
            grouped(BUSY * 1e6 / self.beat[1]),
            self.confirmed,
            self.enqueue[0],
        )
    }
}

/// Which shard has which part, if slots are shared equally.
fn spread() -> String {
    let head: Vec<String> = PARTS.iter().map(|part| format!(" `{{mail.{part}}}` |")).collect();
    let mut text = format!("| shards |{}\n|---|{}\n", head.concat(), "---|".repeat(PARTS.len()));
    for shards in [2, 4, 8] {
        let cells: Vec<String> =
            PARTS.iter().map(|part| format!(" {} |", shard(&format!("mail.{part}"), shards))).collect();
        text.push_str(&format!("| {shards} |{}\n", cells.concat()));
    }
    text
}

/// The shard of a hash tag, from 1 on: CRC16 of XMODEM, as Redis computes it.
pub(crate) fn shard(tag: &str, shards: u32) -> u32 {
    let crc = tag.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    u32::from(crc % 16_384) * shards / 16_384 + 1
}

/// The median of a figure of `bench/scale`.
fn of_scaling(saved: &Value, row: &str, system: &str) -> Result<f64, String> {
    let all = saved["figures"].as_array().map(Vec::as_slice).unwrap_or_default();
    let figure = all.iter().find(|figure| figure["row"] == row && figure["system"] == system);
    let rounds = figure.and_then(|figure| figure["rounds"].as_array());
    median(rounds.into_iter().flatten()).ok_or_else(|| format!("the run has no figure of {system} for {row}"))
}

/// The median of a figure of `bench/cluster`.
fn of_calls(saved: &Value, system: &str, name: &str) -> Result<f64, String> {
    let rounds = saved["calls"][system].as_array().map(Vec::as_slice).unwrap_or_default();
    median(rounds.iter().map(|round| &round[name])).ok_or_else(|| format!("{system} has no {name}"))
}

fn median<'a>(values: impl Iterator<Item = &'a Value>) -> Option<f64> {
    let mut values: Vec<f64> = values.filter_map(Value::as_f64).collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

/// A whole number with commas.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
