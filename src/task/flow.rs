//! Builds flows: chains and groups of calls.

use std::fmt;
use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

use crate::protocol::encode::{EncodeError, Encoder};
use crate::protocol::flow::{self, Node, Plan, Policy};
use crate::protocol::plan_error::PlanError;
use crate::task::call::{Call, IntoCall};
use crate::task::registration::Task;

/// Runs parts one after the other: each begins when the one before it has succeeded. Begins with `first`; add others with
/// [`then`](Chain::then).
///
/// ```
/// mod tasks {
///     #[delayed::task]
///     pub async fn fetch(url: String) -> String { url }
///
///     #[delayed::task]
///     pub async fn count(page: String, word: String) -> usize { page.matches(&word).count() }
///
///     #[delayed::task]
///     pub async fn alert(failure: delayed::FlowFailure) { println!("{failure}") }
/// }
///
/// use delayed::chain;
///
/// let flow = chain(tasks::fetch::call("https://example.org".into()))
///     .then(tasks::count::step("Rust".into()))
///     .on_error(tasks::alert::step());
/// # drop(flow);
/// ```
///
/// `count::step("Rust")` is a call of `count` whose first argument is the result of the part before it; `count::call(…)` can stand
/// there as well, and ignores that result. A step whose first parameter cannot take the result does not compile:
///
/// ```compile_fail
/// mod tasks {
///     #[delayed::task]
///     pub async fn fetch(url: String) -> String { url }
///
///     #[delayed::task]
///     pub async fn double(number: u64) -> u64 { 2 * number }
/// }
///
/// delayed::chain(tasks::fetch::call("https://example.org".into())).then(tasks::double::step());
/// ```
pub fn chain<In, P: FlowPart<In>>(first: P) -> Chain<In, P::Output> {
    Chain::<In, ()> { parts: Ok(Vec::new()), types: PhantomData }.and(first.into_part())
}

/// Runs parts of one kind at the same time. Its result is the list of theirs, in their order.
///
/// ```
/// mod tasks {
///     #[delayed::task]
///     pub async fn resize(image: String) -> String { image }
///
///     #[delayed::task]
///     pub async fn publish(images: Vec<String>, book: u64) {}
/// }
///
/// use delayed::{IntoFlow, group};
///
/// let images = ["a.png", "b.png"].map(String::from);
/// let flow = group(images.map(tasks::resize::call)).at_most(8).then(tasks::publish::step(7)).into_flow();
/// # drop(flow);
/// ```
///
/// All members take the result of the part before the group, if they are steps. A group without members succeeds at once.
pub fn group<In, P: FlowPart<In>>(members: impl IntoIterator<Item = P>) -> Group<In, Vec<P::Output>> {
    let members: Result<Vec<Node>, EncodeError> =
        members.into_iter().map(|part| part.into_part().0).collect();
    Group::new(members)
}

/// Runs parts of different kinds at the same time. Its result is the tuple of theirs: at most eight parts.
///
/// ```
/// mod tasks {
///     #[delayed::task]
///     pub async fn name(user: u64) -> String { user.to_string() }
///
///     #[delayed::task]
///     pub async fn orders(user: u64) -> Vec<u64> { vec![user] }
///
///     #[delayed::task]
///     pub async fn report(of: (String, Vec<u64>)) {}
/// }
///
/// use delayed::{IntoFlow, group_of};
///
/// let flow = group_of((tasks::name::call(7), tasks::orders::call(7))).then(tasks::report::step()).into_flow();
/// # drop(flow);
/// ```
pub fn group_of<In, M: Members<In>>(members: M) -> Group<In, M::Output> {
    Group::new(members.into_parts().into_iter().map(|part| part.0).collect())
}

/// A part of a flow that can follow one that returns `In`: a [`Call`], a [`Step`], a [`Chain`] or a [`Group`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot follow a part of a flow that returns `{In}`",
    label = "expected a call, or a step whose first parameter takes `{In}`",
    note = "`my_task::step(…)` takes the result of the part before it as its first argument; `my_task::call(…)` ignores it"
)]
pub trait FlowPart<In> {
    /// What it returns.
    type Output;

    /// The part, encoded.
    #[doc(hidden)]
    fn into_part(self) -> Part;
}

/// The parts of [`group_of`]: a tuple of [`FlowPart`]s.
pub trait Members<In> {
    /// The tuple of what they return.
    type Output;

    /// The parts, encoded.
    #[doc(hidden)]
    fn into_parts(self) -> Vec<Part>;
}

/// A parameter that takes the result `In` of the part before it: one of the same type, or an `Option` of it.
#[diagnostic::on_unimplemented(
    message = "a first parameter of type `{Self}` cannot take `{In}`, which the part before it returns",
    label = "this step takes `{Self}`",
    note = "the types have to be the same; or use `my_task::call(…)`, which ignores the result"
)]
pub trait Takes<In> {}

