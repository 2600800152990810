//! `completions`: a script for a shell.

use crate::cli::args::{self, Completions};
use crate::cli::exit::Failure;
use crate::cli::output;

pub(super) fn run(args: &Completions) -> Result<(), Failure> {
    let name = args::program_name(std::env::args_os().next().as_ref());
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(&name), name, &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
