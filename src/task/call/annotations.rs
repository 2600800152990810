//! Annotates a call: with what it carries for its program, beside its arguments.

use super::Call;
use crate::protocol::annotations::Annotations;
#[cfg(feature = "client")]
use crate::protocol::annotations::TraceContext;
use crate::protocol::limit::LimitName;
#[cfg(feature = "client")]
use crate::task::trace;

impl<R> Call<R> {
    /// Sets a header: a text that the task and its middleware read by name, such as a tenant or a request id, and that is not an
    /// argument. It replaces a header of the same name. It stays with the call through its retries, as a dead letter, and when it
    /// is revived. See [`Context::header`](crate::Context::header).
    ///
    /// At most 32 headers with 4096 bytes, names and values together; more are an error of the client that enqueues the call.
    ///
    /// No effect on a [`PyTask`](crate::PyTask) or a [`GoTask`](crate::GoTask), whose messages have no field for it.
    ///
    /// ```
    /// # mod tasks { #[delayed::task] pub fn invoice(month: String) {} }
    /// let call = tasks::invoice::call("2026-01".into()).header("tenant", "acme");
    /// assert_eq!(call.headers().collect::<Vec<_>>(), [("tenant", "acme")]);
    /// ```
    pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.with_annotations(|annotations| annotations.headers.insert(name, value))
    }

    /// Names a limit of the call, in addition to that of its task: the call runs only while the limit allows it, and
    /// holds no slot of a worker while it waits. Several limits can be named. A name without a policy limits nothing:
    /// see [`Client::set_limit`](crate::Client::set_limit). An invalid name is an error of the client that enqueues the
    /// call.
    ///
    /// No effect on a [`PyTask`](crate::PyTask) or a [`GoTask`](crate::GoTask), whose messages have no field for it: the limit of
    /// the task holds for these.
    ///
    /// ```
    /// # mod tasks { #[delayed::task] pub fn sync(repository: String) {} }
    /// let call = tasks::sync::call("delayed".into()).limit("github").limit("tenant:42");
    /// # drop(call);
    /// ```
    pub fn limit(self, name: impl AsRef<str>) -> Self {
        match LimitName::parse(name.as_ref()) {
            Ok(name) => self.with_annotations(|annotations| {
                if !annotations.limits.contains(&name) {
                    annotations.limits.push(name);
                }
            }),
            Err(error) if self.is_native() => self.with(|options| options.refused_limit = Some(error)),
            Err(_) => self,
        }
    }

    /// Sets the `traceparent` of [W3C Trace Context](https://www.w3.org/TR/trace-context/): the trace and the span in
    /// which the call was made. The span `run` of the worker has it as a field, and the task reads it with
    /// [`Context::traceparent`](crate::Context::traceparent). An invalid one is an error of the client that enqueues
    /// the call; an empty one counts as absent.
    ///
    /// A call that a task enqueues has the trace context of the task's run, unless it is given one of its own.
    ///
    /// No effect on a [`PyTask`](crate::PyTask) or a [`GoTask`](crate::GoTask), whose messages have no field for it.
    ///
    /// ```
    /// # mod tasks { #[delayed::task] pub fn invoice(month: String) {} }
    /// let call = tasks::invoice::call("2026-01".into())
    ///     .traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    /// assert!(call.encode().is_ok());
    /// ```
    pub fn traceparent(self, traceparent: impl Into<String>) -> Self {
        self.with_annotations(|annotations| annotations.trace.parent = traceparent.into())
    }

    /// Sets the `tracestate` that belongs to the [`traceparent`](Self::traceparent): at most 512 printable ASCII characters. It is
    /// not sent without a `traceparent`.
    pub fn tracestate(self, tracestate: impl Into<String>) -> Self {
        self.with_annotations(|annotations| annotations.trace.state = tracestate.into())
    }

    /// The same call in the trace of the run that enqueues it, if it has no trace context of its own.
    #[cfg(feature = "client")]
    pub(crate) fn in_current_trace(self) -> Self {
        if self.annotations().is_some_and(|annotations| !annotations.trace.is_empty()) {
            return self;
        }
        match trace::current() {
            Some(trace) => self.with_annotations(|annotations| annotations.trace = trace),
            None => self,
        }
    }

    /// The trace context of the call, which is empty if it has none.
    #[cfg(feature = "client")]
    pub(crate) fn trace(&self) -> TraceContext {
        self.annotations().map(|annotations| annotations.trace.clone()).unwrap_or_default()
    }

    /// The value of a header of the call.
    #[must_use]
    pub fn header_value(&self, name: &str) -> Option<&str> {
        self.annotations()?.headers.get(name)
    }

    /// The headers of the call, sorted by name.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.annotations().into_iter().flat_map(|annotations| annotations.headers.iter())
    }

    fn annotations(&self) -> Option<&Annotations> {
        self.options.as_ref().map(|options| &options.annotations)
    }

    /// Changes the annotations; no other form than ours has a field for them.
    fn with_annotations(self, change: impl FnOnce(&mut Annotations)) -> Self {
        if self.is_native() { self.with(|options| change(&mut options.annotations)) } else { self }
    }
}
