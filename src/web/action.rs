//! Does what an operator wants, once it is sure, and writes it into the audit log.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;

use super::failure::Failure;
use super::form::{Done, Wanted};
use super::live::with_notice;
use super::page::{Section, View, answer};
use super::text::{at, cut};
use super::visit::Visit;
use super::{calls, dead, enqueue, flows, limits, periodic, queues, workers};
use crate::inspect::WorkerOrder;

/// How many characters of a result are kept in the audit log.
const KEPT: usize = 300;

/// Carries out a form.
pub(super) async fn run(
    visit: Visit,
    form: Result<Form<HashMap<String, String>>, FormRejection>,
) -> Response {
    let wanted = match form {
        Ok(Form(form)) => Wanted::new(form),
        Err(error) => return answer(&visit, Err(Failure::invalid(error.body_text())), None, false),
    };
    let verb = match allowed(&visit, &wanted) {
        Ok(verb) => verb,
        Err(failure) => {
            if failure.status == StatusCode::FORBIDDEN {
                let verb = wanted.get("verb").unwrap_or_default();
                visit.shared.refused(visit.by(), verb, &target(&wanted), &failure.text);
            }
            return answer(&visit, Err(failure), None, false);
        }
    };
    if let Some(question) = question(verb, &wanted)
        && wanted.get("confirm") != Some("yes")
    {
        return answer(&visit, Ok(confirmation(&visit, &wanted, &question)), None, false);
    }
    let (visit, wanted) = (Arc::new(visit), Arc::new(wanted));
    // Carried out as a whole, also if the browser goes away.
    let whole = tokio::spawn(carry_out(Arc::clone(&visit), Arc::clone(&wanted)));
    let done =
        whole.await.unwrap_or_else(|_| Err(Failure::conflict("The action has panicked: see the log.")));
    match done {
        Ok(done) => {
            let to = done.to.unwrap_or_else(|| at(&visit.base, wanted.back()));
            with_notice(Redirect::to(&to).into_response(), &visit.base, &done.text)
        }
        Err(failure) => answer(&visit, Err(failure), None, false),
    }
}

/// Does it, and writes it into the audit log.
async fn carry_out(visit: Arc<Visit>, wanted: Arc<Wanted>) -> Result<Done, Failure> {
    let verb = wanted.need("verb")?;
    let done = act(&visit, verb, &wanted).await;
    visit.shared.refresh().await;
    let result = match &done {
        Ok(done) => done.text.clone(),
        Err(failure) => format!("not done: {}", failure.text),
    };
    if let Err(failure) = visit.log(verb, &target(&wanted), &cut(&result, KEPT)).await {
        tracing::warn!(
            by = visit.by(),
            action = verb,
            error = failure.text,
            "action not written into the audit log"
        );
    }
    done
}

fn allowed<'a>(visit: &Visit, wanted: &'a Wanted) -> Result<&'a str, Failure> {
    if !visit.shared.allows_actions {
        let text = "This dashboard only shows: it was started without --allow-actions.";
        return Err(Failure::forbidden(text));
    }
    if !visit.can_act() {
        return Err(Failure::forbidden("You may look, but not act: your role is `viewer`."));
    }
    wanted.need("verb")
}

async fn act(visit: &Visit, verb: &str, wanted: &Wanted) -> Result<Done, Failure> {
    match verb {
        "pause" | "resume" => queues::pause(visit, wanted, verb == "pause").await,
        "purge" => queues::purge(visit, wanted).await,
        "cancel" => calls::cancel(visit, wanted).await,
        "run-now" => calls::run_now(visit, wanted).await,
        "kill" => calls::kill(visit, wanted).await,
        "enqueue" => enqueue::enqueue(visit, wanted).await,
        "enqueue-task" => enqueue::enqueue_fields(visit, wanted).await,
        "requeue" | "delete" => dead::handle(visit, wanted, verb).await,
        "periodic-pause" | "periodic-resume" => {
            periodic::pause(visit, wanted, verb == "periodic-pause").await
        }
        "periodic-run" => periodic::run(visit, wanted).await,
        "periodic-remove" => periodic::remove(visit, wanted).await,
        "worker-quiet" => workers::order(visit, wanted, WorkerOrder::Quiet).await,
        "worker-stop" => workers::order(visit, wanted, WorkerOrder::Stop).await,
        "limit-set" => limits::set(visit, wanted).await,
        "limit-remove" => limits::remove(visit, wanted).await,
        "flow-cancel" => flows::cancel(visit, wanted).await,
        "flow-retry" => flows::retry(visit, wanted).await,
        _ => Err(Failure::invalid(format!("There is no action `{}`.", cut(verb, 50)))),
    }
}

/// What is asked before something that cannot be undone.
fn question(verb: &str, wanted: &Wanted) -> Option<String> {
    let of = |name| wanted.get(name).unwrap_or("?");
    let letters = || match (wanted.get("id"), wanted.get("task"), wanted.get("queue")) {
        (Some(id), ..) => format!("the dead letter {id}"),
        (_, Some(task), Some(queue)) => format!("these dead letters of {task} in {queue}"),
        (_, Some(task), None) => format!("these dead letters of {task}"),
        (_, _, Some(queue)) => format!("all dead letters of {queue}"),
        _ => "all dead letters of all queues".to_owned(),
    };
    Some(match verb {
        "purge" => format!("Drop all waiting calls of {}? They will not run.", of("queue")),
        "cancel" => format!("Cancel the call {}? It will not run, or its run is ended.", of("id")),
        "kill" => format!("Kill the run of {}? It becomes a dead letter.", of("id")),
        "delete" => format!("Delete {}, for good?", letters()),
        "requeue" if wanted.get("id").is_none() => format!("Requeue {}?", letters()),
        "worker-quiet" => format!("Let the worker {} claim nothing more, until it is restarted?", of("id")),
        "worker-stop" => format!("Let the worker {} end its runs and stop?", of("id")),
        "periodic-remove" => format!("Remove the periodic task {} with its history?", of("name")),
        "limit-remove" => {
            format!("Remove the limit {}? Calls that name it are not limited then.", of("name"))
        }
        "flow-cancel" => format!("Cancel the flow {}? Its other steps will not run.", of("id")),
        _ => return None,
    })
}

/// What an action is about, in a few words.
fn target(wanted: &Wanted) -> String {
    let names = ["queue", "id", "name", "task"];
    let parts: Vec<&str> = names.into_iter().filter_map(|name| wanted.get(name)).collect();
    cut(&parts.join(" "), KEPT)
}

fn confirmation(visit: &Visit, wanted: &Wanted, question: &str) -> View {
    let fields = wanted.sorted();
    let body = html! {
        h1 { "Are you sure?" }
        p { (question) }
        form.confirm method="post" action=(visit.link("/action", &[])) {
            @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
            input type="hidden" name="confirm" value="yes";
            button.danger autofocus { "Yes" }
            a.button href=(at(&visit.base, wanted.back())) { "No" }
        }
    };
    View { title: "Are you sure?".to_owned(), section: Section::Nothing, body }
}
