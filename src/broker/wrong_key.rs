//! Names the key that holds the wrong type: Redis rejects a request without naming it.

use redis::Value;

use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::broker::numbered::{Calls, Numbered};

/// The types of the keys beside a queue, by their suffixes.
const TYPES: [(&str, &str); 18] = [
    ("_noti", "list"),
    ("_hand", "list"),
    ("_processing", "hash"),
    ("_workers", "zset"),
    ("_dead", "stream"),
    ("_deaths", "hash"),
    ("_sweep", "string"),
    ("_due", "zset"),
    ("_later", "hash"),
    ("_timetable", "string"),
    ("_paused", "string"),
    ("_parked", "set"),
    ("_periodic", "hash"),
    ("_cancelled", "zset"),
    ("_done", "zset"),
    ("_finished", "stream"),
    ("_outbox", "hash"),
    ("_flows", "zset"),
];

/// The type that a key of `queue` should have. `None` if it belongs to a worker or a slot, whose names are random.
pub(super) fn expected_type(key: &str, queue: &str) -> Option<&'static str> {
    let suffix = key.strip_prefix(queue)?;
    if suffix.is_empty() {
        return Some("list");
    }
    TYPES.iter().find(|(known, _)| *known == suffix).map(|(_, kind)| *kind)
}

/// The same error, naming the key that holds a wrong type, if that is the problem.
pub(super) async fn named<C: Calls>(
    error: BrokerError,
    keys: &[(&str, &str)],
    connection: &mut C,
) -> BrokerError {
    if error.kind() != BrokerErrorKind::WrongType {
        return error;
    }
    for (key, expected) in keys {
        let command = redis::cmd("TYPE").arg(*key).to_owned();
        if let Ok(Value::SimpleString(found)) = connection.call(&Numbered::new(command)).await
            && found != "none"
            && found != *expected
        {
            return error.of_type(key, &found, expected);
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::names::SUFFIXES;

    #[test]
    fn every_key_beside_a_queue_has_its_type() {
        for suffix in SUFFIXES.into_iter().filter(|suffix| *suffix != "_scheduled") {
            assert!(expected_type(&format!("q{suffix}"), "q").is_some(), "expected the type of {suffix}");
        }
        assert_eq!((expected_type("q", "q"), expected_type("q:x:1", "q")), (Some("list"), None));
    }
}
