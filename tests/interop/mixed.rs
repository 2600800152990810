//! Do workers of all kinds share one queue, so that each call is run once and nobody is woken for nothing?

use delayed::{Client, GoTask};

use super::*;
use crate::support::ledger::Ledger;

/// One path that all three can run: Python spreads the bytes of the payload over its parameters.
const PATH: &str = "demo_tasks:record_bytes";
const CALLS: usize = 20_000;

/// Enqueues calls of the numbers in the form that Go makes.
fn produce_ours(url: String, numbers: std::ops::Range<usize>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let client = Client::connect_blocking(&url).unwrap();
        let call = |n: usize| GoTask::new(PATH).arg(n).queue(QUEUE);
        let (single, many) = (numbers.start..numbers.start + 1_000, numbers.start + 1_000..numbers.end);
        for n in single {
            client.enqueue_blocking(call(n)).unwrap();
        }
        client.enqueue_many_blocking(many.map(call)).unwrap();
    })
}

#[test]
fn workers_of_all_kinds_run_each_call_once() {
    let mut site = Site::new();
    let sweeper = site.sweeper(Rust);
    let workers: Vec<(Language, Program)> = [Rust, Rust, Python, Python, Go, Go]
        .into_iter()
        .map(|language| {
            let more: &[&str] = if language == Go { &["-as", PATH] } else { &[] };
            (language, site.worker(language, &format!("ledger-{language:?}"), more))
        })
        .collect();

    let third = CALLS / 3;
    let python: Vec<String> = (0..third).map(|n| line("go", PATH, &format!(r#""args": {n}"#))).collect();
    let go: Vec<String> =
        (third..2 * third).map(|n| line("go", PATH, &format!(r#""args": [{n}]"#))).collect();
    let mut producers = [(Python, site.producer(Python, &python)), (Go, site.producer(Go, &go))];
    let ours = produce_ours(site.server.url(), 2 * third..CALLS);
    for (language, producer) in &mut producers {
        assert!(producer.wait_exit(PATIENCE).success(), "{language:?}:\n{}", producer.printed());
        assert_no_errors(*language, producer);
    }
    ours.join().unwrap();

    let theirs: Vec<String> =
        workers.iter().filter(|(language, _)| *language == Go).map(|(_, worker)| id_of(worker)).collect();
    let ledgers = [Rust, Python, Go].map(|language| Ledger::at(&site.file(&format!("ledger-{language:?}"))));
    let total = || ledgers.iter().map(Ledger::total).sum::<u32>() as usize;
    wait::until_ok(PATIENCE, || match total() {
        total if total >= CALLS => Ok(()),
        total => Err(format!("{CALLS} runs, there are {total}: {:#?}", site.state())),
    });
    let state = wait::until_ok(PATIENCE, || {
        let state = site.state();
        // Go's worker keeps what it has finished until it takes the next.
        let settled = state.processing.keys().all(|id| theirs.contains(id));
        if settled { Ok(state) } else { Err(format!("everybody else to have released: {state:#?}")) }
    });
    println!("swept: {:?}", sweeper.printed().lines().skip(1).collect::<Vec<_>>());
    assert_eq!((state.waiting.len(), state.tokens), (0, 0), "expected nothing to be left: {state:#?}");
    assert!(state.dead.is_empty() && state.deaths.is_empty(), "expected nobody to die: {state:#?}");
    let shares = ledgers.each_ref().map(Ledger::total);
    println!("Rust, Python and Go ran {shares:?} of {CALLS}");
    Ledger::assert_each_once_in_all(&ledgers, 0..CALLS);
    assert!(shares.iter().all(|share| *share > 0), "expected each kind to run some: {shares:?}");

    // Whoever was woken for nothing has complained.
    for (language, worker) in &workers {
        assert_no_errors(*language, worker);
    }
    for (language, worker) in workers.into_iter().filter(|(language, _)| *language != Go) {
        stop(language, worker);
    }
    let state = site.state();
    assert_eq!((state.waiting.len(), state.tokens), (0, 0), "expected nothing to be left behind: {state:#?}");
    stop(Rust, sweeper);
}
