//! Records, locks and timetables that hold another type: the error names the key, calls run, and what is there is left alone.

use std::time::Duration;

use delayed::inspect::CallFilter;
use delayed::{BrokerErrorKind, CallId, CallState, Error, Inspector, QueueName, Unique};
use redis::Commands;

use super::{Site, tasks};
use crate::support::trial::{PATIENCE, open};
use crate::support::wait;

/// Says which key it is, and what it is instead of what.
#[track_caller]
fn names(error: &Error, key: &str, found: &str, expected: &str) {
    assert_eq!(error.broker_kind(), Some(BrokerErrorKind::WrongType), "{error}");
    let text =
        format!("the key `{key}` has the wrong type, {found} instead of {expected}: rename or delete it");
    let source = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    assert!(format!("{error}: {source}").contains(&text), "expected {text:?} in {error}: {source}");
}

#[test]
fn record_and_lock_of_another_type_are_named_and_calls_run() {
    let mut site = Site::new();
    let (gate, id) = (site.trial.gate("gate"), CallId::new());
    let call = |id: CallId| tasks::gated::call(gate.clone()).id(id);
    let record = format!("q:c:{}", id.to_string().replace('-', ""));
    let () = site.trial.redis.rpush(&record, "text").unwrap();
    names(&site.try_enqueue(call(id)).unwrap_err(), &record, "list", "hash");
    let () = site.trial.redis.del(&record).unwrap();
    let handle = site.enqueue(call(id));
    let lock = site.trial.redis.keys::<_, Vec<String>>("q:u:*").unwrap().pop().unwrap();
    let mut worker = site.trial.worker(&[]);
    site.wait_state(&handle, CallState::Running);
    // While it runs, somebody takes both keys.
    for key in [&record, &lock] {
        let () = site.trial.redis.del(key).unwrap();
        let () = site.trial.redis.rpush(key, "text").unwrap();
    }
    names(&site.try_enqueue(call(CallId::new())).unwrap_err(), &lock, "list", "string");
    let error = site.runtime.block_on(handle.state()).unwrap_err();
    assert!(error.to_string().contains(&record) || format!("{error:?}").contains(&record), "{error}");
    let inspector = site.runtime.block_on(Inspector::connect(&site.trial.server.url())).unwrap();
    let queue = QueueName::parse("q").unwrap();
    let list = || site.runtime.block_on(inspector.calls(&queue, &CallFilter::default())).unwrap();
    wait::until("the call to be listed without its record", PATIENCE, || {
        list().iter().any(|call| call.state == CallState::Running && !call.has_record)
    });
    open(&gate);
    site.trial.wait_settled();
    for key in [&record, &lock] {
        assert_eq!(site.trial.redis.llen::<_, u64>(key).unwrap(), 1, "expected it to be left as it was");
        let () = site.trial.redis.del(key).unwrap();
    }
    let again = site.enqueue(call(id));
    assert!(again.is_new());
    assert_eq!(site.wait(&again).unwrap(), "opened");
    site.trial.stop(&mut worker);
}

#[test]
fn unique_call_names_the_timetable_of_another_type() {
    for (key, kind) in [("q_due", "zset"), ("q_later", "hash")] {
        let mut site = Site::new();
        let () = site.trial.redis.set(key, "text").unwrap();
        let call = || tasks::charge::call(1).unique(Unique::UntilDone).after(Duration::from_millis(1));
        names(&site.try_enqueue(call()).unwrap_err(), key, "string", kind);
        assert_eq!(site.trial.redis.keys::<_, Vec<String>>("q:*").unwrap(), Vec::<String>::new());
        let () = site.trial.redis.del(key).unwrap();
        let mut worker = site.trial.worker(&[]);
        assert_eq!(site.wait(&site.enqueue(call())).unwrap().order, 1);
        site.trial.stop(&mut worker);
    }
}
