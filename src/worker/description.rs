//! Describes the worker to others: its identity, its phase, and its long runs.
//!
//! Each heartbeat writes the description into the field `info` of the worker's hash. The event loop names its long runs
//! only if a heartbeat asked for them, so calls pay nothing for this. The next heartbeat then writes them.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crate::broker::{OrderBy, digest};
use crate::config::WorkerConfig;
use crate::protocol::info::{RunInfo, WorkerInfo, WorkerOrder, WorkerPhase};
use crate::protocol::meta::since_1970;
use crate::sys;
use crate::worker::executor::LongRun;
use crate::worker::phase::{Phase, WorkerHandle};
use crate::worker::question::Question;

/// The description of a worker.
pub(super) struct Description {
    info: WorkerInfo,
    handle: WorkerHandle,
    question: Arc<Question<Vec<LongRun>>>,
    /// The long runs, each with the index of its queue.
    runs: Vec<(usize, RunInfo)>,
    /// The periodic tasks that the program declares, by queue.
    periodic: Vec<Vec<String>>,
}

impl Description {
    pub(super) fn new(
        config: &WorkerConfig,
        program_version: Option<String>,
        handle: WorkerHandle,
        question: Arc<Question<Vec<LongRun>>>,
        periodic: Vec<Vec<String>>,
    ) -> Self {
        let info = WorkerInfo {
            host: sys::host(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            program_version,
            protocol: crate::protocol::VERSION,
            started_ms: since_1970(SystemTime::now()),
            phase: Some(WorkerPhase::Running),
            concurrency: config.concurrency as u64,
            prefetch: (config.slots() - config.concurrency) as u64,
            queues: config.queues.iter().map(|entry| entry.queue.to_string()).collect(),
            lease_ms: u64::try_from(config.lease.as_millis()).unwrap_or(u64::MAX),
            periodic: Vec::new(),
            runs: Vec::new(),
        };
        Self { info, handle, question, runs: Vec::new(), periodic }
    }

    /// Does what an operator has told the worker.
    pub(super) fn obey(&self, told: &OrderBy) {
        tracing::info!(order = told.order.name(), by = told.by, "order received");
        match told.order {
            WorkerOrder::Quiet => self.handle.quiet(),
            WorkerOrder::Stop => self.handle.wind_down(),
        }
    }

    /// Updates the description before a heartbeat, and asks for the long runs of the next one if the worker owns messages.
    /// Returns whether the phase has changed.
    pub(super) fn update(&mut self, owns_messages: bool) -> bool {
        if let Some(runs) = self.question.take() {
            self.runs = runs.iter().map(|run| (run.queue, describe(run))).collect();
        }
        if owns_messages {
            self.question.ask(&self.handle);
        } else {
            self.runs.clear();
        }
        let phase = match self.handle.phase() {
            Phase::Running => WorkerPhase::Running,
            Phase::Quiet => WorkerPhase::Quiet,
            Phase::Stopping { .. } | Phase::Now => WorkerPhase::Draining,
        };
        self.info.phase.replace(phase) != Some(phase)
    }

    /// Encodes the description for one queue, with the runs of that queue.
    pub(super) fn encode(&mut self, queue: usize) -> Vec<u8> {
        let runs = self.runs.iter().filter(|(of, _)| *of == queue);
        self.info.runs = runs.map(|(_, run)| run.clone()).collect();
        self.info.periodic = self.periodic.get(queue).cloned().unwrap_or_default();
        self.info.encode()
    }
}

fn describe(run: &LongRun) -> RunInfo {
    let elapsed = Instant::now().saturating_duration_since(run.began);
    let began = SystemTime::now().checked_sub(elapsed).unwrap_or(SystemTime::UNIX_EPOCH);
    RunInfo { slot: run.slot as u64, started_ms: since_1970(began), digest: digest(&run.message) }
}
