#[delayed::task(cron = "61 * * * *")]
fn minute() {}

#[delayed::task(cron = "* * * *")]
fn four_fields() {}

#[delayed::task(cron = "@every 10ms")]
fn too_often() {}

#[delayed::task(cron = "0 0 30 2 *")]
fn never() {}

#[delayed::task(cron = "0 0 0 31 APR,jun,9,11 *")]
fn thirty_days() {}

#[delayed::task(cron = "0 3 * * *", tz = "Europe/Bärlin", overlap = "wait", missed = "all:0")]
fn options() {}

#[delayed::task(tz = "Europe/Berlin", overlap = "skip")]
fn without() {}

#[delayed::task(cron = "@daily", overlap = "skip", unique = "until_done")]
fn unique() {}

#[delayed::task(cron = "@daily")]
fn arguments(kind: String, count: Option<u32>) {
    drop((kind, count));
}

fn main() {
    let _ = minute::call();
    let _ = arguments::call(String::new(), None);
}
