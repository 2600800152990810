//! Who minds a run in a child? It waits for the report, looks at the clock and at the limits, and says what happened.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::runner::forward::{self, Origin};
use crate::runner::frame::{Answer, Report};
use crate::runner::job::{Command, Ticket};
use crate::runner::outcome::{Exit, Outcome, Resource, TimeLimit, Traces, Usage};
use crate::runner::process::{Event, Process};
use crate::runner::timeout::{Countdown, Due};
use crate::sys::wait::{Status, Used};
use crate::sys::{self, memory, memory_kills};

/// How often the memory of a child with such a limit is looked at.
const MEMORY_PERIOD: Duration = Duration::from_millis(10);
/// How often the CPU time is, of a child with a limit of that.
const CPU_PERIOD: Duration = Duration::from_millis(250);
/// By how much a run may overshoot its CPU time: the kernel has asked it to end by then.
const CPU_GRACE: Duration = Duration::from_secs(1);
/// How long a child that has said its last may take to end.
const LINGER: Duration = Duration::from_millis(500);
/// By how much a supervisor's SIGTERM may come to a child before the worker hears of its own.
const HEAD_START: Duration = Duration::from_millis(200);

/// How a run ended.
pub(super) struct End {
    /// None: it was abandoned, and nothing is to be told.
    pub(super) outcome: Option<Outcome>,
    pub(super) traces: Traces,
    /// Whether the child lives and can be given another run.
    pub(super) alive: bool,
    /// Whether it has begun. If not, another child is to run it.
    pub(super) begun: bool,
    /// How long it took.
    pub(super) took: Duration,
    /// Why no child could be had, when that is so.
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

/// What is known of a run so far.
struct Watch<'a> {
    ticket: &'a Ticket,
    countdown: Countdown,
    why: Option<Why>,
    answer: Option<Answer>,
    retires: bool,
    /// It was asked to end, by whomever.
    asked: bool,
    /// The CPU time that the child had used when it was looked at first.
    cpu_before: Option<Duration>,
    /// The memory that it had when the run began.
    memory_before: Option<u64>,
}

