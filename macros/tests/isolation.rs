//! Options of tasks that have a process of their own, and of those that may get one.
#![deny(warnings)]

use delayed::Task;
use delayed::isolation::{Isolation, Limits, Timeouts};
use std::time::Duration;

#[delayed::task(
    isolation = "fork",
    timeout = "1m 30s",
    grace = "500ms",
    memory = "256MB",
    address_space = "1 GiB",
    cpu = "10s",
    open_files = 64,
    output = "1KB",
    nice = 10,
    no_new_privileges = true,
    private_network = true,
    private_mounts = false
)]
async fn fenced(_ctx: delayed::Context) {}

#[delayed::task(isolation = "inline", timeout = "30s")]
fn inline() {}

#[delayed::task(memory = "1GB")]
fn wherever() {}

#[test]
fn options_of_isolation_are_registered() {
    let registration = fenced::registration();
    let options = registration.options;
    assert!(registration.context && !inline::registration().context);
    assert_eq!(options.isolation, Some(Isolation::Fork));
    let timeouts =
        Timeouts::NONE.with_timeout(Duration::from_secs(90)).with_grace(Duration::from_millis(500));
    assert_eq!(options.timeouts, timeouts);
    let limits =
        Limits::NONE.with_memory(256 << 20).with_address_space(1 << 30).with_cpu(10).with_open_files(64);
    let limits = limits.with_output(1024).with_nice(10).with_no_new_privileges(true);
    assert_eq!(options.limits, limits.with_private_network(true).with_private_mounts(false));
    assert_eq!(inline::registration().options.isolation, Some(Isolation::Inline));
    assert_eq!(inline::registration().options.limits, Limits::NONE);
    assert_eq!(wherever::registration().options.isolation, None);
}
