use super::*;

/// The settings of a sweep.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sweep {
    count: u64,
    max_deaths: u64,
    forget: u64,
    max_count: u64,
    max_age: u64,
    since: u64,
}

/// No death is the same event as one that was counted by an earlier call.
const FUTURE: u64 = 1 << 50;

pub(super) const ASK: Sweep =
    Sweep { count: 100, max_deaths: 3, forget: 3_600_000, max_count: 100, max_age: 3_600_000, since: FUTURE };

/// The next cursor, how many were requeued and buried, and the dead slots.
pub(super) fn sweep(
    bench: &mut Bench,
    cursor: u64,
    ask: &Sweep,
) -> RedisResult<(u64, u64, u64, Vec<String>)> {
    let (cursor, requeued, buried, slots, unburied) = sweep_all(bench, cursor, ask)?;
    assert_eq!(unburied, 0, "expected the dead letters to be a stream");
    Ok((cursor, requeued, buried, slots))
}

/// The same, and how many could not be buried.
fn sweep_all(bench: &mut Bench, cursor: u64, ask: &Sweep) -> RedisResult<(u64, u64, u64, Vec<String>, u64)> {
    type Reply = (u64, u64, u64, Vec<String>, u64, Vec<String>);
    let reply: Reply = bench.call("requeue_lost", |call| {
        call.key(QUEUE).key(TOKENS).key(PROCESSING).key(DEAD).key(DEATHS);
        call.arg(cursor).arg(ask.count).arg(ask.max_deaths).arg(ask.forget);
        call.arg(ask.max_count).arg(ask.max_age).arg(ask.since);
    })?;
    let (cursor, requeued, buried, slots, unburied, letters) = reply;
    assert_eq!(letters.len() as u64, buried, "expected the id of each dead letter: {letters:?}");
    if let Some(last) = letters.last() {
        let found: Vec<(String, redis::Value)> = redis::cmd("XREVRANGE")
            .arg(DEAD)
            .arg("+")
            .arg("-")
            .arg("COUNT")
            .arg(1)
            .query(&mut bench.redis)?;
        assert_eq!(found.first().map(|(id, _)| id), Some(last), "expected the last dead letter to be ours");
    }
    Ok((cursor, requeued, buried, slots, unburied))
}

/// A slot of the worker with this letter.
fn of(worker: char, number: usize) -> String {
    format!("q:{}:{number}", String::from(worker).repeat(16))
}

impl Bench {
    /// Slots that own a message and have no live key.
    fn die(&mut self, slots: &[(&str, &str)]) {
        for (id, message) in slots {
            let () = self.redis.hset(PROCESSING, id, message).unwrap();
        }
    }

    /// Takes all that waits away again, so that the next sweep is seen alone.
    fn take_all(&mut self) {
        let () = self.redis.del(&[QUEUE, TOKENS]).unwrap();
    }

    /// The server's clock, in milliseconds.
    fn now(&mut self) -> u64 {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut self.redis).unwrap();
        seconds * 1000 + micros / 1000
    }

    /// Notes that two processes died of a message, the last one so many milliseconds ago.
    fn die_of(&mut self, message: &str, ago: u64) {
        let at = self.now() - ago;
        let () = self.redis.hset(DEATHS, digest(message), format!("2 {at} q:y q:z")).unwrap();
    }

    /// Lets slots own a message that each runs alone, after so many processes have died while they did.
    fn die_alone(&mut self, message: &str, slots: &[(&str, u64)]) {
        let at = self.now() - 60_000;
        let runs = slots.iter().map(|(id, died)| format!(";{}!{died}", id.strip_prefix("q:").unwrap()));
        let value = format!("2 {at} ={} q:y q:z", runs.collect::<String>());
        let () = self.redis.hset(DEATHS, digest(message), value).unwrap();
        self.die(&slots.iter().map(|(id, _)| (*id, message)).collect::<Vec<_>>());
    }

    /// What is known of the deaths of a message, without the time of the last.
    fn known(&mut self, message: &str) -> Option<String> {
        let value: Option<String> = self.redis.hget(DEATHS, digest(message)).unwrap();
        value.map(|value| {
            let mut words = value.split_whitespace();
            let count = words.next();
            words.next();
            count.into_iter().chain(words).collect::<Vec<_>>().join(" ")
        })
    }

    /// How many deaths are counted for a message.
    fn deaths(&mut self, message: &str) -> u64 {
        let value: Option<String> = self.redis.hget(DEATHS, digest(message)).unwrap();
        value.map_or(0, |value| value.split(' ').next().unwrap().parse().unwrap())
    }
}

