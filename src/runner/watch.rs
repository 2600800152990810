//! Supervises a run in a child: waits for the report, enforces its deadline and limits, and finds out how it ended.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::runner::forward::{self, Origin};
use crate::runner::frame::{Answer, Report};
use crate::runner::job::{Command, RunState};
use crate::runner::outcome::{Exit, Outcome, ProcessStats, Resource, TimeLimit, Usage};
use crate::runner::process::{Event, Process};
use crate::runner::timeout::{Countdown, Due};
use crate::sys::wait::{ResourceUsage, Status};
use crate::sys::{self, memory, memory_kills};

/// How often the memory of a child with a memory limit is read.
const MEMORY_PERIOD: Duration = Duration::from_millis(10);
/// How often the CPU time of a child with a CPU limit is read.
const CPU_PERIOD: Duration = Duration::from_millis(250);
/// How much CPU time a run may use beyond its limit: the kernel has asked it to end by then.
const CPU_GRACE: Duration = Duration::from_secs(1);
/// How long a child may take to end after its last report.
const LINGER: Duration = Duration::from_millis(500);
/// How much earlier a SIGTERM of a supervisor may reach a child than the worker.
const HEAD_START: Duration = Duration::from_millis(200);

/// How a run ended.
pub(super) struct End {
    /// `None` if it was abandoned and nothing is reported.
    pub(super) outcome: Option<Outcome>,
    pub(super) stats: ProcessStats,
    /// Whether the child is alive and can get another run.
    pub(super) alive: bool,
    /// Whether it has begun. If not, another child must run it.
    pub(super) begun: bool,
    /// How long it took.
    pub(super) took: Duration,
    /// Why no child could be started.
    pub(super) problem: Option<String>,
}

/// Why a run was made to end.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Why {
    Time,
    Told(Command),
    Exceeded(Resource, u64),
    Garbage,
    HungUp,
}

/// What is known about a run so far.
struct Watch<'a> {
    run_state: &'a RunState,
    countdown: Countdown,
    why: Option<Why>,
    answer: Option<Answer>,
    retires: bool,
    /// Whether it was asked to end, by anyone.
    asked: bool,
    /// The CPU time that the child had used at the first reading.
    cpu_before: Option<Duration>,
    /// The memory of the child when the run began.
    memory_before: Option<u64>,
}

/// Supervises the run of `run_state`, which was sent to `process`, to its end.
///
/// Not cancel-safe: data received about the run is lost.
pub(super) async fn watch(process: &mut Process, run_state: &RunState) -> End {
    let job = &run_state.job;
    let mut watch = Watch {
        run_state,
        countdown: Countdown::start(job.until(), job.grace),
        why: None,
        answer: None,
        retires: false,
        asked: false,
        cpu_before: None,
        memory_before: None,
    };
    let period = job.limits.memory.map(|_| MEMORY_PERIOD).or(job.limits.cpu_seconds.map(|_| CPU_PERIOD));
    let mut look_at = period.map(|period| Instant::now() + period);
    // When a child that has sent its last report should be gone.
    let mut gone_at: Option<Instant> = None;
    loop {
        let timer = watch.countdown.next().into_iter().chain(look_at).chain(gone_at).min();
        let event = tokio::select! {
            event = process.next() => event,
            () = run_state.given.notified() => {
                watch.obey(process);
                continue;
            }
            () = sleep_until(timer), if timer.is_some() => {
                let now = Instant::now();
                if let Some(due) = watch.countdown.take_due(now) {
                    watch.why.get_or_insert(Why::Time);
                    signal(process, due);
                }
                if look_at.is_some_and(|at| at <= now) {
                    look_at = period.map(|period| now + period);
                    watch.look_at_memory(process);
                    watch.look_at_cpu_time(process);
                }
                if gone_at.is_some_and(|at| at <= now) {
                    gone_at = None;
                    watch.make_end(process, Why::HungUp);
                }
                continue;
            }
        };
        match event {
            Event::Report(Report::Log(line)) => forward::log(&line, run_state.origin(process.pid())),
            Event::Report(Report::Note(note)) => run_state.job.note(note),
            Event::Report(Report::Began { run, memory }) if run == run_state.run => {
                watch.memory_before = Some(memory);
            }
            Event::Report(Report::Retired { left }) if watch.answer.is_none() => {
                if watch.why.is_none() {
                    log_retired(process, &left);
                    return watch.not_begun();
                }
                // The run was already made to end, and is treated as such.
                gone_at = Some(Instant::now() + LINGER);
            }
            Event::Report(Report::Ended { run, answer, retires, asked, marked })
                if run == run_state.run && watch.answer.is_none() =>
            {
                if retires {
                    process.drain_output();
                } else if marked {
                    process.read_to_mark();
                }
                watch.answer = Some(answer);
                (watch.retires, watch.asked) = (retires, asked);
                if watch.is_settled() {
                    return watch.end(process, None);
                }
                // Part of the report is known only after the process has ended.
                gone_at = Some(Instant::now() + LINGER);
            }
            Event::Report(_) | Event::Garbage => watch.make_end(process, Why::Garbage),
            Event::HungUp => gone_at = Some(Instant::now() + LINGER),
            Event::Wrote => {
                let origin = run_state.origin(process.pid());
                process.written().log(origin);
                watch.look_at_output(process);
            }
            Event::Refused(errno) => {
                let problem = format!("no process could be forked: {}", nix::Error::from_raw(errno).desc());
                return watch.lost(Outcome::Lost { problem: problem.clone() }, problem);
            }
            Event::Orphaned => return watch.lost(Outcome::Orphaned, "the zygote is dead".into()),
            Event::Ended(status, used) => {
                watch.asked |= watch.answer.is_none() && status == Status::Signal(Signal::SIGTERM as i32);
                if watch.is_asked_by_others() {
                    tokio::time::sleep(HEAD_START).await;
                }
                return watch.end(process, Some((status, used)));
            }
        }
    }
}

