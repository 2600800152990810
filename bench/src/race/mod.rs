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

/// What we are called.
pub const OURS: &str = "delayed";

/// Runs the parts; `only` has names of systems, none: all.
pub fn run(parts: &[&'static str], only: &[String], effort: &Effort, figures: &mut Figures) {
    let wanted =
        |system: &&System| only.is_empty() || only.iter().any(|name| name.eq_ignore_ascii_case(system.name));
    let mut systems = Vec::new();
    for system in SYSTEMS.iter().filter(wanted) {
        match system.program.version() {
            Ok(version) => {
                figures.describe(system.name, version, system.settings);
                systems.push(system);
            }
            Err(problem) => figures.describe(system.name, problem, system.settings),
        }
    }
    let server = Server::start();
    let mut rows = Rows::new(figures);
    for round in 0..effort.rounds {
        eprintln!("round {} of {}", round + 1, effort.rounds);
        for part in parts {
            for system in &systems {
                if effort.is_over() {
                    eprintln!("the time is over");
                    return;
                }
                rows.measure(part, Trial { system, server: &server, effort });
            }
        }
    }
}
