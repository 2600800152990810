//! The context of a run, as its task sees it.

use std::sync::Arc;
use std::time::Instant;

use crate::protocol::annotations::{Annotations, TraceContext, read_trace};
use crate::protocol::call_id::CallId;
use crate::protocol::message::Message;
use crate::protocol::meta::{self, Pairs};
use crate::protocol::names::{QueueName, WorkerId};
use crate::protocol::tracking::{Lock, Tracking};
use crate::task::cancellation::Cancellation;
use crate::task::progress::{Notes, Reporter};
use crate::task::state::{State, States};

/// The context of a run: its id, its attempt, and whether it should end. A parameter of this type is not sent with the call;
/// the worker provides it.
///
/// Cheap to clone.
///
/// ```
/// use delayed::Context;
///
/// #[delayed::task]
/// async fn crawl(pages: Vec<String>, ctx: Context) -> Result<(), String> {
///     for page in pages {
///         if ctx.is_cancelled() {
///             return Err(format!("stopped before {page}, in attempt {}", ctx.attempt()));
///         }
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Context(Arc<Run>);

#[derive(Debug)]
struct Run {
    task: &'static str,
    queue: QueueName,
    attempt: u32,
    id: Option<CallId>,
    annotations: Annotations,
    cancellation: Cancellation,
    states: States,
    /// Of a call that keeps a record.
    notes: Option<Notes>,
}

impl Context {
    /// The scope of this run.
    #[cfg_attr(not(feature = "worker"), expect(dead_code))]
    pub(crate) fn scope(&self) -> Scope<'_> {
        let run = &*self.0;
        let scope = Scope::new(run.task, &run.queue, &run.states, &run.cancellation);
        Scope { context: Some(self), ..scope.attempt(run.attempt).id(run.id) }
    }

    /// Reports how much of the run is done, from 0 to 1, and what it is doing. This is written into the record of the
    /// call, where [`Handle::progress`](crate::Handle::progress) and `calls show` read it: at most ten times a second,
    /// except for a progress of 1, which is always written. Works in isolated runs too. No effect for a call that
    /// [keeps](crate::Call::keep) no record.
    ///
    /// ```
    /// use delayed::Context;
    ///
    /// #[delayed::task(keep = "1h")]
    /// fn index(pages: Vec<String>, ctx: Context) {
    ///     for (done, page) in pages.iter().enumerate() {
    ///         ctx.progress(done as f64 / pages.len() as f64, format!("reading {page}"));
    ///     }
    /// }
    /// ```
    pub fn progress(&self, share: f64, text: impl Into<String>) {
        if let Some(notes) = &self.0.notes {
            notes.progress(&self.0.queue, share, text.into());
        }
    }

    /// Adds a line to the log in the record of the call, of which the last 16 KiB are kept; a line has at most 4096 bytes. No
    /// effect for a call that [keeps](crate::Call::keep) no record.
    pub fn log(&self, line: impl Into<String>) {
        if let Some(notes) = &self.0.notes {
            notes.line(&self.0.queue, line.into());
        }
    }

    /// The values that the program shares with its tasks.
    #[cfg_attr(not(feature = "client"), expect(dead_code))]
    pub(crate) fn states(&self) -> &States {
        &self.0.states
    }

    /// The call's id, if it has one: see [`Call::id`](crate::Call::id).
    #[must_use]
    pub fn id(&self) -> Option<CallId> {
        self.0.id
    }

    /// The task's path, such as `my_crate::tasks::add`.
    #[must_use]
    pub fn task(&self) -> &str {
        self.0.task
    }

    /// The number of this attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// The value of a header of the call: see [`Call::header`](crate::Call::header).
    ///
    /// ```
    /// use delayed::Context;
    ///
    /// #[delayed::task]
    /// async fn invoice(month: String, ctx: Context) -> Result<(), String> {
    ///     let tenant = ctx.header("tenant").ok_or("the call has no tenant")?;
    ///     println!("invoice of {tenant} for {month}");
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.0.annotations.headers.get(name)
    }

    /// All headers of the call, sorted by name.
    pub fn headers(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.annotations.headers.iter()
    }

    /// The `traceparent` of the trace that the call belongs to: see [`Call::traceparent`](crate::Call::traceparent). An invalid one
    /// is none.
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        Some(&*self.0.annotations.trace.parent).filter(|parent| !parent.is_empty())
    }

    /// The `tracestate` that belongs to it.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        Some(&*self.0.annotations.trace.state).filter(|state| !state.is_empty())
    }

    /// The queue from which the call came.
    #[must_use]
    pub fn queue(&self) -> &str {
        self.0.queue.as_str()
    }

    /// The moment at which the run will be asked to end: the earliest of the end of its timeout, the expiry of its
    /// call, and, while the worker shuts down, the moment at which the call is put back into its queue. `None` if there
    /// is none of them. A shutdown can begin while the task runs; an isolated task does not see it here.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.0.cancellation.deadline()
    }

    /// Whether the run should end now: its timeout has passed, its call has expired, an operator kills it, or the worker shuts down and does
    /// not wait any longer.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancellation.is_cancelled()
    }

    /// Waits until the run should end: see [`is_cancelled`](Self::is_cancelled). Cancel-safe.
    pub async fn cancelled(&self) {
        self.0.cancellation.cancelled().await;
    }
}

