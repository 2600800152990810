//! Runs a task as a worker does.

use std::sync::Mutex;

use delayed::__private::Handler;
use delayed::__private::protocol::message::Message;
use delayed::__private::{Cancellation, Scope};
use delayed::QueueName;
use delayed::States;
use delayed::{Call, CallId, Task, TaskError};

/// What a run is given.
#[derive(Default)]
pub(crate) struct Given {
    pub(crate) queue: QueueName,
    pub(crate) attempt: u32,
    pub(crate) id: Option<CallId>,
    pub(crate) states: States,
    pub(crate) cancellation: Cancellation,
}

impl Given {
    /// Runs `T` with a whole message; the outer error is the text of one about the arguments.
    pub(crate) fn run<T: Task>(&self, message: &[u8]) -> Result<Result<(), TaskError>, String> {
        let message = Message::decode(message).expect("the message is well formed");
        let task = T::registration();
        let scope = Scope::new(task.name, &self.queue, &self.states, &self.cancellation)
            .attempt(self.attempt.max(1))
            .id(self.id);
        match task.handler {
            Handler::Blocking(run) => run(message.arguments(), &scope)
                .map(|answered| answered.map(drop))
                .map_err(|error| error.to_string()),
            Handler::Async(start) => {
                let future = start(message.arguments(), &scope).map_err(|error| error.to_string())?;
                Ok(tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future).map(drop))
            }
        }
    }
}

/// The same with nothing to give, and a payload as Go sends it.
pub(crate) fn payload<T: Task>(payload: &[u8]) -> Result<Result<(), TaskError>, String> {
    let mut message = vec![0x92, 0xa1, b't', 0xc4, payload.len() as u8];
    message.extend_from_slice(payload);
    Given::default().run::<T>(&message)
}

/// The same with the bytes of a call.
pub(crate) fn call<T: Task>(call: &Call) -> Result<Result<(), TaskError>, String> {
    Given::default().run::<T>(&call.encode().expect("the arguments can be written"))
}

/// What the tasks of one test saw.
pub(crate) struct Seen(Mutex<Vec<String>>);

impl Seen {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    pub(crate) fn add(&self, what: impl std::fmt::Debug) {
        self.0.lock().unwrap().push(format!("{what:?}"));
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}
