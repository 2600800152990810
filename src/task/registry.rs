//! Collects the tasks of a program and looks them up by name.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use crate::task::registration::{Registration, Task};
use crate::task::state::States;

inventory::collect!(&'static Registration);

/// The tasks that a worker can run, by name.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    by_name: HashMap<&'static str, &'static Registration>,
    sorted: Vec<&'static Registration>,
}

/// Why a registry cannot be created, or does not suit the program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// There are no tasks.
    #[error(
        "no task is registered: mark functions with `#[delayed::task]`; a crate that the program does not use is not \
        linked, so if the tasks are in a library, add `use my_tasks as _;` to the program"
    )]
    Empty,
    /// Two tasks have the same name.
    #[error(
        "two tasks are called `{name}`: at {first} and at {second}; give one of them another name with \
         `#[delayed::task(name = \"…\")]`"
    )]
    Duplicate {
        /// The name.
        name: &'static str,
        /// The place of the first: `file:line`.
        first: &'static str,
        /// The place of the second: `file:line`.
        second: &'static str,
    },
    /// Tasks need states that the program does not share.
    #[error("{}", Lines(.0))]
    MissingStates(Vec<MissingState>),
}

/// A state that a task needs and the program does not share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingState {
    /// The task's name.
    pub task: &'static str,
    /// The place of the task: `file:line`.
    pub location: &'static str,
    /// The type as written.
    pub ty: &'static str,
}

impl fmt::Display for MissingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, location, ty } = self;
        write!(f, "the task `{task}` ({location}) needs State<{ty}>: add a `{ty}` with `App::state`")
    }
}

struct Lines<'a>(&'a [MissingState]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.0.iter().enumerate() {
            write!(f, "{}{line}", if index > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

impl Registry {
    /// Creates an empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Collects all tasks that are linked into the program.
    ///
    /// # Errors
    /// [`RegistryError::Empty`] if there are none, [`RegistryError::Duplicate`] if two have the same name.
    pub fn collect() -> Result<Self, RegistryError> {
        let mut all: Vec<&'static Registration> =
            inventory::iter::<&'static Registration>().copied().collect();
        // Inventory has no order; an error should not change from run to run.
        all.sort_unstable_by_key(|task| (task.name, task.location));
        let registry = all.into_iter().try_fold(Self::new(), Self::add)?;
        if registry.is_empty() { Err(RegistryError::Empty) } else { Ok(registry) }
    }

    /// Adds a task by hand: `Registry::new().with::<tasks::add>()`.
    ///
    /// # Errors
    /// [`RegistryError::Duplicate`] if there is another task with its name.
    pub fn with<T: Task>(self) -> Result<Self, RegistryError> {
        self.add(T::registration())
    }

    fn add(mut self, task: &'static Registration) -> Result<Self, RegistryError> {
        match self.by_name.entry(task.name) {
            Entry::Occupied(first) => {
                let first = first.get().location;
                return Err(RegistryError::Duplicate { name: task.name, first, second: task.location });
            }
            Entry::Vacant(place) => place.insert(task),
        };
        let place = self.sorted.partition_point(|other| other.name < task.name);
        self.sorted.insert(place, task);
        Ok(self)
    }

    /// The task with this name.
    #[doc(hidden)]
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'static Registration> {
        self.by_name.get(name).copied()
    }

    /// All tasks, sorted by name.
    #[doc(hidden)]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'static Registration> + '_ {
        self.sorted.iter().copied()
    }

    /// The number of tasks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether there are no tasks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Checks that the program shares every state that a task needs.
    ///
    /// # Errors
    /// [`RegistryError::MissingStates`] with all missing states.
    pub fn check_states(&self, states: &States) -> Result<(), RegistryError> {
        let mut missing = Vec::new();
        for task in self.iter() {
            for state in task.states.iter().filter(|state| !states.has(state)) {
                let found = MissingState { task: task.name, location: task.location, ty: state.name };
                if !missing.contains(&found) {
                    missing.push(found);
                }
            }
        }
        if missing.is_empty() { Ok(()) } else { Err(RegistryError::MissingStates(missing)) }
    }
}