impl<T> Takes<T> for T {}

impl<T> Takes<T> for Option<T> {}

/// An encoded part of a flow, or why it cannot be encoded.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct Part(Result<Node, EncodeError>);

/// A call of a flow whose first argument is the result of the part before it: `my_task::step(…)` makes one, with the arguments that
/// follow. It has the options of a [`Call`].
#[must_use = "a step does nothing until it is part of a flow"]
pub struct Step<First, R = ()> {
    call: Call<R>,
    first: PhantomData<fn(First)>,
}

impl<First, R> Step<First, R> {
    /// A step of `T`, with nil as the first of the arguments in `encoder`.
    #[doc(hidden)]
    pub fn new<T: Task>(encoder: Encoder) -> Self {
        Self { call: Call::new::<T>(encoder), first: PhantomData }
    }

    /// Sets options of its call:
    ///
    /// ```
    /// # mod tasks { #[delayed::task] pub fn count(page: String) {} }
    /// let step = tasks::count::step().with(|call| call.queue("slow").retry(5));
    /// # drop(step);
    /// ```
    pub fn with(self, change: impl FnOnce(Call<R>) -> Call<R>) -> Self {
        Self { call: change(self.call), first: PhantomData }
    }
}

impl<First, R> Clone for Step<First, R> {
    fn clone(&self) -> Self {
        Self { call: self.call.clone(), first: PhantomData }
    }
}

impl<First, R> fmt::Debug for Step<First, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step").field("call", &self.call).finish()
    }
}

/// Parts that run one after the other: see [`chain`].
#[derive(Debug, Clone)]
#[must_use = "a chain does nothing until a client enqueues it"]
pub struct Chain<In, R> {
    parts: Result<Vec<Node>, EncodeError>,
    types: PhantomData<fn(In) -> R>,
}

/// Parts that run at the same time: see [`group`].
#[derive(Debug, Clone)]
#[must_use = "a group does nothing until a client enqueues it"]
pub struct Group<In, R> {
    members: Result<Vec<Node>, EncodeError>,
    at_most: Option<u32>,
    policy: Policy,
    types: PhantomData<fn(In) -> R>,
}

/// A whole flow, ready to be enqueued: with [`Client::enqueue_flow`](crate::Client::enqueue_flow), or as the [`call`](Self::call) that
/// it is.
#[derive(Debug, Clone)]
#[must_use = "a flow does nothing until a client enqueues it"]
pub struct Flow<R = ()> {
    root: Result<Node, EncodeError>,
    on_error: Option<Result<flow::Step, EncodeError>>,
    returns: PhantomData<fn() -> R>,
}

/// Why a flow failed: the argument of the step that [`on_error`](Flow::on_error) sets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FlowFailure {
    /// The id of the flow.
    pub flow: String,
    /// The number of the first step that failed, as in the tree of the flow.
    pub step: u32,
    /// The path of its task.
    pub task: String,
    /// How it ended: `dead`, `expired` or `cancelled`.
    pub state: String,
    /// Why.
    pub reason: String,
}

impl fmt::Display for FlowFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { flow, step, task, state, reason } = self;
        write!(f, "flow {flow}: step {step} (`{task}`) is {state}: {reason}")
    }
}

/// Chains and groups of a whole flow, and flows themselves.
pub trait IntoFlow {
    /// What the flow returns.
    type Output;

    /// The flow.
    fn into_flow(self) -> Flow<Self::Output>;
}

impl<In, R> FlowPart<In> for Call<R> {
    type Output = R;

    fn into_part(self) -> Part {
        Part(self.flow_step(false).map(Node::of_step))
    }
}

impl<In, First: Takes<In>, R> FlowPart<In> for Step<First, R> {
    type Output = R;

    fn into_part(self) -> Part {
        Part(self.call.flow_step(true).map(Node::of_step))
    }
}

impl<In, R> FlowPart<In> for Chain<In, R> {
    type Output = R;

    fn into_part(self) -> Part {
        Part(self.parts.map(|parts| Node { chain: Some(parts), ..Node::default() }))
    }
}

impl<In, R> FlowPart<In> for Group<In, R> {
    type Output = R;

    fn into_part(self) -> Part {
        let Self { members, at_most, policy, .. } = self;
        Part(members.map(|members| Node { group: Some(members), at_most, policy, ..Node::default() }))
    }
}

impl<In, R> Chain<In, R> {
    /// Adds a part, which begins when those before it have succeeded.
    pub fn then<P: FlowPart<R>>(self, part: P) -> Chain<In, P::Output> {
        self.and(part.into_part())
    }

