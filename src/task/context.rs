//! What may a task ask for? (stub)
use std::any::TypeId;
use std::marker::PhantomData;
use std::sync::Arc;

/// What a run knows of itself.
#[derive(Debug, Clone)]
pub struct Context {}

/// A value of type `T` that the program gave with `App::state`, shared by all runs.
#[derive(Debug)]
pub struct State<T>(Arc<T>);

/// The type of a state that a task asks for.
#[derive(Debug, Clone, Copy)]
pub struct StateType {
    /// Its identity.
    pub id: fn() -> TypeId,
    /// Its name as written.
    pub name: &'static str,
}

/// The values that the program gave, by type.
#[derive(Debug, Clone, Default)]
pub struct States {}

/// What a run may hand to its function.
#[derive(Debug)]
pub struct Scope<'a> {
    _lifetime: PhantomData<&'a ()>,
}

impl Scope<'_> {
    /// The context of this run.
    #[must_use]
    pub fn context(&self) -> Context {
        Context {}
    }

    /// The state of type `T`.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(&self) -> State<T> {
        unreachable!()
    }
}
