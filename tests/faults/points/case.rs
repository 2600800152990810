//! One combination: a queue, a process that dies at one point, and what is seen of it.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

use delayed::__private::protocol::annotations::Annotations;
use delayed::__private::protocol::encode::{Meta, annotated, native};
use delayed::__private::protocol::keys;
use delayed::testing::{Fault, Proxy, Requests, Side, Trap};
use delayed::{CallId, LimitName};
use nix::sys::signal::Signal;
use redis::{Commands, Connection};

use super::scene::Scene;
use super::site::Site;
use super::table::{Cell, Place, Runs};
use crate::support::process::Program;
use crate::support::redis::{State, snapshot};
use crate::support::trial::{self, PATIENCE, WORKER, ready};
use crate::support::wait;

/// For how long a record is kept: longer than the test takes.
const KEEP_MS: u64 = 3_600_000;

/// Who is there to take over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Party {
    Rust,
    Python,
    Go,
}

/// Where runs take place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Inline,
    Fork,
    Prefork,
}

/// How the process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Death {
    /// Of its own hand, at the point.
    Itself,
    /// Of ours, while the network holds its request, or the reply.
    Caught(Side),
    /// Of ours, while its child stays at the point.
    WithChild,
    /// Only its child dies, of its own hand.
    Child,
}

/// One combination.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) scene: &'static Scene,
    /// The step of the point.
    pub(super) step: &'static str,
    pub(super) death: Death,
    pub(super) mode: Mode,
    /// Whose worker owned the message before, and runs it afterwards.
    pub(super) parties: (Party, Party),
    /// The task of the call that is hit.
    pub(super) task: &'static str,
    pub(super) cell: Cell,
    /// The number of the call that is hit; the next one is the bystander's.
    pub(super) n: u16,
}

impl Case {
    pub(super) fn queue(&self) -> String {
        format!("p{}", self.n)
    }

    /// The call that the crash is about.
    pub(super) fn hit(&self) -> Vec<u8> {
        if self.is_limited() {
            let payload = rmp_serde::to_vec(&self.n).unwrap();
            let limits = vec![self.limit()];
            let annotations = Annotations { limits, ..Annotations::default() };
            return annotated(self.task, &payload, &Meta::default(), &annotations);
        }
        if self.task.starts_with("points:split") {
            return trial::call(self.task, &[serde_json::json!([0, self.n])]);
        }
        if !self.keeps_record() {
            return call(self.task, self.n);
        }
        let payload = rmp_serde::to_vec(&self.n).unwrap();
        native(self.task, &payload, &Meta { id: Some(self.id()), keep_ms: Some(KEEP_MS), ..Meta::default() })
    }

    /// Whether the call that is hit names a limit.
    pub(super) fn is_limited(&self) -> bool {
        matches!(self.scene.script, "acquire" | "renew" | "park" | "defer" | "wake" | "unpark")
    }

    /// The limit of a call that names one: no other case has it.
    pub(super) fn limit(&self) -> LimitName {
        LimitName::parse(&self.queue()).unwrap()
    }

    /// Whether the call that is hit keeps a record.
    pub(super) fn keeps_record(&self) -> bool {
        let is_followed = matches!(self.scene.script, "submit" | "start" | "note" | "finish");
        is_followed || self.scene.row == "cancel what waits"
    }

    /// Whether it keeps a record, and was cancelled while it waited.
    pub(super) fn is_cancelled(&self) -> bool {
        self.keeps_record() && self.cell.runs == Runs::Never && self.scene.row.contains("cancel")
    }

    /// The id of such a call that the stage pushes.
    pub(super) fn id(&self) -> CallId {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&self.n.to_be_bytes());
        CallId::from_bytes(bytes)
    }

    /// How often the call is run in all.
    pub(super) fn expected(&self) -> usize {
        let is_retried = matches!(self.task, "points:retried" | "points:split");
        let life = |party| if party == Party::Rust && is_retried { 2 } else { 1 };
        match self.cell.runs {
            Runs::Never => 0,
            Runs::Once => life(self.parties.0),
            Runs::Again => 1 + life(self.parties.1),
        }
    }

    /// Whether it is a dead letter when all is over.
    pub(super) fn ends_dead(&self) -> bool {
        self.cell.place == Place::Dead || (self.scene.buries)(self)
    }
}

