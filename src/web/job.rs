//! Does in the background what takes long, such as requeueing 100,000 dead letters, and shows how far it is.

use std::sync::Arc;
use std::time::Duration;

use maud::html;

use super::failure::Failure;
use super::jobs::Job;
use super::page::{Section, View};
use super::text::{number, when};
use super::visit::Visit;

/// How long a job may take before its page is shown.
const SOON: Duration = Duration::from_millis(700);

/// Begins a job. Returns its result if it ends soon, or else also the link of its page.
pub(super) async fn begin<W, Fut>(
    visit: &Visit,
    title: String,
    work: W,
) -> Result<(String, Option<String>), Failure>
where
    W: FnOnce(Arc<Job>) -> Fut,
    Fut: Future<Output = Result<String, Failure>> + Send + 'static,
{
    let job = visit.shared.jobs.add(title, visit.by());
    let work = work(Arc::clone(&job));
    let (own, shared) = (Arc::clone(&job), Arc::clone(&visit.shared));
    tokio::spawn(async move {
        let result = work.await.map_err(|failure| failure.text);
        shared.refresh().await;
        own.finish(result);
    });
    let _ = tokio::time::timeout(SOON, job.ended()).await;
    match job.result() {
        Some(Ok(text)) => Ok((text, None)),
        Some(Err(text)) => Err(Failure::conflict(text)),
        None => {
            let link = visit.link("/job", &[("number", &job.number.to_string())]);
            Ok((format!("Begun: {}", job.title), Some(link)))
        }
    }
}

/// The page of a job.
pub(super) async fn one(visit: Arc<Visit>) -> Result<View, Failure> {
    let Some(job) = visit.shared.jobs.get(visit.number("number").unwrap_or(0) as u64) else {
        let text = "This process knows no such job. What it has done is in the audit log and in the queues.";
        return Err(Failure::not_found(text));
    };
    let (done, total) = job.so_far();
    let body = html! {
        h1 { "Job " (job.number) }
        p { (job.title) ", begun " (when(job.began_ms)) " by " (job.by) "." }
        @match job.result() {
            None => {
                progress aria-label="Progress" value=(done) max=(total.max(1)) {}
                p { (said(done, total)) }
                p.hint { "It goes on if this page is closed." }
            }
            Some(Ok(text)) => p.notice { (text) },
            Some(Err(text)) => p.problem { (text) },
        }
    };
    Ok(View { title: format!("Job {}", job.number), section: Section::Nothing, body })
}

fn said(done: u64, total: u64) -> String {
    match total {
        0 => "It has just begun.".to_owned(),
        total => format!("{} of about {}", number(done), number(total.max(done))),
    }
}
