//! Attempts that are refused, keys of other programs, and messages that are large.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use redis::Commands;

use super::access::{log_in, with_users};
use super::pages::PAGES;
use super::{Site, between, encoded, text, unescaped};
use crate::support::http::Connection;
use crate::support::trial::{PATIENCE, mark};
use crate::support::wait;

#[test]
fn refused_attempts_are_in_the_audit_log() {
    let site = with_users();
    let bob = log_in(&site, "bob", "battery");
    let cookie = [("cookie", bob.as_str())];
    let log = || text(site.request("GET /audit", &cookie, "").expect(200));
    // One a second is written: the others are tried again.
    let shown = |parts: &[&str], attempt: &dyn Fn()| {
        wait::until(&format!("{parts:?} in the log"), PATIENCE, || {
            attempt();
            log().split("<tr>").any(|row| parts.iter().all(|part| row.contains(part)))
        });
    };
    let wrong = |name: &str| site.form("/login", &[("name", name), ("password", "x")], &[]).expect(401);
    shown(&["<td>ann</td>", "login", "refused", "is wrong"], &|| drop(wrong("ann")));
    shown(&["<td>nobody</td>", "login", "refused"], &|| drop(wrong("a secret in the wrong field")));
    assert!(!log().contains("secret"), "{}", log());
    let pause = [("verb", "pause"), ("queue", "q")];
    shown(&["<td>bob</td>", "pause", "refused", "viewer"], &|| {
        site.form("/action", &pause, &cookie).expect(403);
    });
    let evil = [("origin", "http://evil.example")];
    let attack = || drop(site.request("POST /action", &evil, "").expect(403));
    shown(&["POST /action", "http://evil.example", "another site"], &attack);
    (0..300).for_each(|_| attack());
    shown(&["another site", "other requests before"], &attack);
    let mut redis = site.trial.server.connection();
    let mut length = |stream| -> u64 { redis::cmd("XLEN").arg(stream).query(&mut redis).unwrap() };
    let kept = length("delayed_audit_refused");
    assert!(kept < 100, "expected one entry a second, not {kept}");
    assert_eq!(length("delayed_audit"), 0, "expected refusals to push out nothing that was done");
}

#[test]
fn logins_beyond_those_that_wait_are_refused() {
    let site = with_users();
    let body = encoded(&[("name", "ann"), ("password", "wrong")]);
    let head =
        "POST /login HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-www-form-urlencoded\r\n";
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    let mut all: Vec<Connection> = (0..80).map(|_| Connection::open(site.address)).collect();
    all.iter_mut().for_each(|connection| connection.write(request.as_bytes()).unwrap());
    let mut answers = BTreeMap::<u16, usize>::new();
    for connection in &mut all {
        *answers.entry(connection.read().unwrap().status).or_default() += 1;
    }
    let of = |status| answers.get(&status).copied().unwrap_or_default();
    assert_eq!(of(401) + of(429), 80, "{answers:?}");
    assert!(of(401) >= 16 && of(429) > 0, "{answers:?}");
    log_in(&site, "ann", "correct horse");
}

#[test]
fn key_of_a_wrong_type_hides_no_other_queue() {
    let mut site = Site::new(&[]);
    let mut redis = site.trial.server.connection();
    let suffixes = [
        "",
        "_noti",
        "_processing",
        "_workers",
        "_dead",
        "_deaths",
        "_due",
        "_later",
        "_paused",
        "_parked",
        "_periodic",
        "_flows",
        "_done",
        "_finished",
        "_outbox",
    ];
    for suffix in suffixes {
        let queue = format!("broken{suffix}.x");
        let () = redis.sadd("delayed_queues", &queue).unwrap();
        let () = redis.pfadd(format!("{queue}{suffix}"), "x").unwrap();
        let () = redis.lpush(format!("delayed_history:{queue}"), "x").unwrap();
        if suffix == "_paused" {
            let () = redis.del(format!("{queue}{suffix}")).unwrap();
            let () = redis.lpush(format!("{queue}{suffix}"), "x").unwrap();
        }
    }
    site.trial.push(&[mark("fine")]);
    bury(&mut redis, &mark("buried"));
    for path in PAGES {
        site.page(path);
    }
    let queues = site.page("/queues");
    for suffix in suffixes {
        let queue = format!("broken{suffix}.x");
        assert!(queues.contains(&format!(">{queue}</a>")), "expected {queue} in {queues}");
        for path in ["/queue", "/calls", "/dead", "/flows", "/periodic"] {
            site.page(&format!("{path}?queue={queue}"));
        }
    }
    let unreadable = queues.matches("unreadable").count();
    assert!((6..suffixes.len()).contains(&unreadable), "{unreadable}: {queues}");
    let calls = site.page("/calls");
    assert!(calls.contains("trial.mark(&quot;fine&quot;)") && calls.contains(">broken.x</a>: "), "{calls}");
    let dead = site.page("/dead");
    assert!(
        dead.contains("trial.mark(&quot;buried&quot;)") && dead.contains(">broken_dead.x</a>: "),
        "{dead}"
    );
    assert!(dead.contains("rename or delete it"), "{dead}");
    site.get("/call?id=unknown").expect(404);
}

