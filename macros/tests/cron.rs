//! The options of a periodic task reach its registration.

use delayed::{Missed, Overlap};

#[delayed::task(cron = "0 3 * * *", tz = "Europe/Berlin", overlap = "skip", missed = "once")]
async fn nightly() {}

#[delayed::task(cron = "*/30 * * * * *", overlap = "queue", missed = "all:7")]
fn often(kind: Option<String>, #[task(default)] count: u32, ctx: delayed::Context) {
    drop((kind, count, ctx));
}

#[delayed::task(cron = "@every 1h 30m", overlap = "allow", missed = "skip")]
fn interval() {}

#[delayed::task(cron = "0 9 L JAN,FEB MON#2", missed = "all")]
fn names() {}

#[test]
fn options_of_periodic_tasks_are_registered() {
    use delayed::Task;

    let cron = nightly::registration().options.cron.unwrap();
    assert_eq!((cron.text, cron.tz), ("0 3 * * *", Some("Europe/Berlin")));
    assert_eq!((cron.overlap, cron.missed), (Overlap::Skip, Missed::Once));
    let cron = often::registration().options.cron.unwrap();
    assert_eq!((cron.overlap, cron.missed, cron.tz), (Overlap::Queue, Missed::All(7), None));
    assert_eq!(interval::registration().options.cron.unwrap().text, "@every 1h 30m");
    assert_eq!(names::registration().options.cron.unwrap().missed, Missed::All(100));
    delayed::Registry::collect().unwrap();
}
