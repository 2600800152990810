//! How fast are we, beside other systems? All take turns on one private Redis, round after round.

mod effort;
mod proxy;
mod rows;
pub mod systems;
pub mod trial;

pub use self::effort::Effort;
pub use self::rows::PARTS;

use self::rows::Rows;
use self::systems::{SYSTEMS, System};
use self::trial::Trial;
use crate::figures::Figures;
use crate::server::Server;
use crate::times::Times;

/// This project, with tasks that are an `async fn`.
pub const OURS: &str = "delayed";
/// The same, which owns no more than it runs.
pub const WITHOUT_PREFETCH: &str = "delayed without prefetch";

/// Those that are measured; `only` has names, none: all.
pub fn systems(only: &[String], figures: &mut Figures) -> Result<Vec<&'static System>, String> {
    let wanted =
        |system: &&System| only.is_empty() || only.iter().any(|name| name.eq_ignore_ascii_case(system.name));
    let mut systems = Vec::new();
    for system in SYSTEMS.iter().filter(wanted) {
        let version = system.program.version();
        let is_there = version.is_some();
        figures.describe(system.name, version, system.settings)?;
        if is_there {
            systems.push(system);
        }
    }
    Ok(systems)
}

/// Runs the parts.
pub fn run(
    parts: &[&'static str],
    systems: &[&'static System],
    effort: &Effort,
    figures: &mut Figures,
) -> Result<(), String> {
    let server = Server::start();
    let mut rows = Rows::new(figures);
    for round in 0..effort.rounds {
        eprintln!("round {} of {}", round + 1, effort.rounds);
        let mut times = Times::default();
        for part in parts {
            for system in systems {
                if effort.is_over() {
                    eprintln!("the time is over");
                    times.tell();
                    return Ok(());
                }
                let trial = Trial { system, server: &server, effort };
                times.take(part, system.name, || rows.measure(part, trial));
            }
            rows.keep()?;
        }
        times.tell();
    }
    Ok(())
}
