//! `tasks`: what this program can run.

use serde_json::json;

use crate::cli::args::Json;
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::protocol::arguments::{Param, Presence};
use crate::protocol::meta;
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
    let within = task.options.retry_for.map(|time| format!(" for {}", output::duration(time)));
    match (task.options.retry, within) {
        (Some(0), _) | (None, None) => {}
        (None | Some(..0), Some(within)) => facts.push(format!("retried{within}")),
        (Some(..0), None) => facts.push("retried forever".into()),
        (Some(1), within) => facts.push(format!("retried once{}", within.unwrap_or_default())),
        (Some(retry), within) => {
            facts.push(format!("retried {retry} times{}", within.unwrap_or_default()));
        }
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
        "retry_for_ms": task.options.retry_for.map(meta::milliseconds),
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