    fn and<Out>(self, part: Part) -> Chain<In, Out> {
        let parts = self.parts.and_then(|mut parts| {
            parts.push(part.0?);
            Ok(parts)
        });
        Chain { parts, types: PhantomData }
    }
}

impl<In, R> Group<In, R> {
    fn new(members: Result<Vec<Node>, EncodeError>) -> Self {
        Self { members, at_most: None, policy: Policy::WaitForAll, types: PhantomData }
    }

    /// Lets this many members run at a time, at least 1. The others begin, in order, as members end.
    pub fn at_most(self, members: u32) -> Self {
        Self { at_most: Some(members.max(1)), ..self }
    }

    /// Lets the group fail with its first member that fails: the others are cancelled. Otherwise it waits for all, and fails
    /// then.
    pub fn fail_fast(self) -> Self {
        Self { policy: Policy::FailFast, ..self }
    }

    /// Lets the group succeed with the results of the members that succeeded, in order; with none of them, if none did.
    pub fn successes(self) -> Self {
        Self { policy: Policy::Successes, ..self }
    }

    /// A chain of this group and a part that begins when the group has succeeded.
    pub fn then<P: FlowPart<R>>(self, part: P) -> Chain<In, P::Output> {
        chain(self).then(part)
    }
}

impl<R> Chain<(), R> {
    /// Sets what runs if the flow fails: see [`Flow::on_error`].
    pub fn on_error<P: FlowPart<FlowFailure>>(self, part: P) -> Flow<R> {
        self.into_flow().on_error(part)
    }
}

impl<R> Group<(), R> {
    /// Sets what runs if the flow fails: see [`Flow::on_error`].
    pub fn on_error<P: FlowPart<FlowFailure>>(self, part: P) -> Flow<R> {
        self.into_flow().on_error(part)
    }
}

impl<R> Flow<R> {
    /// Sets what runs, once, if the flow fails: a call, or a step that takes the [`FlowFailure`]. It does not run if the flow is
    /// cancelled.
    pub fn on_error<P: FlowPart<FlowFailure>>(self, part: P) -> Self {
        let step = part.into_part().0.and_then(|node| match node.step {
            Some(step) => Ok(*step),
            None => Err(PlanError::OnError.into()),
        });
        Self { on_error: Some(step), ..self }
    }

    /// The call that begins the flow, with options of its own: when it is due, for how long its record is kept, a unique key, its
    /// id. Its queue is that of the first step, and has to be served by a worker of this library.
    ///
    /// ```
    /// # mod tasks { #[delayed::task] pub fn fetch(url: String) {} }
    /// use std::time::Duration;
    ///
    /// let flow = delayed::chain(tasks::fetch::call("https://example.org".into())).into_flow();
    /// let tomorrow = flow.call().after(Duration::from_secs(86_400)).id("fetch:7");
    /// # use delayed::IntoFlow;
    /// # drop(tomorrow);
    /// ```
    pub fn call(self) -> Call<R> {
        let Self { root, on_error, returns: _ } = self;
        let plan = root.and_then(|root| Ok(Plan { root, on_error: on_error.transpose()? }));
        let queue = plan.as_ref().ok().and_then(|plan| plan.root.first_queue()).map(str::to_owned);
        let payload = plan.and_then(|plan| {
            plan.flatten()?;
            flow::encoded(&plan)
        });
        Call::of_flow(queue, payload)
    }
}

impl<R> IntoCall for Flow<R> {
    type Output = R;

    fn into_call(self) -> Call<R> {
        self.call()
    }
}

impl<R> IntoFlow for Flow<R> {
    type Output = R;

    fn into_flow(self) -> Self {
        self
    }
}

impl<R> IntoFlow for Chain<(), R> {
    type Output = R;

    fn into_flow(self) -> Flow<R> {
        Flow { root: FlowPart::<()>::into_part(self).0, on_error: None, returns: PhantomData }
    }
}

impl<R> IntoFlow for Group<(), R> {
    type Output = R;

    fn into_flow(self) -> Flow<R> {
        Flow { root: FlowPart::<()>::into_part(self).0, on_error: None, returns: PhantomData }
    }
}

macro_rules! members {
    ($($part:ident),*) => {
        impl<In, $($part: FlowPart<In>),*> Members<In> for ($($part,)*) {
            type Output = ($($part::Output,)*);

            #[expect(non_snake_case, reason = "a part is called like its type")]
            fn into_parts(self) -> Vec<Part> {
                let ($($part,)*) = self;
                vec![$($part.into_part()),*]
            }
        }
    };
}

members!(A);
members!(A, B);
members!(A, B, C);
members!(A, B, C, D);
members!(A, B, C, D, E);
members!(A, B, C, D, E, F);
members!(A, B, C, D, E, F, G);
members!(A, B, C, D, E, F, G, H);
