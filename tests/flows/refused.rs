//! Redis refuses a worker what flows need: a right is missing, or a key has the wrong type. Nothing is lost.

use delayed::{CallId, CallState, FlowHandle, IntoFlow, chain, group};
use redis::Commands;

use super::{Site, tasks};
use crate::support::trial::{PATIENCE, open};
use crate::support::wait;

/// Keys of all but the outbox.
const KEYS: [&str; 6] = ["~q", "~q:*", "~q_[^o]*", "~other*", "~delayed*", "~{delayed*"];

impl Site {
    /// The address of a user that may use these keys.
    fn poor(&mut self, keys: &[&str]) -> String {
        let rules = [&["reset", "on", ">word", "&*", "+@all"][..], keys].concat();
        redis::cmd("ACL").arg("SETUSER").arg("poor").arg(rules).exec(&mut self.trial.redis).unwrap();
        format!("{}?user=poor&pass=word", self.trial.server.url())
    }

    fn allow_all(&mut self) {
        redis::cmd("ACL").arg("SETUSER").arg("poor").arg("~*").exec(&mut self.trial.redis).unwrap();
    }

    /// A flow of three steps.
    fn three(&self) -> FlowHandle<String> {
        let members = group(["a", "b"].map(|n| tasks::note_run::call(n.into())));
        let call = members.then(tasks::end::step("end".into())).into_flow().call();
        FlowHandle::from(self.runtime.block_on(self.client.enqueue(call)).unwrap())
    }

    /// The flow has come to its end; how often each step was run.
    #[track_caller]
    fn runs(&mut self, handle: &FlowHandle<String>) -> [usize; 3] {
        assert_eq!(self.wait(handle), "end");
        self.assert_done();
        self.trial.wait_settled();
        assert_eq!(self.trial.dead(), 0);
        let lines = self.trial.ledger.lines();
        ["a", "b", "end 2"].map(|line| lines.iter().filter(|other| *other == line).count())
    }

    /// A worker that is refused, until the user has all rights: it goes on, or ends, and another one does.
    fn assert_goes_on_with_rights(&mut self, url: &str, handle: &FlowHandle<String>) {
        let start =
            |site: &Self| site.trial.start_at(url, &["--queue", "q", "--queue", "other", "--lease", "1s"]);
        let mut worker = start(self);
        wait::until("the worker to be refused", PATIENCE, || {
            let printed = worker.printed();
            printed.contains("grant it") || printed.contains("error: ")
        });
        let state = self.runtime.block_on(handle.state()).unwrap();
        assert!(!state.is_some_and(|state| state.is_final()), "{state:?}");
        self.allow_all();
        wait::until("the flow or the worker to end", PATIENCE, || {
            let state = self.runtime.block_on(handle.state()).unwrap();
            worker.has_ended() || state == Some(CallState::Succeeded)
        });
        if worker.has_ended() {
            worker = start(self);
        }
        // A worker that ends before it has recorded a run leaves it to be repeated.
        let runs = self.runs(handle);
        assert!(runs.iter().all(|runs| (1..=2).contains(runs)), "{runs:?}");
        self.trial.stop(&mut worker);
    }
}

#[test]
fn steps_wait_for_the_right_to_write_the_outbox() {
    let mut site = Site::new();
    let url = site.poor(&[&KEYS[..], &["%R~q_outbox"]].concat());
    let handle = site.three();
    site.assert_goes_on_with_rights(&url, &handle);
}

#[test]
fn worker_without_any_right_to_the_outbox_loses_nothing() {
    let mut site = Site::new();
    let url = site.poor(&KEYS);
    let handle = site.three();
    site.assert_goes_on_with_rights(&url, &handle);
}

#[test]
fn keys_of_another_type_are_named_and_lose_nothing() {
    for key in ["q_outbox", "q_flows", "flow"] {
        let mut site = Site::new();
        let handle = site.three();
        let id = handle.id().unwrap();
        let key = if key == "flow" { key_of(id) } else { key.to_owned() };
        let () = site.trial.redis.set(&key, "another program's").unwrap();
        let mut worker = site.worker(&["--lease", "1s"]);
        worker.wait_for_line(&format!("the key `{key}` has the wrong type"));
        let state = site.runtime.block_on(handle.state()).unwrap();
        assert!(!state.is_some_and(|state| state.is_final()), "{key}: {state:?}");
        assert_eq!(site.trial.redis.get::<_, String>(&key).unwrap(), "another program's");
        let () = site.trial.redis.del(&key).unwrap();
        assert_eq!(site.runs(&handle), [1; 3], "{key}");
        site.trial.stop(&mut worker);
    }
}

fn key_of(flow: CallId) -> String {
    format!("q:f:{}", flow.to_string().replace('-', ""))
}

#[test]
fn flow_that_cannot_go_on_does_not_keep_others_from_it() {
    let mut site = Site::new();
    let mut worker = site.worker(&["--concurrency", "20"]);
    let gate = site.trial.gate("gate");
    let flows: Vec<_> =
        (0..10).map(|n| site.enqueue(chain(tasks::gated::call(n.to_string(), gate.clone())))).collect();
    site.trial.wait_runs(10);
    let broken = CallId::new();
    let () = site.trial.redis.set(key_of(broken), "another program's").unwrap();
    let mut pipe = redis::pipe();
    for (nth, flow) in
        std::iter::repeat_n(broken, 400).chain(flows.iter().map(|flow| flow.id().unwrap())).enumerate()
    {
        let member = [&flow.as_bytes()[..], &[0, 0, 0, 1], &[0; 4], b"q"].concat();
        let packed: Vec<u8> =
            redis::Script::new("return cmsgpack.pack({ 1, ARGV[1], 'succeeded', 'result', ARGV[2] })")
                .arg(&member)
                .arg(&b"\xa1x"[..])
                .invoke(&mut site.trial.redis)
                .unwrap();
        pipe.hset("q_outbox", [&[0; 12][..], &(nth as u32).to_be_bytes()].concat(), packed).ignore();
    }
    let () = pipe.atomic().query(&mut site.trial.redis).unwrap();
    for flow in &flows {
        assert_eq!(site.wait(flow), "x");
    }
    let left: u64 = site.trial.redis.hlen("q_outbox").unwrap();
    assert_eq!(left, 400, "expected what cannot be delivered to stay");
    let () = site.trial.redis.del(key_of(broken)).unwrap();
    site.assert_done();
    assert_eq!(site.runtime.block_on(flows[0].state()).unwrap(), Some(CallState::Succeeded));
    open(&gate);
    site.trial.stop(&mut worker);
}
