//! Does to the fleet what the plan says, and notes which calls were in flight then.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use delayed::CallId;
use delayed::testing::{Mode, Trap};
use nix::sys::signal::Signal;
use redis::Commands;
use rmpv::Value;

use super::ends::{End, Ended};
use super::fleet::{Fleet, LEASE, Owner};
use super::members::Role;
use super::nodes::{self, Absent, Whose, Window};
use super::plan::{Deck, Fault, Kind};
use super::strikes::Strike;
use super::times::now;
use crate::support::trial::PATIENCE;
use crate::support::wait;

/// Between two looks at the fleet.
const LOOK: Duration = Duration::from_millis(25);
/// How long the fields of whoever was hit are looked at, for what was on its way to Redis.
const AFTER: Duration = Duration::from_millis(200);

/// Looks for a while which calls its victim owns.
struct Watch {
    fault: usize,
    owner: Owner,
    until: Instant,
}

/// What the faults of a run did.
pub(crate) struct Faults {
    pub(crate) plan: Vec<Fault>,
    /// What there is of faults.
    pub(crate) kinds: Deck,
    /// For each fault: the calls that were in flight at those whom it hit.
    pub(crate) in_flight: Vec<HashSet<u64>>,
    /// What nobody asked for.
    pub(crate) surprises: Vec<String>,
    /// How many workers ended since they found no Redis when they started.
    pub(crate) could_not_start: usize,
    /// The longest time that Redis took to answer while it ran: a disk or a machine that is busy.
    pub(crate) slowest: Duration,
    /// With a Cluster: when faults found calls in flight.
    pub(crate) windows: Vec<Window>,
    absent: Option<Absent>,
    watches: Vec<Watch>,
    /// When the first could begin, by the clock of the runs.
    began: u64,
    /// When it was last looked at the fleet.
    looked: u64,
    /// Faults that last, and until when.
    lasting: Vec<(usize, Instant)>,
    /// When the last trouble with the network of each member was over, and that with Redis under `None`.
    troubled: HashMap<Option<usize>, Instant>,
    /// When each member's way to Redis was last cut or silent, and Redis itself away under `None`.
    away: HashMap<Option<usize>, Instant>,
    /// By the number of the fault.
    traps: HashMap<usize, Trap>,
}

impl Faults {
    pub(crate) fn new(plan: Vec<Fault>, kinds: Deck) -> Self {
        let in_flight = vec![HashSet::new(); plan.len()];
        Self {
            plan,
            kinds,
            in_flight,
            surprises: Vec::new(),
            could_not_start: 0,
            slowest: Duration::ZERO,
            windows: Vec::new(),
            absent: None,
            watches: Vec::new(),
            began: 0,
            looked: 0,
            lasting: Vec::new(),
            troubled: HashMap::new(),
            away: HashMap::new(),
            traps: HashMap::new(),
        }
    }

    /// A time of the machine's clock as one since the begin of the faults.
    pub(crate) fn time(&self, time: u64) -> String {
        format!("{:.1} s", (time as f64 - self.began as f64) / 1000.0)
    }

    /// Lets all of them happen.
    pub(crate) fn run(&mut self, fleet: &mut Fleet) {
        let began = Instant::now();
        self.began = now();
        self.looked = self.began;
        for at in 0..self.plan.len() {
            while began.elapsed() < self.plan[at].at || self.is_hit(fleet, self.plan[at].victim) {
                self.look(fleet);
                wait::pause(LOOK);
            }
            println!("{:7.1} s  {}", began.elapsed().as_secs_f64(), self.plan[at]);
            self.begin(fleet, at);
        }
        while !(self.lasting.is_empty()
            && self.watches.is_empty()
            && self.absent.is_none()
            && self.all_serve(fleet))
        {
            self.look(fleet);
            wait::pause(LOOK);
        }
    }

    /// Whether another fault of this victim is not over yet: on a machine that is busy the plan is late.
    fn is_hit(&self, fleet: &Fleet, victim: Option<usize>) -> bool {
        let Some(victim) = victim else { return false };
        let lasts = self.lasting.iter().any(|(at, _)| self.plan[*at].victim == Some(victim));
        let is_absent = self.absent.is_some() && fleet.members[victim].role == Role::Nodes;
        lasts || is_absent || fleet.members[victim].ending.is_some()
    }

    /// Whether a Rust worker could beat as it should before Redis went. Then a short absence ends no lease, and the
    /// worker finds out what became of its calls.
    fn is_calm(&self, worker: usize) -> bool {
        let over = |who: Option<usize>| self.troubled.get(&who).is_none_or(|at| at.elapsed() > 2 * LEASE);
        over(None)
            && over(Some(worker))
            && !self.lasting.iter().any(|(at, _)| self.plan[*at].victim == Some(worker))
    }

