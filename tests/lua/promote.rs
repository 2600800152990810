use super::*;

const US: &str = "abcdefghijklmn27";

/// Moves up to `count` calls. Gives how many were moved, and after how many milliseconds to ask again.
fn promote(bench: &mut Bench, process: &str, count: usize) -> RedisResult<(u64, i64)> {
    bench.call("promote", |call| {
        call.key(QUEUE).key(TOKENS).key(DUE).key(LATER).key(TIMETABLE).key(PERIODIC);
        call.arg(process).arg(1_000).arg(count).arg(0);
    })
}

/// What a process gets that makes the calls of periodic tasks: how many calls were moved, when to ask again, and each
/// task that is due, with its definition.
fn promote_all(bench: &mut Bench, process: &str) -> (u64, i64, Vec<(String, u64, String)>) {
    let reply: Vec<Value> = bench
        .call("promote", |call| {
            call.key(QUEUE).key(TOKENS).key(DUE).key(LATER).key(TIMETABLE).key(PERIODIC);
            call.arg(process).arg(1_000).arg(500).arg(1);
        })
        .unwrap();
    let [Value::Int(moved), Value::Int(next), rest @ ..] = &reply[..] else { panic!("{reply:?}") };
    let tasks = match rest {
        [] => Vec::new(),
        [Value::Int(now), Value::Array(entries)] => {
            let server = bench.server_ms();
            assert!(now.unsigned_abs().abs_diff(server) < 30_000, "expected Redis's time: {now}, {server}");
            let flat = redis::from_redis_value::<Vec<(String, u64, String)>>(Value::Array(
                entries.chunks(3).map(|entry| Value::Array(entry.to_vec())).collect(),
            ));
            flat.unwrap()
        }
        rest => panic!("{rest:?}"),
    };
    (*moved as u64, *next, tasks)
}

/// Schedules a call so many milliseconds from now.
fn schedule(bench: &mut Bench, id: &str, after: i64) {
    let (seconds, micros): (i64, i64) = redis::cmd("TIME").query(&mut bench.redis).unwrap();
    let due = seconds * 1000 + micros / 1000 + after;
    let () = bench.redis.zadd(DUE, format!("c{id}"), due).unwrap();
    let () = bench.redis.hset(LATER, id, format!("message {id}")).unwrap();
}

#[test]
fn moves_what_is_due_to_the_tail_in_its_order() {
    let mut bench = Bench::new();
    bench.wait(&["first"]);
    schedule(&mut bench, "b", -10);
    schedule(&mut bench, "a", -20);
    schedule(&mut bench, "c", 60_000);
    let (moved, next) = promote(&mut bench, US, 500).unwrap();
    assert_eq!(moved, 2, "expected what is due to be moved");
    assert!((50_000..=60_000).contains(&next), "expected to be told when the next is due: {next}");
    let state = bench.state();
    assert_eq!(state.waiting, bytes(&["first", "message a", "message b"]));
    assert_eq!(state.tokens, 3, "expected a token for each");
    assert_eq!(state.later, BTreeMap::from([(b"c".to_vec(), b"message c".to_vec())]));
    assert_eq!(bench.redis.zrange::<_, Vec<String>>(DUE, 0, -1).unwrap(), ["cc"]);
    assert!(!bench.redis.exists::<_, bool>(TIMETABLE).unwrap(), "expected no lease for what is far away");
}

#[test]
fn moves_a_bounded_number_and_asks_to_be_called_again() {
    let mut bench = Bench::new();
    for id in 0..1_000 {
        schedule(&mut bench, &format!("{id:04}"), -1);
    }
    assert_eq!(promote(&mut bench, US, 600).unwrap(), (600, 0));
    assert_eq!(promote(&mut bench, US, 600).unwrap(), (400, -1));
    let state = bench.state();
    assert_eq!((state.waiting.len(), state.tokens, state.later.len()), (1_000, 1_000, 0));
    assert!(!bench.redis.exists::<_, bool>(DUE).unwrap());
}

#[test]
fn stops_at_many_bytes() {
    let mut bench = Bench::new();
    for id in 0..300 {
        schedule(&mut bench, &format!("{id:04}"), -1);
        let () = bench.redis.hset(LATER, format!("{id:04}"), vec![b'x'; 50_000]).unwrap();
    }
    assert_eq!(promote(&mut bench, US, 500).unwrap(), (200, 0), "expected a pause after 8 MiB");
    assert_eq!(promote(&mut bench, US, 500).unwrap(), (100, -1));
}

#[test]
fn leaves_it_to_the_holder_of_the_lease() {
    let mut bench = Bench::new();
    schedule(&mut bench, "soon", 500);
    let (moved, next) = promote(&mut bench, US, 500).unwrap();
    assert!(moved == 0 && (1..=500).contains(&next), "expected to wait for it: {next}");
    assert_eq!(bench.redis.get::<_, String>(TIMETABLE).unwrap(), US, "expected to hold the lease");
    schedule(&mut bench, "due", -1);
    let (moved, next) = promote(&mut bench, "another", 500).unwrap();
    assert_eq!(moved, 0, "expected another process to move nothing");
    assert!((1..=1_000).contains(&next), "expected it to ask when the lease is over: {next}");
    assert_eq!(promote(&mut bench, US, 500).unwrap().0, 1, "expected the holder to move it");
    let () = bench.redis.del(TIMETABLE).unwrap();
    schedule(&mut bench, "orphan", -1);
    assert_eq!(promote(&mut bench, "another", 500).unwrap().0, 1, "expected others to take over");
}