#[test]
fn requeues_what_the_dead_own_before_what_waits() {
    let mut bench = Bench::new();
    bench.wait(&["x"]);
    bench.own(&[(&of('a', 0), "alive")]);
    bench.die(&[(&of('b', 3), "lost")]);
    let reply = sweep(&mut bench, 0, &ASK).unwrap();
    assert_eq!(reply, (0, 1, 0, vec![of('b', 3)]), "expected one to be requeued, and its slot to be named");
    let state = bench.state();
    assert_eq!(
        (state.waiting, state.tokens),
        (bytes(&["lost", "x"]), 2),
        "expected it at the head with a token"
    );
    assert_eq!(state.processing, owned(&[(&of('a', 0), "alive")]), "expected the living to keep theirs");
    assert!(state.dead.is_empty(), "expected no dead letter");
    assert_eq!(bench.deaths("lost"), 1, "expected the death to be counted");
    bench.assert_expires(DEATHS, ASK.forget);
    assert_eq!(bench.state().deaths.len(), 1, "expected no other death to be counted");
}

#[test]
fn finds_nothing_to_do() {
    let mut bench = Bench::new();
    assert_eq!(sweep(&mut bench, 0, &ASK).unwrap(), (0, 0, 0, vec![]), "expected nothing in an empty Redis");
    bench.own(&[(&of('a', 0), "alive")]);
    let before = everything(&mut bench.redis);
    assert_eq!(sweep(&mut bench, 0, &ASK).unwrap(), (0, 0, 0, vec![]), "expected nobody to be dead");
    bench.assert_unchanged(&before, "with nothing to do");
}

#[test]
fn call_is_buried_when_three_processes_died_running_it_alone() {
    let mut bench = Bench::new();
    for (worker, died) in [('b', 0), ('c', 1)] {
        bench.die_alone("poison", &[(&of(worker, 0), died)]);
        assert_eq!(sweep(&mut bench, 0, &ASK).unwrap().1, 1, "expected it to be requeued after death {died}");
        let known = format!("3 ={} q:y q:z q:{}", died + 1, String::from(worker).repeat(16));
        assert_eq!(bench.known("poison"), Some(known), "expected its own deaths to go with it");
        bench.take_all();
    }
    bench.die_alone("poison", &[(&of('d', 5), 2)]);
    let reply = sweep(&mut bench, 0, &ASK).unwrap();
    assert_eq!(reply, (0, 0, 1, vec![of('d', 5)]), "expected it to be buried at the third death");
    let state = bench.state();
    assert_eq!(state.waiting, bytes(&[]), "expected it not to wait");
    assert_eq!(bench.deaths("poison"), 0, "expected its deaths to be forgotten, for when it is revived");
    let letter = &state.dead[0];
    assert_eq!(letter["message"], b"poison", "expected the message in the dead letter");
    assert_eq!(letter["reason"], b"lost", "expected the reason in the dead letter");
    assert_eq!(letter["attempt"], b"3", "expected the deaths as attempts");
    assert_eq!(letter["worker"], of('d', 5).as_bytes(), "expected the last worker");
    let detail = String::from_utf8_lossy(&letter["detail"]);
    assert!(detail.contains('3') && detail.contains(&of('d', 5)), "expected how many and who: {detail}");
}

#[test]
fn death_counts_for_no_call_that_did_not_run_alone() {
    let mut bench = Bench::new();
    let (worker, at) = ("b".repeat(16), bench.now() - 60_000);
    // Two have died of the first, which has not begun again. The last is owned by a worker of another kind.
    let () = bench.redis.hset(DEATHS, digest("m"), format!("2 {at} =;{worker}:0=2 q:y q:z")).unwrap();
    bench.die(&[(&of('b', 0), "m"), (&of('c', 0), "m"), ("4711", "m")]);
    let ask = Sweep { max_deaths: 1, ..ASK };
    assert_eq!(sweep(&mut bench, 0, &ask).unwrap().1, 3, "expected all three to be requeued");
    assert_eq!(bench.known("m"), Some(format!("3 =0,0,2 q:y q:z q:{worker}")));
}

