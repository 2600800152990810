//! Surrounds enqueues with layers: middleware of a client.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use crate::client::bulk::{Bulk, BulkError};
use crate::client::session::Enqueued;
use crate::client::{Client, Written, write};
use crate::error::Error;
use crate::otel::SendSpan;
use crate::task::{Call, IntoCall};

type Enqueuing = Pin<Box<dyn Future<Output = Result<Enqueued, Error>> + Send>>;
/// A function around an enqueue, its types erased.
type Layer = dyn Fn(Call, NextEnqueue) -> Enqueuing + Send + Sync;
/// What all layers are around.
type Last = Box<dyn FnOnce(Call) -> Enqueuing + Send>;

/// The layers of a client, the outermost first. Cheap to clone; a client without any pays one comparison for each call.
#[derive(Clone, Default)]
pub(crate) struct ClientLayers(Option<Arc<Vec<Arc<Layer>>>>);

/// The rest of an enqueue: the layers inside of this one, and the client. Given to a layer of a [`Client`], which passes the call
/// on with [`enqueue`](Self::enqueue), or drops it and returns an error. See [`Client::layer`].
#[must_use = "the call is enqueued only if `enqueue` is awaited"]
pub struct NextEnqueue {
    layers: ClientLayers,
    /// How many layers are outside of what is left.
    passed: usize,
    last: Last,
}

impl ClientLayers {
    /// Adds a layer inside of the others.
    pub(crate) fn push<F>(&mut self, layer: impl Fn(Call, NextEnqueue) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Result<Enqueued, Error>> + Send + 'static,
    {
        let layer = Arc::new(move |call, next| -> Enqueuing { Box::pin(layer(call, next)) });
        Arc::make_mut(self.0.get_or_insert_default()).push(layer);
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    async fn around<F>(
        &self,
        call: Call,
        last: impl FnOnce(Call) -> F + Send + 'static,
    ) -> Result<Enqueued, Error>
    where
        F: Future<Output = Result<Enqueued, Error>> + Send + 'static,
    {
        let last: Last = Box::new(move |call| Box::pin(last(call)));
        NextEnqueue { layers: self.clone(), passed: 0, last }.enqueue(call).await
    }
}

impl NextEnqueue {
    /// Passes the call on: to the layers inside of this one, and to the client, which enqueues it.
    ///
    /// # Errors
    /// As [`Client::enqueue`], or a layer inside of this one refuses the call.
    pub async fn enqueue(self, call: impl IntoCall) -> Result<Enqueued, Error> {
        let layer = self.layers.0.as_ref().and_then(|layers| layers.get(self.passed)).map(Arc::clone);
        match layer {
            Some(layer) => layer(call.into_call().untyped(), Self { passed: self.passed + 1, ..self }).await,
            None => (self.last)(call.into_call().untyped()).await,
        }
    }
}

impl Client {
    /// Adds a layer around each enqueue, inside of those added before: an async function that is given the call and the rest of
    /// the enqueue. It can annotate the call, send it to another queue, or refuse it with [`Error::refused`].
    ///
    /// ```no_run
    /// use delayed::{Call, Client, Enqueued, Error, NextEnqueue};
    ///
    /// async fn for_acme(call: Call, next: NextEnqueue) -> Result<Enqueued, Error> {
    ///     if call.task().starts_with("shop::admin::") {
    ///         return Err(Error::refused("acme may not call tasks of administrators"));
    ///     }
    ///     next.enqueue(call.header("tenant", "acme")).await
    /// }
    ///
    /// let client = Client::lazy("redis://127.0.0.1:6379").layer(for_acme);
    /// ```
    ///
    /// The first layer added is the outermost. It holds for this client and its later clones, which share its connection with
    /// the others. The methods that block run it as well.
    ///
    /// [`enqueue_many`](Self::enqueue_many) runs it for one call after the other, before anything is sent: there `next` returns
    /// when the call is encoded, and an error of one call means that none is enqueued.
    #[must_use]
    pub fn layer<F>(mut self, layer: impl Fn(Call, NextEnqueue) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Enqueued, Error>> + Send + 'static,
    {
        self.layers.push(layer);
        self
    }

    /// Surrounds each enqueue with these layers, in place of those given before.
    #[cfg(feature = "cli")]
    pub(crate) fn layers(self, layers: ClientLayers) -> Self {
        Self { layers, ..self }
    }

    pub(super) async fn enqueue_layered(&self, call: Call) -> Result<Enqueued, Error> {
        let link = Arc::clone(&self.link);
        let last = async move |call| {
            let link = link.here();
            let (written, span) = write(link, call)?;
            let until = link.until();
            let session = link.session(until).await.map_err(|error| span.note(error))?;
            session.enqueue_written(written, until).await.map_err(|error| span.note(error))
        };
        self.layers.around(call, last).await
    }

    pub(super) fn enqueue_layered_blocking(&self, call: Call) -> Result<Enqueued, Error> {
        let (link, ground) = (Arc::clone(&self.link), self.link.here().ground().map_err(Error::Io)?);
        ground.handle.block_on(async {
            let session = ground.session(link.here().until()).await?;
            let last = async move |call| {
                let link = link.here();
                let (written, span) = write(link, call)?;
                session.enqueue_written(written, link.until()).await.map_err(|error| span.note(error))
            };
            self.layers.around(call, last).await
        })
    }

    /// Checks and encodes calls, each inside of the layers.
    pub(super) async fn write_layered(&self, calls: Vec<Call>) -> Result<Bulk, BulkError> {
        let mut bulk = Bulk::default();
        for call in calls {
            let written = Arc::<Mutex<Option<(Written, SendSpan)>>>::default();
            let (link, place) = (Arc::clone(&self.link), Arc::clone(&written));
            let last = async move |call| {
                let (written, span) = write(link.here(), call)?;
                let enqueued = Enqueued { queue: written.queue.clone(), id: written.id, conflict: None };
                *place.lock().unwrap_or_else(PoisonError::into_inner) = Some((written, span));
                Ok(enqueued)
            };
            self.layers.around(call, last).await.map_err(BulkError::nothing_sent)?;
            // A layer that succeeds has passed a call on: nobody else has an `Enqueued` of this call.
            if let Some((written, span)) = written.lock().unwrap_or_else(PoisonError::into_inner).take() {
                bulk.push(written, span);
            }
        }
        Ok(bulk)
    }
}

impl fmt::Debug for ClientLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientLayers").field(&self.0.as_ref().map_or(0, |layers| layers.len())).finish()
    }
}

impl fmt::Debug for NextEnqueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextEnqueue").field("layers", &self.layers).finish_non_exhaustive()
    }
}