#[test]
fn takes_no_lease_for_one_that_outlasts_any_that_was_granted() {
    // As after the server's clock was set back.
    let mut bench = Bench::new();
    schedule(&mut bench, "due", -1);
    let () = bench.redis.pset_ex(TIMETABLE, "another", 600_000).unwrap();
    assert_eq!(promote(&mut bench, US, 500).unwrap(), (1, -1));
}

#[test]
fn leaves_what_it_does_not_know_and_drops_times_without_a_call() {
    let mut bench = Bench::new();
    let () = bench.redis.zadd(DUE, "xnightly", 1).unwrap();
    let () = bench.redis.zadd(DUE, "cgone", 1).unwrap();
    let () = bench.redis.zadd(DUE, "pgone", 1).unwrap();
    assert_eq!(promote(&mut bench, US, 500).unwrap().0, 0);
    assert_eq!(bench.redis.zrange::<_, Vec<String>>(DUE, 0, -1).unwrap(), ["xnightly"]);
    assert_eq!(promote(&mut bench, US, 500).unwrap(), (0, 1_000), "expected no busy loop");
    assert_eq!(bench.state().waiting, bytes(&[]));
}

#[test]
fn periodic_tasks_that_are_due_stay_and_are_named() {
    let mut bench = Bench::new();
    let () = bench.redis.zadd(DUE, "pnightly", 7).unwrap();
    let () = bench.redis.zadd(DUE, "plater", 4_102_444_800_000_u64).unwrap();
    let () =
        bench.redis.hset_multiple(PERIODIC, &[("d:nightly", "definition"), ("d:later", "other")]).unwrap();
    schedule(&mut bench, "a", -1);
    let task = ("pnightly".to_owned(), 7, "definition".to_owned());
    assert_eq!(promote_all(&mut bench, US), (1, 0, vec![task.clone()]));
    assert_eq!(promote_all(&mut bench, US), (0, 0, vec![task]), "expected it to be due still");
    assert_eq!(
        bench.redis.get::<_, String>(TIMETABLE).unwrap(),
        US,
        "expected the lease to be held meanwhile"
    );
    let (moved, next, tasks) = promote_all(&mut bench, "another");
    assert!(moved == 0 && next >= 1 && tasks.is_empty(), "expected another process to leave it: {next}");
}

#[test]
fn process_that_makes_no_ticks_leaves_the_lease_to_others() {
    let mut bench = Bench::new();
    let () = bench.redis.zadd(DUE, "pnightly", 7).unwrap();
    let () = bench.redis.hset(PERIODIC, "d:nightly", "definition").unwrap();
    schedule(&mut bench, "a", -1);
    assert_eq!(promote(&mut bench, US, 500).unwrap(), (1, 0), "expected calls to be moved all the same");
    assert_eq!(promote(&mut bench, US, 500).unwrap(), (0, 1_000), "expected no busy loop");
    assert!(!bench.redis.exists::<_, bool>(TIMETABLE).unwrap());
    assert_eq!(promote_all(&mut bench, "another").2.len(), 1);
}

#[test]
fn definitions_of_another_program_stop_no_call() {
    let mut bench = Bench::new();
    let () = bench.redis.set(PERIODIC, "text").unwrap();
    let () = bench.redis.zadd(DUE, "pnightly", 7).unwrap();
    schedule(&mut bench, "a", -1);
    assert_eq!(promote_all(&mut bench, US), (1, 0, vec![]));
    assert_eq!(promote_all(&mut bench, US).1, 1_000, "expected no busy loop");
}

#[test]
fn works_when_redis_is_full() {
    let mut bench = Bench::new();
    schedule(&mut bench, "a", -1);
    schedule(&mut bench, "b", 100);
    bench.fill();
    assert_eq!(promote(&mut bench, US, 500).unwrap().0, 1, "expected a full Redis to be no obstacle");
}

#[test]
fn changes_nothing_when_it_is_refused() {
    changes_nothing_it_may_not(
        &[QUEUE, TOKENS, DUE, LATER],
        |bench| schedule(bench, "a", -1),
        |bench| promote(bench, US, 500),
    );
    let mut bench = Bench::new();
    schedule(&mut bench, "a", -1);
    let () = bench.redis.rpush(TIMETABLE, "data of others").unwrap();
    assert_eq!(promote(&mut bench, US, 500).unwrap().0, 1, "expected a lease that is none to be no obstacle");
    assert_eq!(bench.redis.llen::<_, u64>(TIMETABLE).unwrap(), 1, "expected it to be left alone");
}

#[test]
fn keeps_every_message_without_a_right() {
    denied::keeps_every_message_without_a_right(
        "promote",
        |bench| schedule(bench, "a", -1),
        |bench| promote(bench, US, 500),
    );
}
