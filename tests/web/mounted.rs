//! A dashboard that an application with axum mounts below a path of its own.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use delayed::web::{DashboardAccess, DashboardUsers, Role};
use delayed::{Client, Dashboard, chain};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tower_service::Service;

use super::pages::event;
use super::{Site, between, text, unescaped};
use crate::flows::tasks;
use crate::support::http::Connection;
use crate::support::trial::{PATIENCE, Trial, at_gate, call, mark, open};
use crate::support::wait;

const PLACE: &str = "/admin";

/// Serves an application whose other pages say "mine".
async fn serve(listener: TcpListener, dashboard: Router) {
    let app = Router::new().nest(PLACE, dashboard).fallback(|| async { "mine" });
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let app = app.clone();
        let answer = service_fn(move |request: Request<_>| app.clone().call(request.map(Body::new)));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
    }
}

/// Such an application in this process, as long as the runtime is there.
fn mounted(access: DashboardAccess) -> (Site, Runtime) {
    let (trial, runtime) = (Trial::new(), Runtime::new().unwrap());
    let dashboard = Dashboard::builder(&trial.server.url()).allow_actions(true).access(access).build();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    runtime.spawn(serve(listener, dashboard.router()));
    (Site { trial, dashboard: None, address }, runtime)
}

/// All that a page refers to: links, the targets of forms, scripts and styles.
fn references(page: &str) -> BTreeSet<String> {
    let of = |name: &'static str| page.split(name).skip(1).filter_map(|rest| rest.split('"').next());
    let all = ["href=\"", "action=\"", "src=\""].into_iter().flat_map(of).map(unescaped);
    all.filter(|reference| !reference.starts_with('#')).collect()
}

#[test]
fn every_link_of_a_mounted_dashboard_leads_into_it() {
    let (mut site, runtime) = mounted(DashboardAccess::Open);
    let mut worker = site.trial.worker(&["--queue", "other", "--concurrency", "4"]);
    // Something of each kind: a dead letter, a flow that has failed, a run, a periodic task, a limit, and calls of all states.
    let (gate, file) = (site.trial.gate("gate"), site.trial.gate("file"));
    site.trial.push(&[at_gate("trial.gated", "run", &gate), call("trial.fails", &["x".into()])]);
    site.trial.push_to("idle", &(0..60).map(mark).collect::<Vec<_>>());
    site.cli(&["queues", "--json"]);
    let handle = runtime.block_on(async {
        let client = Client::connect(&site.trial.server.url()).await.unwrap();
        client.enqueue_flow(chain(tasks::number::call(1)).then(tasks::needs::call(file))).await.unwrap()
    });
    site.cli(&["enqueue", "followed.charge", "[7]", "--after", "1h", "--id", "order:7", "--json"]);
    site.cli(&["periodic", "add", "nightly", "0 3 * * *", "trial.mark", "[\"x\"]", "--queue", "q", "--json"]);
    site.run(&["limits", "set", "github", "--concurrency", "4"]);
    runtime.block_on(handle.wait(PATIENCE)).unwrap_err();
    wait::until("the call to be buried", PATIENCE, || site.trial.dead() >= 1);
    site.trial.wait_runs(1);

    let (mut met, mut left) = (BTreeSet::new(), vec![PLACE.to_owned()]);
    while let Some(path) = left.pop() {
        if !met.insert(path.clone()) {
            continue;
        }
        let is_form = path.ends_with("/action") || path.ends_with("/logout");
        let answer = site.get(&path).expect(if is_form { 405 } else { 200 });
        if !answer.header("content-type").unwrap_or_default().starts_with("text/html") {
            continue;
        }
        for reference in references(&text(answer)) {
            let is_ours = reference == PLACE
                || ["/", "?"].iter().any(|next| reference.starts_with(&format!("{PLACE}{next}")));
            assert!(is_ours, "{path} refers to {reference}");
            left.push(reference);
        }
    }
    for part in [
        "/queue?",
        "/call?",
        "/task?",
        "/enqueue?",
        "/flow?",
        "/letter?",
        "/periodic/task?",
        "start=50",
        "?span=day",
        "app.js?",
    ] {
        assert!(met.iter().any(|path| path.contains(part)), "expected {part} in {met:?}");
    }
    open(&gate);
    site.trial.stop(&mut worker);
}

#[test]
fn forms_and_events_of_a_mounted_dashboard_work() {
    let (mut site, _runtime) = mounted(DashboardAccess::Open);
    let mut stream = Connection::open(site.address);
    stream
        .write(b"GET /admin/queues HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n")
        .unwrap();
    site.trial.push(&[mark("one")]);
    let data = event(&mut stream, "page");
    assert!(data.contains("href=\"/admin/queue?queue=q\""), "{data}");
    assert_eq!(site.press("/admin/queue?queue=q", "Pause"), "Paused q");
    assert!(site.page("/admin").contains("is paused"));
    assert_eq!(site.press("/admin/queues", "Resume"), "Resumed q");
    // It asks first; and `No` leads back.
    let asked = text(site.submit(&site.page("/admin/queue?queue=q"), "Drop all waiting calls"));
    assert!(asked.contains("href=\"/admin/queue?queue=q\""), "{asked}");
    assert_eq!(site.press("/admin/queue?queue=q", "Drop all waiting calls"), "Dropped 1 waiting call of q");
    // Without a page to go back to, it leads home.
    let home = site.form("/admin/action", &[("verb", "pause"), ("queue", "q")], &[]).expect(303);
    assert_eq!(home.header("location"), Some(PLACE));
    let missing = text(site.get("/admin/nothing").expect(404));
    assert!(
        missing.contains("There is no such page.") && missing.contains("href=\"/admin/queues\""),
        "{missing}"
    );
    assert_eq!(text(site.get("/elsewhere").expect(200)), "mine");
}

#[test]
fn users_log_into_a_mounted_dashboard() {
    let users = DashboardUsers::line("ann", Role::Operator, "secret").unwrap();
    let (site, _runtime) = mounted(DashboardAccess::Users(DashboardUsers::parse(&users).unwrap()));
    for (path, to) in
        [("/admin", "/admin"), ("/admin?span=day", "/admin?span=day"), ("/admin/queues", "/admin/queues")]
    {
        let login = site.get(path).expect(303);
        let form = site.page(login.header("location").unwrap());
        assert_eq!(between(&form, "action=\"", "\""), "/admin/login");
        let kept = unescaped(between(&form, "name=\"to\" value=\"", "\""));
        let fields = [("name", "ann"), ("password", "secret"), ("to", &kept)];
        let done = site.form("/admin/login", &fields, &[]).expect(303);
        assert_eq!(done.header("location"), Some(to));
        let cookie = done.header("set-cookie").unwrap();
        assert!(cookie.contains("; Path=/admin;"), "{cookie}");
        let cookie = cookie.split(';').next().unwrap();
        site.request(&format!("GET {to}"), &[("cookie", cookie)], "").expect(200);
    }
    let out = site.form("/admin/logout", &[], &[]).expect(303);
    assert_eq!(out.header("location"), Some("/admin/login"));
    assert!(out.header("set-cookie").unwrap().contains("Path=/admin; Max-Age=0"));
}
