//! Tasks whose words are as long as they are told to be: `begin`, so many bytes, `end`.

use delayed::TaskError;

use super::trials::note;

fn words(bytes: usize) -> String {
    format!("begin{}end", "x".repeat(bytes))
}

#[delayed::task(name = "texts.fails")]
async fn fails(n: String, bytes: usize) -> Result<(), String> {
    note(&n);
    Err(words(bytes))
}

#[delayed::task(name = "texts.fails_with_sources")]
fn fails_with_sources(n: String, bytes: usize) -> Result<(), TaskError> {
    note(&n);
    Err(std::io::Error::other(std::io::Error::other(words(bytes))).into())
}

#[delayed::task(name = "texts.panics")]
fn panics(n: String, bytes: usize) {
    note(&n);
    panic!("{}", words(bytes));
}

/// Takes its text, and fails until it was tried so often.
#[delayed::task(name = "texts.takes", retry = 3)]
fn takes(n: String, _text: String) -> Result<(), String> {
    note(&n);
    Err("it fails each time".into())
}

#[delayed::task(name = "texts.logs")]
async fn logs(n: String, bytes: usize) {
    note(&n);
    tracing::warn!(field = words(bytes), "says {}", words(bytes));
}

#[delayed::task(name = "texts.prints")]
fn prints(n: String, bytes: usize) -> Result<(), String> {
    note(&n);
    println!("{}", words(bytes));
    Err("it fails when it has printed".into())
}