/// Minds the run of `ticket`, which has been handed to `process`, to its end.
///
/// Not cancel-safe: what has been heard of the run is lost.
pub(super) async fn watch(process: &mut Process, ticket: &Ticket) -> End {
    let job = &ticket.job;
    let mut watch = Watch {
        ticket,
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
    // From when on a child that has nothing more to say should be gone.
    let mut gone_at: Option<Instant> = None;
    loop {
        let timer = watch.countdown.next().into_iter().chain(look_at).chain(gone_at).min();
        let event = tokio::select! {
            event = process.next() => event,
            () = ticket.given.notified() => {
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
            Event::Report(Report::Log(line)) => forward::log(&line, ticket.origin(process.pid())),
            Event::Report(Report::Began { run, memory }) if run == ticket.run => {
                watch.memory_before = Some(memory);
            }
            Event::Report(Report::Retired { left }) if watch.answer.is_none() => {
                if watch.why.is_none() {
                    log_retired(process, &left);
                    return watch.not_begun();
                }
                // It was made to end already, and is treated so.
                gone_at = Some(Instant::now() + LINGER);
            }
            Event::Report(Report::Ended { run, answer, retires, asked, marked })
                if run == ticket.run && watch.answer.is_none() =>
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
                // Something is to be told of the process that is known only when it has ended.
                gone_at = Some(Instant::now() + LINGER);
            }
            Event::Report(_) | Event::Garbage => watch.make_end(process, Why::Garbage),
            Event::HungUp => gone_at = Some(Instant::now() + LINGER),
            Event::Wrote => {
                let origin = ticket.origin(process.pid());
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

/// Waits until a child that is to end has ended, and kills it when it does not.
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
        match self.ticket.take_command() {
            Some(Command::Cancel) => {
                self.why.get_or_insert(Why::Told(Command::Cancel));
                signal(process, self.countdown.ask(Instant::now()));
            }
            // What is known to have happened already stays so.
            Some(command) if self.answer.is_none() => {
                self.why = Some(Why::Told(command));
                signal(process, self.countdown.kill());
            }
            Some(_) | None => {}
        }
    }

    fn look_at_memory(&mut self, process: &Process) {
        if let Some(limit) = self.ticket.job.limits.memory
            && process.pid() > 0
            && let Some(before) = self.memory_before
            && memory::is_above(process.pid(), limit.saturating_add(before))
        {
            self.make_end(process, Why::Exceeded(Resource::Memory, limit));
        }
    }

    /// The kernel asks a process to end that has used its time, and it may not listen.
    fn look_at_cpu_time(&mut self, process: &Process) {
        if let Some(limit) = self.ticket.job.limits.cpu_seconds
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
        if let Some(limit) = self.ticket.job.limits.output
            && process.written().total() > limit
        {
            self.make_end(process, Why::Exceeded(Resource::Output, limit));
        }
    }

    /// Whether all is known that is to be told: of a failure, what its process used is told too, when the process ends
    /// anyway.
    fn is_settled(&self) -> bool {
        matches!(self.answer, Some(Answer::Succeeded | Answer::Returned { .. } | Answer::ReturnedInFile))
            || !self.retires
    }

    /// Whether somebody else than its worker had it end, before it came to its own end.
    fn is_asked_by_others(&self) -> bool {
        let gave_up = matches!(self.answer, None | Some(Answer::Failed { .. }));
        self.asked && self.why.is_none() && gave_up
    }

    fn lost(&self, outcome: Outcome, problem: String) -> End {
        let outcome = match &self.why {
            Some(Why::Told(Command::Abandon)) => None,
            _ => Some(outcome),
        };
        let took = self.countdown.elapsed();
        End { outcome, traces: Traces::default(), alive: false, begun: true, took, problem: Some(problem) }
    }

    /// Its child had begun no run since it found that it should not.
    fn not_begun(&self) -> End {
        let took = self.countdown.elapsed();
        End { outcome: None, traces: Traces::default(), alive: false, begun: false, took, problem: None }
    }

    fn end(mut self, process: &mut Process, ended: Option<(Status, Used)>) -> End {
        let took = self.countdown.elapsed();
        let alive = ended.is_none() && !self.retires && self.why.is_none();
        let origin = self.ticket.origin(process.pid());
        let output = process.written().finish(origin);
        let asked = self.is_asked_by_others();
        let outcome = self.outcome(took, ended.map(|(status, _)| status), &output);
        let traces = match outcome {
            None | Some(Outcome::Succeeded(_)) => Traces::default(),
            Some(_) => Traces { usage: ended.map(|(_, used)| used.into()), output, asked },
        };
        End { outcome, traces, alive, begun: true, took, problem: None }
    }

    fn outcome(&mut self, took: Duration, status: Option<Status>, output: &str) -> Option<Outcome> {
        let signal = match status {
            Some(Status::Signal(signal)) => Some(signal),
            Some(Status::Code(_)) | None => None,
        };
        let job = &self.ticket.job;
        let has_killed = self.countdown.has_killed();
        // One that was on its way to its end when it was killed has heard.
        let is_hard = has_killed && signal == Some(Signal::SIGKILL as i32);
        let limit = if is_hard { TimeLimit::Hard } else { TimeLimit::Soft };
        match (self.why.take(), self.answer.take().map(|answer| job.outcome_of(answer))) {
            (Some(Why::Told(Command::Abandon)), None) => None,
            // A result that arrived before the kill counts; what failed because it was told to end did not fail.
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
            // Of one that died by itself the news may be late.
            (Some(Why::HungUp), None) if signal == Some(Signal::SIGKILL as i32) => {
                Some(Outcome::Crashed(Exit::HungUp))
            }
            (Some(Why::HungUp) | None, None) => Some(self.crash(status, output)),
        }
    }

    fn crash(&self, status: Option<Status>, output: &str) -> Outcome {
        let limits = &self.ticket.job.limits;
        let signal = match status {
            Some(Status::Code(code)) => return Outcome::Crashed(Exit::Code(code)),
            Some(Status::Signal(signal)) => signal,
            None => return Outcome::Crashed(Exit::Garbage),
        };
        let exceeded =
            |resource, limit: Option<u64>| limit.map(|limit| Outcome::Exceeded { resource, limit });
        let known = match Signal::try_from(signal) {
            Ok(Signal::SIGXCPU) => exceeded(Resource::Cpu, limits.cpu_seconds),
            // What Rust's allocator says before it aborts.
            Ok(Signal::SIGABRT) if output.contains("memory allocation of") => {
                exceeded(Resource::AddressSpace, limits.address_space)
            }
            Ok(Signal::SIGKILL) if memory_kills::claim_one() => Some(Outcome::Crashed(Exit::OutOfMemory)),
            _ => None,
        };
        known.unwrap_or(Outcome::Crashed(Exit::Signal(signal)))
    }
}

impl From<Used> for Usage {
    fn from(used: Used) -> Self {
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
