//! What surrounds the runs of a program: headers.

mod headers;

use crate::support::trial::QUEUE;

const ISOLATIONS: [&str; 3] = ["inline", "fork", "prefork"];

/// Tasks of the program, by the same names.
mod tasks {
    #[delayed::task(name = "layers.headers", queue = "q")]
    pub(super) fn headers(_n: String) {}

    #[delayed::task(name = "layers.headers_blocking", queue = "q")]
    pub(super) fn headers_blocking(_n: String) {}
}

/// The words of a worker of this isolation that ends when all is done.
fn burst(isolation: &str) -> [&str; 3] {
    ["--burst", "--isolation", isolation]
}
