//! Tasks that end in a way of their own.

use std::io::Write;

use delayed::TaskError;

use super::{hang, note};

/// Reads where nothing is.
#[delayed::task(name = "isolation.segfault")]
#[allow(unsafe_code, reason = "only what is not safe can fail so")]
fn segfault(n: String) {
    note(&n);
    let nowhere = std::ptr::without_provenance::<u8>(16);
    // SAFETY: it is not safe; it ends the process, which is the task's matter.
    let read = unsafe { nowhere.read_volatile() };
    note(&read.to_string());
}

#[delayed::task(name = "isolation.abort")]
fn abort(n: String) {
    note(&n);
    std::process::abort()
}

#[delayed::task(name = "isolation.exit")]
fn exit(n: String, code: i32) {
    note(&n);
    std::process::exit(code)
}

#[delayed::task(name = "isolation.exit_async")]
async fn exit_async(n: String, code: i32) {
    note(&n);
    std::process::exit(code)
}

/// Deeper than its stack.
#[delayed::task(name = "isolation.overflow")]
fn overflow(n: String) {
    fn deeper(depth: u64) -> u64 {
        let frame = std::hint::black_box([depth; 512]);
        if depth == u64::MAX { 0 } else { deeper(depth + 1) + frame[511] }
    }
    note(&n);
    note(&deeper(1).to_string());
}

#[delayed::task(name = "isolation.panics")]
fn panics(n: String) {
    note(&n);
    panic!("there is no {n}");
}

#[delayed::task(name = "isolation.panics_async")]
async fn panics_async(n: String) {
    note(&n);
    panic!("there is no {n}");
}

#[delayed::task(name = "isolation.fails", retry = 1)]
async fn fails(n: String) -> Result<(), String> {
    note(&n);
    Err(format!("no {n} today"))
}

#[delayed::task(name = "isolation.fatal", retry = 5)]
fn fatal(n: String) -> Result<(), TaskError> {
    note(&n);
    Err(TaskError::fatal("for good"))
}

fn print(text: &str) {
    std::io::stdout().write_all(text.as_bytes()).expect("the standard output can be written");
    std::io::stdout().flush().expect("the standard output can be written");
}

/// Stays in the buffer of the standard output, as what `print!` writes.
fn begin_line(text: &str) {
    std::io::stdout().write_all(text.as_bytes()).expect("the buffer has room");
}

fn complain(text: &str) {
    std::io::stderr().write_all(text.as_bytes()).expect("the standard error can be written");
}

#[delayed::task(name = "isolation.prints")]
fn prints(n: String) {
    note(&n);
    print(&format!("out of {n}\n"));
    complain(&format!("err of {n}\n"));
    begin_line(&format!("rest of {n}"));
}

#[delayed::task(name = "isolation.prints_and_fails")]
fn prints_and_fails(n: String) -> Result<(), String> {
    note(&n);
    print(&format!("out of {n}\n"));
    complain(&format!("err of {n}\n"));
    begin_line(&format!("rest of {n}"));
    Err("it printed".into())
}

/// One in ten fails.
#[delayed::task(name = "isolation.prints_and_may_fail")]
fn prints_and_may_fail(n: u64) -> Result<(), String> {
    print(&format!("out of {n}\n"));
    complain(&format!("err of {n}\n"));
    if n.is_multiple_of(10) { Err(n.to_string()) } else { Ok(()) }
}

/// Its last line has no end.
#[delayed::task(name = "isolation.prints_and_hangs")]
fn prints_and_hangs(n: String) {
    print("half a li");
    note(&n);
    hang()
}

#[delayed::task(name = "isolation.prints_and_aborts")]
fn prints_and_aborts(n: String) {
    note(&n);
    complain("the last words\n");
    std::process::abort()
}

/// Prints so many bytes in lines of 100, and then fails.
#[delayed::task(name = "isolation.prints_much")]
fn prints_much(n: String, bytes: usize) -> Result<(), String> {
    note(&n);
    let line = format!("{}\n", "x".repeat(999));
    for _ in 0..bytes / line.len() {
        print(&line);
    }
    print("the last words\n");
    Err("it printed much".into())
}