/// A call as Go makes it. Numbers take three bytes, so that they are found in any form of a message.
pub(super) fn call(task: &str, n: u16) -> Vec<u8> {
    trial::call(task, &[n.into()])
}

/// A case that is played.
pub(super) struct Stage<'a> {
    pub(super) case: &'a Case,
    pub(super) site: &'a Site,
    pub(super) redis: Connection,
    pub(super) proxy: Proxy,
    /// Where it is held, or what only counts.
    pub(super) trap: Trap,
    victim: Option<Program>,
    /// Others that live on, until all is over.
    pub(super) others: Vec<Program>,
}

impl<'a> Stage<'a> {
    /// Plays a case until its process has died and is found where it should be. Gives those that live on.
    pub(super) fn play(case: &'a Case, site: &'a Site) -> Vec<Program> {
        let proxy = site.server.proxy();
        let requests = match case.scene.script {
            "enqueue" => Requests::command("EXEC"),
            "wait" => Requests::command("BLMOVE"),
            "wait_any" => Requests::command("BLPOP"),
            "delete" => Requests::command("XDEL"),
            "run" => Requests::with("nothing"),
            name => Requests::script(name),
        };
        let trap = match case.death {
            Death::Caught(side) => proxy.trap(side, requests.nth(case.scene.nth), Fault::Hold),
            // Only to see how many come.
            _ => proxy.trap(Side::Request, requests.nth(u32::MAX), Fault::Hold),
        };
        let redis = site.server.connection();
        let mut stage = Self { case, site, redis, proxy, trap, victim: None, others: Vec::new() };
        (case.scene.play)(&mut stage);
        stage.end();
        stage.look();
        stage.others
    }

    pub(super) fn push(&mut self, messages: &[Vec<u8>]) {
        let queue = self.case.queue();
        for message in messages {
            let noti = format!("{queue}_noti");
            let mut pipe = redis::pipe();
            pipe.atomic().rpush(&queue, message).rpush(noti, "1");
            let () = pipe.query(&mut self.redis).unwrap();
        }
    }

    /// The call that is hit, and a bystander behind it.
    pub(super) fn push_both(&mut self) {
        if self.case.keeps_record() {
            let key = keys::record(&self.case.queue().parse().unwrap(), self.case.id());
            let mut pipe = redis::pipe();
            let () = pipe.hset(&key, "state", "waiting").expire(&key, 600).query(&mut self.redis).unwrap();
        }
        let bystander = call("points:note", self.case.n + 1);
        self.push(&[self.case.hit(), bystander]);
    }

    /// The call that is hit was cancelled while it waits.
    pub(super) fn mark(&mut self) {
        let (key, id) = (format!("{}_cancelled", self.case.queue()), self.case.id());
        let (now, _): (u64, u64) = redis::cmd("TIME").query(&mut self.redis).unwrap();
        let () = self.redis.zadd(key, &id.as_bytes()[..], now * 1000).unwrap();
    }

    fn note(&self) -> PathBuf {
        self.site.file(&format!("note-{}", self.case.n))
    }

    /// Starts the process that is to die, with these words on its command line.
    pub(super) fn start(&mut self, words: &[&str]) {
        let mut command = Command::new(WORKER);
        command.args(words).args(["--redis", self.proxy.url()]);
        self.spawn(command);
    }

    /// Starts the program that is to die, which submits the call that is hit, or fills a batch with it.
    pub(super) fn start_producer(&mut self, kind: &str) {
        let mut command = Command::new(WORKER);
        command.env("PRODUCER", kind).env("REDIS", self.proxy.url());
        command.env("QUEUE", self.case.queue()).env("NUMBER", self.case.n.to_string());
        self.spawn(command);
    }