#[test]
fn limit_of_a_wrong_type_hides_no_other_limit() {
    let site = Site::new(&[]);
    site.run(&["limits", "set", "fine", "--concurrency", "4"]);
    let mut redis = site.trial.server.connection();
    let policy = "{delayed:smtp}:policy";
    let () = redis.sadd("delayed_limits", "smtp").unwrap();
    let () = redis.lpush(policy, "x").unwrap();
    let page = site.page("/limits");
    assert!(page.contains("unreadable") && page.contains("fine"), "{page}");
    assert!(page.contains(policy), "expected the key in {page}");
    let doctor = site.page("/doctor");
    assert!(doctor.contains("the limit smtp cannot be read"), "{doctor}");
    let () = redis.del("delayed_limits").unwrap();
    let () = redis.lpush("delayed_limits", "x").unwrap();
    site.get("/limits").expect(503);
    assert!(site.page("/doctor").contains("`delayed_limits`"));
}

#[test]
fn pages_of_a_silent_redis_fail_together() {
    let site = Site::new(&[]);
    PAGES.into_iter().for_each(|path| drop(site.page(path)));
    let begun = Instant::now();
    site.trial.server.pause();
    std::thread::scope(|scope| {
        let pages: Vec<_> = ["/calls", "/periodic", "/flows", "/dead"]
            .map(|path| scope.spawn(|| site.get(path).status))
            .into();
        let statuses: Vec<u16> = pages.into_iter().map(|page| page.join().unwrap()).collect();
        assert_eq!(statuses, [503; 4]);
    });
    let took = begun.elapsed();
    // One of them waits for a reply for 5 s, and the others with it.
    assert!(took < Duration::from_secs(12), "expected all of them to fail at once, not after {took:?}");
    site.trial.server.resume();
    wait::until("the pages to come back", PATIENCE, || site.get("/calls").status == 200);
}

/// Adds a dead letter.
fn bury(redis: &mut redis::Connection, message: &[u8]) {
    let mut add = redis::cmd("XADD");
    add.arg("q_dead").arg("*").arg("message").arg(message).arg("reason").arg("failed");
    let () = add.query(redis).unwrap();
}

/// How many bytes Redis has sent.
fn sent(site: &mut Site) -> u64 {
    let text: String = redis::cmd("INFO").arg("stats").query(&mut site.trial.redis).unwrap();
    let sent = text.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:"));
    sent.unwrap().trim().parse().unwrap()
}

#[test]
fn pages_of_large_messages_are_short_and_show_all() {
    const COUNT: usize = 40;
    let mut site = Site::new(&[]);
    let large = |n: usize| mark(format!("n{n}.{}", "x".repeat(1 << 20)));
    for n in 0..COUNT {
        site.trial.push(&[large(n)]);
        bury(&mut site.trial.redis, &large(n));
    }
    for first in ["/calls?state=waiting&queue=q", "/calls?queue=q", "/dead?queue=q&task=trial.mark"] {
        let (mut next, mut seen) = (Some(first.to_owned()), Vec::new());
        while let Some(path) = next {
            let before = sent(&mut site);
            let page = site.page(&path);
            let read = (sent(&mut site) - before) >> 20;
            assert!(read < 24, "expected to read about 16 MiB for {path}, not {read}");
            let on_page = (0..COUNT).filter(|n| page.contains(&format!("(&quot;n{n}.")));
            seen.extend(on_page);
            assert!(page.len() < 200_000, "{} bytes", page.len());
            next = page
                .contains("rel=\"next\"")
                .then(|| unescaped(between(&page, "rel=\"next\" href=\"", "\"")));
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..COUNT).collect::<Vec<_>>(), "{first}");
    }
    let before = sent(&mut site);
    site.page("/dead?queue=q");
    site.page("/calls?queue=q&text=nowhere");
    let read = (sent(&mut site) - before) >> 20;
    assert!(read < 24 + 24 + 72, "expected bounded reads, not {read} MiB");
}
