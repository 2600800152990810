use super::*;

const CHANNEL: &str = "q:due";
/// The first second of 2100, and of 2101.
const FAR: u64 = 4_102_444_800_000;
const FARTHER: u64 = 4_133_980_800_000;

/// Does this with tasks, given as (name, text, due). Gives what became of each.
fn define(bench: &mut Bench, what: &str, late: u8, tasks: &[(&str, &str, u64)]) -> RedisResult<Vec<String>> {
    bench.call("define", |call| {
        call.key(DUE).key(PERIODIC).key(TIMETABLE).arg(QUEUE).arg(CHANNEL).arg(what).arg(late);
        for (name, text, due) in tasks {
            call.arg(*name).arg(*text).arg(*due);
        }
    })
}

fn put(bench: &mut Bench, tasks: &[(&str, &str, u64)]) -> Vec<String> {
    define(bench, "put", 0, tasks).unwrap()
}

fn due(bench: &mut Bench, name: &str) -> Option<u64> {
    bench.redis.zscore(DUE, format!("p{name}")).unwrap()
}

fn definition(bench: &mut Bench, name: &str) -> Option<String> {
    bench.redis.hget(PERIODIC, format!("d:{name}")).unwrap()
}

#[test]
fn stores_a_definition_once_and_replaces_another() {
    let mut bench = Bench::new();
    assert_eq!(put(&mut bench, &[("a", "one", FAR), ("b", "two", FARTHER)]), ["new", "new"]);
    assert_eq!((due(&mut bench, "a"), due(&mut bench, "b")), (Some(FAR), Some(FARTHER)));
    let before = everything(&mut bench.redis);
    assert_eq!(put(&mut bench, &[("a", "one", FARTHER)]), ["same"]);
    bench.assert_unchanged(&before, "the same definition");
    assert_eq!(define(&mut bench, "new", 0, &[("a", "three", FAR)]).unwrap(), ["exists"]);
    bench.assert_unchanged(&before, "a name that is taken");
    assert_eq!(put(&mut bench, &[("a", "three", FARTHER)]), ["changed"]);
    assert_eq!((definition(&mut bench, "a"), due(&mut bench, "a")), (Some("three".into()), Some(FARTHER)));
}

#[test]
fn restores_an_entry_that_was_lost() {
    let mut bench = Bench::new();
    put(&mut bench, &[("a", "one", FAR)]);
    let () = bench.redis.zrem(DUE, "pa").unwrap();
    assert_eq!(put(&mut bench, &[("a", "one", FAR)]), ["changed"]);
    assert_eq!(due(&mut bench, "a"), Some(FAR));
}

#[test]
fn tick_that_is_overdue_stays_due() {
    let mut bench = Bench::new();
    put(&mut bench, &[("a", "one", FAR)]);
    let () = bench.redis.zadd(DUE, "pa", 7).unwrap();
    assert_eq!(put(&mut bench, &[("a", "two", FARTHER)]), ["changed"]);
    assert_eq!(due(&mut bench, "a"), Some(7));
}

#[test]
fn time_that_has_passed_is_refused_until_it_is_insisted_on() {
    let mut bench = Bench::new();
    assert_eq!(put(&mut bench, &[("a", "one", 7)]), ["late"]);
    assert_eq!((definition(&mut bench, "a"), due(&mut bench, "a")), (None, None));
    assert_eq!(define(&mut bench, "put", 1, &[("a", "one", 7)]).unwrap(), ["new"]);
    assert_eq!(due(&mut bench, "a"), Some(7));
}

#[test]
fn task_without_a_time_is_never_late() {
    let mut bench = Bench::new();
    assert_eq!(put(&mut bench, &[("a", "one", 0)]), ["new"]);
    assert_eq!(due(&mut bench, "a"), Some(0));
}

#[test]
fn pause_takes_the_entry_and_keeps_the_definition() {
    let mut bench = Bench::new();
    put(&mut bench, &[("a", "one", FAR)]);
    let pause = |bench: &mut Bench, name| define(bench, "pause", 0, &[(name, "ann at home", 0)]).unwrap();
    assert_eq!(pause(&mut bench, "a"), ["paused"]);
    assert_eq!(
        (pause(&mut bench, "a"), pause(&mut bench, "none")),
        (vec!["same".into()], vec!["absent".into()])
    );
    assert_eq!((definition(&mut bench, "a"), due(&mut bench, "a")), (Some("one".into()), None));
    let text: String = bench.redis.hget(PERIODIC, "p:a").unwrap();
    let (since, by) = text.split_once(' ').unwrap();
    assert!(since.parse::<u64>().unwrap() <= bench.server_ms() && by == "ann at home", "{text}");
    // Another definition leaves it paused, and so does the same one.
    assert_eq!(put(&mut bench, &[("a", "two", FAR)]), ["changed"]);
    assert_eq!(put(&mut bench, &[("a", "two", FAR)]), ["same"]);
    assert_eq!(due(&mut bench, "a"), None);
    let resume = |bench: &mut Bench, due| define(bench, "resume", 0, &[("a", "", due)]).unwrap();
    assert_eq!(resume(&mut bench, 7), ["late"]);
    assert_eq!(resume(&mut bench, FARTHER), ["resumed"]);
    assert_eq!(resume(&mut bench, FARTHER), ["same"]);
    assert_eq!(due(&mut bench, "a"), Some(FARTHER));
    assert_eq!(define(&mut bench, "resume", 0, &[("none", "", FAR)]).unwrap(), ["absent"]);
}

#[test]
fn remove_leaves_nothing_behind() {
    let mut bench = Bench::new();
    put(&mut bench, &[("a", "one", FAR)]);
    let () = bench.redis.rpush("q:p:a", "entry").unwrap();
    assert_eq!(define(&mut bench, "pause", 0, &[("a", "ann", 0)]).unwrap(), ["paused"]);
    let remove = |bench: &mut Bench| define(bench, "remove", 0, &[("a", "", 0)]).unwrap();
    assert_eq!(remove(&mut bench), ["removed"]);
    assert!(everything(&mut bench.redis).is_empty());
    assert_eq!(remove(&mut bench), ["absent"]);
}

#[test]
fn tells_of_a_task_that_is_due_before_all_others() {
    let mut bench = Bench::new();
    let mut connection = bench.server.connection();
    let mut heard = connection.as_pubsub();
    heard.subscribe(CHANNEL).unwrap();
    for (name, after, tells) in [("a", 60_000, true), ("b", 90_000, false), ("c", 30_000, true)] {
        let () = bench.redis.set(TIMETABLE, "somebody").unwrap();
        let due = bench.server_ms() + after;
        put(&mut bench, &[(name, "definition", due)]);
        assert_eq!(!bench.redis.exists::<_, bool>(TIMETABLE).unwrap(), tells, "{name}: the lease");
        if tells {
            let told: u64 = heard.get_message().unwrap().get_payload().unwrap();
            assert!(told <= after && told + 30_000 > after, "{name}: {told}");
        }
    }
}

#[test]
fn changes_nothing_when_it_is_refused() {
    let call = |bench: &mut Bench| define(bench, "put", 0, &[("b", "two", FAR)]);
    let seed = |bench: &mut Bench| drop(put(bench, &[("a", "one", FAR)]));
    changes_nothing_it_may_not(&[DUE, PERIODIC], seed, call);
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    bench.refuses(FULL, "in a full Redis", call);
}