    fn spawn(&mut self, mut command: Command) {
        self.site.furnish(&mut command);
        command.env("DELAYED_BACKOFF", self.case.scene.backoff);
        if !matches!(self.case.death, Death::Caught(_)) {
            let (of, nth) = (self.case.scene.script, self.case.scene.nth);
            command.env("DELAYED_CRASH_AT", format!("{of}.{}:{nth}", self.case.step));
            command.env("DELAYED_CRASH_NOTE", self.note());
        }
        if self.case.death == Death::WithChild {
            command.env("DELAYED_CRASH_STAY", "1");
        }
        self.victim = Some(Program::spawn(&mut command));
    }

    /// Starts the worker that is to die.
    pub(super) fn start_worker(&mut self, lease: &str) {
        self.start_worker_of(&[&self.case.queue()], lease);
    }

    /// The same, with a second queue, in which nothing ever comes.
    pub(super) fn start_worker_of_two(&mut self, lease: &str) {
        let queue = self.case.queue();
        self.start_worker_of(&[&queue, &format!("{queue}_silent")], lease);
    }

    fn start_worker_of(&mut self, queues: &[&str], lease: &str) {
        // Each beat that fails is told.
        let level = ["--log-level", "info,delayed=debug"];
        let words = ["worker", "--isolation", self.case.mode.name(), "--lease", lease];
        let more = ["--concurrency", "1", "--no-sweep", "--shutdown", "10ms", "--unknown", "requeue"];
        let queues: Vec<&str> = queues.iter().flat_map(|queue| ["--queue", queue]).collect();
        self.start(&[&words[..], &more, &level, &queues].concat());
    }

    /// A worker of the queue that is not to die here, and serves when this returns.
    pub(super) fn other_worker(&mut self, lease: &str) -> Program {
        let (queue, mode) = (self.case.queue(), self.case.mode.name());
        let words = ["worker", "--queue", &queue, "--isolation", mode, "--lease", lease];
        let mut command = Command::new(WORKER);
        command.args(words).args(["--concurrency", "1", "--no-sweep", "--redis", &self.site.server.url()]);
        self.site.furnish(&mut command);
        let program = Program::spawn(&mut command);
        ready(&program);
        program
    }

    pub(super) fn victim(&mut self) -> &mut Program {
        self.victim.as_mut().expect("it was started")
    }

    /// Waits until the call that is hit has left its number.
    pub(super) fn wait_effect(&mut self) {
        wait::until_ok(PATIENCE, || {
            if self.site.runs(self.case.n) > 0 {
                return Ok(());
            }
            if let Some(victim) = &mut self.victim {
                if self.case.scene.script == "start" && victim.has_ended() {
                    return Ok(()); // Its run had not come to its effect.
                }
                assert!(!victim.has_ended(), "it ended early: {:?}\n{}", self.case, victim.printed());
            }
            let said = self.victim.as_ref().map_or_else(String::new, Program::printed);
            let (case, state) = (self.case, self.state());
            Err(format!("a run of {case:?}: {state:#?}\n{said}"))
        });
    }

    /// Whether the process is where it is to die, or has died there.
    pub(super) fn has_arrived(&self) -> bool {
        match self.case.death {
            Death::Caught(_) => self.trap.struck() > 0,
            _ => self.note().exists(),
        }
    }

    /// Waits until the process is where it is to die, unless it has died there.
    pub(super) fn arrive(&mut self) {
        let case = self.case;
        wait::until_ok(PATIENCE, || {
            // Looked at first: it may die there between the two looks.
            let has_ended = self.victim().has_ended();
            if self.has_arrived() {
                return Ok(());
            }
            let said = self.victim().printed();
            assert!(!has_ended, "it ended elsewhere: {case:?}\n{said}");
            Err(format!("the point of {case:?}:\n{said}"))
        });
    }

