//! Which small worlds are explored?

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use super::system::{Faults, System};

/// A world and its name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) system: System,
}

const NO_FAULTS: Faults = Faults {
    crash: 0,
    cut: 0,
    silence: 0,
    jump: 0,
    forget: 0,
    refuse: 0,
    reply_lost: 0,
    half: 0,
    stop: 0,
    give_up: 0,
    fail: 0,
    late: 0,
};

/// Two workers of one slot, two calls.
const TWO: System = System {
    workers: 2,
    movers: 0,
    slots: 1,
    messages: 2,
    reader: false,
    balances: true,
    two_pushes: false,
    max_deaths: 2,
    suspects: false,
    alike: false,
    endless: false,
    faults: NO_FAULTS,
    very_late: false,
    without: None,
};
/// One worker of two slots, so that two of its requests are under way at a time.
const ONE: System = System { workers: 1, slots: 2, ..TWO };

pub(super) const DEATHS: Scenario =
    Scenario { name: "deaths", system: System { faults: Faults { crash: 2, ..NO_FAULTS }, ..TWO } };
pub(super) const SILENCE: Scenario =
    Scenario { name: "silence", system: System { faults: Faults { silence: 1, ..NO_FAULTS }, ..TWO } };
pub(super) const JUMPS: Scenario = Scenario {
    name: "a clock that jumps",
    system: System { faults: Faults { jump: 1, ..NO_FAULTS }, ..TWO },
};
pub(super) const FAILURES: Scenario = Scenario {
    name: "failures of the silent and the dead",
    system: System { messages: 1, faults: Faults { fail: 1, silence: 1, crash: 1, ..NO_FAULTS }, ..TWO },
};
pub(super) const CUTS: Scenario = Scenario {
    name: "broken connections",
    system: System { faults: Faults { cut: 2, late: 1, ..NO_FAULTS }, ..ONE },
};
pub(super) const REFUSALS: Scenario = Scenario {
    name: "refusals and a broken connection",
    system: System { faults: Faults { cut: 1, late: 1, refuse: 1, ..NO_FAULTS }, ..ONE },
};
pub(super) const HALVES: Scenario = Scenario {
    name: "producers of two pushes",
    system: System {
        two_pushes: true,
        faults: Faults { half: 1, reply_lost: 1, crash: 1, ..NO_FAULTS },
        slots: 1,
        ..ONE
    },
};
pub(super) const RESENT: Scenario = Scenario {
    name: "calls sent again",
    system: System { faults: Faults { reply_lost: 1, crash: 1, ..NO_FAULTS }, messages: 1, ..TWO },
};
pub(super) const STOP: Scenario = Scenario {
    name: "workers that stop",
    system: System { faults: Faults { stop: 1, silence: 1, crash: 1, ..NO_FAULTS }, messages: 1, ..TWO },
};
pub(super) const LAST_CALLS: Scenario = Scenario {
    name: "what is on its way when a worker stops",
    system: System { faults: Faults { stop: 1, give_up: 1, cut: 1, late: 1, ..NO_FAULTS }, ..ONE },
};
pub(super) const FORGOTTEN: Scenario = Scenario {
    name: "silence for four leases",
    system: System { slots: 1, faults: Faults { forget: 1, cut: 1, late: 1, ..NO_FAULTS }, ..ONE },
};
pub(super) const VERY_LATE: Scenario = Scenario {
    name: "requests that are read four leases late",
    system: System { very_late: true, ..FORGOTTEN.system },
};
pub(super) const VERY_LATE_CLAIMS: Scenario = Scenario {
    name: "claims that are read four leases late",
    system: System {
        endless: true,
        very_late: true,
        faults: Faults { forget: 1, cut: 1, late: 1, ..NO_FAULTS },
        ..ONE
    },
};
pub(super) const ANYTHING: Scenario = Scenario {
    name: "anything, with one call",
    system: System { messages: 1, faults: Faults { crash: 1, cut: 1, silence: 1, ..NO_FAULTS }, ..TWO },
};

