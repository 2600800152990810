//! Clients under load and under faults: nothing is kept back, and of each call it is known what became of it.

use delayed::testing::{Fault, Requests, Side};
use delayed::{Client, Fate, GoTask};
use redis::Commands;

use crate::support::redis::everything;
use crate::support::trial::{PATIENCE, QUEUE, Trial, alone, call, count, mark};
use crate::support::wait;

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
    let sent = proxy.trap(Side::Request, Requests::command("EXEC").nth(u32::MAX), Fault::Hold);
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
        let trap = proxy.trap(lose, Requests::command("EXEC").nth(2), Fault::End);
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
        proxy.trap(lose, Requests::command("EXEC").nth(1), Fault::End);
        let error = client.enqueue_blocking(marking("second")).unwrap_err();
        assert!(error.may_have_been_applied(), "{error}");
        assert_eq!(trial.state().waiting.len(), there, "{lose:?}");
        trial.assert_only(&["q", "q_noti"]);
    }
}

#[test]
fn calls_that_find_redis_full_only_in_the_end_are_refused() {
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let client = Client::connect_blocking(proxy.url()).unwrap();
    client.enqueue_blocking(marking("first")).unwrap();
    let held = proxy.trap(Side::Request, Requests::command("EXEC").nth(1), Fault::Hold);
    let sending = std::thread::spawn({
        let client = client.clone();
        move || client.enqueue_blocking(marking("second"))
    });
    wait::until("Redis to have all but the end", PATIENCE, || {
        let clients: String = redis::cmd("CLIENT").arg("LIST").query(&mut trial.redis).unwrap();
        clients.contains(" multi=3 ")
    });
    let mut room = |bytes: u32| {
        let () = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).query(&mut trial.redis).unwrap();
    };
    room(1);
    held.release();
    let error = sending.join().unwrap().unwrap_err();
    assert_eq!(error.broker_kind(), Some(delayed::BrokerErrorKind::Full), "{error}");
    assert!(!error.may_have_been_applied(), "{error}");
    room(0);
    client.enqueue_blocking(marking("third")).unwrap();
    assert_eq!(trial.state().waiting, [mark("first"), mark("third")]);
    trial.assert_only(&["q", "q_noti"]);
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

/// A client of its own user, who may do all but this.
fn client_without(trial: &mut Trial, command: &str) -> Client {
    let mut user = redis::cmd("ACL");
    user.arg("SETUSER").arg("poor").arg(&["on", ">secret", "~*", "&*", "+@all", command]);
    let () = user.query(&mut trial.redis).unwrap();
    Client::connect_blocking(&format!("{}?user=poor&pass=secret", trial.server.url())).unwrap()
}

#[test]
fn what_is_refused_is_in_no_list() {
    for key in [QUEUE, "q_noti"] {
        let mut trial = Trial::new();
        let () = trial.redis.set(key, "no list").unwrap();
        let before = everything(&mut trial.redis);
        let client = Client::connect_blocking(&trial.server.url()).unwrap();
        let one = client.enqueue_blocking(marking("one")).unwrap_err();
        let many = client.enqueue_many_blocking([marking("many")]).unwrap_err();
        for error in [&one, many.error()] {
            assert_eq!(error.broker_kind(), Some(delayed::BrokerErrorKind::WrongType), "{error}");
            assert!(!error.may_have_been_applied(), "{error}");
        }
        let mut after = everything(&mut trial.redis);
        after.remove("delayed_queues");
        assert_eq!(after, before, "expected nothing to be pushed");
        let () = trial.redis.del(key).unwrap();
        client.enqueue_blocking(marking("mended")).unwrap();
        assert_eq!(trial.state().tokens, 1);
    }
    let mut trial = Trial::new();
    let client = Client::connect_blocking(&trial.server.url()).unwrap();
    client.enqueue_blocking(marking("first")).unwrap();
    let maxmemory = |trial: &mut Trial, bytes: u64| {
        let () = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).query(&mut trial.redis).unwrap();
    };
    maxmemory(&mut trial, 1);
    let error = client.enqueue_blocking(marking("second")).unwrap_err();
    assert_eq!(error.broker_kind(), Some(delayed::BrokerErrorKind::Full), "{error}");
    let error = client.enqueue_many_blocking((0..1500).map(marking)).unwrap_err();
    assert_eq!((error.applied(), error.uncertain()), (0, 0), "{error}");
    let state = trial.state();
    assert_eq!((state.waiting, state.tokens), (vec![mark("first")], 1));
    maxmemory(&mut trial, 0);
    client.enqueue_blocking(marking("third")).unwrap();
    assert_eq!(trial.state().tokens, 2);
}

#[test]
fn list_that_becomes_another_type_is_noticed_and_then_refused() {
    for (key, is_there) in [(QUEUE, false), ("q_noti", true)] {
        let mut trial = Trial::new();
        let client = Client::connect_blocking(&trial.server.url()).unwrap();
        client.enqueue_blocking(marking("before")).unwrap();
        let () = trial.redis.del(key).unwrap();
        let () = trial.redis.set(key, "no list").unwrap();
        let error = client.enqueue_blocking(marking("then")).unwrap_err();
        assert!(error.to_string().contains("has the wrong type"), "{error}");
        assert_eq!(error.may_have_been_applied(), is_there, "{error}");
        if is_there {
            let waiting: Vec<Vec<u8>> = trial.redis.lrange(QUEUE, 0, -1).unwrap();
            assert_eq!(waiting, [mark("before"), mark("then")]);
        }
        let before = everything(&mut trial.redis);
        let error = client.enqueue_blocking(marking("again")).unwrap_err();
        assert!(!error.may_have_been_applied(), "expected it to be looked at first: {error}");
        assert_eq!(everything(&mut trial.redis), before);
        let () = trial.redis.del(key).unwrap();
        client.enqueue_blocking(marking("mended")).unwrap();
    }
}

#[test]
fn a_user_without_a_right_is_told_which() {
    let mut trial = Trial::new();
    let client = client_without(&mut trial, "-rpush");
    let error = client.enqueue_blocking(marking("refused")).unwrap_err();
    assert_eq!(error.broker_kind(), Some(delayed::BrokerErrorKind::Denied), "{error}");
    assert!(error.to_string().contains("rpush"), "{error}");
    trial.assert_only(&[]);
    // What stands behind is done all the same, each for itself.
    let mut trial = Trial::new();
    let client = client_without(&mut trial, "-multi");
    let error = client.enqueue_blocking(marking("pushed")).unwrap_err();
    assert!(error.may_have_been_applied() && error.to_string().contains("multi"), "{error}");
    let state = trial.state();
    assert_eq!((state.waiting, state.tokens), (vec![mark("pushed")], 1));
}
