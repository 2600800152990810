//! Gives a run a client, so that a task can enqueue calls.

use crate::client::Client;
use crate::task::Context;

impl Context {
    /// A client of the Redis from which the call came, shared by all runs of a process. It connects when it first enqueues, in
    /// every isolation.
    ///
    /// ```
    /// use delayed::Context;
    ///
    /// #[delayed::task]
    /// fn resize(image: String) {}
    ///
    /// #[delayed::task]
    /// async fn publish(images: Vec<String>, ctx: Context) -> Result<(), delayed::Error> {
    ///     for image in images {
    ///         ctx.client().enqueue(resize::call(image)).await?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// A plain `fn` uses [`enqueue_blocking`](Client::enqueue_blocking). If the run is repeated, it enqueues its calls again.
    ///
    /// # Panics
    /// The context has no client: it was made by hand, or belongs to an isolated run whose [`Zygote`](crate::Zygote) was built
    /// without one. `Zygote::builder().state(Client::lazy(url))` adds it.
    #[must_use]
    pub fn client(&self) -> Client {
        let Some(client) = self.states().get::<Client>() else {
            panic!(
                "the task `{}` asks its context for a client, but none was given: add `.state(Client::lazy(url))` to \
                `Zygote::builder()`, or to the states of this context",
                self.task()
            )
        };
        (*client).clone()
    }
}
