//! Annotates a call: with what it carries for its program, beside its arguments.

use super::{Call, Kind};

impl Call {
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
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Kind::Native { annotations, .. } = &mut self.kind {
            annotations.headers.insert(name, value);
        }
        self
    }

    /// The value of a header of the call.
    #[must_use]
    pub fn header_value(&self, name: &str) -> Option<&str> {
        match &self.kind {
            Kind::Native { annotations, .. } => annotations.headers.get(name),
            Kind::Python(_) | Kind::Go(_) => None,
        }
    }

    /// The headers of the call, sorted by name.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let annotations = match &self.kind {
            Kind::Native { annotations, .. } => Some(annotations),
            Kind::Python(_) | Kind::Go(_) => None,
        };
        annotations.into_iter().flat_map(|annotations| annotations.headers.iter())
    }
}
