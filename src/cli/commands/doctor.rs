//! `doctor`: what is wrong, and how to put it right.

use std::process::ExitCode;

use crate::cli::Program;
use crate::cli::args::Json;
use crate::cli::exit::{Code, Failure};
use crate::cli::output;
use crate::error::Error;
use crate::inspect::{Finding, Inspector, Level};

pub(super) async fn run(program: &Program, output: Json) -> Result<ExitCode, Failure> {
    let checked = match Inspector::with_config(&program.settings.config).await {
        Ok(inspector) => inspector.check().await,
        Err(error) => Err(error),
    };
    // One that lets nobody in is what is wrong.
    let findings = checked.or_else(|error| match &error {
        Error::Broker(refused) => Finding::refused("access", refused).map(|found| vec![found]).ok_or(error),
        _ => Err(error),
    })?;
    if output.json {
        output::json(&findings)?;
    } else {
        for finding in &findings {
            let level = match finding.level {
                Level::Ok => "ok     ".to_owned(),
                Level::Warning => output::yellow("warning"),
                Level::Problem => output::red("PROBLEM"),
            };
            let queue = finding.queue.as_ref().map_or_else(String::new, |queue| format!("{queue}: "));
            let text = output::clean(&format!("{}: {queue}{}", finding.check, finding.text));
            output::print(&format!("{level}  {text}"))?;
            if let Some(fix) = &finding.fix {
                output::print(&format!("         → {}", output::clean(fix)))?;
            }
        }
    }
    let problem = findings.iter().any(|finding| finding.level == Level::Problem);
    Ok(if problem { ExitCode::from(Code::Failed as u8) } else { ExitCode::SUCCESS })
}
