//! `completions`: a script for a shell.

use clap_complete::Shell;
use serde_json::json;

use crate::cli::args::{self, Completions};
use crate::cli::exit::Failure;
use crate::cli::output;

pub(super) fn run(args: &Completions) -> Result<(), Failure> {
    let name = args::program_name(std::env::args_os().next().as_ref());
    // With a hyphen in the name, the subcommands go by other names in one half of the script for bash than in the other.
    let written = if args.shell == Shell::Bash { name.replace('-', "_") } else { name.clone() };
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(&written), &written, &mut script);
    let [last, ours] = [&written, &name].map(|name| format!(" -o default {name}\n"));
    let script = String::from_utf8_lossy(&script).replace(&last, &ours);
    if args.output.json {
        return output::json(&json!({ "shell": args.shell.to_string(), "script": script }));
    }
    output::print(&script)
}
