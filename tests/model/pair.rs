//! Redis and the model side by side: each step is made on both, and they are compared.

mod state;

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use redis::{Commands, RedisResult, Value};

use super::deaths::Deaths;
use super::world::{Claim, MOVED, Message, Numbers, Place, Seq, Stale, Wire, World};
use crate::lua::{
    Bench, CANCELLED, DEAD, DEATHS, DUE, HAND, LEASE, PAUSED, PROCESSING, QUEUE, STALE, TOKENS, WORKERS,
    digest, unpacked,
};

/// Workers, and the slots of each.
pub(crate) const WORKER_COUNT: u8 = 3;
pub(crate) const SLOTS: u8 = 48;
const MAX_DEATHS: usize = 2;
/// Milliseconds; no step takes so long.
const FORGET: u64 = 3_600_000;

/// A call of a script. Numbers are brought into range when it is made.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Enqueue(usize),
    /// A producer of two pushes dies between them.
    Push,
    /// A worker dies between its `BLPOP` and its claim.
    Pop,
    /// A worker dies between its `BLMOVE` and its claim.
    Move,
    /// A token that was moved is given back.
    GiveBack,
    Claim {
        worker: u8,
        number: Number,
        in_hand: u8,
        renew: bool,
        forgive: u8,
        released: u8,
        kept: u8,
        wires: Vec<u8>,
    },
    PickUp {
        worker: u8,
        number: Number,
        slot: u8,
    },
    Begin {
        worker: u8,
        number: Number,
        slot: u8,
    },
    Retry {
        worker: u8,
        number: Number,
        slot: u8,
    },
    PutBack {
        worker: u8,
        number: Number,
        place: Place,
        slots: Vec<u8>,
    },
    Bury {
        worker: u8,
        number: Number,
        slot: u8,
    },
    Reconcile {
        worker: u8,
        ahead: i8,
        slots: Vec<u8>,
    },
    RequeueLost,
    Balance(i8),
    Beat {
        worker: u8,
        slots: Vec<u8>,
    },
    Resign {
        worker: u8,
        slots: Vec<u8>,
    },
    Revive(usize),
    Purge(usize),
    LiveKeysExpire(u8),
    NumberExpires(u8),
}

/// Which number a call has: the next one, or one that far from it.
pub(crate) type Number = i8;

/// What Redis and the model said.
type Made = (RedisResult<Value>, Result<Value, Stale>);

/// Both sides, and what the test counts itself.
pub(crate) struct Pair {
    pub(crate) bench: Bench,
    pub(crate) world: World,
    /// The last message that was made.
    fresh: Message,
    /// The messages up to that one, by their digests.
    digests: BTreeMap<String, Message>,
}

fn wire_id(wire: Wire) -> String {
    format!("{}:{}", worker_key(wire / SLOTS), wire % SLOTS)
}

fn worker_id(worker: u8) -> String {
    String::from(char::from(b'a' + worker)).repeat(16)
}

fn worker_key(worker: u8) -> String {
    format!("{QUEUE}:{}", worker_id(worker))
}

fn text(message: Message) -> String {
    format!("m{message}")
}

fn number(bytes: impl AsRef<[u8]>) -> Message {
    let text = std::str::from_utf8(bytes.as_ref()).unwrap();
    text.strip_prefix('m')
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("expected a message: {text}"))
}

fn wires(worker: u8, slots: &[u8]) -> Vec<Wire> {
    slots.iter().map(|slot| worker * SLOTS + slot).collect()
}

fn int(number: usize) -> Value {
    Value::Int(i64::try_from(number).unwrap())
}

/// A reply without its last part, the ids of dead letters, which the model does not know.
fn without_letters(reply: RedisResult<Value>) -> RedisResult<Value> {
    reply.map(|reply| match reply {
        Value::Array(mut parts) => {
            parts.pop();
            Value::Array(parts)
        }
        other => other,
    })
}

fn message_value(message: Option<Message>) -> Value {
    message.map_or(Value::Nil, |message| Value::BulkString(text(message).into_bytes()))
}

impl Pair {
    pub(crate) fn new() -> Self {
        let world = World::new(usize::from(WORKER_COUNT), usize::from(SLOTS));
        Self { bench: Bench::new(), world, fresh: 0, digests: BTreeMap::new() }
    }

    /// Empties both.
    pub(crate) fn clear(&mut self) {
        let () = self.bench.redis.flushall().unwrap();
        self.world = World::new(usize::from(WORKER_COUNT), usize::from(SLOTS));
        self.fresh = 0;
    }

    fn another(&mut self) -> Message {
        self.fresh += 1;
        // Every other one has the same bytes as the one before.
        if self.fresh.is_multiple_of(2) { self.fresh - 1 } else { self.fresh }
    }