    fn all_serve(&self, fleet: &Fleet) -> bool {
        (0..fleet.members.len()).all(|at| fleet.members[at].ending.is_none() && fleet.is_serving(at))
    }

    /// Whether it happened: a trap may have found nothing.
    pub(crate) fn struck(&self, at: usize) -> bool {
        self.traps.get(&at).is_none_or(|trap| trap.struck() > 0)
    }

    /// Waits until this member serves, or whoever is started in its place.
    fn wait_ready(&mut self, fleet: &mut Fleet, at: usize) {
        wait::until("a member to serve", PATIENCE, || {
            self.look(fleet);
            fleet.is_serving(at)
        });
        fleet.wait_ready(at);
    }

    fn begin(&mut self, fleet: &mut Fleet, at: usize) {
        let fault = self.plan[at].clone();
        let Some(victim) = fault.victim else { return self.kill_redis(fleet, at) };
        self.wait_ready(fleet, victim);
        match fault.kind {
            Kind::KillWorker | Kind::KillForeign | Kind::KillSweeper | Kind::KillProducer => {
                self.kill(fleet, at, victim);
            }
            Kind::StopProducer => {
                fleet.members[victim].program.as_ref().expect("it runs").signal(Signal::SIGSTOP);
            }
            Kind::StopWorker | Kind::StopForeign => {
                fleet.members[victim].program.as_ref().expect("it runs").signal(Signal::SIGSTOP);
                self.watch(fleet, at, fleet.owner(victim), fault.lasts);
            }
            Kind::EndWorker | Kind::EndForeign => {
                fleet.members[victim].program.as_ref().expect("it runs").signal(Signal::SIGTERM);
                fleet.members[victim].ending = Some(at);
            }
            Kind::KillZygote => self.kill_zygote(fleet, at, victim),
            Kind::Delay => {
                let time = Duration::from_millis(5 + u64::from(fault.roll) % 45);
                fleet.members[victim].proxy().set(Mode::Delay(time));
            }
            Kind::Cut => {
                fleet.members[victim].proxy().set(Mode::Refuse);
                fleet.members[victim].proxy().cut();
            }
            Kind::Swallow => {
                fleet.members[victim].proxy().set(Mode::Hold);
                self.watch(fleet, at, fleet.owner(victim), fault.lasts);
            }
            Kind::LoseReply | Kind::LoseRequest | Kind::Double | Kind::Drop | Kind::Half => {
                let strike = Strike::of(&fault).expect("it is for a request");
                self.traps.insert(at, strike.set(fleet.members[victim].proxy()));
            }
            Kind::KillMaster | Kind::StopMaster | Kind::MoveSlot | Kind::CutNode => {
                self.absent = nodes::hit(self, fleet, at);
            }
            Kind::KillRedis | Kind::Stall => unreachable!("it has no victim"),
        }
        if !fault.lasts.is_zero() {
            self.lasting.push((at, Instant::now() + fault.lasts));
        }
    }

    fn end(&self, fleet: &Fleet, at: usize) {
        let fault = &self.plan[at];
        let Some(member) = fault.victim.map(|victim| &fleet.members[victim]) else { return };
        match fault.kind {
            Kind::StopWorker | Kind::StopForeign | Kind::StopProducer => {
                member.program.as_ref().expect("it is stopped").signal(Signal::SIGCONT);
            }
            Kind::Delay | Kind::Cut | Kind::Swallow => member.proxy().set(Mode::Pass),
            _ => {}
        }
        // What was silent stays so; what has not come is let through.
        if let Some(trap) = self.traps.get(&at).filter(|trap| trap.struck() == 0) {
            trap.release();
        }
    }

    fn kill(&mut self, fleet: &mut Fleet, at: usize, victim: usize) {
        fleet.members[victim].program.as_mut().expect("it runs").kill9();
        let owner = match fleet.members[victim].role {
            Role::OurSweeper | Role::PythonSweeper | Role::Producers => Owner::Nobody,
            _ => fleet.owner(victim),
        };
        self.watch(fleet, at, owner.clone(), AFTER);
        self.foreign_ended(fleet, at, victim, &owner);
        fleet.fill(victim);
    }

    /// Its worker gives up its lease at once, and a sweep may follow within a moment: so it is held still, while it is
    /// looked at what it owns.
    fn kill_zygote(&mut self, fleet: &mut Fleet, at: usize, victim: usize) {
        let worker = fleet.members[victim].program.as_ref().expect("it runs");
        let zygote = fleet.zygote(victim).expect("a worker that isolates has a zygote");
        worker.signal(Signal::SIGSTOP);
        // What it asked for before is answered, also over a slow network.
        wait::pause(2 * LOOK);
        self.watch(fleet, at, fleet.owner(victim), AFTER);
        zygote.signal(Signal::SIGKILL);
        worker.signal(Signal::SIGCONT);
        fleet.members[victim].ending = Some(at);
    }

