//! `man`: manual pages, of the program and of each command.

use std::path::Path;

use clap_mangen::Man as Page;
use serde_json::json;

use crate::cli::args::{self, Man};
use crate::cli::exit::Failure;
use crate::cli::output;

pub(super) fn run(args: &Man) -> Result<(), Failure> {
    let mut command = args::command(&args::program_name(std::env::args_os().next().as_ref()));
    command.build();
    let Some(directory) = &args.directory else {
        let page = render(command);
        if args.output.json {
            return output::json(&json!({ "page": page }));
        }
        return output::print(&page);
    };
    let mut pages = Vec::new();
    std::fs::create_dir_all(directory).map_err(|error| unwritten(directory, &error))?;
    write(command, directory, &mut pages)?;
    if args.output.json {
        return output::json(&json!({ "pages": pages }));
    }
    output::print(&format!("wrote {} pages into {}\n", pages.len(), directory.display()))
}

/// Writes the page of a command and those of its commands: `my_app-dead-list.1`.
fn write(command: clap::Command, directory: &Path, pages: &mut Vec<String>) -> Result<(), Failure> {
    // `build` adds `help`, which has a copy of each command.
    for below in command.get_subcommands().filter(|below| below.get_name() != "help" && !below.is_hide_set())
    {
        write(below.clone(), directory, pages)?;
    }
    let name = format!("{}.1", command.get_display_name().unwrap_or(command.get_name()));
    let path = directory.join(&name);
    std::fs::write(&path, render(command)).map_err(|error| unwritten(&path, &error))?;
    pages.push(name);
    Ok(())
}

fn render(command: clap::Command) -> String {
    let mut page = Vec::new();
    Page::new(command).render(&mut page).expect("a vector takes all bytes");
    String::from_utf8_lossy(&page).into_owned()
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::io(&format!("cannot write {}", path.display()), error)
}