/// Logs why a child is replaced.
pub(super) fn log_retired(process: &Process, left: &str) {
    tracing::debug!(pid = process.pid(), left, "child replaced after its run");
}

/// Waits for a child that should end, and kills it if it does not.
pub(super) async fn see_off(mut process: Process) {
    for signal in [None, Some(Signal::SIGKILL)] {
        if let Some(signal) = signal {
            process.signal(signal);
        }
        let last = async {
            while !matches!(process.next().await, Event::Ended(..) | Event::Orphaned) {
                process.written().log(Origin::NOBODY);
            }
        };
        if tokio::time::timeout(LINGER, last).await.is_ok() {
            return;
        }
    }
}

impl Watch<'_> {
    fn make_end(&mut self, process: &Process, why: Why) {
        self.why.get_or_insert(why);
        signal(process, self.countdown.kill());
    }

    fn obey(&mut self, process: &Process) {
        match self.run_state.take_command() {
            Some(Command::Cancel) => {
                self.why.get_or_insert(Why::Told(Command::Cancel));
                signal(process, self.countdown.ask(Instant::now()));
            }
            // A known answer is not replaced.
            Some(command) if self.answer.is_none() => {
                self.why = Some(Why::Told(command));
                signal(process, self.countdown.kill());
            }
            Some(_) | None => {}
        }
    }

    fn look_at_memory(&mut self, process: &Process) {
        if let Some(limit) = self.run_state.job.limits.memory
            && process.pid() > 0
            && let Some(before) = self.memory_before
            && memory::is_above(process.pid(), limit.saturating_add(before))
        {
            self.make_end(process, Why::Exceeded(Resource::Memory, limit));
        }
    }

    /// The kernel asks a process to end that has used up its CPU time, but the process may ignore it.
    fn look_at_cpu_time(&mut self, process: &Process) {
        if let Some(limit) = self.run_state.job.limits.cpu_seconds
            && process.pid() > 0
            && let Some(now) = sys::cpu_time(process.pid())
        {
            let used = now.saturating_sub(*self.cpu_before.get_or_insert(now));
            if used > Duration::from_secs(limit).saturating_add(CPU_GRACE) {
                self.make_end(process, Why::Exceeded(Resource::Cpu, limit));
            }
        }
    }

    fn look_at_output(&mut self, process: &mut Process) {
        if let Some(limit) = self.run_state.job.limits.output
            && process.written().total() > limit
        {
            self.make_end(process, Why::Exceeded(Resource::Output, limit));
        }
    }

    /// Whether everything to report is known. The report of a failure includes the resources that its process used, if the
    /// process ends anyway.
    fn is_settled(&self) -> bool {
        matches!(self.answer, Some(Answer::Succeeded | Answer::Returned { .. })) || !self.retires
    }

    /// Whether something other than its worker told it to end.
    fn is_asked_by_others(&self) -> bool {
        let gave_up = matches!(self.answer, None | Some(Answer::Failed { .. } | Answer::ItemsFailed { .. }));
        self.asked && self.why.is_none() && gave_up
    }

    fn lost(&self, outcome: Outcome, problem: String) -> End {
        let outcome = match &self.why {
            Some(Why::Told(Command::Abandon)) => None,
            _ => Some(outcome),
        };
        let took = self.countdown.elapsed();
        End {
            outcome,
            stats: ProcessStats::default(),
            alive: false,
            begun: true,
            took,
            problem: Some(problem),
        }
    }

    /// The run was not begun, because its child found that it must not begin another.
    fn not_begun(&self) -> End {
        let took = self.countdown.elapsed();
        End { outcome: None, stats: ProcessStats::default(), alive: false, begun: false, took, problem: None }
    }

    fn end(mut self, process: &mut Process, ended: Option<(Status, ResourceUsage)>) -> End {
        let took = self.countdown.elapsed();
        let alive = ended.is_none() && !self.retires && self.why.is_none();
        let origin = self.run_state.origin(process.pid());
        let output = process.written().finish(origin);
        let asked = self.is_asked_by_others();
        let outcome = self.outcome(took, ended.map(|(status, _)| status), &output);
        let stats = match outcome {
            None | Some(Outcome::Succeeded(_)) => ProcessStats::default(),
            Some(_) => ProcessStats { usage: ended.map(|(_, used)| used.into()), output, asked },
        };
        End { outcome, stats, alive, begun: true, took, problem: None }
    }

    fn outcome(&mut self, took: Duration, status: Option<Status>, output: &str) -> Option<Outcome> {
        let signal = match status {
            Some(Status::Signal(signal)) => Some(signal),
            Some(Status::Code(_)) | None => None,
        };
        let job = &self.run_state.job;
        let has_killed = self.countdown.has_killed();
        // It received the request to end, because it was about to exit when it was killed.
        let is_hard = has_killed && signal == Some(Signal::SIGKILL as i32);
        let limit = if is_hard { TimeLimit::Hard } else { TimeLimit::Soft };
        match (self.why.take(), self.answer.take().map(|answer| job.outcome_of(answer))) {
            (Some(Why::Told(Command::Abandon)), None) => None,
            // A result that arrived before the kill counts. A failure caused by the request to end does not.
            (_, Some(Outcome::Succeeded(value))) => Some(Outcome::Succeeded(value)),
            (Some(Why::Told(_)), Some(Outcome::Failed(_))) if !has_killed => None,
            (Some(Why::Time), Some(Outcome::Failed(_)) | None) => {
                Some(Outcome::TimedOut { limit, after: took, signal })
            }
            (_, Some(outcome)) => Some(outcome),
            (Some(Why::Told(Command::Kill { by })), None) => Some(Outcome::Killed { by }),
            (Some(Why::Told(_)), None) => None,
            (Some(Why::Exceeded(resource, limit)), None) => Some(Outcome::Exceeded { resource, limit }),
            (Some(Why::Garbage), None) => Some(Outcome::Crashed(Exit::Garbage)),
            // The report of a child that died on its own may be late.
            (Some(Why::HungUp), None) if signal == Some(Signal::SIGKILL as i32) => {
                Some(Outcome::Crashed(Exit::HungUp))
            }
            (Some(Why::HungUp) | None, None) => Some(self.crash(status, output)),
        }
    }

    fn crash(&self, status: Option<Status>, output: &str) -> Outcome {
        let limits = &self.run_state.job.limits;
        let signal = match status {
            Some(Status::Code(code)) => return Outcome::Crashed(Exit::Code(code)),
            Some(Status::Signal(signal)) => signal,
            None => return Outcome::Crashed(Exit::Garbage),
        };
        let exceeded =
            |resource, limit: Option<u64>| limit.map(|limit| Outcome::Exceeded { resource, limit });
        let known = match Signal::try_from(signal) {
            Ok(Signal::SIGXCPU) => exceeded(Resource::Cpu, limits.cpu_seconds),
            // The message of Rust's allocator before it aborts.
            Ok(Signal::SIGABRT) if output.contains("memory allocation of") => {
                exceeded(Resource::AddressSpace, limits.address_space)
            }
            Ok(Signal::SIGKILL) if memory_kills::claim_one() => Some(Outcome::Crashed(Exit::OutOfMemory)),
            _ => None,
        };
        known.unwrap_or(Outcome::Crashed(Exit::Signal(signal)))
    }
}

impl From<ResourceUsage> for Usage {
    fn from(used: ResourceUsage) -> Self {
        Self { cpu: used.cpu(), peak_memory: used.peak_memory }
    }
}

fn signal(process: &Process, due: Due) {
    process.signal(match due {
        Due::Ask => Signal::SIGTERM,
        Due::Kill => Signal::SIGKILL,
    });
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => sys::timer::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