    /// A worker of the ancestors is dead. Its live key ends with it, as it would within a minute. What it ran last it
    /// may not have released; Go's never does.
    fn foreign_ended(&mut self, fleet: &Fleet, at: usize, victim: usize, owner: &Owner) {
        let Owner::Theirs(id) = owner else { return };
        let mixed = fleet.queues().mixed.expect("they serve it");
        let _: bool = fleet.place.connection(mixed).pexpire(id, 1).expect("Redis is there");
        let last: Option<u64> = fleet.ran(victim).last().and_then(|line| line.parse().ok());
        self.in_flight[at].extend(last);
    }

    /// Python's and Go's workers go with it before it is back: after an error their next claim would overwrite what
    /// the one before may have taken.
    fn kill_redis(&mut self, fleet: &mut Fleet, at: usize) {
        // A Rust worker may be starting.
        for at in fleet.places(|role| !matches!(role, Role::Rust(_))) {
            fleet.wait_ready(at);
        }
        fleet.place.one_mut().expect("it is one").kill();
        let began = Instant::now();
        let dead = fleet.places(|role| matches!(role, Role::Python | Role::Go));
        for victim in &dead {
            fleet.members[*victim].program.as_mut().expect("it runs").kill9();
        }
        wait::pause(self.plan[at].lasts);
        // Nobody comes near before it is looked at what is owned: leases may have ended meanwhile.
        let modes: Vec<Mode> = fleet.members.iter().map(|member| member.proxy().mode()).collect();
        for member in &fleet.members {
            member.proxy().set(Mode::Refuse);
            member.proxy().cut();
        }
        fleet.place.one_mut().expect("it is one").restart();
        let away = began.elapsed();
        println!("{:9} Redis was away for {away:.1?}", "");
        self.watch(fleet, at, Owner::Foreign, Duration::ZERO);
        for worker in fleet.places(|role| matches!(role, Role::Rust(_))) {
            if away >= LEASE / 2 || !self.is_calm(worker) {
                // Until its next beat, a slot's old lease may end although it has claimed again.
                self.watch(fleet, at, fleet.owner(worker), LEASE / 2);
            }
        }
        self.troubled.insert(None, Instant::now());
        for (member, mode) in fleet.members.iter().zip(modes) {
            member.proxy().set(mode);
        }
        self.away.insert(None, Instant::now());
        for victim in dead {
            self.foreign_ended(fleet, at, victim, &fleet.owner(victim));
            fleet.fill(victim);
        }
    }

    /// Go's workers are told to end for good: nobody else gives back what they ran last.
    pub(crate) fn end_of_go(&mut self, fleet: &mut Fleet) {
        let is_served = fleet.queues().mixed.is_some();
        for victim in fleet.places(|role| role == Role::Go && is_served) {
            let time = Duration::ZERO;
            let kind = Kind::EndForeign;
            self.plan.push(Fault { kind, at: time, lasts: time, victim: Some(victim), roll: 0 });
            self.in_flight.push(HashSet::new());
            fleet.wait_ready(victim);
            let mut program = fleet.members[victim].program.take().expect("it runs");
            program.signal(Signal::SIGTERM);
            program.wait_exit(PATIENCE);
            let last: Option<u64> = fleet.ran(victim).last().and_then(|line| line.parse().ok());
            self.in_flight.last_mut().expect("it was pushed").extend(last);
        }
    }

    fn watch(&mut self, fleet: &Fleet, fault: usize, owner: Owner, time: Duration) {
        if fleet.place.nodes().is_some() {
            // Who owns what cannot be read while its master is away: the ledgers say who ran it.
            let victim = self.plan[fault].victim.expect("it hits a member");
            let whose = Whose::Worker(fleet.members[victim].alias());
            let ended = now() + time.as_millis() as u64;
            self.windows.push(Window { fault, whose, began: now(), ended });
            return;
        }
        self.watches.push(Watch { fault, owner, until: Instant::now() + time });
        self.look_at_fields(fleet);
    }

