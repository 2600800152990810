//! The Redis of one test, and what a test does with it.

use std::time::Duration;

use crate::client::Client;
use crate::testing::connection::Connection;
use crate::testing::drain::Drain;
use crate::testing::enqueued::{self, EnqueuedCall};
use crate::testing::network::Proxy;
use crate::testing::server::Server;
use crate::testing::timetable::advance;

/// A private Redis of one test: a `redis-server` on a Unix socket in a temporary directory. When this is dropped, the server is
/// killed and the directory removed; so they are when the test process is killed, or exits while a `static` holds this.
///
/// ```standalone_crate
/// use delayed::testing::Redis;
///
/// mod tasks {
///     #[delayed::task]
///     pub fn add(a: i64, b: i64) -> i64 { a + b }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), delayed::Error> {
/// let redis = Redis::start().await;
/// redis.client().enqueue(tasks::add::call(1, 2)).await?;
/// let runs = redis.drain().await;
/// assert_eq!(runs.len(), 1);
/// assert!(runs[0].succeeded());
/// # Ok(()) }
/// ```
///
/// It uses `redis-server` from the `PATH`, or else `valkey-server`; the variable `DELAYED_TEST_SERVER` names another program. It
/// keeps nothing on disk. Each test can have its own, also at the same time: a server starts within some 20 ms.
///
/// What goes wrong is a panic, as fits a test.
#[derive(Debug)]
pub struct Redis {
    // Dropped before the server.
    connection: Connection,
    _server: Server,
}

impl Redis {
    /// Starts a server, from async code.
    ///
    /// # Panics
    /// There is no `redis-server`, it is older than 6.2, or it does not start.
    pub async fn start() -> Self {
        // It waits for the server, and this thread may have other things to do.
        let (done, started) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || drop(done.send(Self::launch())));
        started
            .await
            .unwrap_or_else(|_| Err("its thread died".into()))
            .unwrap_or_else(|problem| refuse(&problem))
    }

    /// Starts a server, from a thread that may block, such as that of a test that is a plain `fn`.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_blocking() -> Self {
        // On a thread of its own: this one may run async code all the same, as in a test that tries both.
        let started = std::thread::spawn(Self::launch).join();
        started.unwrap_or_else(|_| Err("its thread died".into())).unwrap_or_else(|problem| refuse(&problem))
    }

    fn launch() -> Result<Self, String> {
        let server = Server::start().map_err(|error| error.to_string())?;
        let url = format!("unix://{}", server.socket().display());
        let connection = Connection::open(url).map_err(|error| error.to_string())?;
        Ok(Self { connection, _server: server })
    }

    /// The address: `unix:///tmp/delayed-test-…/redis.sock`.
    #[must_use]
    pub fn url(&self) -> &str {
        self.connection.url()
    }

    /// A new client of this Redis, for async code and for threads that may block.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::lazy(self.url())
    }

    /// A new proxy between a program and this Redis, to simulate network failures. Pass its address to the program.
    ///
    /// # Panics
    /// No socket can be created.
    #[must_use]
    pub fn proxy(&self) -> Proxy {
        Proxy::to(self.url())
            .unwrap_or_else(|error| panic!("delayed::testing: no proxy can be created: {error}"))
    }

    /// Runs the calls that wait in this process, until none is left: see [`Drain`].
    pub fn drain(&self) -> Drain<'_> {
        Drain::new(&self.connection)
    }

    /// Moves the timetable: each scheduled call is due `time` earlier, and those that are due by now go to their queues. Returns how
    /// many those are. Time itself does not move.
    ///
    /// ```standalone_crate
    /// # use delayed::testing::Redis;
    /// # use std::time::Duration;
    /// # mod tasks { #[delayed::task] pub fn remind(who: String) {} }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), delayed::Error> {
    /// # let redis = Redis::start().await;
    /// redis.client().enqueue(tasks::remind::call("ann".into()).after(Duration::from_secs(3600))).await?;
    /// assert_eq!(redis.drain().await.len(), 0);
    /// assert_eq!(redis.advance(Duration::from_secs(3600)).await, 1);
    /// assert_eq!(redis.drain().await.len(), 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// Redis cannot be used.
    pub async fn advance(&self, time: Duration) -> u64 {
        self.connection.ask(|inspector| async move { advance(&inspector, None, time).await }).await
    }

    /// Moves the timetable, from a thread that may block: see [`advance`](Self::advance).
    ///
    /// # Panics
    /// Redis cannot be used.
    pub fn advance_blocking(&self, time: Duration) -> u64 {
        self.connection.ask_blocking(|inspector| async move { advance(&inspector, None, time).await })
    }

    /// Returns the calls that are enqueued, by queue: first those that wait, oldest first, then the scheduled ones, earliest first.
    /// [`assert_enqueued!`](crate::testing::assert_enqueued) looks among these.
    ///
    /// # Panics
    /// Redis cannot be used.
    pub async fn enqueued(&self) -> Vec<EnqueuedCall> {
        self.connection.ask(|inspector| async move { enqueued::all(&inspector).await }).await
    }

    /// Returns the calls that are enqueued, from any thread: see [`enqueued`](Self::enqueued).
    ///
    /// # Panics
    /// Redis cannot be used.
    #[must_use]
    pub fn enqueued_blocking(&self) -> Vec<EnqueuedCall> {
        self.connection.ask_blocking(|inspector| async move { enqueued::all(&inspector).await })
    }
}

fn refuse(problem: &str) -> ! {
    panic!("delayed::testing::Redis: {problem}")
}
