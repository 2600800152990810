//! Who takes part? Workers of every kind, sweepers, and the servers: one, with workers of all languages, or a Cluster.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use delayed::testing::Proxy;
use serde_json::Value;

use super::members::{MEMBERS, Role, takes_part};
use super::place::{Place, Queues};
use crate::support::process::{DELAYED, Program};
use crate::support::redis::TestRedis;
use crate::support::tree::{Process, marked};
use crate::support::trial::{PATIENCE, WORKER, ready};
use crate::support::{go, python, root, wait};

/// What all three languages can run: Python spreads the bytes of the payload over its parameters.
pub(crate) const PATH: &str = "demo_tasks:record_bytes";
/// Of a Rust worker.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
/// After which one of ours gives up a connection without a reply.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);

/// One place in the fleet; whoever fills it dies and is replaced.
pub(crate) struct Member {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    pub(crate) is_witness: bool,
    /// Its way to a single server.
    proxy: Option<Proxy>,
    pub(crate) program: Option<Program>,
    /// It was told to end, by the fault of that number, and is replaced when it has.
    pub(crate) ending: Option<usize>,
    pub(crate) started: Instant,
    clock: i32,
    generation: usize,
}

impl Member {
    pub(crate) fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().expect("faults of the network are those of a single server")
    }

    /// With which the names of the ledgers begin that the one who fills this place writes.
    pub(crate) fn alias(&self) -> String {
        format!("{}.{}", self.name, self.generation)
    }
}

pub(crate) struct Fleet {
    pub(crate) place: Place,
    pub(crate) members: Vec<Member>,
    skew: PathBuf,
}

impl Fleet {
    /// All that is started here bears [`Self::mark`].
    pub(crate) fn start(place: Place) -> Self {
        let skew = place.skew();
        let member = |(name, role, clock, is_witness)| {
            let proxy = place.one().map(TestRedis::proxy);
            let (program, ending, started) = (None, None, Instant::now());
            Member { name, role, is_witness, proxy, program, ending, started, clock, generation: 0 }
        };
        let members = MEMBERS.into_iter().map(member).collect();
        let mut fleet = Self { place, members, skew };
        let all = fleet.places(|role| role != Role::Producers);
        all.iter().for_each(|at| fleet.fill(*at));
        for at in all {
            // On a machine that is busy, its first connection may take too long.
            wait::until("a member to serve", PATIENCE, || {
                let has_ended = |program: &mut Program| program.has_ended();
                if fleet.members[at].program.as_mut().is_some_and(has_ended) {
                    fleet.fill(at);
                }
                fleet.is_serving(at)
            });
            fleet.wait_ready(at);
        }
        fleet.assert_clocks();
        fleet
    }

    /// Who is hours off says another hour than the first, also when they started on both sides of a full one.
    fn assert_clocks(&self) {
        let hour = |at: usize| self.serving(at)["timestamp"].as_str().map(|time| time[..13].to_owned());
        for at in self.places(|role| matches!(role, Role::Rust(_))) {
            let Member { name, clock, .. } = self.members[at];
            let differs = hour(at) != hour(0);
            assert!(clock == 0 || differs, "expected the clock of {name} to differ: {:?}", hour(at));
        }
    }

    /// The places of those with such a role.
    pub(crate) fn places(&self, has: impl Fn(Role) -> bool) -> Vec<usize> {
        (0..self.members.len()).filter(|at| has(self.members[*at].role)).collect()
    }

    /// Lets a producer that has a process of its own begin.
    pub(crate) fn produce(&mut self) {
        for at in self.places(|role| role == Role::Producers) {
            self.fill(at);
            self.wait_ready(at);
        }
    }

    /// Starts the next one at this place.
    pub(crate) fn fill(&mut self, at: usize) {
        if !self.has_program(self.members[at].role) {
            return;
        }
        self.members[at].generation += 1;
        self.members[at].ending = None;
        self.members[at].started = Instant::now();
        let program = Program::spawn(&mut self.command(&self.members[at]));
        self.members[at].program = Some(program);
    }

