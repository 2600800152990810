//! What does the program share with its tasks? Values by type.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// A value of type `T` that the program gave with `App::state`, shared by all runs of a process.
///
/// A parameter of this type is not sent with the call; the worker gives it. Cheap to clone.
pub struct State<T>(Arc<T>);

impl<T> State<T> {
    /// Shares `value`, to call a task's function by hand.
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

/// The type of a state that a task asks for.
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

/// The values that the program gave, one of each type.
#[derive(Clone, Default)]
pub struct States(HashMap<TypeId, (&'static str, Value)>);

impl States {
    /// No values.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `value`; it replaces one of the same type.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), (type_name::<T>(), Value::Given(Arc::new(value))));
    }

    /// Adds a value that `make` makes when a task first asks for it, in each process for itself; it replaces one of
    /// the same type. When `make` panics, the run that asked for it does.
    pub fn insert_with<T: Send + Sync + 'static>(&mut self, make: impl Fn() -> T + Send + Sync + 'static) {
        let make = move || -> Shared { Arc::new(make()) };
        self.0.insert(TypeId::of::<T>(), (type_name::<T>(), Value::Made(Arc::new(make), Arc::default())));
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

    /// Whether there is a value of that type.
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
