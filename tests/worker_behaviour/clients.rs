//! Clients under load and under faults: nothing is kept back, and of each call it is known what became of it.

use delayed::testing::{Fault, Requests, Side};
use delayed::{Client, Fate, GoTask};

use crate::support::trial::{QUEUE, Trial, alone, call, count};

fn marking(n: impl ToString) -> delayed::Call {
    GoTask::new("trial.mark").arg(n.to_string()).queue(QUEUE)
}

#[test]
fn concurrent_enqueues_are_all_kept_and_run_once() {
    let _alone = alone();
    let mut trial = Trial::new();
    let url = trial.server.url();
    let mut worker = trial.worker(&["--concurrency", "32"]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = Client::connect(&url).await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..3000 {
            let client = client.clone();
            tasks.spawn(async move { client.enqueue(marking(n)).await });
        }
        while let Some(enqueued) = tasks.join_next().await {
            enqueued.unwrap().unwrap();
        }
    });
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!(count(&stopped, "succeeded"), 3000, "{stopped}");
    trial.ledger.assert_each_once(0..3000);
    trial.assert_only(&[]);
}

#[test]
fn concurrent_enqueues_share_requests() {
    const CALLS: u32 = 2000;
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let sent = proxy.trap(Side::Request, Requests::script("enqueue").nth(u32::MAX), Fault::Hold);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = Client::connect(proxy.url()).await.unwrap();
        let calls = (0..CALLS).map(|n| client.enqueue(marking(n)));
        futures_util::future::try_join_all(calls).await.unwrap();
    });
    assert_eq!(trial.state().waiting.len(), CALLS as usize);
    assert!(sent.met() <= CALLS / 10, "expected few requests for {CALLS} calls, not {}", sent.met());
    trial.assert_only(&["q", "q_noti"]);
}

#[test]
fn scripts_that_redis_has_forgotten_are_told_again() {
    let mut trial = Trial::new();
    let client = Client::connect_blocking(&trial.server.url()).unwrap();
    let mut worker = trial.worker(&["--concurrency", "4"]);
    for n in 0..10 {
        let () = redis::cmd("SCRIPT").arg("FLUSH").query(&mut trial.redis).unwrap();
        client.enqueue_blocking(marking(n)).unwrap();
        trial.wait_runs(n + 1);
        trial.wait_settled();
    }
    let () = redis::cmd("SCRIPT").arg("FLUSH").query(&mut trial.redis).unwrap();
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (10, 0), "{stopped}");
    trial.ledger.assert_each_once(0..10);
    trial.assert_only(&[]);
}

#[test]
fn calls_of_one_thread_keep_their_order() {
    let mut trial = Trial::new();
    let client = Client::connect_blocking(&trial.server.url()).unwrap();
    for n in 0..200 {
        client.enqueue_blocking(marking(n)).unwrap();
    }
    assert_eq!(client.enqueue_many_blocking((200..2500).map(marking)).unwrap(), 2300);
    assert_eq!(trial.state().waiting, crate::support::trial::marks(2500), "expected the order to be kept");
    trial.assert_only(&["q", "q_noti"]);
}

#[test]
fn a_bulk_that_breaks_off_says_what_became_of_each_call() {
    for lose in [Side::Request, Side::Reply] {
        let mut trial = Trial::new();
        let proxy = trial.server.proxy();
        let client = Client::connect_blocking(proxy.url()).unwrap();
        client.enqueue_blocking(marking("first")).unwrap();
        let trap = proxy.trap(lose, Requests::script("enqueue").nth(2), Fault::End);
        let error = client.enqueue_many_blocking((0..3500).map(marking)).unwrap_err();
        assert_eq!(trap.struck(), 1, "expected one connection to be cut");
        assert_eq!(error.error().broker_kind(), Some(delayed::BrokerErrorKind::Uncertain), "{error}");
        let fates = error.fates();
        assert_eq!((fates.len(), error.applied(), error.uncertain()), (3500, 1000, 1000), "{error}");
        assert!(fates[..1000].iter().all(|fate| *fate == Fate::Applied));
        assert!(fates[1000..2000].iter().all(|fate| *fate == Fate::Uncertain));
        assert!(fates[2000..].iter().all(|fate| *fate == Fate::NotApplied));
        // What was said is so.
        let there = if lose == Side::Reply { 2000 } else { 1000 };
        let mut expected = vec![crate::support::trial::mark("first")];
        expected.extend(crate::support::trial::marks(there));
        assert_eq!(trial.state().waiting, expected, "{lose:?}");
        // The client goes on.
        client.enqueue_blocking(marking("after")).unwrap();
        trial.assert_only(&["q", "q_noti"]);
    }
}

#[test]
fn a_single_call_whose_reply_is_lost_may_have_been_applied() {
    for (lose, there) in [(Side::Reply, 2), (Side::Request, 1)] {
        let mut trial = Trial::new();
        let proxy = trial.server.proxy();
        let client = Client::connect_blocking(proxy.url()).unwrap();
        client.enqueue_blocking(marking("first")).unwrap();
        proxy.trap(lose, Requests::script("enqueue").nth(1), Fault::End);
        let error = client.enqueue_blocking(marking("second")).unwrap_err();
        assert!(error.may_have_been_applied(), "{error}");
        assert_eq!(trial.state().waiting.len(), there, "{lose:?}");
        trial.assert_only(&["q", "q_noti"]);
    }
}

#[test]
fn a_client_of_a_plain_thread_and_of_a_task_that_blocks() {
    let mut trial = Trial::new();
    let url = trial.server.url();
    let mut worker = trial.worker(&["--concurrency", "4"]);
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let url = url.clone();
            std::thread::spawn(move || {
                let client = Client::connect_blocking(&url).unwrap();
                for n in 0..50 {
                    client.enqueue_blocking(marking(format!("t{thread}/{n}"))).unwrap();
                }
            })
        })
        .collect();
    let spread =
        |n: u32| call("trial.spread", &[format!("s{n}").into(), url.clone().into(), QUEUE.into(), 50.into()]);
    trial.push(&[spread(0), spread(1), spread(2)]);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    trial.wait_runs(350);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!(count(&stopped, "succeeded"), 353, "{stopped}");
    let names = |kind: &'static str, many: u32| {
        (0..many).flat_map(move |m| (0..50).map(move |n| format!("{kind}{m}/{n}")))
    };
    trial.ledger.assert_each_once(names("t", 4).chain(names("s", 3)));
    trial.assert_only(&[]);
}
