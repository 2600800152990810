#[delayed::task]
fn unknown(#[task(optional)] word: String) {
    drop(word);
}

#[delayed::task]
fn nothing(#[task] word: String, #[task()] other: String) {
    drop((word, other));
}

#[delayed::task]
fn twice(#[task(default)] #[task(default = 3)] count: i64) {
    let _ = count;
}

#[delayed::task]
fn injected(#[task(default)] context: delayed::Context, #[task(default)] limit: delayed::State<u64>) {
    drop((context, limit));
}

#[delayed::task]
fn stateless(limit: delayed::State) {
    drop(limit);
}

#[delayed::task]
fn conditional(#[cfg(unix)] word: String) {
    drop(word);
}

fn main() {
    unknown("".into());
    nothing("".into(), "".into());
    twice(1);
    conditional("".into());
    let _ = injected;
}
