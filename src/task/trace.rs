//! Remembers the trace context of the run that this thread is in, for calls that it enqueues.

use std::cell::RefCell;
use std::future::poll_fn;

use crate::protocol::annotations::TraceContext;
use crate::task::handler::{RunFuture, boxed};

thread_local! {
    static CURRENT: RefCell<Option<TraceContext>> = const { RefCell::new(None) };
}

/// The trace context of the run whose code this thread is in.
pub(crate) fn current() -> Option<TraceContext> {
    CURRENT.with_borrow(Clone::clone)
}

/// Does something within a trace context.
pub(crate) fn within<T>(trace: TraceContext, work: impl FnOnce() -> T) -> T {
    let mut trace = Some(trace);
    let _swapped = Swapped::enter(&mut trace);
    work()
}

/// The same future, within that trace context in each poll.
pub(crate) fn traced(mut future: RunFuture, trace: TraceContext) -> RunFuture {
    let mut trace = Some(trace);
    boxed(poll_fn(move |cx| {
        let _swapped = Swapped::enter(&mut trace);
        future.as_mut().poll(cx)
    }))
}

/// While it is there, the trace context of this thread is that of a run, and the place of that one holds the one before.
struct Swapped<'a>(&'a mut Option<TraceContext>);

impl<'a> Swapped<'a> {
    fn enter(trace: &'a mut Option<TraceContext>) -> Self {
        CURRENT.with_borrow_mut(|current| std::mem::swap(current, trace));
        Self(trace)
    }
}

impl Drop for Swapped<'_> {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|current| std::mem::swap(current, self.0));
    }
}
