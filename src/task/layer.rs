//! Surrounds the runs of a program with layers: middleware around its tasks.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use crate::task::context::Context;
use crate::task::error::TaskError;
use crate::task::handler::{RunFuture, boxed};
use crate::task::return_value::ReturnValue;

/// A function around a run, its types erased.
type Layer = dyn Fn(Context, Next) -> LayerFuture + Send + Sync;
/// A run of a layer. What the task returned goes past it.
type LayerFuture = Pin<Box<dyn Future<Output = Result<(), TaskError>> + Send>>;

/// The layers of a program, the outermost first. Cheap to clone; a program without any pays one comparison for each run.
#[derive(Clone, Default)]
pub(crate) struct Layers(Option<Arc<Vec<Arc<Layer>>>>);

/// The rest of a run: the layers inside of this one, and the task. Given to a layer, which calls [`run`](Self::run), or drops it
/// and decides about the run by itself. See `App::layer`.
#[must_use = "the task runs only if `run` is awaited"]
pub struct Next {
    layers: Arc<Vec<Arc<Layer>>>,
    /// How many layers are outside of what is left.
    passed: usize,
    context: Context,
    task: RunFuture,
    /// What the task returned.
    returned: Arc<Mutex<ReturnValue>>,
}

impl Layers {
    /// Adds a layer inside of the others.
    pub(crate) fn push<F>(&mut self, layer: impl Fn(Context, Next) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Result<(), TaskError>> + Send + 'static,
    {
        let layer = Arc::new(move |context, next| -> LayerFuture { Box::pin(layer(context, next)) });
        Arc::make_mut(self.0.get_or_insert_default()).push(layer);
    }

    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The run of a task, surrounded by all layers.
    pub(crate) fn around(&self, context: Context, task: RunFuture) -> RunFuture {
        match &self.0 {
            None => task,
            // Nothing of a layer runs before the future is polled, where panics are caught.
            Some(layers) => {
                let returned = Arc::<Mutex<ReturnValue>>::default();
                let layers = Arc::clone(layers);
                let next = Next { layers, passed: 0, context, task, returned: Arc::clone(&returned) };
                boxed(async move {
                    next.run().await?;
                    Ok(std::mem::take(&mut *returned.lock().unwrap_or_else(PoisonError::into_inner)))
                })
            }
        }
    }
}

impl Next {
    /// Runs the task, and the layers inside of this one.
    ///
    /// # Errors
    /// The task failed, or a layer inside of this one says so.
    pub async fn run(self) -> Result<(), TaskError> {
        match self.layers.get(self.passed) {
            Some(layer) => {
                let (layer, context) = (Arc::clone(layer), self.context.clone());
                layer(context, Self { passed: self.passed + 1, ..self }).await
            }
            None => {
                let value = self.task.await?;
                *self.returned.lock().unwrap_or_else(PoisonError::into_inner) = value;
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Layers").field(&self.0.as_ref().map_or(0, |layers| layers.len())).finish()
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("task", &self.context.task()).finish_non_exhaustive()
    }
}
