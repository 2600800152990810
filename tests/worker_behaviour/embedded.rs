//! The example: a program with a `main` of its own has a client, a worker and a sweeper.

use crate::support::example::example;
use crate::support::process::Program;
use crate::support::trial::{PATIENCE, Trial};

#[test]
fn a_program_of_its_own_runs_what_it_sends() {
    let trial = Trial::new();
    let program = example("embedded_worker");
    let mut command = trial.command(program.to_str().unwrap());
    let mut program = Program::spawn(command.arg(trial.server.url()));
    assert_eq!(program.wait_exit(PATIENCE).code(), Some(0), "{}", program.printed());
    program.wait_for_line("sent 100, succeeded 100, total 5050");
}
