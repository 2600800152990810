//! What a scene is: how a process comes to the point of one row of the tables.

use std::fmt;

use super::case::{Case, Party, Stage};
use super::table::Place;

/// Which process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Producer,
    Worker,
    Sweeper,
    Operator,
}

impl Who {
    /// As the document says it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Worker => "worker",
            Self::Sweeper => "sweeper",
            Self::Operator => "operator",
        }
    }
}

/// How one row is played.
pub(super) struct Scene {
    /// Its name in the table.
    pub(super) row: &'static str,
    pub(super) who: Who,
    /// What its points are named after: the script, or `run`.
    pub(super) script: &'static str,
    /// At which time it comes there.
    pub(super) nth: u32,
    pub(super) task: &'static str,
    /// How long its worker lets a failed call wait.
    pub(super) backoff: &'static str,
    /// Whether it makes a difference where the worker runs its calls.
    pub(super) by_mode: bool,
    /// Whose workers may have owned the message before.
    pub(super) owners: &'static [Party],
    /// Whether workers of this kind can take over when the message is there.
    pub(super) can_inherit: fn(Party, Place) -> bool,
    /// Whether the call ends as a dead letter, wherever it is after the crash.
    pub(super) buries: fn(&Case) -> bool,
    pub(super) play: fn(&mut Stage<'_>),
}

impl fmt::Debug for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row)
    }
}

/// What is so where nothing else is said: a worker dies in the call of a script, and all can inherit.
pub(super) const USUAL: Scene = Scene {
    row: "",
    who: Who::Worker,
    script: "",
    nth: 1,
    task: "points:note",
    backoff: "none",
    by_mode: true,
    owners: &[Party::Rust],
    can_inherit: |_, _| true,
    buries: |_| false,
    play: |stage| {
        stage.push_both();
        stage.start_worker("1s");
    },
};

/// Only Rust's workers have something to do with it.
pub(super) const OURS: fn(Party, Place) -> bool = |party, _| party == Party::Rust;

/// The run of a call, from its claim to the next request.
pub(super) static RUN: Scene = Scene { row: "run", script: "run", ..USUAL };
