use redis::Commands;

use super::{Site, between, text};
use crate::support::http::Connection;
use crate::support::trial::{PATIENCE, call, gated, mark, message, open, ready};
use crate::support::wait;

/// All pages that show without anything to show.
pub(super) const PAGES: [&str; 12] = [
    "/",
    "/queues",
    "/calls",
    "/workers",
    "/tasks",
    "/enqueue",
    "/periodic",
    "/limits",
    "/flows",
    "/dead",
    "/doctor",
    "/audit",
];

#[test]
fn every_page_shows_with_an_empty_redis() {
    let site = Site::new(&[]);
    for path in PAGES {
        let page = site.page(path);
        assert!(page.contains("<main id=\"content\""), "{path}: {page}");
        assert!(page.contains("read-only"), "{path}");
    }
    let missing = text(site.get("/nothing").expect(404));
    assert!(missing.contains("There is no such page."), "{missing}");
    for (path, status) in
        [("/queue", 422), ("/queue?queue=two%20words", 422), ("/call?id=7", 404), ("/job?number=7", 404)]
    {
        site.get(path).expect(status);
    }
}

#[test]
fn pages_allow_nothing_from_elsewhere() {
    let site = Site::new(&[]);
    for path in ["/", "/nothing", "/assets/app.js"] {
        let answer = site.get(path);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-frame-options"), Some("DENY"));
    }
    let page = site.page("/");
    assert!(!page.contains("style=") && !page.contains("onclick") && !page.contains("<script>"), "{page}");
    let weight: usize = ["/", "/assets/app.js", "/assets/style.css", "/assets/icon.svg"]
        .map(|path| site.get(path).expect(200).body.len())
        .iter()
        .sum();
    assert!(weight < 100_000, "expected less than 100 kB, not {weight} bytes");
}

#[test]
fn calls_of_all_languages_and_states_are_shown() {
    let mut site = Site::new(&[]);
    let gate = site.trial.gate("gate");
    let mut worker = site.trial.worker(&["--concurrency", "1"]);
    ready(&worker);
    site.trial.push(&[gated("running", &gate), mark("waiting"), b"\xc1 no message".to_vec()]);
    site.cli(&["enqueue", "followed.charge", "[7]", "--after", "1h", "--id", "order:7", "--json"]);
    wait::until("the call to run", PATIENCE, || site.page("/calls?state=running").contains("trial.gated"));
    let overview = site.page("/");
    assert!(overview.contains("<a href=\"/queue?queue=q\">q</a>"), "{overview}");
    let waiting = site.page("/calls?state=waiting&queue=q");
    assert!(waiting.contains("trial.mark(&quot;waiting&quot;)"), "{waiting}");
    let scheduled = site.page("/calls?state=scheduled");
    assert!(scheduled.contains("followed.charge(7)"), "{scheduled}");
    let found = site.page("/calls?text=waiting");
    assert!(found.contains("waiting&quot;)") && !found.contains("trial.gated"), "{found}");
    let soon = site.page("/calls?state=scheduled&from=2020-01-01T00:00&until=2199-12-31T00:00");
    assert!(soon.contains("followed.charge(7)"), "{soon}");
    let never = site.page("/calls?state=scheduled&until=2020-01-01T00:00");
    assert!(!never.contains("followed.charge"), "{never}");
    site.get("/calls?from=yesterday").expect(422);
    let one = site.page("/call?id=order%3A7");
    assert!(one.contains("followed.charge") && one.contains("&quot;args&quot;:[7]"), "{one}");
    let workers = site.page("/workers");
    assert!(workers.contains("trial.gated") && workers.contains("1 worker alive"), "{workers}");
    open(&gate);
    site.trial.wait_runs(2);
    wait::until("the bad message to be buried", PATIENCE, || site.page("/dead").contains("malformed"));
    let dead = site.page("/dead");
    let letter = between(&dead, "<a href=\"/letter?", "\"").replace("&amp;", "&");
    let letter = site.page(&format!("/letter?{letter}"));
    assert!(letter.contains("c1206e6f206d657373616765"), "{letter}");
    site.trial.stop(&mut worker);
}

