//! The sweeper and the operator's tool, without any tasks of its own.

fn main() -> std::process::ExitCode {
    delayed::main()
}
