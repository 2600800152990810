//! `tasks`: what this program can run.

use serde_json::json;

use crate::cli::args::Json;
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::protocol::arguments::{Param, Presence};
use crate::task::{Registration, Registry, RegistryError};

pub(super) fn run(output: Json) -> Result<(), Failure> {
    let registry = match Registry::collect() {
        Err(error @ RegistryError::Empty) => {
            return if output.json { output::json(&[(); 0]) } else { output::print(&error.to_string()) };
        }
        registry => registry?,
    };
    if output.json {
        return output::json(&registry.iter().map(described).collect::<Vec<_>>());
    }
    let tasks: Vec<String> = registry.iter().map(shown).collect();
    output::print(&tasks.join("\n\n"))
}

fn first_line(task: &Registration) -> &str {
    task.doc.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("")
}

fn shown(task: &'static Registration) -> String {
    let mut lines = vec![task.name.to_owned(), format!("    {}", task.signature())];
    let doc = first_line(task);
    if !doc.is_empty() {
        lines.push(format!("    {doc}"));
    }
    let mut facts = vec![format!("queue {}", task.options.queue.unwrap_or("default"))];
    match task.options.retry {
        0 => {}
        retry if retry < 0 => facts.push("retried forever".into()),
        1 => facts.push("retried once".into()),
        retry => facts.push(format!("retried {retry} times")),
    }
    facts.push(task.location.to_owned());
    lines.push(format!("    {}", facts.join(", ")));
    lines.join("\n")
}

fn described(task: &'static Registration) -> serde_json::Value {
    json!({
        "task": task.name,
        "signature": task.signature(),
        "doc": first_line(task),
        "queue": task.options.queue.unwrap_or("default"),
        "retry": task.options.retry,
        "returns": task.returns,
        "location": task.location,
        "parameters": task.params.iter().map(parameter).collect::<Vec<_>>(),
        "states": task.states.iter().map(|state| state.name).collect::<Vec<_>>(),
    })
}

fn parameter(param: &Param) -> serde_json::Value {
    let presence = match param.presence {
        Presence::Required => "required",
        Presence::Optional => "optional",
        Presence::Variadic => "variadic",
    };
    json!({ "name": param.name, "type": param.ty, "presence": presence })
}
