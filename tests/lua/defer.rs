use super::*;

const IDS: [&str; 2] = ["0123456789abcdef", "0123456789abcdeg"];

fn defer(bench: &mut Bench, seq: u64, messages: &[(String, &str, u64)]) -> RedisResult<Vec<i64>> {
    bench.call("defer", |call| {
        call.key(PROCESSING).key(WORKER).key(DUE).key(LATER).key(TIMETABLE).arg(seq).arg(QUEUE);
        for (slot, id, wait) in messages {
            call.arg(slot).arg(*id).arg(*wait);
        }
    })
}

fn seed(bench: &mut Bench) {
    bench.own(&[(&slot(0), "a"), (&slot(1), "b")]);
}

#[test]
fn moves_messages_to_the_timetable_unchanged() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let () = bench.redis.set(TIMETABLE, WORKER_ID).unwrap();
    let moved = defer(&mut bench, 1, &[(slot(0), IDS[0], 500), (slot(1), IDS[1], 200), (slot(2), IDS[1], 1)]);
    assert_eq!(moved.unwrap(), [1, 1, 0]);
    let state = bench.state();
    assert_eq!(state.later[IDS[0].as_bytes()], b"a");
    let due: Vec<(String, u64)> = bench.redis.zrange_withscores(DUE, 0, -1).unwrap();
    assert_eq!(due[0].0, format!("c{}", IDS[1]));
    assert!(due[1].1 - due[0].1 == 300 && due[0].1 <= bench.server_ms() + 200, "{due:?}");
    assert!(!bench.redis.exists::<_, bool>(TIMETABLE).unwrap(), "expected its holder to look again");
    assert_eq!((state.processing, bench.seq()), (owned(&[]), Some(1)));
}

#[test]
fn message_stays_where_the_timetable_cannot_take_it() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.scheduled(IDS[0]);
    let moved = defer(&mut bench, 1, &[(slot(0), IDS[0], 500), (slot(1), IDS[1], 200)]).unwrap();
    assert_eq!(moved, [-1, 1]);
    assert_eq!(bench.state().processing, owned(&[(&slot(0), "a")]));
    let () = bench.redis.del(LATER).unwrap();
    let () = bench.redis.set(LATER, "text").unwrap();
    assert_eq!(defer(&mut bench, 2, &[(slot(0), IDS[1], 500)]).unwrap(), [-1]);
}

#[test]
fn works_when_redis_is_full() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    assert_eq!(defer(&mut bench, 1, &[(slot(0), IDS[0], 500)]).unwrap(), [1]);
}

#[test]
fn changes_nothing_when_it_is_refused() {
    let one = || [(slot(0), IDS[0], 500)];
    changes_nothing_it_may_not(&[PROCESSING, WORKER], seed, |bench| defer(bench, 1, &one()));
    refuses_stale_calls(seed, |bench, seq| defer(bench, seq, &one()));
}
