//! `completions`: a script for a shell.

use clap_complete::Shell;
use serde_json::json;

use crate::cli::args::{self, Completions};
use crate::cli::exit::{Code, Failure};
use crate::cli::output;

pub(super) fn run(args: &Completions) -> Result<(), Failure> {
    let name = args::program_name(std::env::args_os().next().as_ref());
    // With a hyphen in the name, the subcommands go by other names in one half of the script for bash than in the other.
    let written = if args.shell == Shell::Bash { name.replace('-', "_") } else { name.clone() };
    if !can_stand_in_a_script(&name) {
        return Err(Failure::new(
            Code::Failed,
            format!(
                "the program's name {name:?} cannot be used in a shell script: run the program by a name of letters, \
                digits, `-`, `_`, `.` and `+`, and without `__subcmd`"
            ),
        ));
    }
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(&written), &written, &mut script);
    let [last, ours] = [&written, &name].map(|name| format!(" -o default {name}\n"));
    let script = String::from_utf8_lossy(&script).replace(&last, &ours);
    if args.output.json {
        return output::json(&json!({ "shell": args.shell.to_string(), "script": script }));
    }
    output::print(&script)
}

/// A shell would read anything else as more than a name; and clap takes the separator for its own.
fn can_stand_in_a_script(name: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "-_.+".contains(c);
    name.chars().all(plain) && !name.starts_with('-') && !name.replace('-', "_").contains("__subcmd")
}