    /// Lets it die, and sees that it died exactly there.
    fn end(&mut self) {
        self.arrive();
        let case = self.case;
        if let Death::Caught(_) | Death::WithChild = case.death {
            let victim = self.victim();
            assert!(!victim.has_ended(), "it ended before: {case:?}\n{}", victim.printed());
            victim.signal(Signal::SIGKILL);
        }
        if case.death == Death::Child {
            self.wait_settled();
            self.victim().signal(Signal::SIGTERM);
        }
        let status = self.victim().wait_exit(PATIENCE);
        let signal = (case.death != Death::Child).then_some(Signal::SIGKILL as i32);
        assert_eq!(status.signal(), signal, "{case:?}:\n{}", self.victim().printed());
        if signal.is_none() {
            assert_eq!(status.code(), Some(0), "{case:?}:\n{}", self.victim().printed());
        }
        if !matches!(case.death, Death::Caught(_)) {
            let who: i32 = std::fs::read_to_string(self.note()).unwrap().trim().parse().unwrap();
            let is_victim = who == self.victim().pid().as_raw();
            assert_eq!(
                is_victim,
                case.death == Death::Itself,
                "expected the right one to come there: {case:?}"
            );
        }
        self.trap.release();
        // What is on its way arrives, before the network ends with the case.
        wait::until("all that was sent to arrive", PATIENCE, || self.proxy.unanswered() == 0);
    }

    fn wait_settled(&mut self) {
        wait::until_ok(PATIENCE, || match self.state() {
            state if state.waiting.is_empty() && state.processing.is_empty() => Ok(()),
            state => {
                let (case, said) = (self.case, self.victim().printed());
                Err(format!("an end of {case:?}: {state:#?}\n{said}"))
            }
        });
    }

    pub(super) fn state(&mut self) -> State {
        snapshot(&mut self.redis, &self.case.queue())
    }

    /// It is where the document says, and nowhere else.
    fn look(&mut self) {
        let case = self.case;
        // Redis may have the request still before it.
        let deadline = if case.step == "sent" { PATIENCE } else { std::time::Duration::ZERO };
        wait::until_ok(deadline, || {
            let state = self.state();
            let waiters = keys::waiters(&case.queue(), &case.limit());
            let parked: Vec<Vec<u8>> = self.redis.lrange(waiters, 0, -1).unwrap();
            let places = places(&state, &parked, case.n);
            // It may die between the wait and the claim behind it: then only the token has moved.
            let alone = case.scene.script == "wait" && case.step == "sent" && places == [Place::Waiting];
            let place = if alone { Place::Waiting } else { case.cell.place };
            let expected: Vec<Place> = [place].into_iter().filter(|place| *place != Place::Nowhere).collect();
            // A token may be in the hand that died; on a busy machine, the wait may have ended before it came.
            let missing = (state.waiting.len() as u64).checked_sub(state.tokens);
            let may_miss = match (case.scene.script, case.step) {
                ("pick_up", "before") => true,
                ("wait_any", step) => step != "before",
                _ => alone,
            };
            let even = missing.is_some_and(|missing| missing <= u64::from(may_miss));
            if places == expected && (even || case.scene.script == "balance") {
                return Ok(());
            }
            Err(format!("it to be in {expected:?}, it is in {places:?}: {case:?}\n{state:#?}"))
        });
    }

    /// Its live keys end, as they would with the lease.
    pub(super) fn end_lease(&mut self) {
        for id in self.state().processing.into_keys() {
            let () = self.redis.del(id).unwrap();
        }
    }
}

/// Where a call is.
fn places(state: &State, parked: &[Vec<u8>], n: u16) -> Vec<Place> {
    let [high, low] = n.to_be_bytes();
    let number = [0xcd, high, low];
    let is_it = |message: &&Vec<u8>| message.windows(3).any(|part| part == number);
    let letters = state.dead.iter().map(|letter| &letter["message"]);
    let found = |count: usize, place: Place| std::iter::repeat_n(place, count);
    found(state.waiting.iter().filter(is_it).count(), Place::Waiting)
        .chain(found(state.processing.values().filter(is_it).count(), Place::Owned))
        .chain(found(state.later.values().filter(is_it).count(), Place::Scheduled))
        .chain(found(parked.iter().filter(is_it).count(), Place::Parked))
        .chain(found(letters.filter(is_it).count(), Place::Dead))
        .collect()
}

impl Mode {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Fork => "fork",
            Self::Prefork => "prefork",
        }
    }
}