    /// The number of a worker's call.
    fn seq(&self, worker: u8, off: Number) -> Seq {
        let next = self.world.numbers[usize::from(worker)].map_or(10, |numbers| numbers.seq + 1);
        next.checked_add_signed(i64::from(off)).unwrap_or(0)
    }

    /// Makes the step on both sides.
    ///
    /// # Errors
    /// Where they differ.
    pub(crate) fn step(&mut self, step: &Step) -> Result<(), String> {
        let made = self.make(step);
        self.check(made)
    }

    /// Makes one claim on both sides.
    ///
    /// # Errors
    /// Where they differ.
    pub(crate) fn claim(&mut self, worker: u8, seq: Seq, ask: &Claim, renew: bool) -> Result<(), String> {
        let made = self.make_claim(worker, seq, ask, renew);
        self.check(made)
    }

    /// Picks one message up on both sides.
    ///
    /// # Errors
    /// Where they differ.
    pub(crate) fn pick_up(&mut self, worker: u8, seq: Seq, slot: u8) -> Result<(), String> {
        let made = self.make_pick_up(worker, seq, slot);
        self.check(made)
    }

    fn check(&mut self, (reply, expected): Made) -> Result<(), String> {
        let reply = match reply {
            Ok(reply) => Ok(reply),
            Err(error) if error.to_string().contains(STALE) => Err(Stale),
            Err(error) => return Err(format!("expected a reply, or {STALE}: {error}")),
        };
        if reply != expected {
            return Err(format!("expected the reply {expected:?}, it is {reply:?}"));
        }
        let (mut after, mut world) = (self.read(), self.world.clone());
        // Of a large hash, Redis gives the fields in an order of its own.
        if world.processing.len() >= 16 {
            after.processing.sort_unstable();
            world.processing.sort_unstable();
        }
        if after == world { Ok(()) } else { Err(format!("expected {world:#?}\nit is {after:#?}")) }
    }

