const QUEUE: &str = "mail";

#[delayed::task(name = send, queue = QUEUE, retry = "3")]
fn send(to: String) {
    drop(to);
}

#[delayed::task(name, queue, retry)]
fn missing(to: String) {
    drop(to);
}

#[delayed::task(retry = 1.5)]
fn fraction(to: String) {
    drop(to);
}

#[delayed::task(retry = 9223372036854775808)]
fn large(to: String) {
    drop(to);
}

#[delayed::task(queue("mail"))]
fn called(to: String) {
    drop(to);
}

fn main() {
    for make in [send::call, missing::call, fraction::call, large::call, called::call] {
        let _ = make(QUEUE.into());
    }
}
