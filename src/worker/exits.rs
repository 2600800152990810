//! Detects that the process exits while its worker is running, for example by `std::process::exit` in a task. Logs what was
//! running, and ends the process with a distinct exit code, so that no supervisor takes it for a success.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::protocol::names::WorkerId;
use crate::runner::running_here;
use crate::sys::exits::on_exit;
use crate::sys::fork::exit_now;
use crate::worker::phase::WorkerHandle;
use crate::worker::question::Question;
use crate::worker::queue::served::ServedQueue;

/// The exit code of the process: `EX_SOFTWARE` of sysexits.h.
const CODE: i32 = 70;
/// How long logging may take, including the time for the loop to report its runs.
const TELLING: Duration = Duration::from_secs(2);
const ANSWER: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(1);

/// The workers that are running.
static SERVING: Mutex<Vec<Serving>> = Mutex::new(Vec::new());
/// Their process. A process that a task forked may exit freely.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// A worker that is running.
#[derive(Debug, Clone)]
pub(super) struct Serving {
    pub(super) worker: WorkerId,
    pub(super) queues: Vec<Arc<ServedQueue>>,
    pub(super) handle: WorkerHandle,
    /// Asks the loop what it runs.
    pub(super) question: Arc<Question<String>>,
    /// Whether the process exists for the worker alone, so that nothing else may exit it either.
    pub(super) owns_process: bool,
}

/// As long as this exists, an exit of the process is detected.
pub(super) struct Watch(Arc<Question<String>>);

impl Watch {
    pub(super) fn begin(serving: Serving) -> Self {
        let watch = Self(Arc::clone(&serving.question));
        PROCESS.store(std::process::id(), Ordering::Relaxed);
        all().push(serving);
        on_exit(exiting);
        watch
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        all().retain(|serving| !Arc::ptr_eq(&serving.question, &self.0));
    }
}

impl Serving {
    /// What the event loop runs; `None` if it does not answer, for example because it is blocked.
    fn running(&self) -> Option<String> {
        self.question.ask(&self.handle);
        let until = Instant::now() + ANSWER;
        loop {
            let answer = self.question.take();
            if answer.is_some() || Instant::now() > until {
                return answer;
            }
            std::thread::sleep(LOOK);
        }
    }

    fn tell(&self, task: Option<&str>) {
        let running = if task.is_none() { self.running() } else { None };
        let owned: usize = self.queues.iter().map(|queue| queue.owned()).sum();
        tracing::error!(
            worker = %self.worker,
            task,
            running,
            owned,
            code = CODE,
            hint = "its messages are requeued when its lease ends",
            "process exits while its worker is running"
        );
    }
}

fn all() -> MutexGuard<'static, Vec<Serving>> {
    SERVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Called on the thread that exits the process.
fn exiting() {
    if PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    let task = running_here();
    let mut serving = all().clone();
    // A program that does more than run a worker may exit; a task may not.
    serving.retain(|serving| serving.owns_process || task.is_some());
    if serving.is_empty() {
        return;
    }
    // A new thread, because the thread-local values of this one, which the logger needs, are gone.
    let told = std::thread::Builder::new().name("delayed-exit".into()).spawn(move || {
        serving.iter().for_each(|serving| serving.tell(task));
    });
    let until = Instant::now() + TELLING;
    while told.as_ref().is_ok_and(|told| !told.is_finished()) && Instant::now() < until {
        std::thread::sleep(LOOK);
    }
    exit_now(CODE)
}