/// What a run may hand to its function. Borrows, and allocates only for a function that asks for its context.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    pub(crate) task: &'static str,
    pub(crate) queue: &'a QueueName,
    pub(crate) attempt: u32,
    pub(crate) id: Option<CallId>,
    /// The meta of the message, from which annotations are read when somebody asks for them.
    meta: Pairs<'a>,
    /// The trace context in it, not yet read.
    trace: Option<&'a [u8]>,
    /// The context of the run, if there is one already.
    context: Option<&'a Context>,
    pub(crate) states: &'a States,
    pub(crate) cancellation: &'a Cancellation,
    /// Whether what the function returns is kept.
    pub(crate) keeps: bool,
    /// Where the run reports its progress to.
    reporter: Option<&'a Reporter>,
    /// Which worker runs it, and in which of its slots: for the span of the run.
    #[cfg_attr(not(feature = "worker"), expect(dead_code, reason = "only a worker has spans"))]
    pub(crate) worker: Option<&'a WorkerId>,
    pub(crate) slot: Option<usize>,
}

impl<'a> Scope<'a> {
    /// The scope of the first attempt at a call of `task` without an id.
    #[must_use]
    pub fn new(
        task: &'static str,
        queue: &'a QueueName,
        states: &'a States,
        cancellation: &'a Cancellation,
    ) -> Self {
        Self {
            task,
            queue,
            attempt: 1,
            id: None,
            meta: Pairs::default(),
            trace: None,
            context: None,
            states,
            cancellation,
            keeps: false,
            reporter: None,
            worker: None,
            slot: None,
        }
    }

    /// The same for another attempt: 1 is the first.
    #[must_use]
    pub fn attempt(self, attempt: u32) -> Self {
        Self { attempt, ..self }
    }

    /// The same for a call that may have an id.
    #[must_use]
    pub fn id(self, id: Option<CallId>) -> Self {
        Self { id, ..self }
    }

    /// Whether what the function returns is kept.
    #[doc(hidden)]
    #[must_use]
    pub fn keeps_result(&self) -> bool {
        self.keeps
    }

    /// The same for this message: its attempt, its id and its annotations, and whether it keeps what its function returns.
    #[must_use]
    pub fn message(self, message: &Message<'a>) -> Self {
        let (attempt, id) = (message.attempts().saturating_add(1), message.id());
        let (meta, keeps) = (message.pairs(), message.keeps_result());
        Self { attempt, id, meta, trace: meta.find(b"w"), keeps, ..self }
    }

    /// The same for a run that reports its progress there.
    #[cfg_attr(not(feature = "worker"), expect(dead_code))]
    pub(crate) fn reporter(self, reporter: Option<&'a Reporter>) -> Self {
        Self { reporter, ..self }
    }

    /// How the call is followed; `None`: it has no id, or neither a record nor a lock.
    #[cfg_attr(not(feature = "client"), expect(dead_code))]
    pub(crate) fn tracking(&self) -> Option<Tracking> {
        let (keep_ms, lock) =
            (self.meta.find(b"s").and_then(meta::keep), self.meta.find(b"u").and_then(Lock::read));
        (keep_ms.is_some() || lock.is_some()).then_some(Tracking { id: self.id?, keep_ms, lock })
    }

    fn notes(&self) -> Option<Notes> {
        let reporter = self.reporter.filter(|_| self.keeps)?;
        Some(Notes::new(reporter.clone(), self.slot.unwrap_or_default(), self.id?))
    }

    /// The trace that the call belongs to.
    #[cfg_attr(not(feature = "worker"), expect(dead_code))]
    #[inline]
    pub(crate) fn trace(&self) -> Option<TraceContext> {
        self.trace.and_then(TraceContext::read)
    }

    /// Its `traceparent`.
    #[cfg_attr(not(feature = "worker"), expect(dead_code))]
    #[inline]
    pub(crate) fn traceparent(&self) -> Option<&'a str> {
        self.trace.and_then(read_trace).map(|(parent, _)| parent)
    }

    /// The same with a context that the task and its layers share.
    #[cfg_attr(not(feature = "worker"), expect(dead_code))]
    pub(crate) fn with_context(self, context: &'a Context) -> Self {
        Self { context: Some(context), ..self }
    }

    /// The same for a run in this slot of a worker.
    #[must_use]
    pub fn place(self, worker: &'a WorkerId, slot: usize) -> Self {
        Self { worker: Some(worker), slot: Some(slot), ..self }
    }

    /// The context of this run.
    #[must_use]
    pub fn context(&self) -> Context {
        if let Some(context) = self.context {
            return context.clone();
        }
        Context(Arc::new(Run {
            task: self.task,
            queue: self.queue.clone(),
            attempt: self.attempt,
            id: self.id,
            annotations: self.meta.annotations(),
            cancellation: self.cancellation.clone(),
            states: self.states.clone(),
            notes: self.notes(),
        }))
    }

    /// The state of type `T`.
    ///
    /// # Panics
    /// When there is none: `Registry::check_states` finds that before a worker starts.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(&self) -> State<T> {
        let Some(state) = self.states.get() else {
            panic!(
                "the task `{}` needs State<{}>: add one with App::state",
                self.task,
                std::any::type_name::<T>()
            )
        };
        state
    }
}
