//! `config`: which settings hold, and where they come from.

use serde_json::json;

use crate::cli::args::Json;
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::cli::settings::{ALL, Settings, value};

pub(super) fn run(settings: &Settings, output: Json) -> Result<(), Failure> {
    if output.json {
        let all = ALL.iter().map(|setting| {
            json!({
                "key": setting.key,
                "value": value(&settings.config, setting.key),
                "origin": settings.origin(setting.key).to_string(),
                "variable": setting.variable,
            })
        });
        return output::json(&all.collect::<Vec<_>>());
    }
    let rows = ALL.iter().map(|setting| {
        let value = value(&settings.config, setting.key);
        let origin = settings.origin(setting.key).to_string();
        [setting.key.to_owned(), value.to_string(), origin].map(output::Cell::from)
    });
    output::table(["setting", "value", "from"], rows.collect(), &[(1, 20), (2, 10)])
}