    fn look_at_fields(&mut self, fleet: &Fleet) {
        if fleet.place.nodes().is_some() {
            return;
        }
        let began = Instant::now();
        for queue in fleet.queues().all() {
            let mut redis = fleet.place.connection(queue);
            let fields: BTreeMap<String, Vec<u8>> =
                redis.hgetall(format!("{queue}_processing")).expect("Redis is there");
            for (field, message) in fields {
                for watch in self.watches.iter().filter(|watch| watch.owner.has(&field)) {
                    self.in_flight[watch.fault].extend(numbers(&message));
                }
            }
        }
        self.slowest = self.slowest.max(began.elapsed());
        self.watches.retain(|watch| watch.until > Instant::now());
    }

    /// Notes what is in flight, ends what is over, and replaces who has ended.
    fn look(&mut self, fleet: &mut Fleet) {
        let looked = std::mem::replace(&mut self.looked, now());
        let is_late = Duration::from_millis(self.looked - looked) > LEASE / 2;
        if is_late && fleet.place.nodes().is_some() {
            nodes::stall(self, looked);
            self.away.insert(None, Instant::now());
        }
        self.look_at_fields(fleet);
        if let Some(absent) = self.absent.take() {
            self.absent = nodes::tend(self, fleet, absent);
            self.troubled.insert(None, Instant::now());
            self.away.insert(None, Instant::now());
        }
        let now = Instant::now();
        for (at, _) in self.lasting.iter().filter(|(_, until)| *until <= now) {
            self.end(fleet, *at);
            let Fault { kind, victim, .. } = self.plan[*at];
            self.troubled.insert(victim, now);
            if matches!(kind, Kind::Cut | Kind::Swallow) {
                self.away.insert(victim, now);
            }
        }
        self.lasting.retain(|(_, until)| *until > now);
        for victim in 0..fleet.members.len() {
            self.look_after(fleet, victim);
        }
    }

    /// Whether this member's network is cut or silent now.
    fn is_away(&self, who: Option<usize>) -> bool {
        let mut faults = self.lasting.iter().map(|(at, _)| &self.plan[*at]);
        faults.any(|fault| fault.victim == who && matches!(fault.kind, Kind::Cut | Kind::Swallow))
    }

    fn look_after(&mut self, fleet: &mut Fleet, victim: usize) {
        let member = &mut fleet.members[victim];
        let Some(program) = member.program.as_mut() else { return };
        if !program.has_ended() {
            return;
        }
        let status = program.wait_exit(Duration::ZERO);
        let (role, name, printed, ending) = (member.role, member.name, program.last_words(), member.ending);
        let was_away = [None, Some(victim)].iter().any(|who| {
            let since = member.started;
            self.is_away(*who) || self.away.get(who).is_some_and(|until| *until >= since)
        });
        let is_worker = matches!(role, Role::Rust(_));
        let asked = ending.map(|at| self.plan[at].kind != Kind::KillZygote);
        match (Ended { status, printed: &printed, asked, is_worker, was_away }).judge() {
            End::Asked => {}
            End::CouldNotStart => self.could_not_start += 1,
            End::Unasked => {
                let tail = printed.lines().rev().take(5).collect::<Vec<_>>().join("\n    ");
                self.surprises.push(format!("{name} ended with {status}:\n    {tail}"));
            }
        }
        if let Some(at) = ending.filter(|_| role == Role::Go) {
            self.foreign_ended(fleet, at, victim, &fleet.owner(victim));
        }
        fleet.fill(victim);
    }
}

/// Which calls a message is: its first argument is a number, or a text that is one; of a batch, each item is; of a tick, its id.
/// None for a flow, whose steps have numbers.
pub(crate) fn numbers(message: &[u8]) -> Vec<u64> {
    let value = rmpv::decode::read_value(&mut &*message).expect("a message is an array");
    if value[0].as_str() == Some("delayed.flow") {
        return Vec::new();
    }
    if value[0].as_str() == Some("trial.tick") {
        let mut options = value[2].as_map().expect("a tick has an id").iter();
        let id = options.find(|(key, _)| key.as_str() == Some("i")).and_then(|(_, id)| id.as_slice());
        let id = id.and_then(|id| id.try_into().ok()).expect("an id has 16 bytes");
        return vec![super::varied::number(CallId::from_bytes(id))];
    }
    let payload = value[1].as_slice().expect("it has a payload");
    let argument = rmpv::decode::read_value(&mut &*payload).expect("the payload is MessagePack");
    let number = |argument: &Value| {
        let number = match argument {
            Value::String(text) => text.as_str().and_then(|text| text.parse().ok()),
            other => other.as_u64(),
        };
        number.unwrap_or_else(|| panic!("expected the number of a call: {value}"))
    };
    match argument.as_array() {
        Some(items) if value[0].as_str() == Some("trial.collect") => items.iter().map(number).collect(),
        Some(list) => vec![number(&list[0])],
        None => vec![number(&argument)],
    }
}