    fn make(&mut self, step: &Step) -> Made {
        match step {
            Step::Enqueue(count) => {
                let messages: Vec<Message> = (0..*count).map(|_| self.another()).collect();
                let texts: Vec<_> = messages.iter().map(|message| text(*message)).collect();
                let mut step = redis::pipe();
                step.atomic().rpush(QUEUE, texts).rpush(TOKENS, vec!["1"; *count]).ignore();
                let reply = step.query(&mut self.bench.redis).map(|(waiting,): (Value,)| waiting);
                (reply, Ok(int(self.world.enqueue(&messages))))
            }
            Step::Push => {
                let message = self.another();
                self.world.waiting.push(message);
                let waiting = self.world.waiting.len();
                (self.bench.redis.rpush(QUEUE, text(message)), Ok(int(waiting)))
            }
            Step::Pop => {
                let had = self.world.tokens > 0;
                self.world.tokens -= usize::from(had);
                let expected = if had { Value::BulkString(b"1".to_vec()) } else { Value::Nil };
                (self.bench.redis.lpop(TOKENS, None), Ok(expected))
            }
            Step::Move => {
                let had = self.world.tokens > 0;
                self.world.tokens -= usize::from(had);
                self.world.hand += usize::from(had);
                let expected = if had { Value::BulkString(b"1".to_vec()) } else { Value::Nil };
                let [left, right] = [redis::Direction::Left, redis::Direction::Right];
                (self.bench.redis.lmove(TOKENS, HAND, left, right), Ok(expected))
            }
            Step::Claim { worker, number, in_hand, renew, forgive, released, kept, wires: slots } => {
                let released = usize::from(*released).min(slots.len());
                let ask = Claim {
                    in_hand: usize::from(*in_hand),
                    forgive: usize::from(*forgive).min(released),
                    released,
                    kept: usize::from(*kept).min(released),
                    wires: wires(*worker, slots),
                };
                self.make_claim(*worker, self.seq(*worker, *number), &ask, *renew)
            }
            Step::PickUp { worker, number, slot } => {
                self.make_pick_up(*worker, self.seq(*worker, *number), *slot)
            }
            Step::Begin { worker, number, slot } => {
                let (seq, wire) = (self.seq(*worker, *number), worker * SLOTS + slot);
                let reply = self.bench.call("begin", |call| {
                    call.key(PROCESSING).key(worker_key(*worker)).key(DEATHS);
                    call.arg(seq).arg(wire_id(wire));
                });
                let expected = self.world.begin(usize::from(*worker), seq, wire);
                (reply, expected.map(|owned| int(usize::from(owned))))
            }
            Step::Retry { worker, number, slot } => {
                let (seq, wire, message) =
                    (self.seq(*worker, *number), worker * SLOTS + slot, self.another());
                let reply = self.bench.call("retry", |call| {
                    call.key(QUEUE).key(TOKENS).key(PROCESSING).key(worker_key(*worker)).key(DEATHS);
                    call.arg(seq).arg(wire_id(wire)).arg(text(message)).arg("");
                });
                let expected = self.world.retry(usize::from(*worker), seq, wire, message);
                (reply, expected.map(|owned| int(usize::from(owned))))
            }
            Step::PutBack { worker, number, place, slots } => {
                let (seq, wires) = (self.seq(*worker, *number), wires(*worker, slots));
                let reply = self.bench.call("put_back", |call| {
                    call.key(QUEUE).key(TOKENS).key(PROCESSING).key(worker_key(*worker)).key(DEATHS);
                    call.arg(seq).arg(if *place == Place::Head { "head" } else { "tail" });
                    wires.iter().for_each(|wire| {
                        call.arg(wire_id(*wire));
                    });
                });
                let slots: Vec<(Wire, Message)> = wires.iter().map(|wire| (*wire, 0)).collect();
                let expected = self.world.put_back(usize::from(*worker), seq, *place, &slots);
                (reply, expected.map(|moved| int(moved.len())))
            }
            Step::Bury { worker, number, slot } => {
                let (seq, wire) = (self.seq(*worker, *number), worker * SLOTS + slot);
                let reply = self.bench.call("bury", |call| {
                    call.key(PROCESSING).key(worker_key(*worker)).key(DEAD).key(DEATHS);
                    call.arg(seq).arg(wire_id(wire)).arg(1000).arg(1_000_000_000).arg(1_u64 << 50);
                    call.arg("failed").arg("why").arg(1).arg("where").arg("");
                });
                let expected = self.world.bury(usize::from(*worker), seq, wire, 0);
                (
                    without_letters(reply),
                    expected.map(|owned| Value::Array(vec![int(usize::from(owned)), int(0)])),
                )
            }
            Step::Reconcile { worker, ahead, slots } => {
                let (seq, wires) = (self.seq(*worker, *ahead), wires(*worker, slots));
                let reply = self.bench.call("reconcile", |call| {
                    call.key(PROCESSING)
                        .key(worker_key(*worker))
                        .key(DEATHS)
                        .key(CANCELLED)
                        .arg(seq)
                        .arg(LEASE);
                    wires.iter().for_each(|wire| {
                        call.arg(wire_id(*wire));
                    });
                });
                let expected = self.world.reconcile(usize::from(*worker), seq, &wires);
                (
                    reply,
                    expected.map(|reconciled| {
                        let applied = Value::Int(reconciled.applied.map_or(-1, Seq::cast_signed));
                        let alone = Value::Array(reconciled.alone.into_iter().map(int).collect());
                        Value::Array(
                            [applied, alone, Value::Array(Vec::new())]
                                .into_iter()
                                .chain(reconciled.owned.into_iter().map(message_value))
                                .collect(),
                        )
                    }),
                )
            }
            Step::RequeueLost => {
                let reply = self.bench.call("requeue_lost", |call| {
                    call.key(QUEUE).key(TOKENS).key(PROCESSING).key(DEAD).key(DEATHS);
                    call.arg(0)
                        .arg(500)
                        .arg(MAX_DEATHS)
                        .arg(3_600_000)
                        .arg(1000)
                        .arg(1_000_000_000)
                        .arg(1_u64 << 50);
                });
                let swept = self.world.requeue_lost(MAX_DEATHS);
                let name = |wire: &Wire| Value::BulkString(wire_id(*wire).into_bytes());
                let counts = [int(0), int(swept.requeued.len()), int(swept.buried.len())];
                let dead = Value::Array(swept.dead.iter().map(name).collect());
                (without_letters(reply), Ok(Value::Array(counts.into_iter().chain([dead, int(0)]).collect())))
            }
            Step::Balance(gap) => {
                let reply = self.bench.call("balance", |call| {
                    call.key(QUEUE).key(TOKENS).key(HAND).arg(*gap);
                });
                (reply, Ok(Value::Int(self.world.balance(isize::from(*gap)).try_into().unwrap())))
            }
            Step::GiveBack => {
                let reply = self.bench.call("balance", |call| {
                    call.key(QUEUE).key(TOKENS).key(HAND).arg(1).arg(1);
                });
                (reply, Ok(Value::Int(self.world.give_back().try_into().unwrap())))
            }
            Step::Beat { worker, slots } => {
                let wires = wires(*worker, slots);
                let reply = self.bench.call("beat", |call| {
                    call.key(worker_key(*worker)).key(WORKERS).key(format!("{}:kill", worker_key(*worker)));
                    call.key(QUEUE).key(TOKENS).key(HAND).key(PROCESSING).key(DEATHS).key(DUE).key(PAUSED);
                    call.key("q_outbox");
                    wires.iter().for_each(|wire| {
                        call.key(wire_id(*wire));
                    });
                    call.arg(LEASE).arg(worker_id(*worker)).arg("info").arg(FORGET);
                });
                let found = self.world.beat(usize::from(*worker), &wires);
                (reply, Ok(Value::Array(vec![Value::Int(found.into())])))
            }
            Step::Resign { worker, slots } => {
                let wires = wires(*worker, slots);
                let reply = self.bench.call("resign", |call| {
                    call.key(worker_key(*worker)).key(WORKERS).key(format!("{}:kill", worker_key(*worker)));
                    wires.iter().for_each(|wire| {
                        call.key(wire_id(*wire));
                    });
                    call.arg(worker_id(*worker)).arg(LEASE);
                });
                (reply, Ok(int(usize::from(self.world.resign(usize::from(*worker), &wires)))))
            }
            Step::Revive(which) => self.revive(*which),
            Step::Purge(count) => {
                let reply = self.bench.call("purge", |call| {
                    call.key(QUEUE).key(TOKENS).key(DEATHS).arg(*count).arg(QUEUE);
                });
                (reply, Ok(int(self.world.purge(*count))))
            }
            Step::LiveKeysExpire(worker) => {
                let wires = wires(*worker, &(0..SLOTS).collect::<Vec<_>>());
                let live = |wire: &&Wire| self.world.live[usize::from(**wire)];
                let count = wires.iter().filter(live).count();
                wires.iter().for_each(|wire| self.world.live[usize::from(*wire)] = false);
                (self.bench.redis.del(wires.into_iter().map(wire_id).collect::<Vec<_>>()), Ok(int(count)))
            }
            Step::NumberExpires(worker) => {
                self.world.numbers[usize::from(*worker)] = None;
                let gone: RedisResult<Value> = self.bench.redis.del(worker_key(*worker));
                (gone.map(|_| Value::Nil), Ok(Value::Nil))
            }
        }
    }

