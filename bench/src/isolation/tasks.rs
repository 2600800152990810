//! What runs in a process of its own?

use std::process::{ExitCode, Stdio};
use std::time::Duration;

use super::ledger;
use super::systems::LIMIT;

/// Does nothing but its record.
#[delayed::task(queue = "bench")]
pub fn note(number: u64) {
    ledger::record(number);
}

/// Sleeps for ever. What takes a context hears SIGTERM, and so has to be killed.
#[delayed::task(queue = "bench")]
pub fn sleep(number: u64, _context: delayed::Context) {
    ledger::record(number);
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// Computes for ever, and has to be killed.
#[delayed::task(queue = "bench")]
pub fn spin(number: u64, _context: delayed::Context) {
    ledger::record(number);
    loop {
        std::hint::spin_loop();
    }
}

/// Starts this program anew for one of the above, and kills it when its time is up.
#[delayed::task(queue = "bench")]
pub async fn exec(task: String, number: u64) -> std::io::Result<()> {
    let mut child = tokio::process::Command::new(std::env::current_exe()?)
        .args(["exec-child", &task, &number.to_string()])
        .stdin(Stdio::null())
        .spawn()?;
    let limit = std::env::var(LIMIT).ok().and_then(|text| text.parse().ok()).map(Duration::from_secs_f64);
    match limit {
        None => child.wait().await?,
        Some(limit) => match tokio::time::timeout(limit, child.wait()).await {
            Ok(status) => status?,
            Err(_) => {
                child.kill().await?;
                return Err(std::io::Error::other("killed at its limit"));
            }
        },
    };
    Ok(())
}

/// The program that [`exec`] starts.
pub fn exec_child(words: &[String]) -> ExitCode {
    let [task, number] = words else { return ExitCode::from(2) };
    let Ok(number) = number.parse() else { return ExitCode::from(2) };
    match task.as_str() {
        "note" => ledger::record(number),
        "sleep" => {
            ledger::record(number);
            loop {
                std::thread::sleep(Duration::from_secs(3600));
            }
        }
        _ => {
            ledger::record(number);
            loop {
                std::hint::spin_loop();
            }
        }
    }
    ExitCode::SUCCESS
}