#[test]
fn nothing_of_a_name_or_text_is_markup() {
    let mut site = Site::new(&[]);
    let evil = "<script>alert(1)</script>\"'&\u{202e}";
    let path = "x<img/src=x/onerror=alert(1)>";
    site.trial.push(&[message(path, &rmp_serde::to_vec(evil).unwrap()), call("trial.fails", &[evil.into()])]);
    let mut redis = site.trial.server.connection();
    let () = redis.hset("delayed_tasks", "<b>bold</b>", b"\xc0").unwrap();
    let () = redis.sadd("delayed_queues", "<i>queue</i>").unwrap();
    let mut worker = site.trial.worker(&[]);
    wait::until("both to be buried", PATIENCE, || site.trial.dead() == 2);
    for path in PAGES {
        let page = site.page(path);
        for part in ["<script>alert", "<img/src", "<b>bold", "<i>queue"] {
            assert!(!page.contains(part), "{path} has {part}");
        }
    }
    assert!(site.page("/queues").contains("&lt;i&gt;queue"), "expected the queue to be shown");
    site.get("/queue?queue=%3Ci%3Equeue%3C%2Fi%3E").expect(200);
    site.trial.stop(&mut worker);
}

#[test]
fn open_page_is_sent_again_when_it_changes() {
    let mut site = Site::new(&[]);
    let mut stream = Connection::open(site.address);
    stream.write(b"GET /queues HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n").unwrap();
    site.trial.push(&[mark("one")]);
    let data = event(&mut stream, "page");
    assert!(data.contains("/queue?queue=q"), "{data}");
    // Redis goes, and comes back.
    site.trial.server.kill();
    let trouble = event(&mut stream, "trouble");
    assert!(trouble.contains("Redis cannot be used"), "{trouble}");
    for path in PAGES.into_iter().filter(|path| *path != "/enqueue") {
        // What was read within the last second may still be shown.
        wait::until(path, PATIENCE, || site.get(path).status == 503);
        let page = text(site.get(path).expect(503));
        assert!(page.contains("Redis cannot be used") && page.contains("<nav"), "{path}: {page}");
    }
    site.get("/readyz").expect(503);
    site.trial.server.restart();
    event(&mut stream, "page");
    site.get("/readyz").expect(200);
    for path in PAGES {
        wait::until(path, PATIENCE, || site.get(path).status == 200);
    }
}

/// The data of the next event of this kind.
pub(super) fn event(stream: &mut Connection, kind: &str) -> String {
    loop {
        if stream.line() == format!("event: {kind}") {
            return stream.line();
        }
    }
}

#[test]
fn stopping_dashboard_closes_open_pages() {
    let site = Site::new(&[]);
    let mut stream = Connection::open(site.address);
    stream.write(b"GET / HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n").unwrap();
    wait::until("the stream to begin", PATIENCE, || stream.has_answer());
    let mut dashboard = site.dashboard.unwrap();
    dashboard.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(dashboard.wait_exit(PATIENCE).success());
}

#[test]
fn dead_letters_are_grouped_by_task_and_error() {
    let mut site = Site::new(&["--allow-actions"]);
    let mut worker = site.trial.worker(&[]);
    let failing = (0..5).map(|n: u64| call("trial.fails", &[n.to_string().into()]));
    site.trial.push(&failing.chain([call("trial.panic", &["x".into()])]).collect::<Vec<_>>());
    wait::until("all to be buried", PATIENCE, || site.trial.dead() == 6);
    let page = site.page("/dead");
    let groups = between(&page, "Dead letters by task and error", "</table>");
    assert!(groups.contains("trial.fails") && groups.contains("trial.panic"), "{groups}");
    assert!(groups.contains("<td class=\"number\">5</td>"), "{groups}");
    site.trial.stop(&mut worker);
}

#[test]
fn long_lists_are_shown_in_pages() {
    let mut site = Site::new(&[]);
    site.trial.push(&(0..1203).map(|n| mark(format!("n{n}."))).collect::<Vec<_>>());
    for (start, shown, hidden) in [(0, 0, 50), (50, 99, 49), (1100, 1100, 1099), (1200, 1202, 1199)] {
        let page = site.page(&format!("/calls?state=waiting&queue=q&start={start}"));
        assert!(
            page.contains(&format!("n{shown}.")) && !page.contains(&format!("n{hidden}.")),
            "{start}: {page}"
        );
        assert_eq!(page.contains("rel=\"next\""), start < 1200, "{start}");
        assert_eq!(page.contains("rel=\"prev\""), start > 0, "{start}");
    }
    for odd in ["18446744073709551615", "99999999999999999999", "-1", "x"] {
        site.page(&format!("/calls?state=waiting&start={odd}"));
        site.page(&format!("/calls?start={odd}"));
    }
    let all = site.page("/calls?start=1200");
    assert!(all.contains("n1202."), "{all}");
}
