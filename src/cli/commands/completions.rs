//! `completions`: a script for a shell.

use serde_json::json;

use crate::cli::args::{self, Completions};
use crate::cli::exit::Failure;
use crate::cli::output;

pub(super) fn run(args: &Completions) -> Result<(), Failure> {
    let name = args::program_name(std::env::args_os().next().as_ref());
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(&name), name, &mut script);
    let script = String::from_utf8_lossy(&script);
    if args.output.json {
        return output::json(&json!({ "shell": args.shell.to_string(), "script": script }));
    }
    output::print(&script)
}
