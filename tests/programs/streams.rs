//! Tasks that print, and note that they have.

use super::trials::note;

#[delayed::task(name = "prints.blocking")]
fn blocking(n: String) {
    println!("{n}");
    note(&n);
}

#[delayed::task(name = "prints.async")]
async fn asynchronous(n: String) {
    println!("{n}");
    note(&n);
}

/// After it has waited for something.
#[delayed::task(name = "prints.later")]
async fn later(n: String) {
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    println!("{n}");
    note(&n);
}

#[delayed::task(name = "prints.errors")]
fn errors(n: String) {
    eprintln!("{n}");
    note(&n);
}

/// Prints when it is dropped.
struct Farewell<'a>(&'a str);

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        println!("end of {}", self.0);
        eprintln!("end of {}", self.0);
    }
}

#[delayed::task(name = "prints.dropped")]
fn dropped(n: String) {
    let farewell = Farewell(&n);
    println!("{n}");
    eprintln!("{n}");
    drop(farewell);
    note(&n);
}

/// More than a pipe holds.
#[delayed::task(name = "prints.much")]
fn much(n: String) {
    for _ in 0..2_000 {
        println!("{n:0100}");
    }
    note(&n);
}
