use super::*;

const CHANNEL: &str = "q:paused";

pub(super) fn pause(bench: &mut Bench, by: &str) -> RedisResult<(i64, String)> {
    bench.call("pause", |call| {
        call.key(PAUSED).arg(by).arg(CHANNEL);
    })
}

/// The messages that `act` publishes.
#[track_caller]
pub(super) fn published(bench: &mut Bench, act: impl FnOnce(&mut Bench)) -> Vec<String> {
    let mut listener = bench.server.connection();
    let mut channels = listener.as_pubsub();
    channels.subscribe(CHANNEL).unwrap();
    act(bench);
    let () = bench.redis.publish(CHANNEL, "end").unwrap();
    let messages = std::iter::from_fn(|| channels.get_message().unwrap().get_payload::<String>().ok());
    messages.take_while(|message| message != "end").collect()
}

#[test]
fn leaves_who_paused_and_since_when_and_tells_workers() {
    let mut bench = Bench::new();
    let told = published(&mut bench, |bench| {
        let (is_new, text) = pause(bench, "anna at home").unwrap();
        let (since, by) = text.split_once(' ').unwrap();
        let (seconds, _): (u64, u64) = redis::cmd("TIME").query(&mut bench.redis).unwrap();
        assert!((seconds * 1000).abs_diff(since.parse().unwrap()) < 30_000, "{text}");
        assert_eq!((is_new, by), (1, "anna at home"));
        assert_eq!(bench.redis.get::<_, String>(PAUSED).unwrap(), text);
        assert_eq!(bench.redis.pttl::<_, i64>(PAUSED).unwrap(), -1, "expected it to last");
    });
    assert_eq!(told, ["paused anna at home"]);
}

#[test]
fn earlier_pause_stays_and_nobody_is_told_again() {
    let mut bench = Bench::new();
    let (_, first) = pause(&mut bench, "anna").unwrap();
    let told = published(&mut bench, |bench| {
        let before = everything(&mut bench.redis);
        assert_eq!(pause(bench, "berta").unwrap(), (0, first));
        bench.assert_unchanged(&before, "for a queue that is paused");
    });
    assert!(told.is_empty(), "{told:?}");
}

#[test]
fn changes_nothing_when_it_is_refused() {
    let call = |bench: &mut Bench| pause(bench, "anna");
    // A text is what belongs there, but not any.
    changes_nothing_it_may_not(&[PAUSED], |_| {}, call);
    let mut bench = Bench::new();
    let () = bench.redis.rpush(PAUSED, "a call of a queue with this name").unwrap();
    bench.refuses(WRONG_TYPE, "with a list", call);
    let mut bench = Bench::new();
    assert_eq!(bench.when_full(call).unwrap().0, 1, "expected a full Redis to be no obstacle");
}

#[test]
fn pause_without_the_right_to_publish_holds_all_the_same() {
    let mut bench = Bench::new();
    let rules = ["SETUSER", "default", "resetchannels"];
    let () = redis::cmd("ACL").arg(&rules).query(&mut bench.redis).unwrap();
    assert_eq!(pause(&mut bench, "anna").unwrap().0, 1);
}