#[test]
fn each_of_some_look_alikes_keeps_its_own_deaths() {
    let mut bench = Bench::new();
    bench.die_alone("alike", &[(&of('b', 0), 1), (&of('c', 0), 2), (&of('d', 0), 0)]);
    let reply = sweep(&mut bench, 0, &ASK).unwrap();
    assert_eq!((reply.1, reply.2), (2, 1), "expected that one to be buried of which three have died");
    let known = bench.known("alike").unwrap();
    let waiting = known.split(' ').nth(1).unwrap();
    assert!(matches!(waiting, "=1,2" | "=2,1"), "expected the deaths of the others to be kept: {known}");
    let letter = &bench.state().dead[0];
    assert_eq!((&*letter["attempt"], &*letter["worker"]), (&b"3"[..], of('c', 0).as_bytes()));
}

#[test]
fn requeues_what_it_need_not_bury_when_dead_is_another_type() {
    let mut bench = Bench::new();
    let () = bench.redis.set(DEAD, "text").unwrap();
    bench.die_alone("poison", &[(&of('d', 5), 2)]);
    let before = everything(&mut bench.redis);
    let reply = sweep_all(&mut bench, 0, &ASK).unwrap();
    assert_eq!(reply, (0, 0, 0, vec![], 1), "expected it to say that it could not be buried");
    bench.assert_unchanged(&before, "where it could not be buried");
    bench.die(&[(&of('e', 0), "innocent")]);
    let reply = sweep_all(&mut bench, 0, &ASK).unwrap();
    assert_eq!(reply, (0, 1, 0, vec![of('e', 0)], 1), "expected the other one to be requeued");
    let state = bench.redis.lrange::<_, Vec<String>>(QUEUE, 0, -1).unwrap();
    assert_eq!((state, bench.deaths("innocent")), (vec!["innocent".to_owned()], 1));
    let () = bench.redis.del(DEAD).unwrap();
    assert_eq!(sweep(&mut bench, 0, &ASK).unwrap(), (0, 0, 1, vec![of('d', 5)]), "expected it to be buried");
    assert_eq!(bench.state().dead[0]["message"], b"poison");
}

