//! `doctor`: what is wrong, and how to put it right.

use std::process::ExitCode;

use crate::cli::Program;
use crate::cli::args::Json;
use crate::cli::commands::inspector;
use crate::cli::exit::{Code, Failure};
use crate::cli::output;
use crate::inspect::Level;

pub(super) async fn run(program: &Program, output: Json) -> Result<ExitCode, Failure> {
    let findings = inspector(program).await?.check().await?;
    if output.json {
        output::json(&findings)?;
    } else {
        for finding in &findings {
            let level = match finding.level {
                Level::Ok => "ok     ",
                Level::Warning => "warning",
                Level::Problem => "PROBLEM",
            };
            let queue = finding.queue.as_ref().map_or_else(String::new, |queue| format!("{queue}: "));
            let line = format!("{level}  {}: {queue}{}", finding.check, finding.text);
            output::print(&output::clean(&line))?;
            if let Some(fix) = &finding.fix {
                output::print(&format!("         → {}", output::clean(fix)))?;
            }
        }
    }
    let problem = findings.iter().any(|finding| finding.level == Level::Problem);
    Ok(if problem { ExitCode::from(Code::Failed as u8) } else { ExitCode::SUCCESS })
}
