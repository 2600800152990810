#[delayed::task(retry = 3, max_attempts = 4)]
fn both(to: String) {
    drop(to);
}

#[delayed::task(backoff = "1s")]
fn text(to: String) {
    drop(to);
}

#[delayed::task(backoff = exponential("10m", max = "1s"))]
fn reversed(to: String) {
    drop(to);
}

#[delayed::task(backoff = linear("1s", "10m"), retry_for = "soon")]
fn unnamed(to: String) {
    drop(to);
}

#[delayed::task(backoff = fixed(30), max_attempts = 0)]
fn number(to: String) {
    drop(to);
}

fn main() {
    for make in [both::call, text::call, reversed::call, unnamed::call, number::call] {
        let _ = make("ann".into());
    }
}
