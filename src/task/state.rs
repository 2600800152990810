//! Keeps the values that a program shares with its tasks, by type.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// A value of type `T` that the program shares with its tasks, given by `App::state` or `App::state_with`. All runs of a process
/// share it.
///
/// A parameter of this type is not sent with the call; the worker provides it. Cheap to clone.
pub struct State<T>(Arc<T>);

impl<T> State<T> {
    /// Wraps `value`, to call a task's function by hand.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("State").field(&self.0).finish()
    }
}

/// The type of a state that a task needs.
#[derive(Debug, Clone, Copy)]
pub struct StateType {
    /// Its identity.
    pub id: fn() -> TypeId,
    /// Its name as written.
    pub name: &'static str,
}

/// A value of some type.
type Shared = Arc<dyn Any + Send + Sync>;

/// A value, or how to make it.
#[derive(Clone)]
enum Value {
    Given(Shared),
    /// Clones share what was made.
    Made(Arc<dyn Fn() -> Shared + Send + Sync>, Arc<OnceLock<Shared>>),
}

/// The shared values of a program, one of each type. Cheap to clone.
#[derive(Clone, Default)]
pub struct States(Arc<HashMap<TypeId, (&'static str, Value)>>);

impl States {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `value`. It replaces a value of the same type.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.map().insert(TypeId::of::<T>(), (type_name::<T>(), Value::Given(Arc::new(value))));
    }

    /// Adds a value that each process creates by `make` when a task first needs it. It replaces a value of the same type. If `make`
    /// panics, so does the run.
    pub fn insert_with<T: Send + Sync + 'static>(&mut self, make: impl Fn() -> T + Send + Sync + 'static) {
        let make = move || -> Shared { Arc::new(make()) };
        self.map().insert(TypeId::of::<T>(), (type_name::<T>(), Value::Made(Arc::new(make), Arc::default())));
    }

    fn map(&mut self) -> &mut HashMap<TypeId, (&'static str, Value)> {
        Arc::make_mut(&mut self.0)
    }

    /// Adds `value`, unless there is one of the same type.
    #[cfg_attr(not(all(feature = "client", feature = "worker")), expect(dead_code))]
    pub(crate) fn insert_missing<T: Send + Sync + 'static>(&mut self, value: T) {
        if !self.0.contains_key(&TypeId::of::<T>()) {
            self.insert(value);
        }
    }

    /// The value of type `T`.
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<State<T>> {
        let value = match &self.0.get(&TypeId::of::<T>())?.1 {
            Value::Given(value) => value,
            Value::Made(make, made) => made.get_or_init(|| make()),
        };
        Arc::clone(value).downcast().ok().map(State)
    }

    /// Whether a task that asks for these types has to wait for none of them: each was given, or was made before.
    #[cfg_attr(not(feature = "worker"), expect(dead_code))]
    pub(crate) fn are_made(&self, types: &[StateType]) -> bool {
        types.iter().all(|ty| match self.0.get(&(ty.id)()) {
            Some((_, Value::Made(_, made))) => made.get().is_some(),
            Some((_, Value::Given(_))) | None => true,
        })
    }

    /// Makes what has not been made of these types. When one of them panics, so does this.
    #[cfg_attr(not(feature = "worker"), expect(dead_code))]
    pub(crate) fn make(&self, types: &[StateType]) {
        for ty in types {
            if let Some((_, Value::Made(make, made))) = self.0.get(&(ty.id)()) {
                made.get_or_init(|| make());
            }
        }
    }

    /// Whether the value of that type is made in each process.
    #[cfg_attr(not(feature = "worker"), expect(dead_code))]
    pub(crate) fn is_made_here(&self, ty: &StateType) -> bool {
        matches!(self.0.get(&(ty.id)()), Some((_, Value::Made(..))))
    }

    /// Whether there is a value of that type.
    #[doc(hidden)]
    #[must_use]
    pub fn has(&self, ty: &StateType) -> bool {
        self.0.contains_key(&(ty.id)())
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<_> = self.0.values().map(|(name, _)| name).collect();
        names.sort_unstable();
        f.debug_set().entries(names).finish()
    }
}
