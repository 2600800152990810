//! A whole program: a task, and a `main` that is a worker, a sweeper and a tool.
//!
//! ```sh
//! cargo run --example quickstart -- dev                                    # a private Redis, and a worker
//! cargo run --example quickstart -- enqueue quickstart::tasks::add '[1, 2]' --redis dev
//! ```

#[expect(clippy::print_stdout, reason = "so that one sees something")]
mod tasks {
    /// Adds two numbers and prints the sum.
    #[delayed::task]
    pub(super) async fn add(a: i64, b: i64) {
        println!("{a} + {b} = {}", a + b);
    }
}

fn main() -> std::process::ExitCode {
    delayed::main()
}