    fn make_claim(&mut self, worker: u8, seq: Seq, ask: &Claim, renew: bool) -> Made {
        let reply = self.bench.call("claim", |call| {
            call.key(QUEUE)
                .key(TOKENS)
                .key(PROCESSING)
                .key(worker_key(worker))
                .key(DEATHS)
                .key(HAND)
                .key(PAUSED)
                .key(CANCELLED);
            call.arg(seq)
                .arg(LEASE)
                .arg(ask.in_hand)
                .arg(u8::from(renew))
                .arg(ask.forgive)
                .arg(ask.released)
                .arg(ask.kept);
            ask.wires.iter().for_each(|wire| {
                call.arg(wire_id(*wire));
            });
        });
        (reply.map(unpacked), self.claimed(worker, seq, ask))
    }

    fn make_pick_up(&mut self, worker: u8, seq: Seq, slot: u8) -> Made {
        let wires = wires(worker, &[slot]);
        let reply = self.bench.call("pick_up", |call| {
            call.key(QUEUE)
                .key(TOKENS)
                .key(PROCESSING)
                .key(worker_key(worker))
                .key(DEATHS)
                .key(HAND)
                .key(PAUSED)
                .key(CANCELLED);
            call.arg(seq).arg(LEASE).arg(wire_id(wires[0]));
        });
        let ask = Claim { in_hand: MOVED, forgive: 0, released: 0, kept: 0, wires };
        (reply, self.claimed(worker, seq, &ask))
    }

    /// What the model answers a claim.
    fn claimed(&mut self, worker: u8, seq: Seq, ask: &Claim) -> Result<Value, Stale> {
        let claimed = self.world.claim(usize::from(worker), seq, ask)?;
        let numbers = [int(claimed.lost), int(claimed.waiting), int(usize::from(claimed.suspects))];
        let messages = claimed.messages.into_iter().map(|message| message_value(Some(message)));
        let messages = Value::Array(messages.collect());
        Ok(Value::Array(numbers.into_iter().chain([messages]).collect()))
    }

    fn revive(&mut self, which: usize) -> Made {
        let mut range = redis::cmd("XRANGE");
        let letters: Vec<(String, BTreeMap<String, String>)> =
            range.arg(DEAD).arg("-").arg("+").query(&mut self.bench.redis).unwrap();
        let Some(at) = which.checked_rem(letters.len()) else { return (Ok(int(0)), Ok(int(0))) };
        let message = self.another();
        let reply = self.bench.call("revive", |call| {
            call.key(QUEUE).key(TOKENS).key(DEAD).arg(&letters[at].0).arg(text(message));
        });
        self.world.revive(at, message);
        (reply, Ok(Value::Array(vec![int(1), Value::Array(Vec::new())])))
    }
}