    fn has_program(&self, role: Role) -> bool {
        let is_cluster = self.place.nodes().is_some();
        takes_part(role, is_cluster) && role != Role::Nodes && (is_cluster || role != Role::Producers)
    }

    /// Whether it said that it does what it is for.
    pub(crate) fn is_serving(&self, at: usize) -> bool {
        let Member { role, program: Some(program), .. } = &self.members[at] else { return true };
        program.printed().contains(match role {
            Role::Rust(_) => "\"serving\"",
            Role::OurSweeper => "\"sweeping\"",
            _ => "READY",
        })
    }

    pub(crate) fn wait_ready(&self, at: usize) {
        let member = &self.members[at];
        let Some(program) = &member.program else { return };
        match member.role {
            Role::Rust(_) => ready(program),
            Role::OurSweeper => drop(program.wait_for_line("\"sweeping\"")),
            _ => drop(program.wait_for_line("READY")),
        }
    }

    fn command(&self, member: &Member) -> Command {
        let url = &member.proxy.as_ref().map_or_else(|| self.place.url(), |proxy| proxy.url().to_owned());
        let mut command = match member.role {
            Role::Rust(_) => Command::new(WORKER),
            Role::OurSweeper => Command::new(DELAYED),
            Role::Producers => return self.steady(member, url),
            _ => return self.foreign(member.role, &self.ledger_of(member), url),
        };
        if let Role::Rust(isolation) = member.role {
            let threads = if isolation == "inline" { "8" } else { "4" };
            let Queues { small, mixed, .. } = self.queues();
            command.arg("worker");
            for queue in self.queues().ours() {
                command.args(["--queue", &format!("{queue}=2")]);
            }
            for queue in mixed.into_iter().chain((isolation == "fork").then_some(small)) {
                command.args(["--queue", &format!("{queue}=1")]);
            }
            command.args(["--isolation", isolation, "--concurrency", threads]);
            // Some claim ahead whatever they see.
            command.args((isolation == "prefork").then_some("--prefetch=8"));
            command.args(["--lease", &format!("{LEASE:?}")]);
            // Some leave it to the sweepers.
            command.args((isolation == "fork").then_some("--no-sweep"));
        } else {
            command.args(["sweeper", "--interval", "500ms"]);
        }
        command.env("DELAYED_REDIS_TIMEOUT", format!("{TIMEOUT:?}"));
        // The first steps of a flow are enqueued by the worker that begins it.
        command.env("DELAYED_DURABILITY", self.place.durability());
        if member.clock != 0 {
            command.env("LD_PRELOAD", &self.skew).env("SKEW", member.clock.to_string());
        }
        // Deaths are made here, and are no fault of a call that is there each time.
        command.env("DELAYED_MAX_DEATHS", "1000").env("DELAYED_LOG_FORMAT", "json");
        command.env("DELAYED_BACKOFF", "exponential:200ms..1s");
        self.marked(command.args(["--redis", url]), &self.ledger_of(member));
        command
    }

