use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use redis::Commands;

use super::Site;
use crate::support::trial::{PATIENCE, call, marks, ready};
use crate::support::wait;

#[test]
fn ended_calls_are_counted_across_restarts() {
    let mut site = Site::new(&[]);
    for round in 1..=2_u64 {
        let mut worker = site.trial.worker(&[]);
        ready(&worker);
        site.trial.push(&marks(3));
        site.trial.push(&[call("trial.fails", &["x".into()])]);
        wait::until("the call to be buried", PATIENCE, || site.trial.dead() as u64 == round);
        site.trial.wait_settled();
        // What was counted is written at the end at the latest.
        site.trial.stop(&mut worker);
        let mut redis = site.trial.server.connection();
        let all: Vec<(String, String)> =
            redis.hgetall::<_, BTreeMap<String, String>>("delayed_history:q").unwrap().into_iter().collect();
        for resolution in ["1:", "10:", "60:"] {
            for (kind, expected) in [(":s", 3 * round), (":f", round), (":d", round)] {
                let of =
                    all.iter().filter(|(field, _)| field.starts_with(resolution) && field.ends_with(kind));
                let sum: u64 = of.map(|(_, count)| count.parse::<u64>().unwrap()).sum();
                assert_eq!(sum, expected, "{resolution} {kind}: {all:?}");
            }
        }
        assert!(redis.pttl::<_, i64>("delayed_history:q").unwrap() > 0, "expected it to expire");
    }
    wait::until("the chart to show them", PATIENCE, || {
        let page = site.page("/?span=day");
        page.contains("6 succeeded, 2 failed, 2 dead") || page.matches(" succeeded, ").count() > 1
    });
    for span in ["hour", "day", "week"] {
        let page = site.page(&format!("/queue?queue=q&span={span}"));
        assert!(page.contains("<svg class=\"chart\"") && page.contains("a worker started"), "{page}");
    }
}

#[test]
fn old_counts_are_deleted() {
    let site = Site::new(&[]);
    let mut redis = site.trial.server.connection();
    let minutes = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 60;
    let (old, recent) = (format!("1:{}:s", minutes - 100), format!("1:{}:s", minutes - 30));
    let () = redis.hset_multiple("delayed_history:q", &[(&old, 7), (&recent, 7)]).unwrap();
    let mut worker = site.trial.worker(&[]);
    wait::until("the old count to be deleted", PATIENCE, || {
        !redis.hexists::<_, _, bool>("delayed_history:q", &old).unwrap()
    });
    assert!(redis.hexists::<_, _, bool>("delayed_history:q", &recent).unwrap());
    site.trial.stop(&mut worker);
}

#[test]
fn history_of_the_wrong_type_hinders_nobody() {
    let mut site = Site::new(&[]);
    let mut redis = site.trial.server.connection();
    let () = redis.set("delayed_history:q", "text").unwrap();
    let mut worker = site.trial.worker(&[]);
    site.trial.push(&marks(1));
    site.trial.wait_runs(1);
    site.trial.stop(&mut worker);
    assert_eq!(redis.get::<_, String>("delayed_history:q").unwrap(), "text");
}

#[test]
fn runs_of_a_task_are_counted_with_their_durations() {
    let mut site = Site::new(&[]);
    let mut worker = site.trial.worker(&[]);
    site.trial.push(&marks(4));
    site.trial.push(&[call("trial.fails", &["x".into()])]);
    wait::until("the call to be buried", PATIENCE, || site.trial.dead() == 1);
    site.trial.wait_settled();
    site.trial.stop(&mut worker);
    let page = site.page("/tasks");
    let row = |task: &str| super::between(&page, &format!("/task?task={task}\""), "</tr>").to_owned();
    let marked = row("trial%2Emark");
    assert!(marked.contains("<td class=\"number\">4</td>") && marked.contains("&lt; "), "{marked}");
    assert!(row("trial%2Efails").contains("1 (100.0 %)"), "{}", row("trial%2Efails"));
    let one = site.page("/task?task=trial.fails");
    assert!(one.contains("0 succeeded, 1 (100.0 %) failed") && one.contains("99 %"), "{one}");
}

#[test]
fn field_that_is_no_number_lets_the_others_count_once() {
    let mut site = Site::new(&[]);
    let mut redis = site.trial.server.connection();
    let hours = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 3600;
    for hour in [hours, hours + 1] {
        let () = redis.hset("delayed_history:q", format!("60:{hour}:s"), "x").unwrap();
        let () = redis.hset("delayed_task_history:trial.mark", format!("{hour}:f"), "-1").unwrap();
    }
    let mut worker = site.trial.worker(&[]);
    site.trial.push(&marks(3));
    site.trial.wait_runs(3);
    let mut sum = || {
        let all: BTreeMap<String, String> = redis.hgetall("delayed_history:q").unwrap();
        let minutes = all.iter().filter(|(field, _)| field.starts_with("1:") && field.ends_with(":s"));
        minutes.map(|(_, count)| count.parse::<u64>().unwrap()).sum::<u64>()
    };
    wait::until("the runs to be counted", PATIENCE, || sum() == 3);
    // It writes once more when it ends.
    site.trial.stop(&mut worker);
    assert_eq!(sum(), 3);
    let page = site.page("/task?task=trial.mark");
    assert!(page.contains("3 succeeded, 0 failed"), "{page}");
}
