//! The example prints what it says.

use crate::support::example::example;
use crate::support::trial::Trial;

#[test]
fn life_of_a_call_prints_what_became_of_its_calls() {
    let mut trial = Trial::new();
    let program = example("life_of_a_call");
    let mut command = trial.command(program.to_str().unwrap());
    let output = command.arg(trial.server.url()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = printed.lines().collect();
    let [twice, cancelled, paid, why] = lines[..] else { panic!("expected four lines: {printed}") };
    let expected = ["charged twice: false", "the reminder was Scheduled", "order 7 was paid in attempt 3"];
    assert_eq!([twice, cancelled, paid], expected);
    assert!(why.starts_with(&format!("the reminder: the call was cancelled by {host}/")), "{why}");
}