#[test]
fn process_is_one_death_however_many_slots_held_the_same_bytes() {
    let mut bench = Bench::new();
    // So many that Redis gives them in several parts.
    let slots: Vec<String> = (0..1000).map(|i| of('b', i)).collect();
    bench.die(&slots.iter().map(|id| (id.as_str(), "alike")).collect::<Vec<_>>());
    let (mut cursor, mut requeued, mut calls) = (0, 0, 0);
    loop {
        let reply = sweep(&mut bench, cursor, &Sweep { count: 100, ..ASK }).unwrap();
        requeued += reply.1;
        cursor = reply.0;
        calls += 1;
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(
        (requeued, bench.deaths("alike")),
        (1000, 1),
        "expected one death for all slots of one process"
    );
    assert!(calls > 5, "expected several calls, not {calls}");
}

#[test]
fn counts_one_event_for_processes_that_fell_together() {
    // A host, or a pause of Redis, takes many at once; a message that kills takes them one by one.
    let mut bench = Bench::new();
    for i in 0..8 {
        bench.die(&[(&of('b', i), "alike"), (&of('c', i), "alike"), (&of('d', i), "alike")]);
    }
    let reply = sweep(&mut bench, 0, &ASK).unwrap();
    assert_eq!((reply.1, reply.2), (24, 0), "expected all to be requeued: they fell together");
    assert_eq!(bench.deaths("alike"), 1, "expected one event to be counted once");
}

#[test]
fn counts_one_event_for_all_that_a_sweep_finds() {
    let mut bench = Bench::new();
    let began = bench.now();
    for process in ['b', 'c', 'd', 'e'] {
        bench.die(&[(&of(process, 0), "alike")]);
        let reply = sweep(&mut bench, 0, &Sweep { since: began, ..ASK }).unwrap();
        assert_eq!((reply.1, reply.2), (1, 0), "expected it to be requeued in each call of the sweep");
        assert_eq!(bench.deaths("alike"), 1, "expected the calls of one sweep to count one event");
    }
    bench.die(&[(&of('f', 0), "alike")]);
    let later = bench.now() + 1;
    sweep(&mut bench, 0, &Sweep { since: later, ..ASK }).unwrap();
    assert_eq!(bench.deaths("alike"), 2, "expected a later sweep to find another death");
}

#[test]
fn cuts_a_live_key_that_outlasts_every_lease_of_its_worker() {
    const DAY: i64 = 86_400_000;
    let info = |lease: u64| {
        let fields = rmpv::Value::Map(vec![("host".into(), "h".into()), ("lease_ms".into(), lease.into())]);
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, &fields).unwrap();
        bytes
    };
    let of_b = of('b', 0);
    for (id, said, left, expected) in [
        // (wire id, what its worker says of itself, milliseconds that the key lasts, and what is left of them)
        (of_b.as_str(), Some(info(1_000)), 600_000, 1_000),
        (&of_b, Some(info(1_000)), -1, 1_000),
        (&of_b, Some(info(900_000)), 600_000, 600_000),
        (&of_b, Some(info(900_000)), DAY, 900_000),
        (&of_b, Some(b"\xc1".to_vec()), 600_000, 600_000),
        (&of_b, None, 600_000, 600_000),
        (&of_b, None, 2 * DAY, DAY),
        ("4711", None, 600_000, 600_000),
        // Of a worker of another kind: not ours to cut.
        ("4711", None, -1, -1),
    ] {
        let mut bench = Bench::new();
        let () = bench.redis.hset(PROCESSING, id, "a").unwrap();
        match left {
            -1 => bench.redis.set(id, "1").unwrap(),
            left => bench.redis.pset_ex(id, "1", left.cast_unsigned()).unwrap(),
        }
        if let Some(said) = &said {
            let worker = id.rsplit_once(':').unwrap().0;
            let () = bench.redis.hset(worker, "info", said).unwrap();
        }
        let case = format!("{id} says {said:?} and lasts {left}");
        assert_eq!(sweep(&mut bench, 0, &ASK).unwrap().1, 0, "{case}: expected it not to be taken at once");
        let now: i64 = bench.redis.pttl(id).unwrap();
        let slow = 30_000.min(expected.max(0));
        assert!((expected - slow..=expected).contains(&now), "{case}: expected {expected}, it is {now}");
    }
}

#[test]
fn counts_a_death_also_when_the_clock_has_gone_back() {
    let mut bench = Bench::new();
    let (since, ahead) = (bench.now(), bench.now() + 600_000);
    let () = bench.redis.hset(DEATHS, digest("poison"), format!("1 {ahead} q:b")).unwrap();
    bench.die(&[(&of('c', 0), "poison")]);
    sweep(&mut bench, 0, &Sweep { since, ..ASK }).unwrap();
    assert_eq!(bench.deaths("poison"), 2, "expected an earlier death, which was counted by a later clock");
}

#[test]
fn forgets_a_count_to_which_no_death_was_added_for_long() {
    let mut bench = Bench::new();
    bench.die_of("poison", ASK.forget + 1);
    bench.die(&[(&of('b', 0), "poison")]);
    assert_eq!(sweep(&mut bench, 0, &ASK).unwrap().1, 1, "expected it not to be buried");
    assert_eq!(bench.deaths("poison"), 1, "expected this death to be the first");
}

#[test]
fn forgets_old_counts_of_messages_that_it_does_not_see() {
    let mut bench = Bench::new();
    for message in 0..100 {
        bench.die_of(&format!("unseen {message}"), ASK.forget + 1);
    }
    let () = bench.redis.hset(DEATHS, digest("of another clock"), format!("2 {FUTURE} q:y q:z")).unwrap();
    let () = bench.redis.hset(DEATHS, digest("not to be read"), "?").unwrap();
    bench.die_of("new", 0);
    let mut calls = 0;
    while bench.state().deaths.len() > 1 {
        sweep(&mut bench, 0, &ASK).unwrap();
        calls += 1;
        assert!(calls < 1000, "expected all old ones to be found");
    }
    assert_eq!(bench.deaths("new"), 2, "expected what is not old to be kept");
    assert!(calls > 5, "expected a bounded part in a call, there were {calls}");
}

