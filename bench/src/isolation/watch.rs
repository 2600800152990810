//! When was a call settled? Redis tells, when what becomes of its keys is published.

use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::now;
use crate::server::Server;

const STOP: &str = "bench-watch-stop";

/// Sees what becomes of one key.
pub struct Watch {
    seen: Receiver<u64>,
    control: redis::Connection,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Sees each `event` of `key` from now on.
    pub fn start(server: &Server, key: &str, event: &'static str) -> redis::RedisResult<Self> {
        let mut control = server.connect();
        // Of hashes and of sorted sets, by their keys.
        redis::cmd("CONFIG").arg("SET").arg("notify-keyspace-events").arg("Khz").exec(&mut control)?;
        let mut connection = server.connect();
        let channel_name = format!("__keyspace@0__:{key}");
        let (sender, seen) = channel();
        let (ready, is_ready) = channel();
        let thread = std::thread::spawn(move || {
            let mut subscription = connection.as_pubsub();
            subscription.subscribe(&[channel_name.as_str(), STOP]).expect("subscribes");
            ready.send(()).expect("is waited for");
            loop {
                let message = subscription.get_message().expect("Redis stays");
                if message.get_channel_name() == STOP {
                    return;
                }
                let now = now();
                if message.get_payload::<String>().is_ok_and(|payload| payload == event) {
                    let _ = sender.send(now);
                }
            }
        });
        is_ready.recv().expect("subscribes");
        Ok(Self { seen, control, thread: Some(thread) })
    }

    /// Forgets what was seen.
    pub fn clear(&self) {
        while self.seen.try_recv().is_ok() {}
    }

    /// The time of the next that is seen.
    pub fn next(&self, patience: Duration) -> Result<u64, String> {
        self.seen.recv_timeout(patience).map_err(|_| format!("nothing was settled within {patience:?}"))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let told = redis::cmd("PUBLISH").arg(STOP).arg("").exec(&mut self.control);
        let _ = redis::cmd("CONFIG").arg("SET").arg("notify-keyspace-events").arg("").exec(&mut self.control);
        if let Some(thread) = self.thread.take()
            && told.is_ok()
        {
            let _ = thread.join();
        }
    }
}
