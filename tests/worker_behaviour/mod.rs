//! What a worker does, told by what it leaves: slots, queues, signals, waiting, and what its tasks are given.

mod blocking;
mod clients;
mod concurrency;
mod embedded;
mod exits;
mod injected;
mod kill;
mod pauses;
mod periodic;
mod prefetch;
mod queues;
mod retries;
mod schedules;
mod signals;
mod streams;
mod timeouts;
mod wakeup;