    /// A program that sends calls to all queues of ours until it is killed, and notes what became of them.
    fn steady(&self, member: &Member, url: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("this program is somewhere"));
        command.args(["--produce", &member.generation.to_string(), "--redis", url]);
        self.marked(&mut command, &self.place.directory().join(format!("sent-{}", member.alias())));
        command
    }

    /// One of the programs of the other languages.
    fn foreign(&self, role: Role, ledger: &std::path::Path, url: &str) -> Command {
        let mut command = match role {
            Role::Go => Command::new(go::program()),
            _ => Command::new(python::interpreter()),
        };
        match role {
            Role::Go => command.args(["work", "-as", PATH, "-log"]).arg(ledger),
            Role::PythonSweeper => command.arg(root().join("tests/peers/python/sweep.py")),
            _ => command.arg(root().join("tests/peers/python/work.py")),
        };
        command.args(["--queue", self.queues().mixed.expect("they serve it"), "--redis", url]);
        self.marked(&mut command, ledger);
        command
    }

    /// A producer of another language, that says of each line that it was sent.
    pub(crate) fn producer(&self, role: Role, queue: &str) -> Command {
        let url = self.url_of_producers();
        let mut command = match role {
            Role::Go => Command::new(go::program()),
            _ => Command::new(python::interpreter()),
        };
        match role {
            Role::Go => command.args(["produce", "--timeout", "5s"]),
            _ => command.arg(root().join("tests/peers/python/produce.py")).args(["--timeout", "5"]),
        };
        command.args(["--acknowledge", "--queue", queue, "--redis", &url]);
        self.marked(&mut command, &self.place.directory().join("none"));
        command
    }

    pub(crate) fn url_of_producers(&self) -> String {
        let producers = self.members.iter().find(|member| member.role == Role::Producers);
        let proxy = producers.and_then(|member| member.proxy.as_ref());
        proxy.map_or_else(|| self.place.url(), |proxy| proxy.url().to_owned())
    }

    pub(crate) fn queues(&self) -> Queues {
        self.place.queues()
    }

    fn marked(&self, command: &mut Command, ledger: &std::path::Path) {
        let (name, value) = self.mark();
        command.env(name, value).env("LEDGER", ledger).env("RECORD_FILE", ledger).env("TIMES", "1");
        command.env("PYTHONPATH", root().join("python-compat/src")).env("PYTHONDONTWRITEBYTECODE", "1");
        command.current_dir(self.place.directory());
    }

    fn mark(&self) -> (&'static str, String) {
        ("CHAOS", self.place.directory().display().to_string())
    }

    /// All processes of the fleet, however far they went from their parents.
    pub(crate) fn everybody(&self) -> Vec<Process> {
        let (name, value) = self.mark();
        marked(&format!("{name}={value}"))
    }

    fn ledger_of(&self, member: &Member) -> PathBuf {
        self.place.directory().join(format!("ledger-{}", member.alias()))
    }

    /// What the one who fills this place has run.
    pub(crate) fn ran(&self, at: usize) -> Vec<String> {
        let text = std::fs::read_to_string(self.ledger_of(&self.members[at])).unwrap_or_default();
        text.lines().map(String::from).collect()
    }

    /// What a Rust worker said when it began to serve: nothing when it has not.
    fn serving(&self, at: usize) -> Value {
        let said = self.members[at].program.as_ref().map(Program::printed).unwrap_or_default();
        let line = said.lines().find(|line| line.contains("\"serving\""));
        line.and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default()
    }

    /// Tells a worker's fields from those of others: what they begin with.
    pub(crate) fn owner(&self, at: usize) -> Owner {
        let member = &self.members[at];
        match member.role {
            Role::Rust(_) => {
                self.serving(at)["worker"].as_str().map_or(Owner::Nobody, |id| Owner::Ours(format!(":{id}:")))
            }
            _ => {
                let said = member.program.as_ref().map(Program::printed).unwrap_or_default();
                let id = said.lines().find_map(|line| line.strip_prefix("READY "));
                id.map_or(Owner::Nobody, |id| Owner::Theirs(id.to_owned()))
            }
        }
    }

    /// The zygote of a worker that isolates.
    pub(crate) fn zygote(&self, at: usize) -> Option<Process> {
        let all = self.everybody();
        let child_of = |pid: i32| all.iter().find(|it| it.parent == pid && it.is_alive());
        let worker = self.members[at].program.as_ref()?.pid().as_raw();
        child_of(child_of(worker)?.pid).cloned()
    }
}

/// Whose a field of `Q_processing` is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Any worker of Python or Go.
    Foreign,
    /// It had not come so far that it could own anything.
    Nobody,
    Ours(String),
    Theirs(String),
}

impl Owner {
    pub(crate) fn has(&self, field: &str) -> bool {
        match self {
            Self::Foreign => !field.contains(':'),
            Self::Nobody => false,
            Self::Ours(part) => field.contains(part),
            Self::Theirs(id) => field == id,
        }
    }
}

/// Waits until nobody of the fleet is left.
pub(crate) fn wait_gone(fleet: &Fleet, patience: Duration) -> Vec<Process> {
    let gone = wait::or_last(patience, || {
        let left = fleet.everybody();
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
    gone.err().unwrap_or_default()
}
