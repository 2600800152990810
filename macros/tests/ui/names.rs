#[delayed::task(name = "", queue = "")]
fn empty() {}

#[delayed::task(name = "send mail", queue = "high priority")]
fn space() {}

#[delayed::task(queue = "mail\u{202e}")]
fn hidden() {}

#[delayed::task(queue = "mail_noti")]
fn suffix() {}

#[delayed::task(queue = "delayed_queues")]
fn key_of_all() {}

#[delayed::task(queue = "_scheduled")]
fn nothing_but_a_suffix() {}

#[delayed::task(queue = "01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789x")]
fn long() {}

fn main() {
    for run in [empty, space, hidden, suffix, key_of_all, nothing_but_a_suffix, long] {
        run();
    }
}
