//! What a worker does, told by what it leaves: slots, queues, signals, waiting, and what its tasks are given.

mod clients;
mod concurrency;
mod embedded;
mod injected;
mod kill;
mod prefetch;
mod queues;
mod signals;
mod timeouts;
mod wakeup;
