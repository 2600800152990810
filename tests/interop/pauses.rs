//! A paused queue that programs of other languages use, too: they do not know of the pause.

use super::*;

/// Runs `queues VERB`; gives what it said.
fn queues(site: &Site, verb: &str) -> String {
    let words = ["queues", verb, QUEUE, "--redis", &site.server.url()];
    let mut tool = Program::spawn(Command::new(DELAYED).current_dir(site.server.directory()).args(words));
    let said = tool.last_words();
    assert_eq!(tool.wait_exit(PATIENCE).code(), Some(0), "{said}");
    said
}

#[test]
fn calls_from_python_wait_in_a_paused_queue_until_it_is_resumed() {
    let mut site = Site::new();
    let worker = site.worker(Rust, "notes", &[]);
    assert!(!queues(&site, "pause").contains("warning"));
    worker.wait_for_line("queue paused");
    let add = |n: usize| line("rust", "demo::tasks::add", &format!(r#""args": [{n}, {n}]"#));
    site.produce(Python, &(0..30).map(add).collect::<Vec<_>>());
    wait::until("their tokens to be there", PATIENCE, || site.state().tokens == 30);
    assert_eq!((site.state().waiting.len(), site.lines("notes").len()), (30, 0));
    queues(&site, "resume");
    site.wait_for("notes", 30);
    site.wait_until_settled();
    let mut notes = site.lines("notes");
    notes.sort();
    let mut wanted: Vec<String> = (0..30).map(|n| format!("add ({n}, {n})")).collect();
    wanted.sort();
    assert_eq!(notes, wanted);
    stop(Rust, worker);
}

#[test]
fn python_worker_goes_on_and_the_operator_is_warned() {
    let mut site = Site::new();
    let worker = site.worker(Python, "theirs", &[]);
    let held = line("py", "demo_tasks:hold", r#""args": [1]"#);
    site.produce(Python, &[held]);
    wait::until("it to own a call", PATIENCE, || site.state().processing.len() == 1);
    let said = queues(&site, "pause");
    assert!(said.contains("warning: a Python or Go worker serves mail"), "{said}");
    site.free();
    let mark = |n: usize| line("py", "demo_tasks:record", &format!(r#""args": [{n}]"#));
    site.produce(Python, &(0..3).map(mark).collect::<Vec<_>>());
    site.wait_until_settled();
    stop(Python, worker);
}
