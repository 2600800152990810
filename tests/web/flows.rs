//! Flows: their trees, on their pages and those of their steps, and what operators do with them.

use delayed::{CallState, Client, FlowHandle, IntoFlow, WaitError, chain, group};
use tokio::runtime::Runtime;

use super::{Site, between, text, unescaped};
use crate::flows::tasks;
use crate::support::trial::{PATIENCE, open};
use crate::support::wait;

/// Begins a flow. Returns its handle, and the path of its page.
fn begin<F: IntoFlow>(site: &Site, runtime: &Runtime, flow: F) -> (FlowHandle<F::Output>, String) {
    let handle = runtime.block_on(async {
        let client = Client::connect(&site.trial.server.url()).await.unwrap();
        client.enqueue_flow(flow).await.unwrap()
    });
    let page = format!("/flow?queue=q&id={}", handle.id().unwrap());
    (handle, page)
}

/// Where the first step of a task leads to, in the tree of a page.
fn step(page: &str, task: &str) -> String {
    let link = page.split("<a ").find(|link| link.contains(&format!(">{task}</a>")));
    unescaped(between(link.unwrap_or_else(|| panic!("expected {task} in {page}")), "href=\"", "\""))
}

/// The tree of a page.
fn tree(page: &str) -> &str {
    page.split_once("<ul class=\"tree\">").unwrap_or_else(|| panic!("expected a tree in {page}")).1
}

/// A step in the tree, in this state.
fn in_state(task: &str, state: CallState) -> String {
    let class = match state {
        CallState::Dead => "bad",
        CallState::Cancelled => "warn",
        CallState::Succeeded => "good",
        _ => "busy",
    };
    format!(">{task}</a> <span class=\"badge {class}\">{}</span>", state.name())
}

#[test]
fn failed_flow_is_retried_from_its_page() {
    let (site, runtime) = (Site::new(&["--allow-actions"]), Runtime::new().unwrap());
    let mut worker = site.trial.worker(&["--queue", "other"]);
    let file = site.trial.gate("file");
    let flow = chain(group([1, 2].map(tasks::number::call))).then(tasks::needs::call(file.clone()));
    let (handle, path) = begin(&site, &runtime, flow);
    assert!(matches!(runtime.block_on(handle.wait(PATIENCE)), Err(WaitError::Dead { .. })));

    assert!(site.page("/flows").contains("3/3"), "{}", site.page("/flows"));
    let page = site.page(&path);
    let of_flow = tree(&page);
    assert!(of_flow.contains("chain") && of_flow.contains("group"), "{of_flow}");
    assert_eq!(of_flow.matches(&in_state("flows.number", CallState::Succeeded)).count(), 2, "{of_flow}");
    assert!(of_flow.contains(&in_state("flows.needs", CallState::Dead)), "{of_flow}");
    assert!(of_flow.contains("no such file") && !page.contains(">Cancel</button>"), "{page}");
    let member = site.page(&step(&page, "flows.needs"));
    assert!(
        member.contains("It is a step of the flow") && member.contains(&path.replace('&', "&amp;")),
        "{member}"
    );
    let of_member = tree(&member);
    assert!(of_member.contains(&in_state("flows.needs", CallState::Dead)), "{of_member}");
    assert_eq!(of_member.matches("flows.number").count(), 2, "{of_member}");

    open(&file);
    let said = site.press(&path, "Run what has not succeeded");
    assert!(said.starts_with("1 step of the flow") && said.ends_with("will run"), "{said}");
    assert_eq!(runtime.block_on(handle.wait(PATIENCE)).unwrap(), 7);
    let page = site.page(&path);
    assert!(tree(&page).contains(&in_state("flows.needs", CallState::Succeeded)), "{page}");
    assert!(!page.contains("Run what has not succeeded"), "{page}");
    let id = handle.id().unwrap().to_string();
    let again = [("verb", "flow-retry"), ("queue", "q"), ("id", &id)];
    let again = text(site.form("/action", &again, &[]).expect(409));
    assert!(again.contains("has succeeded, or goes on"), "{again}");
    site.trial.stop(&mut worker);
}

#[test]
fn running_flow_is_cancelled_from_its_page() {
    let (site, runtime) = (Site::new(&["--allow-actions"]), Runtime::new().unwrap());
    let mut worker = site.trial.worker(&["--queue", "other"]);
    let never = site.trial.gate("never");
    let flow = group(["a", "b"].map(|n| tasks::gated::call(n.into(), never.clone())));
    let (handle, path) = begin(&site, &runtime, flow);
    site.trial.wait_runs(2);
    let page = site.page(&path);
    assert_eq!(tree(&page).matches(&in_state("flows.gated", CallState::Running)).count(), 2, "{page}");
    let member = site.page(&step(&page, "flows.gated"));
    assert_eq!(tree(&member).matches(&in_state("flows.gated", CallState::Running)).count(), 2, "{member}");

    let said = site.press(&path, "Cancel");
    assert_eq!(said, format!("Cancelled the flow {}", handle.id().unwrap()));
    let Err(WaitError::Cancelled { by }) = runtime.block_on(handle.wait(PATIENCE)) else {
        panic!("expected it to be cancelled")
    };
    assert_eq!(by, "dashboard");
    wait::until("both steps to be cancelled", PATIENCE, || {
        let page = site.page(&path);
        tree(&page).matches(&in_state("flows.gated", CallState::Cancelled)).count() == 2
    });
    let id = handle.id().unwrap().to_string();
    let again = [("verb", "flow-cancel"), ("confirm", "yes"), ("queue", "q"), ("id", &id)];
    let again = text(site.form("/action", &again, &[]).expect(409));
    assert!(again.contains("had already ended: cancelled"), "{again}");
    let log = site.page("/audit");
    assert!(log.contains("flow-cancel") && log.contains(&id), "{log}");
    site.trial.stop(&mut worker);
}
