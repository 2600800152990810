//! Does our sweeper bring back what the ancestors' dead workers owned, so that whoever is left can run it?

use redis::Commands;

use super::*;

/// A call of a function that is held, for workers of both languages: Go's cannot read Python's form.
fn held(language: Language, n: u32) -> String {
    match language {
        Go => line("go", "main.Hold", &format!(r#""args": [{n}]"#)),
        _ => line("py", "demo_tasks:hold", &format!(r#""args": [{n}]"#)),
    }
}

fn brings_back_what_a_dead_worker_owned(language: Language, heir: Language) {
    let mut site = Site::new();
    let sweeper = site.sweeper(Rust);
    let mut victim = site.worker(language, "victim", &[]);
    let survivor = site.worker(language, "survivor", &[]);
    site.produce(language, &[held(language, 1), held(language, 2)]);
    site.wait_for("victim", 1);
    let begun = site.wait_for("survivor", 1);
    let lost = site.lines("victim");
    let id = id_of(&victim);
    let message = site.state().processing[&id].clone();
    site.kill(&mut victim, &id);
    sweeper.wait_for_line("swept requeued=1");
    let state = site.state();
    assert_eq!((&state.waiting, state.tokens), (&vec![message], 1), "expected the same bytes to wait again");
    assert!(state.processing.contains_key(&id_of(&survivor)), "expected the living to keep theirs");

    // The survivor is still held: the heir takes it.
    let heir_worker = site.worker(heir, "heir", if heir == Rust { &["--no-sweep"] } else { &[] });
    assert_eq!(site.wait_for("heir", 1), lost, "expected what was lost to run once more");
    site.free();
    let ended = |begun: &[String]| [begun[0].clone(), begun[0].replace("begin", "end")];
    assert_eq!(site.wait_for("heir", 2), ended(&lost), "expected it to run to its end");
    assert_eq!(site.wait_for("survivor", 2), ended(&begun), "expected the living to end theirs");
    wait::until_ok(PATIENCE, || match site.state() {
        state if state.waiting.is_empty() && state.tokens == 0 => Ok(()),
        state => Err(format!("an empty queue: {state:#?}")),
    });
    assert!(!sweeper.printed().contains("buried=1"), "expected nothing to be buried");
    assert_no_errors(heir, &heir_worker);
    assert_no_errors(language, &survivor);
}

#[test]
fn what_a_dead_python_worker_owned_is_run_by_python() {
    brings_back_what_a_dead_worker_owned(Python, Python);
}

#[test]
fn what_a_dead_python_worker_owned_is_run_by_us() {
    brings_back_what_a_dead_worker_owned(Python, Rust);
}

#[test]
fn what_a_dead_go_worker_owned_is_run_by_go() {
    brings_back_what_a_dead_worker_owned(Go, Go);
}

#[test]
fn what_a_dead_go_worker_owned_is_run_by_us() {
    brings_back_what_a_dead_worker_owned(Go, Rust);
}

/// There is a token in a hand at every moment, as when several workers have a lot to do.
#[test]
fn a_token_in_a_hand_is_no_gap() {
    let mut site = Site::new();
    let tokens = format!("{QUEUE}_noti");
    let enqueue = |site: &mut Site, count: usize| {
        let mut pipe = redis::pipe();
        for _ in 0..count {
            pipe.rpush(QUEUE, "message").rpush(&tokens, "1");
        }
        let () = pipe.atomic().query(&mut site.redis).unwrap();
    };
    let take = |site: &mut Site, key: &str| {
        let taken: Option<String> = site.redis.lpop(key, None).unwrap();
        assert!(taken.is_some(), "expected something in {key}");
    };
    enqueue(&mut site, 10);
    take(&mut site, &tokens);
    let sweeper = site.sweeper(Rust);
    wait::until("the sweeper to have looked often enough", PATIENCE, || {
        take(&mut site, &tokens);
        take(&mut site, QUEUE);
        enqueue(&mut site, 1);
        looks(&mut site.redis) >= 120
    });
    let state = site.state();
    assert_eq!(
        state.tokens + 1,
        state.waiting.len() as u64,
        "expected the token in the hand to be no gap:\n{}",
        sweeper.printed()
    );
}

/// How often anybody asked for the length of a list.
fn looks(redis: &mut Connection) -> u64 {
    let stats: String = redis::cmd("INFO").arg("commandstats").query(redis).unwrap();
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_llen:calls=")?.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

/// A Go worker keeps what it ran last, also when it is stopped in good order.
#[test]
fn orderly_stops_of_go_workers_bury_no_call() {
    let mut site = Site::new();
    let sweeper = site.sweeper(Rust);
    site.free();
    site.produce(Go, &[line("go", "main.Hold", r#""args": [1]"#)]);
    for stop in 1..=3 {
        if stop == 3 {
            // The one that is killed is to be in the middle of it.
            std::fs::remove_file(site.file("free")).unwrap();
        }
        let record = format!("worker-{stop}");
        let mut worker = site.worker(Go, &record, &[]);
        let id = id_of(&worker);
        site.wait_for(&record, if stop == 3 { 1 } else { 2 });
        // Deaths within half a second would be one event.
        let last = site.state().deaths.into_values().next();
        let last: u64 = last.map_or(0, |last| last.split(' ').nth(1).unwrap().parse().unwrap());
        wait::until("the last death to be another event", PATIENCE, || {
            let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut site.redis).unwrap();
            seconds * 1000 + micros / 1000 > last + 600
        });
        if stop < 3 {
            worker.signal(Signal::SIGHUP);
            assert!(worker.wait_exit(PATIENCE).success(), "expected a good end:\n{}", worker.printed());
        } else {
            site.kill(&mut worker, &id);
        }
        sweeper.wait_for_lines("swept requeued=1", stop);
    }
    let state = site.state();
    assert_eq!(
        (state.waiting.len(), state.dead.len()),
        (1, 0),
        "expected it to wait, and not to be dead: {state:#?}"
    );
}
