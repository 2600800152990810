//! A sweeper and a dashboard do all that they can do with the permissions of their roles.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::process::Command;

use serde_json::Value;

use super::{QUEUES, Site};
use crate::support::http::Connection;
use crate::support::process::{DELAYED, Program};
use crate::support::trial::{PATIENCE, Trial, WORKER, call, gated, mark, marks, open};
use crate::support::wait;

/// How many pages with one path are looked at.
const ALIKE: usize = 4;

/// Starts a server for HTTP as this user.
pub(super) fn serve(trial: &Trial, url: &str, words: &[&str]) -> (Program, SocketAddr) {
    let mut command: Command = trial.command(WORKER);
    let program = Program::spawn(command.args(words).args(["--listen", "127.0.0.1:0", "--redis", url]));
    let line: Value = serde_json::from_str(&program.wait_for_line("\"address\":\"127")).unwrap();
    let address = line["fields"]["address"].as_str().or_else(|| line["address"].as_str());
    let address = address.unwrap_or_else(|| panic!("expected an address: {line}")).parse().unwrap();
    (program, address)
}

/// The first part of a text between two others.
pub(super) fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("expected {before} in {text}"));
    rest.split_once(after).unwrap_or_else(|| panic!("expected {after} in {rest}")).0
}

/// Looks at a page, and at those that it leads to. Returns their paths.
fn visit_all(address: SocketAddr) -> BTreeSet<String> {
    let (mut left, mut seen) =
        (VecDeque::from(["/".to_owned(), "/readyz".to_owned()]), BTreeMap::<String, usize>::new());
    let mut known = BTreeSet::new();
    while let Some(page) = left.pop_front() {
        let path = page.split(['?', '#']).next().unwrap().to_owned();
        let count = seen.entry(path).or_default();
        if *count >= ALIKE || !known.insert(page.clone()) {
            continue;
        }
        *count += 1;
        let answer = Connection::open(address).request(&format!("GET {page}"), &[], b"").expect("an answer");
        let text = String::from_utf8(answer.expect(200).body).unwrap();
        assert!(!text.contains("lacks a permission"), "{page}: {text}");
        let links = text.match_indices("href=\"/").map(|(at, _)| &text[at + 6..]);
        left.extend(links.filter_map(|rest| Some(rest.split_once('"')?.0.replace("&amp;", "&"))));
    }
    seen.into_keys().collect()
}

/// Lets the administrator put something onto each page.
fn fill(site: &mut Site) -> Program {
    let url = site.trial.server.url();
    let gate = site.trial.gate("gate");
    let worker = site.trial.worker(&["--queue", "other", "--concurrency", "2", "--keep-finished", "10"]);
    site.trial.push(&[call("trial.fails", &["7".into()]), b"junk".to_vec()]);
    site.trial.push(&marks(3));
    wait::until("the failures to be buried", PATIENCE, || site.trial.dead() == 2);
    site.run_all(
        &url,
        &[
            "limits set few --concurrency 1 --rate 10/1m",
            "periodic add nightly @daily trial.mark [\"x\"] --queue q",
            "enqueue followed.charge [7] --after 1h --id order:7 --queue q",
            "enqueue followed.charge [8] --keep 1h --wait=30s --queue q",
            "enqueue flows.number [7] --queue q --ordered customer",
        ],
    );
    let flow = delayed::chain(crate::flows::tasks::number::call(1));
    let client = site.client(&url);
    site.runtime.block_on(client.enqueue(crate::batches::tasks::patient::call(7))).unwrap();
    let flow = site.runtime.block_on(client.enqueue_flow(flow)).unwrap();
    site.runtime.block_on(flow.wait(PATIENCE)).unwrap();
    let held: Vec<Vec<u8>> = (0..3).map(|n| gated(n, &gate)).collect();
    let before = site.trial.ledger.lines().len();
    site.trial.push(&held);
    site.trial.wait_runs(before + 2);
    worker
}