#[test]
fn look_alikes_of_three_dead_processes_are_all_requeued() {
    let mut bench = Bench::new();
    for process in ['b', 'c', 'd'] {
        for i in 0..8 {
            bench.die(&[(&of(process, i), "alike")]);
        }
        let reply = sweep(&mut bench, 0, &ASK).unwrap();
        assert_eq!((reply.1, reply.2), (8, 0), "expected none to be buried: none ran alone");
    }
    assert_eq!(bench.deaths("alike"), 3, "expected each death to be counted for these bytes");
}

#[test]
fn buries_at_the_first_death_alone_when_told_so() {
    let mut bench = Bench::new();
    bench.die_alone("alike", &[(&of('b', 0), 0)]);
    bench.die(&[(&of('b', 1), "alike"), (&of('c', 0), "alike")]);
    let reply = sweep(&mut bench, 0, &Sweep { max_deaths: 1, ..ASK }).unwrap();
    assert_eq!((reply.1, reply.2), (2, 1), "expected the one that ran alone to be buried");
    let detail = String::from_utf8_lossy(&bench.state().dead[0]["detail"]).into_owned();
    assert!(detail.starts_with("1 process died while"), "{detail}");
}

#[test]
fn a_foreign_worker_is_a_process_of_its_own() {
    let mut bench = Bench::new();
    bench.die(&[("4711", "m"), ("4712", "m"), ("host:1", "other"), ("host:2", "other")]);
    let reply = sweep(&mut bench, 0, &ASK).unwrap();
    assert_eq!((reply.1, reply.2), (4, 0), "expected foreign fields to be requeued");
    assert_eq!(
        (bench.deaths("m"), bench.deaths("other")),
        (1, 1),
        "expected what fell together to count once"
    );
    bench.die(&[("4713", "m"), ("host:3", "other")]);
    sweep(&mut bench, 0, &ASK).unwrap();
    assert_eq!((bench.deaths("m"), bench.deaths("other")), (2, 2), "expected each id to be a process");
    assert!(bench.state().waiting.contains(&b"m".to_vec()), "expected the foreign bytes unchanged");
}

#[test]
fn a_message_is_lost_for_no_count_that_it_cannot_read() {
    for value in ["", "2", "2 q:w", "many 1 q:w", "-", " ", "2 1 =", "2 1 =x;y q:w", "2 1 =;; q:w"] {
        let mut bench = Bench::new();
        let () = bench.redis.hset(DEATHS, digest("m"), value).unwrap();
        bench.die(&[(&of('b', 0), "m")]);
        let (_, requeued, buried, _) = sweep(&mut bench, 0, &ASK)
            .unwrap_or_else(|error| panic!("expected {value:?} in the deaths to do no harm: {error}"));
        let state = bench.state();
        assert_eq!(requeued + buried, 1, "expected the message to be moved with {value:?} in the deaths");
        assert_eq!(state.waiting.len() + state.dead.len(), 1, "expected it with {value:?}: {state:?}");
    }
}

#[test]
fn takes_any_time_for_the_limits() {
    for time in [1, u64::MAX / 2] {
        let mut bench = Bench::new();
        bench.die(&[(&of('b', 0), "m"), (&of('c', 0), "m")]);
        let ask = Sweep { forget: time, max_age: time, max_deaths: 2, ..ASK };
        let reply = sweep(&mut bench, 0, &ask);
        let state = bench.state();
        let places = state.waiting.len() + state.dead.len() + state.processing.len();
        assert_eq!(places, 2, "expected no message to be lost with limits of {time} ms: {state:?}");
        reply.unwrap_or_else(|error| panic!("expected limits of {time} ms to be understood: {error}"));
    }
}

