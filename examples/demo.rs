//! The worker of `scripts/demo`: its one task leaves a line in a file for each run.

mod tasks {
    use std::io::Write;
    use std::time::Duration;

    /// Appends `NUMBER PID` to the file that DEMO_FILE names, in one write, in the middle of its work.
    #[delayed::task(name = "demo.record")]
    pub(super) async fn record(number: u64) -> std::io::Result<()> {
        let file = std::env::var_os("DEMO_FILE").expect("DEMO_FILE names the file");
        // Not all alike: a kill is to fall before the effect of some, and after that of others.
        let work = Duration::from_millis(5 + number * 7 % 20);
        tokio::time::sleep(work).await;
        let line = format!("{number} {}\n", std::process::id());
        std::fs::OpenOptions::new().append(true).create(true).open(file)?.write_all(line.as_bytes())?;
        tokio::time::sleep(work).await;
        Ok(())
    }
}

fn main() -> std::process::ExitCode {
    delayed::main()
}
