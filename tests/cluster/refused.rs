//! What a Cluster does not allow is refused before anything is written.

use delayed::{BrokerErrorKind, Client, GoTask};
use redis::Commands;

use super::Site;
use crate::support::process::Program;
use crate::support::trial::{PATIENCE, WORKER};

#[test]
fn queue_without_a_hash_tag_is_refused_with_a_name_to_use() {
    let site = Site::new(2, 0);
    let mut worker = Program::spawn(&mut site.command(WORKER, &["worker", "--queue", "mail"]));
    assert_eq!(worker.wait_exit(PATIENCE).code(), Some(4), "{}", worker.printed());
    assert!(!worker.printed().contains("resign"), "expected one error: {}", worker.printed());
    worker.wait_for_line("call it `{mail}` instead of `mail`");
    for url in [site.cluster.url(), site.cluster.node(1).tcp_url()] {
        let client = Client::connect_blocking(&url).unwrap();
        let error = client.enqueue_blocking(GoTask::new("a").queue("mail")).unwrap_err();
        assert_eq!(error.broker_kind(), Some(BrokerErrorKind::Unsupported), "{error}");
        assert!(error.to_string().contains("`{mail}`"), "expected advice: {error}");
        assert!(!error.may_have_been_applied() && !error.is_retryable(), "{error}");
    }
    for index in 0..site.cluster.len() {
        let keys: Vec<String> = site.cluster.node(index).connection().keys("*").unwrap();
        assert!(keys.is_empty(), "expected nothing to be written: {keys:?}");
    }
}