#[test]
fn dashboard_shows_every_page() {
    for words in [&QUEUES[..], &[]] {
        let mut site = Site::new();
        let mut worker = fill(&mut site);
        let url = site.user("dashboard", words);
        let (_dashboard, address) = serve(&site.trial, &url, &["web"]);
        let seen = visit_all(address);
        for path in [
            "/queue",
            "/calls",
            "/call",
            "/workers",
            "/tasks",
            "/task",
            "/enqueue",
            "/periodic",
            "/periodic/task",
            "/limits",
            "/flows",
            "/flow",
            "/dead",
            "/letter",
            "/doctor",
            "/audit",
            "/readyz",
        ] {
            assert!(seen.contains(path), "expected {path} among {seen:?}");
        }
        site.run_all(
            &url,
            &[
                "queues --scan",
                "workers",
                "peek q",
                "limits list",
                "periodic list",
                "periodic list nightly",
                "periodic history nightly",
                "calls list",
                "calls list --state succeeded,dead,scheduled,running,waiting",
                "calls show order:7",
                "batches list",
                "flows list",
                "dead list",
            ],
        );
        // Its dead letters are a problem.
        assert_eq!(site.try_run(&url, DELAYED, &["doctor"]).status.code(), Some(0));
        let mut exporter = serve(&site.trial, &url, &["exporter"]);
        let metrics = Connection::open(exporter.1).request("GET /metrics", &[], b"").expect("an answer");
        assert!(String::from_utf8(metrics.expect(200).body).unwrap().contains("delayed_"));
        exporter.0.kill9();
        open(&site.trial.gate("gate"));
        site.trial.wait_settled();
        site.trial.stop(&mut worker);
        site.assert_nothing_refused();
    }
}

#[test]
fn sweeper_of_a_shared_queue_sees_workers_of_others() {
    for (words, sees) in [(&["--queue", "q", "--shared"][..], true), (&["--queue", "q"], false)] {
        let mut site = Site::new();
        let url = site.user("sweeper", words);
        for id in ["12345", "0f86d081884c7d659a2feaa0c55ad015"] {
            let () = redis::cmd("HSET")
                .arg(&["q_processing", id])
                .arg(mark(id))
                .query(&mut site.trial.redis)
                .unwrap();
        }
        let mut command = site.trial.command(DELAYED);
        let sweeper = command.args(["sweeper", "--queue", "q", "--interval", "100ms", "--redis", &url]);
        let sweeper = Program::spawn(sweeper);
        match sees {
            true => drop(sweeper.wait_for_line("\"requeued\":2")),
            false => drop(sweeper.wait_for_line("lacks a permission")),
        }
        assert_eq!(
            (site.trial.left(), site.refused().is_empty()),
            (if sees { (2, 0) } else { (0, 2) }, sees)
        );
    }
}

/// Lets a worker die with calls, and leaves others due.
fn leave(site: &mut Site) {
    let mut victim = site.trial.worker(&["--queue", "other", "--no-sweep", "--lease", "1s"]);
    let url = site.trial.server.url();
    let client = site.client(&url);
    let gate = site.trial.gate("never");
    site.trial.push(&[gated("a", &gate), gated("b", &gate)]);
    site.trial.wait_runs(2);
    let flow = delayed::chain(crate::flows::tasks::number::call(1)).then(crate::flows::tasks::double::step());
    site.runtime.block_on(client.enqueue_flow(flow)).unwrap();
    site.runtime.block_on(client.enqueue(crate::batches::tasks::collect_at_once::call("a".into()))).unwrap();
    victim.kill9();
    site.run_all(
        &url,
        &[
            "periodic add often @daily trial.mark [\"x\"] --queue q",
            "enqueue followed.charge [7] --after 10ms --queue q",
        ],
    );
}

#[test]
fn sweeper_repairs_its_queues() {
    for (words, named) in [(&QUEUES[..], &QUEUES[..]), (&[], &[])] {
        let mut site = Site::new();
        leave(&mut site);
        let url = site.user("sweeper", words);
        // One queue lacks a token, and another one is not registered.
        let () = redis::cmd("RPUSH").arg("other").arg(mark(1)).query(&mut site.trial.redis).unwrap();
        let () = redis::cmd("RPUSH").arg(&["found_noti", "1"]).query(&mut site.trial.redis).unwrap();
        let mut command = site.trial.command(DELAYED);
        let mut sweeper =
            Program::spawn(command.args(["sweeper", "--interval", "100ms", "--redis", &url]).args(named));
        sweeper.wait_for_line("\"requeued\"");
        wait::until_ok(PATIENCE, || {
            let tokens: u64 = redis::cmd("LLEN").arg("other_noti").query(&mut site.trial.redis).unwrap();
            let (state, refused) = (site.trial.state(), site.refused());
            match tokens == 1 && state.processing.is_empty() && state.later.is_empty() {
                true => Ok(()),
                false => Err(format!("all that is due to wait; refused: {refused:?}: {state:#?}")),
            }
        });
        sweeper.kill9();
        site.assert_nothing_refused();
    }
}
