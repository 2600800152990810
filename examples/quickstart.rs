//! Two tasks, and a program that is worker, sweeper and tool: `cargo run --example quickstart -- --help`.

#![allow(unreachable_pub, clippy::print_stdout, reason = "an example prints")]

mod tasks {
    /// Adds two numbers.
    #[delayed::task]
    pub fn add(a: i64, b: i64) -> i64 {
        println!("{a} + {b} = {}", a + b);
        a + b
    }

    /// Sends a mail.
    #[delayed::task(name = "mail.send", queue = "mail", retry = 3)]
    pub async fn send(to: String, text: Option<String>, ctx: delayed::Context) -> Result<(), String> {
        if !to.contains('@') {
            return Err(format!("{to:?} is not an address"));
        }
        println!("to {to}: {} (attempt {})", text.as_deref().unwrap_or("hello"), ctx.attempt());
        Ok(())
    }
}

fn main() -> std::process::ExitCode {
    delayed::main()
}
