use std::process::Command;

use super::Site;
use crate::support::{python, root};

/// Sends what the description allows and what it does not, and compares the answers with it.
#[test]
fn gateway_answers_as_its_description_says() {
    let site = Site::new(&[]);
    let url = format!("http://{}/openapi.json", site.address);
    let mut command = Command::new(python::interpreter());
    // It keeps what it has found in its directory.
    command.current_dir(site.trial.server.directory()).args(["-m", "schemathesis.cli", "run", &url]);
    command.args(["--phases", "coverage,fuzzing", "--max-examples", "25", "--seed", "7", "--workers", "1"]);
    // A text that is allowed as a path, a queue or a time need not be one that exists.
    command.args(["--exclude-checks", "positive_data_acceptance"]);
    command.env("SCHEMATHESIS_HOOKS", "messagepack").env("PYTHONPATH", root().join("tests/peers/python"));
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        text.contains("Tested: 6") || text.contains("Tested: 7"),
        "expected all requests to be tested: {text}"
    );
}
