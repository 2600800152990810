//! Layers around enqueues.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use delayed::__private::protocol::message::Message;
use delayed::{Call, Client, Error};

use super::{ISOLATIONS, burst, tasks, with_layers};
use crate::support::trial::{Trial, call};

/// A client whose first layer sends to another queue, and whose second sees that.
fn client(trial: &Trial) -> (Client, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let notes = Arc::clone(&seen);
    let client = Client::lazy(&trial.server.url())
        .layer(async |call: Call, next| {
            // Timers work in a client that blocks, too.
            let never = std::future::pending::<()>();
            tokio::time::timeout(Duration::from_millis(1), never).await.unwrap_err();
            let enqueued = next.enqueue(call.queue("moved").header("tenant", "acme")).await?;
            assert_eq!(enqueued.queue.as_str(), "moved");
            Ok(enqueued)
        })
        .layer(move |call: Call, next| {
            let queue = call.queue_name().map(|queue| queue.to_string());
            notes.lock().unwrap().push(format!("{} {queue:?} {:?}", call.task(), call.headers().next()));
            next.enqueue(call)
        });
    (client, seen)
}

#[test]
fn layers_annotate_and_move_each_call_the_first_outermost() {
    let mut trial = Trial::new();
    let (client, seen) = client(&trial);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let call = || tasks::headers::call("a".into());
    runtime.block_on(client.enqueue(call())).unwrap();
    assert_eq!(runtime.block_on(client.enqueue_many([call(), call()])).unwrap(), 2);
    client.enqueue_blocking(call()).unwrap();
    assert_eq!(
        client.clone().enqueue_many_blocking([call(), call().after(Duration::from_secs(60))]).unwrap(),
        2
    );
    assert_eq!(*seen.lock().unwrap(), vec!["layers.headers Ok(\"moved\") Some((\"tenant\", \"acme\"))"; 6]);
    let messages: Vec<Vec<u8>> =
        redis::cmd("LRANGE").arg("moved").arg(0).arg(-1).query(&mut trial.redis).unwrap();
    assert_eq!((messages.len(), trial.left()), (5, (0, 0)));
    for message in messages {
        let annotations = Message::decode(&message).unwrap().annotations();
        assert_eq!(annotations.headers.get("tenant"), Some("acme"));
    }
    let scheduled: u64 = redis::cmd("ZCARD").arg("moved_due").query(&mut trial.redis).unwrap();
    assert_eq!(scheduled, 1);
}

#[test]
fn call_that_a_layer_refuses_is_not_sent() {
    let mut trial = Trial::new();
    let client =
        Client::lazy(&trial.server.url()).layer(async |call: Call, next| match call.header_value("x") {
            None => next.enqueue(call).await,
            Some(value) => Err(Error::refused(format_args!("no {value} here"))),
        });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (good, bad) =
        (|| tasks::headers::call("a".into()), || tasks::headers::call("b".into()).header("x", "x"));
    for error in
        [runtime.block_on(client.enqueue(bad())).unwrap_err(), client.enqueue_blocking(bad()).unwrap_err()]
    {
        assert_eq!(
            (error.to_string(), error.is_retryable()),
            ("the call was refused: no x here".into(), false)
        );
    }
    let error = runtime.block_on(client.enqueue_many([good(), bad()])).unwrap_err();
    assert_eq!(format!("{error:?}"), "none of the calls is enqueued: the call was refused: no x here");
    assert!(client.enqueue_many_blocking([good(), bad()]).unwrap_err().fates().is_empty());
    assert_eq!(trial.left(), (0, 0));
    client.enqueue_blocking(good()).unwrap();
    assert_eq!(trial.left(), (1, 0));
}

#[test]
fn refused_call_needs_no_redis() {
    let client = Client::lazy("unix:///nowhere").layer(async |_, _| Err(Error::refused("no")));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let error = runtime.block_on(client.enqueue(tasks::headers::call("a".into()))).unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
}

#[test]
fn clients_of_tasks_have_layers_in_every_isolation() {
    for isolation in ISOLATIONS {
        let mut trial = Trial::new();
        trial.push(&[call("layers.sends", &["a".into()]), call("layers.sends_blocking", &["b".into()])]);
        let mut worker = with_layers("client", &trial, &burst(isolation));
        trial.ended(&mut worker);
        trial.ledger.assert_each_once([
            "a from=\"client layer\" None".to_owned(),
            "b from=\"client layer\" None".into(),
        ]);
    }
}
