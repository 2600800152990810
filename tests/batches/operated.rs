//! What an operator sees of filling batches, and can do.

use serde_json::Value;

use super::{Site, tasks};
use crate::support::trial::WORKER;

fn run(site: &Site, words: &[&str]) -> (bool, String) {
    let url = site.trial.server.url();
    let output = site.trial.command(WORKER).args(words).args(["--redis", &url]).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn example_shows_what_runs() {
    let site = Site::new();
    let program = crate::support::example::example("batch");
    let mut command = site.trial.command(program.to_str().unwrap());
    let output = command.arg(site.trial.server.url()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.remove(0), "50 pages wait for more");
    lines.sort_unstable();
    let expected = ["indexing 1 pages", "indexing 100 pages", "indexing 100 pages", "indexing 50 pages"];
    assert_eq!(lines, expected, "{printed}");
}

#[test]
fn many_batches_are_read_in_few_requests() {
    let mut site = Site::new();
    let inspector = site.runtime.block_on(delayed::Inspector::connect(&site.trial.server.url())).unwrap();
    let of_customer = |n: u64| tasks::whole::call(n).batch_key(format!("customer:{}", n / 2));
    site.enqueue((0..500).map(of_customer));
    // Between them, calls and a key of another program.
    site.enqueue((0..50).map(|n| tasks::whole::call(n).after(std::time::Duration::from_secs(3600))));
    let () = redis::Commands::set(&mut site.trial.redis, "q:g:batches.whole customer:7", "text").unwrap();
    let before = site.trial.reads();
    let batches =
        site.runtime.block_on(inspector.batches(&crate::support::trial::QUEUE.parse().unwrap())).unwrap();
    let reads = site.trial.reads() - before;
    assert!(reads < 30, "expected few requests for 250 batches, there were {reads}");
    let mut customers: Vec<u64> = (batches.iter())
        .map(|batch| {
            assert_eq!((&*batch.task, batch.items), ("batches.whole", 2));
            batch.key.as_ref().unwrap().strip_prefix("customer:").unwrap().parse().unwrap()
        })
        .collect();
    customers.sort_unstable();
    assert_eq!(customers, (0..250).filter(|n| *n != 7).collect::<Vec<_>>());
}

#[test]
fn filling_batches_are_listed_and_flushed() {
    let site = Site::new();
    assert_eq!(run(&site, &["batches", "list"]), (true, "no batch fills\n".into()));
    site.enqueue((0..3).map(tasks::patient::call));
    site.enqueue((0..2).map(|n| tasks::whole::call(n).batch_key("eu")));
    site.enqueue_one(tasks::patient::call(7).after(std::time::Duration::from_secs(3600)));
    let (_, listed) = run(&site, &["batches", "list", "--json"]);
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let shown: Vec<_> = (listed.iter())
        .map(|batch| {
            let waits = batch["due_ms"].as_u64().unwrap() - batch["since_ms"].as_u64().unwrap();
            (
                batch["task"].as_str(),
                batch["key"].as_str(),
                batch["items"].as_u64(),
                batch["bytes"].as_u64(),
                waits,
            )
        })
        .collect();
    let patient = (Some("batches.patient"), None, Some(3), Some(3), 300);
    assert_eq!(shown[0], patient);
    assert_eq!(shown[1], (Some("batches.whole"), Some("eu"), Some(2), Some(2), 3_600_000));
    let (_, table) = run(&site, &["batches", "list", "--queue", "q"]);
    assert!(table.contains("batches.whole") && table.contains("eu") && table.contains("in 59m"), "{table}");
    let (is_done, said) = run(&site, &["batches", "flush", "batches.whole"]);
    assert!(!is_done && said.contains("no batch of `batches.whole` fills"), "{said}");
    let worker = site.trial.worker(&[]);
    let (is_done, said) = run(&site, &["batches", "flush", "batches.whole", "--key", "eu"]);
    assert!(is_done && said == "the batch in q is due: a worker or sweeper moves it\n", "{said}");
    site.trial.wait_runs(3);
    let mut lines = site.trial.ledger.lines();
    lines.sort_unstable();
    assert_eq!(lines, ["3", "[0, 1]", "[0, 1]"], "expected the whole batch, which fails once");
    drop(worker);
}
