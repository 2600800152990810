//! Periodic flows of Python programs and of the command line.

use delayed::{Inspector, IntoFlow, Overlap, Periodic, group};
use redis::Commands;
use serde_json::{Value, json};

use super::{Site, tasks};
use crate::support::process::{DELAYED, Program};
use crate::support::python::{QUEUES, follow};
use crate::support::trial::{PATIENCE, QUEUE, WORKER};
use crate::support::wait;

/// Two notes, one at a time, and what notes both of them.
fn described(of: &str) -> Value {
    let note = |n: &str| json!({"call": "flows.note", "args": [format!("{of} {n}")]});
    json!({
        "chain": [{"group": [note("a"), note("b")], "at_most": 1}, {"step": "flows.end", "args": [of]}],
        "on_error": {"step": "flows.alert"},
    })
}

impl Site {
    /// Defines a flow with the command line of a program.
    #[track_caller]
    fn define_in(&self, program: &str, words: &[&str], flow: &str) {
        let mut command = self.trial.command(program);
        command.args(["periodic", "add", "flow"]).args(words).args(["--queue", QUEUE, "--replace"]);
        let mut program = Program::spawn(command.args(["--redis", &self.trial.server.url(), "--flow", flow]));
        assert!(program.wait_exit(PATIENCE).success(), "{}", program.printed());
    }

    /// What is stored, which is removed.
    fn definition(&mut self) -> Vec<u8> {
        let definition = self.trial.redis.hget("q_periodic", "d:flow").unwrap();
        let () = self.trial.redis.del("q_periodic").unwrap();
        definition
    }
}

#[test]
fn all_define_a_periodic_flow_with_the_same_bytes() {
    let mut site = Site::new();
    let members = group(["a", "b"].map(|n| tasks::note_run::call(format!("x {n}")))).at_most(1);
    let flow = members.then(tasks::end::step("x".into())).on_error(tasks::alert::step()).into_flow();
    let flow = Periodic::new("flow", "@daily", flow).tz("Europe/Berlin").overlap(Overlap::Skip);
    site.runtime.block_on(site.client.define_periodic(flow)).unwrap();
    let expected = site.definition();
    let described = described("x");
    let options = json!({"name": "flow", "cron": "@daily", "tz": "Europe/Berlin", "overlap": "skip"});
    for queue in QUEUES {
        let line = json!({"kind": "periodic", "flow": described, "periodic": options});
        let said = follow(&site.trial, queue, &[line]);
        assert_eq!(said[0]["is_new"], true, "{said:#?}");
        assert_eq!(site.definition(), expected, "expected Python to define the same");
    }
    let file = site.trial.server.directory().join("flow.json");
    std::fs::write(&file, described.to_string()).unwrap();
    let words = ["@daily", "--tz", "Europe/Berlin", "--overlap", "skip"];
    for (program, flow) in [(WORKER, described.to_string().as_str()), (DELAYED, file.to_str().unwrap())] {
        site.define_in(program, &words, flow);
        assert_eq!(site.definition(), expected, "expected {program} to define the same");
    }
}

/// A flow begins with each tick, and ends.
#[track_caller]
fn assert_ticks(site: &mut Site) {
    let mut worker = site.worker(&[]);
    let ends = |site: &Site| site.trial.ledger.lines().iter().filter(|line| *line == "x 2").count();
    wait::until("two flows to end", PATIENCE, || ends(site) >= 2);
    let (queue, url) = (QUEUE.parse().unwrap(), site.trial.server.url());
    let inspector = site.runtime.block_on(Inspector::connect(&url)).unwrap();
    site.runtime.block_on(inspector.pause_periodic(&queue, "flow", "anna")).unwrap();
    let count = wait::until_ok(PATIENCE, || {
        let ticks = site.runtime.block_on(inspector.periodic_history(&queue, "flow")).unwrap().unwrap();
        match (ticks.len(), ends(site)) {
            (ticks, ends) if ticks == ends => Ok(ticks as u32),
            (ticks, ends) => Err(format!("an end of each of {ticks} flows, not {ends}")),
        }
    });
    site.trial.wait_settled();
    site.assert_done();
    let expected = ["x a", "x b", "x 2"].map(|line| (line.to_owned(), count));
    assert_eq!(site.trial.ledger.executions(), expected.into(), "expected a flow for each of {count} ticks");
    site.trial.stop(&mut worker);
}

#[test]
fn flow_of_the_command_line_begins_with_each_tick() {
    let mut site = Site::new();
    site.define_in(DELAYED, &["@every 1s"], &described("x").to_string());
    assert_ticks(&mut site);
}

#[test]
fn periodic_flow_of_python_begins_with_each_tick() {
    let mut site = Site::new();
    let options = json!({"name": "flow", "cron": "@every 1s"});
    follow(&site.trial, &[], &[json!({"kind": "periodic", "flow": described("x"), "periodic": options})]);
    assert_ticks(&mut site);
}