#[test]
fn keeps_no_more_dead_letters_than_it_may() {
    let mut bench = Bench::new();
    bench.letter("1-0", "of 1970");
    for (n, message) in ["1", "2", "3"].into_iter().enumerate() {
        bench.die_alone(message, &[(&of('b', n), 0)]);
    }
    let ask = Sweep { max_deaths: 1, max_count: 2, ..ASK };
    assert_eq!(sweep(&mut bench, 0, &ask).unwrap().2, 3, "expected all to be buried");
    let kept: Vec<Vec<u8>> = bench.state().dead.iter().map(|letter| letter["message"].clone()).collect();
    assert_eq!(kept, bytes(&["2", "3"]), "expected the newest two");

    let mut bench = Bench::new();
    bench.letter("1-0", "of 1970");
    bench.die_alone("1", &[(&of('b', 0), 0)]);
    assert_eq!(
        sweep(&mut bench, 0, &Sweep { max_deaths: 1, ..ASK }).unwrap().2,
        1,
        "expected it to be buried"
    );
    assert_eq!(bench.state().dead.len(), 1, "expected what is too old to go");
}

#[test]
fn does_not_read_what_the_living_own() {
    let mut bench = Bench::new();
    for n in 0..32u8 {
        let id = of('a', n.into());
        let () = bench.redis.hset(PROCESSING, &id, vec![n; 1 << 20]).unwrap();
        let () = bench.redis.pset_ex(&id, "1", LEASE).unwrap();
    }
    bench.die(&[(&of('b', 0), "lost")]);
    assert_eq!(sweep(&mut bench, 0, &ASK).unwrap(), (0, 1, 0, vec![of('b', 0)]));
    let memory: String = redis::cmd("INFO").arg("memory").query(&mut bench.redis).unwrap();
    let lua = memory.lines().find_map(|line| line.strip_prefix("used_memory_lua:"));
    let lua: u64 = lua.expect("expected the memory that scripts take").trim().parse().unwrap();
    assert!(lua < 8 << 20, "expected 32 MiB of the living not to be read, scripts have {lua} bytes");
}

#[test]
fn empties_a_bounded_part_of_some_hundreds_too() {
    let mut bench = Bench::new();
    let fields: Vec<(String, String)> = (0..250).map(|i| (of('b', i), i.to_string())).collect();
    let () = bench.redis.hset_multiple(PROCESSING, &fields).unwrap();
    let (mut cursor, mut parts) = (0, Vec::new());
    loop {
        let reply = sweep(&mut bench, cursor, &ASK).unwrap();
        cursor = reply.0;
        parts.push(reply.1);
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(parts, [100, 100, 50], "expected every dead slot to be found, in parts");
    assert_eq!(bench.state().waiting.len(), 250, "expected each message to wait");
}

#[test]
fn looks_at_ten_thousand_slots_part_by_part() {
    let mut bench = Bench::new();
    let fields: Vec<(String, String)> = (0..10_000).map(|i| (of('b', i), i.to_string())).collect();
    let () = bench.redis.hset_multiple(PROCESSING, &fields).unwrap();
    for (id, _) in fields.iter().step_by(2) {
        let () = bench.redis.pset_ex(id, "1", LEASE).unwrap();
    }
    let (mut cursor, mut requeued, mut calls) = (0, 0, 0);
    loop {
        let reply = sweep(&mut bench, cursor, &ASK).unwrap();
        assert!(reply.1 <= 2 * ASK.count, "expected a bounded part in a call, it requeued {}", reply.1);
        assert_eq!(reply.1, reply.3.len() as u64, "expected each dead slot to be named");
        (cursor, requeued, calls) = (reply.0, requeued + reply.1, calls + 1);
        if cursor == 0 {
            break;
        }
    }
    assert!(calls >= 50, "expected many small calls, there were {calls}");
    assert_eq!(requeued, 5_000, "expected every dead slot to be found, once");
    let state = bench.state();
    assert_eq!(
        (state.processing.len(), state.waiting.len()),
        (5_000, 5_000),
        "expected the living to keep theirs"
    );
    assert_eq!(state.tokens, 5_000, "expected a token for each");
}

fn seed(bench: &mut Bench) {
    bench.wait(&["x"]);
    bench.die(&[(&of('b', 0), "m")]);
    bench.die_alone("poison", &[(&of('c', 0), 2)]);
    bench.letter("*", "old");
}

#[test]
fn works_when_redis_is_full() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    let reply = sweep(&mut bench, 0, &ASK).unwrap_or_else(|error| panic!("expected no obstacle: {error}"));
    assert_eq!((reply.1, reply.2), (1, 1), "expected one to be requeued, one to be buried");
    let state = bench.state();
    assert_eq!(state.waiting, bytes(&["m", "x"]), "expected it at the head");
    assert_eq!(state.dead[1]["message"], b"poison", "expected the dead letter");
    assert_eq!(bench.deaths("m"), 1, "expected the death to be counted");
}