/// Nobody mends the tokens.
pub(super) const WAITS: Scenario = Scenario {
    name: "pick-ups behind waits",
    system: System {
        movers: 2,
        messages: 1,
        balances: false,
        faults: Faults { crash: 1, cut: 1, late: 1, ..NO_FAULTS },
        ..TWO
    },
};
pub(super) const MORE_WAITS: Scenario = Scenario {
    name: "pick-ups behind the waits of two slots",
    system: System { movers: 1, balances: false, faults: Faults { cut: 2, late: 1, ..NO_FAULTS }, ..ONE },
};
pub(super) const REFUSED_WAITS: Scenario = Scenario {
    name: "refusals behind waits",
    system: System {
        movers: 1,
        balances: false,
        faults: Faults { cut: 1, late: 1, refuse: 1, ..NO_FAULTS },
        ..ONE
    },
};
pub(super) const MIXED: Scenario = Scenario {
    name: "tokens moved and popped",
    system: System {
        movers: 1,
        reader: true,
        balances: false,
        faults: Faults { stop: 1, ..NO_FAULTS },
        ..TWO
    },
};
pub(super) const BESIDE_OTHERS: Scenario = Scenario {
    name: "waits beside foreign workers and producers",
    system: System {
        movers: 1,
        slots: 1,
        reader: true,
        two_pushes: true,
        faults: Faults { crash: 1, half: 1, ..NO_FAULTS },
        ..ONE
    },
};
pub(super) const STOPPED_WAITS: Scenario = Scenario {
    name: "waits of workers that stop",
    system: System {
        movers: 2,
        messages: 1,
        balances: false,
        faults: Faults { stop: 1, give_up: 1, cut: 1, late: 1, ..NO_FAULTS },
        ..TWO
    },
};
pub(super) const FORGOTTEN_WAITS: Scenario = Scenario {
    name: "waits and silence for four leases",
    system: System {
        movers: 1,
        balances: false,
        faults: Faults { forget: 1, cut: 1, late: 1, ..NO_FAULTS },
        slots: 1,
        very_late: true,
        ..ONE
    },
};

pub(super) const SUSPECTS: Scenario = Scenario {
    name: "what others died of",
    system: System {
        suspects: true,
        messages: 3,
        max_deaths: 1,
        faults: Faults { cut: 1, ..NO_FAULTS },
        ..ONE
    },
};
/// Two of the same bytes, which do their workers no harm.
pub(super) const LOOK_ALIKES: Scenario = Scenario {
    name: "look-alikes whose workers die",
    system: System { suspects: true, alike: true, faults: Faults { crash: 2, ..NO_FAULTS }, ..TWO },
};
pub(super) const SLOW_LOOK_ALIKES: Scenario = Scenario {
    name: "look-alikes whose workers are slow",
    system: System { max_deaths: 1, faults: Faults { silence: 1, ..NO_FAULTS }, ..LOOK_ALIKES.system },
};
pub(super) const STOPPED_LOOK_ALIKES: Scenario = Scenario {
    name: "look-alikes whose workers die or stop",
    system: System { faults: Faults { crash: 1, stop: 1, ..NO_FAULTS }, ..LOOK_ALIKES.system },
};

/// Those with waits.
const WITH_WAITS: [Scenario; 7] =
    [WAITS, MORE_WAITS, REFUSED_WAITS, MIXED, BESIDE_OTHERS, STOPPED_WAITS, FORGOTTEN_WAITS];

/// Those with messages of the same bytes.
const WITH_LOOK_ALIKES: [Scenario; 3] = [LOOK_ALIKES, SLOW_LOOK_ALIKES, STOPPED_LOOK_ALIKES];

/// All others in which nothing may go wrong.
pub(super) const ALL: [Scenario; 15] = [
    DEATHS,
    SILENCE,
    JUMPS,
    FAILURES,
    CUTS,
    REFUSALS,
    HALVES,
    RESENT,
    STOP,
    LAST_CALLS,
    FORGOTTEN,
    VERY_LATE,
    VERY_LATE_CLAIMS,
    ANYTHING,
    SUSPECTS,
];

/// Looks at every state, the nearest first, until it has come to the end that is given.
pub(super) fn explore(system: System, until: HasDiscoveries) -> impl Checker<System> {
    system.checker().finish_when(until).spawn_bfs().join()
}

#[test]
fn nothing_goes_wrong() {
    explore_all(&ALL);
}

#[test]
fn nothing_goes_wrong_where_pick_ups_stand_behind_waits() {
    explore_all(&WITH_WAITS);
}

#[test]
fn nothing_goes_wrong_among_look_alikes() {
    explore_all(&WITH_LOOK_ALIKES);
}

fn explore_all(scenarios: &[Scenario]) {
    let mut states = 0;
    for Scenario { name, system } in scenarios.iter().copied() {
        let began = Instant::now();
        let checker = explore(system, HasDiscoveries::AnyFailures);
        let (found, steps) = (checker.unique_state_count(), checker.state_count());
        println!("{name}: {found} states, {steps} steps, {:?}", began.elapsed());
        for property in system.properties() {
            match (property.expectation.discovery_is_failure(), checker.discovery(property.name)) {
                (true, Some(path)) => {
                    let last = path.last_state().clone();
                    let steps: Vec<String> =
                        path.into_actions().iter().map(|step| format!("{step:?}")).collect();
                    panic!(
                        "{name}: expected `{}`, but after\n{}\nthere is {last:#?}",
                        property.name,
                        steps.join("\n")
                    );
                }
                (false, None) => panic!("{name}: expected a state in which {}", property.name),
                _ => {}
            }
        }
        states += found;
    }
    println!("{states} states in all");
}
