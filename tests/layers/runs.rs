//! Layers around runs, in every isolation, around functions that block and those that do not.

use super::{INSIDE, ISOLATIONS, burst, inside, layered, with_layers};
use crate::support::trial::{Trial, call, count};

/// A trial for each isolation and each kind of function.
fn each(mut check: impl FnMut(&mut Trial, &str, &str)) {
    for isolation in ISOLATIONS {
        for task in INSIDE {
            println!("{task}, {isolation}");
            check(&mut Trial::new(), task, isolation);
        }
    }
}

#[test]
fn layers_surround_the_run_the_first_outermost() {
    each(|trial, task, isolation| {
        trial.push(&[inside(task, "a", &[("tenant", "acme")])]);
        let mut worker = layered(trial, &burst(isolation));
        assert_eq!(count(&trial.ended(&mut worker), "succeeded"), 1);
        let entered = format!("> outer {task} q 1 tenant=\"acme\"");
        let lines = [&*entered, "> inner", "a for acme", "< inner", "< outer Ok(())"];
        assert_eq!(trial.ledger.lines(), lines);
    });
}

#[test]
fn layers_see_each_attempt_and_its_error() {
    each(|trial, task, isolation| {
        trial.push(&[call(task, &["fails".into()])]);
        let mut worker = layered(trial, &burst(isolation));
        let stopped = trial.ended(&mut worker);
        assert_eq!((count(&stopped, "retried"), count(&stopped, "buried")), (1, 1), "{stopped}");
        let run = |attempt| {
            let failed = "< outer Err(TaskError { message: \"it fails\", again: AfterBackoff, items: None })";
            let entered = format!("> outer {task} q {attempt} ");
            [entered, "> inner".into(), "fails for nobody".into(), "< inner".into(), failed.into()]
        };
        assert_eq!(trial.ledger.lines(), [run(1), run(2)].concat());
    });
}

#[test]
fn layer_ends_a_run_before_its_task() {
    each(|trial, task, isolation| {
        trial.push(&[inside(task, "a", &[("inner", "refuses")]), inside(task, "b", &[("inner", "skips")])]);
        let mut worker = layered(trial, &[&burst(isolation)[..], &["--concurrency", "1"]].concat());
        let stopped = trial.ended(&mut worker);
        assert_eq!((count(&stopped, "succeeded"), count(&stopped, "buried")), (1, 1), "{stopped}");
        let letters = trial.state().dead;
        let (reason, detail) = (&letters[0]["reason"], String::from_utf8_lossy(&letters[0]["detail"]));
        assert_eq!(reason, b"failed");
        assert!(detail.starts_with("refused by a layer"), "{detail}");
        assert!(trial.ledger.lines().iter().all(|line| !line.contains(" for ")), "expected no run");
    });
}

#[test]
fn panic_of_a_layer_is_a_panic_of_the_run() {
    each(|trial, task, isolation| {
        trial.push(&[inside(task, "a", &[("inner", "panics")]), inside(task, "b", &[])]);
        let mut worker = layered(trial, &burst(isolation));
        let stopped = trial.ended(&mut worker);
        assert_eq!((count(&stopped, "succeeded"), count(&stopped, "retried")), (1, 1), "{stopped}");
        assert_eq!(trial.reasons(), ["panicked"]);
        let detail = String::from_utf8_lossy(&trial.state().dead[0]["detail"]).into_owned();
        assert!(detail.starts_with("a layer panics"), "{detail}");
    });
}

#[test]
fn layers_count_to_the_timeout_of_a_run() {
    each(|trial, task, isolation| {
        // Nothing ends a thread of the worker's own.
        if (task, isolation) == (INSIDE[1], "inline") {
            return;
        }
        trial.push(&[inside(task, "a", &[("inner", "waits")])]);
        let mut worker =
            layered(trial, &[&burst(isolation)[..], &["--timeout", "50ms", "--grace", "50ms"]].concat());
        trial.ended(&mut worker);
        assert_eq!(trial.reasons(), ["timed_out"]);
    });
}

#[test]
fn calls_whose_arguments_do_not_fit_come_to_no_layer() {
    each(|trial, task, isolation| {
        trial.push(&[call(task, &[5.into()]), call(task, &["a".into(), 2.into()])]);
        let mut worker = layered(trial, &burst(isolation));
        trial.ended(&mut worker);
        assert_eq!((trial.reasons(), trial.ledger.lines()), (vec!["arguments".into(); 2], vec![]));
    });
}

#[test]
fn spans_of_a_layer_hold_what_the_task_logs() {
    for task in INSIDE {
        let mut trial = Trial::new();
        trial.push(&[inside(task, "a", &[("tenant", "acme")])]);
        let mut worker = layered(&trial, &burst("inline"));
        let line: serde_json::Value =
            serde_json::from_str(&worker.wait_for_line("inside of layers")).unwrap();
        assert_eq!((&line["span"]["name"], &line["span"]["tenant"]), (&"for_tenant".into(), &"acme".into()));
        trial.ended(&mut worker);
    }
}

#[test]
fn a_state_made_late_and_layers_come_together() {
    let mut trial = Trial::new();
    trial.push(&[call("layers.late_state", &["a".into()])]);
    let mut worker = layered(&trial, &burst("inline"));
    trial.ended(&mut worker);
    let lines = ["> outer layers.late_state q 1 ", "> inner", "a of late", "< inner", "< outer Ok(())"];
    assert_eq!(trial.ledger.lines(), lines);
}

#[test]
fn preforked_child_is_used_again_after_layers() {
    for task in ["layers.quiet", "layers.quiet_blocking"] {
        let mut trial = Trial::new();
        trial.push(&[call(task, &[]), call(task, &[]), call(task, &[])]);
        let words = [&burst("prefork")[..], &["--concurrency", "1", "--log-level", "debug"]].concat();
        let mut worker = with_layers("quiet", &trial, &words);
        assert_eq!(count(&trial.ended(&mut worker), "succeeded"), 3);
        assert!(!worker.printed().contains("child replaced after its run"), "{}", worker.printed());
    }
}

#[delayed::task(name = "layers.embedded")]
fn embedded(_n: String) {}

#[test]
fn embedded_worker_has_layers_that_are_closures() {
    let mut trial = Trial::new();
    trial.push(&[inside("layers.embedded", "a", &[("tenant", "acme")])]);
    let (send, received) = std::sync::mpsc::channel();
    let worker = delayed::Worker::builder(&trial.server.url())
        .queue("q")
        .burst(true)
        .registry(delayed::Registry::new().with::<embedded>().unwrap())
        .layer(move |ctx: delayed::Context, next: delayed::Next| {
            let send = send.clone();
            async move {
                send.send(ctx.header("tenant").map(str::to_owned)).unwrap();
                next.run().await
            }
        });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stopped = runtime.block_on(async { worker.connect().await.unwrap().run().await.unwrap() });
    assert_eq!((stopped.stats.succeeded, received.recv().unwrap().as_deref()), (1, Some("acme")));
}