#[test]
fn changes_nothing_when_it_is_refused() {
    let keys = [QUEUE, TOKENS, PROCESSING, DEATHS];
    changes_nothing_it_may_not(&keys, seed, |bench| sweep(bench, 0, &ASK));
}

#[test]
fn keeps_every_message_without_a_right() {
    denied::keeps_every_message_without_a_right(
        "requeue_lost",
        |bench| {
            bench.own(&[(&slot(0), "a"), (&slot(1), "b")]);
            let () = bench.redis.del(&[slot(0), slot(1)]).unwrap();
        },
        |bench| sweep_all(bench, 0, &ASK),
    );
}

/// A slot whose process died, as the third one, while it ran a step of a flow alone.
fn seed_step(bench: &mut Bench) {
    let (id, at) = (of('b', 0), bench.now() - 60_000);
    let digest: String = redis::Script::new("return redis.sha1hex(ARGV[1])")
        .arg(step_message(7))
        .invoke(&mut bench.redis)
        .unwrap();
    let runs = format!("2 {at} =;{}!2 q:y q:z", id.strip_prefix("q:").unwrap());
    let () = bench.redis.hset(DEATHS, digest, runs).unwrap();
    let () = bench.redis.hset(PROCESSING, id, step_message(7)).unwrap();
    bench.die(&[(&of('c', 0), "other")]);
}

#[test]
fn outcome_of_a_lost_step_is_left_in_the_outbox() {
    let mut bench = Bench::new();
    seed_step(&mut bench);
    let reply = sweep(&mut bench, 0, &ASK).unwrap();
    assert_eq!((reply.1, reply.2), (1, 1));
    assert_outcome(&mut bench, 7, &["dead", "reason", "lost", "letter"]);
}

#[test]
fn lost_step_stays_while_the_outbox_cannot_take_its_outcome() {
    let mut bench = Bench::new();
    seed_step(&mut bench);
    let () = bench.redis.set(OUTBOX, "text").unwrap();
    let (_, requeued, buried, _, unburied) = sweep_all(&mut bench, 0, &ASK).unwrap();
    assert_eq!(
        (requeued, buried, unburied),
        (1, 0, 1),
        "expected other messages to be requeued all the same"
    );
    let state = bench.state();
    let owned: Vec<&String> = state.processing.keys().collect();
    assert_eq!((owned, state.dead.len()), (vec![&of('b', 0)], 0));
    let () = bench.redis.del(OUTBOX).unwrap();
    assert_eq!(sweep(&mut bench, 0, &ASK).unwrap().2, 1);
    assert_outcome(&mut bench, 7, &["dead", "reason", "lost", "letter"]);
}

#[test]
fn message_of_a_flow_that_has_ended_leaves_its_record() {
    let mut bench = Bench::new();
    let record = format!("q:c:{}", "07".repeat(16));
    let ended = [("state", "succeeded"), ("ended", "5")];
    let () = bench.redis.hset_multiple(&record, &ended).unwrap();
    let () = bench.redis.hset(PROCESSING, of('b', 0), step_message(7)).unwrap();
    assert_eq!(sweep(&mut bench, 0, &ASK).unwrap().1, 1);
    let state = |bench: &mut Bench| bench.redis.hget::<_, _, String>(&record, "state").unwrap();
    assert_eq!(state(&mut bench), "succeeded");
    // One that has not.
    let () = bench.redis.hdel(&record, "ended").unwrap();
    let () = bench.redis.hset(PROCESSING, of('b', 0), step_message(7)).unwrap();
    assert_eq!(sweep(&mut bench, 0, &ASK).unwrap().1, 1);
    assert_eq!(state(&mut bench), "waiting");
}
