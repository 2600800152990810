//! Where do spans go? To the collector of `--otlp`, or of the standard variables of the environment.

use std::env::var;

use crate::cli::args::Command;
use crate::cli::exit::Failure;
use crate::otel::{Exporter, install};
use crate::task::error::chain;

/// A collector for traces alone: a whole address, which counts before the base address for everything.
const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const ALL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Begins to export the spans of a command that makes some, if there is a collector for them.
pub(super) fn start(command: &Command) -> Result<Option<Exporter>, Failure> {
    let Some(flags) = command.otlp() else { return Ok(None) };
    let is_set = |name: &str, value: &str| var(name).is_ok_and(|set| set.trim().eq_ignore_ascii_case(value));
    if is_set("OTEL_SDK_DISABLED", "true") || is_set("OTEL_TRACES_EXPORTER", "none") {
        return Ok(None);
    }
    let variable = |name: &'static str| Some((name, var(name).ok().filter(|set| !set.is_empty())?));
    let flag = flags.endpoint.clone().map(|endpoint| ("--otlp", endpoint));
    let Some((origin, endpoint)) = flag.or_else(|| variable(TRACES)).or_else(|| variable(ALL)) else {
        return Ok(None);
    };
    let exporter = install(&endpoint)
        .map_err(|error| Failure::configuration(format!("{} (set by {origin})", chain(&error))))?;
    Ok(Some(exporter))
}
