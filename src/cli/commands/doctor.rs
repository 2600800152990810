//! `doctor`: what is wrong, and how to put it right.

use std::convert::Infallible;
use std::process::ExitCode;
use std::time::Duration;

use crate::cli::Program;
use crate::cli::args::Doctor;
use crate::cli::exit::{Code, Failure};
use crate::cli::{output, watch};
use crate::error::Error;
use crate::inspect::{Finding, Inspector, Level};

pub(super) async fn run(program: &Program, args: &Doctor) -> Result<ExitCode, Failure> {
    let Some(pause) = args.watch else {
        let findings = findings(program).await?;
        if args.output.json {
            output::json(&findings)?;
        } else {
            findings.iter().try_for_each(show)?;
        }
        let problem = findings.iter().any(|finding| finding.level == Level::Problem);
        return Ok(if problem { ExitCode::from(Code::Failed as u8) } else { ExitCode::SUCCESS });
    };
    watch::until_interrupted(watch_findings(program, pause, args.output.json)).await
}

/// Prints what has changed, again and again.
async fn watch_findings(program: &Program, pause: Duration, json: bool) -> Result<Infallible, Failure> {
    let mut last: Vec<Finding> = Vec::new();
    loop {
        // While watching, an unreachable Redis is a finding like any other, since it may come back.
        let found = findings(program).await.or_else(|failure| match failure.code() {
            Code::Unreachable => Ok(vec![unreachable(&failure)]),
            _ => Err(failure),
        })?;
        let is_among =
            |finding: &Finding, others: &[Finding]| others.iter().any(|other| is_same(finding, other));
        let came: Vec<&Finding> = found.iter().filter(|finding| !is_among(finding, &last)).collect();
        let went: Vec<&Finding> = last.iter().filter(|finding| !is_among(finding, &found)).collect();
        if json {
            if !came.is_empty() || !went.is_empty() {
                output::print(&serde_json::json!(found).to_string())?;
            }
        } else {
            for finding in went.into_iter().filter(|finding| finding.level != Level::Ok) {
                output::print(&format!("solved   {}", text(finding)))?;
            }
            came.into_iter().try_for_each(show)?;
        }
        last = found;
        tokio::time::sleep(pause).await;
    }
}

async fn findings(program: &Program) -> Result<Vec<Finding>, Failure> {
    let checked = match Inspector::with_config(&program.settings.config).await {
        Ok(inspector) => inspector.check().await,
        Err(error) => Err(error),
    };
    // One that lets nobody in is what is wrong.
    let findings = checked.or_else(|error| match &error {
        Error::Broker(refused) => Finding::refused("access", refused).map(|found| vec![found]).ok_or(error),
        _ => Err(error),
    });
    Ok(findings?)
}

/// The finding that Redis does not answer.
fn unreachable(failure: &Failure) -> Finding {
    let text = failure.text().to_owned();
    Finding { level: Level::Problem, check: "access", queue: None, text, fix: None }
}

/// Whether two findings say the same, apart from their numbers.
fn is_same(one: &Finding, other: &Finding) -> bool {
    (one.check, &one.queue, one.level) == (other.check, &other.queue, other.level)
}

fn show(finding: &Finding) -> Result<(), Failure> {
    let level = match finding.level {
        Level::Ok => "ok     ".to_owned(),
        Level::Warning => output::yellow("warning"),
        Level::Problem => output::red("PROBLEM"),
    };
    output::print(&format!("{level}  {}", text(finding)))?;
    match &finding.fix {
        Some(fix) => output::print(&format!("         → {}", output::clean(fix))),
        None => Ok(()),
    }
}

fn text(finding: &Finding) -> String {
    let queue = finding.queue.as_ref().map_or_else(String::new, |queue| format!("{queue}: "));
    output::clean(&format!("{}: {queue}{}", finding.check, finding.text))
}
