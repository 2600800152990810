use super::*;

fn unpark(bench: &mut Bench, count: u64, messages: &[&str]) -> RedisResult<(u64, Vec<String>)> {
    let reply: Vec<Value> = bench.call("unpark", |call| {
        call.key(QUEUE).key(TOKENS).key(WAITERS).key(PARKED).arg("l").arg(count);
        for message in messages {
            call.arg(digest(message));
        }
    })?;
    let mut reply = reply.into_iter();
    let moved = redis::from_redis_value(reply.next().unwrap()).unwrap();
    let mut absent: Vec<String> = reply.map(|digest| redis::from_redis_value(digest).unwrap()).collect();
    absent.sort_unstable();
    Ok((moved, absent))
}

fn seed(bench: &mut Bench) {
    bench.wait(&["x"]);
    bench.park(&["a", "b", "b", "c"]);
}

#[test]
fn moves_messages_to_the_head_in_the_order_of_their_waiting() {
    let mut bench = Bench::new();
    seed(&mut bench);
    assert_eq!(unpark(&mut bench, 0, &["b", "a", "y"]).unwrap(), (2, vec![digest("y")]));
    let state = bench.state();
    assert_eq!((state.waiting, state.tokens), (bytes(&["a", "b", "x"]), 3));
    assert_eq!(bench.redis.lrange::<_, Vec<String>>(WAITERS, 0, -1).unwrap(), ["b", "c"]);
    assert_eq!(unpark(&mut bench, 0, &["a", "b", "b"]).unwrap(), (1, vec![digest("a"), digest("b")]));
    assert_eq!(unpark(&mut bench, 0, &["c"]).unwrap(), (1, vec![]));
    assert!(!bench.redis.exists::<_, bool>(PARKED).unwrap(), "expected no name to be left");
}

#[test]
fn moves_the_oldest_where_a_number_is_given() {
    let mut bench = Bench::new();
    seed(&mut bench);
    assert_eq!(unpark(&mut bench, 3, &[]).unwrap(), (3, vec![]));
    assert_eq!(bench.state().waiting, bytes(&["a", "b", "b", "x"]));
    assert_eq!(unpark(&mut bench, 3, &[]).unwrap(), (1, vec![]));
    assert!(!bench.redis.exists::<_, bool>(PARKED).unwrap());
}

#[test]
fn works_when_redis_is_full() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    assert_eq!(unpark(&mut bench, 0, &["a"]).unwrap().0, 1);
}

#[test]
fn changes_nothing_when_it_is_refused() {
    changes_nothing_it_may_not(&[QUEUE, TOKENS, WAITERS, PARKED], seed, |bench| unpark(bench, 0, &["a"]));
}
