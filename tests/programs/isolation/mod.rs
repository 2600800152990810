//! Tasks that must be made to end, and tasks that tell how they are kept. Most do not say where they run: the worker does.

mod draws;
mod ends;
mod escapes;
mod hangs;
mod leaves;
mod misuses;
mod tells;
mod uses;

pub(crate) use draws::draw_early;
pub(crate) use leaves::Files;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Between two looks at a gate.
const LOOK: Duration = Duration::from_millis(2);

/// Appends a line to the file that LEDGER names, in one write. Opens it each time: no descriptor stays.
fn note(text: &str) {
    let path = std::env::var_os("LEDGER").expect("LEDGER names the file for the runs");
    let mut ledger =
        OpenOptions::new().append(true).create(true).open(path).expect("the ledger can be opened");
    ledger.write_all(format!("{text}\n").as_bytes()).expect("the ledger can be written");
}

/// Does not come back.
fn hang() -> ! {
    loop {
        std::thread::park();
    }
}

/// Comes back when the file `gate` exists.
fn wait_at(gate: &str) {
    while !Path::new(gate).exists() {
        std::thread::park_timeout(LOOK);
    }
}
