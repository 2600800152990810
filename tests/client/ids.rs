//! Which calls have an id: all with an option, so that each of them can be found again.

use std::collections::HashSet;
use std::time::Duration;

use delayed::__private::protocol::message::Message;
use delayed::config::Backoff;
use delayed::{CallId, Client, PyTask};

use super::{marking, native};
use crate::support::trial::{QUEUE, Trial};

const HOUR: Duration = Duration::from_secs(3600);

/// The ids of the calls that wait, in their order.
fn waiting_ids(trial: &mut Trial) -> Vec<Option<CallId>> {
    trial.state().waiting.iter().map(|message| Message::decode(message).unwrap().id()).collect()
}

#[test]
fn call_with_an_option_has_an_id_and_a_plain_one_has_none() {
    let mut trial = Trial::new();
    let client = Client::lazy(&trial.server.url());
    for plain in [native(0), marking(0).front(), PyTask::new("m:f").retry(3).queue(QUEUE)] {
        assert_eq!(client.enqueue_blocking(plain).unwrap().id(), None);
    }
    assert_eq!(waiting_ids(&mut trial), [None; 3]);
    let options = [
        native(1).retry(3),
        native(1).retry_for(HOUR),
        native(1).backoff(Backoff::None),
        native(1).timeout(HOUR),
        native(1).expires(HOUR),
        native(1).header("tenant", "acme"),
        native(1).limit("few"),
        native(1).max_len(100),
    ];
    let mut expected = vec![None; 3];
    for call in &options {
        let id = client.enqueue_blocking(call.clone()).unwrap().id();
        assert!(id.is_some(), "{call:?}");
        expected.push(id);
    }
    assert_eq!(waiting_ids(&mut trial), expected);
    let front = client.enqueue_blocking(native(2).front()).unwrap().id();
    assert!(front.is_some());
    assert_eq!(waiting_ids(&mut trial)[0], front);
    client.enqueue_many_blocking([native(3), native(3).retry(1), native(3).retry(1)]).unwrap();
    let all = waiting_ids(&mut trial);
    let (plain, with_options): (Vec<_>, Vec<_>) = all.into_iter().partition(Option::is_none);
    assert_eq!((plain.len(), with_options.len()), (4, options.len() + 3));
    assert_eq!(with_options.iter().collect::<HashSet<_>>().len(), with_options.len(), "each has its own");
}
