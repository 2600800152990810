//! The assertions about what is enqueued.

/// Checks that a call is enqueued, and returns the first such [`EnqueuedCall`](crate::testing::EnqueuedCall).
///
/// ```
/// use std::time::Duration;
/// use delayed::testing::{Redis, assert_enqueued, refute_enqueued};
///
/// mod mail {
///     #[delayed::task(queue = "mail")]
///     pub async fn send(to: String, text: Option<String>) {}
///     #[delayed::task]
///     pub fn cancel(id: u64) {}
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), delayed::Error> {
/// # let redis = Redis::start().await;
/// let call = mail::send::call("ann@example.org".into(), Some("hello".into())).after(Duration::from_secs(60));
/// redis.client().enqueue(call).await?;
///
/// assert_enqueued!(redis, mail::send);
/// assert_enqueued!(redis, mail::send, args: ["ann@example.org", _], queue: "mail", times: 1);
/// assert_enqueued!(redis, mail::send, args: ["ann@example.org", ..], after: Duration::from_secs(60)..);
/// assert_enqueued!(redis, mail::send, args: [|to: &str| to.ends_with("example.org"), _]);
/// assert_enqueued!(redis, mail::send, args: |to: &str, text: Option<&str>| text.is_some_and(|text| text.len() < to.len()));
/// let call = assert_enqueued!(redis, queue: "mail");
/// assert_eq!(call.argument::<String>(1), "hello");
/// refute_enqueued!(redis, mail::cancel);
/// # Ok(()) }
/// ```
///
/// The task comes first: its name in Rust, or its path as a literal, as for a function of Python or Go: `"mails.tasks:send"`.
/// Without it, any task fits. The options, in any order:
///
/// | option | matches a call |
/// |---|---|
/// | `args: ["ann", _, ..]` | with these arguments: a value, `None`, `_` for any value, or a closure with the type of the argument; `..` at the end for all remaining arguments |
/// | `args: \|to: &str, n: u32\| n > 3` | whose arguments satisfy the condition |
/// | `queue: "mail"` | in this queue |
/// | `after: Duration::from_secs(60)..` | that is due after this time: a range, a `Duration` (to the second), or `..` for any time. [`EnqueuedCall::after`](crate::testing::EnqueuedCall::after) describes how the time is counted; it may be up to a second less |
/// | `times: 2` | if there are exactly this many |
///
/// Values are encoded as an argument of the task would be, and compared after both are decoded: `7` matches a `u8` and an `i64`, `"x"`
/// a `String` and an `Option<String>`. Of a task that this program does not have, arguments by keyword are not compared.
///
/// It reads Redis while the thread waits, which is allowed in async code too.
///
/// # Panics
/// There is no such call. The message lists all calls that are enqueued, and what is wrong with those of the task:
///
/// ```text
/// expected an enqueued call: mail::send, args: ["bob@example.org", _]
/// enqueued:
///   mail: shop::mail::send("ann@example.org", "hello"), after 1m [argument 1 (`to`) differs]
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __assert_enqueued {
    ($redis:expr $(,)?) => {
        $crate::testing::__private::assert_enqueued(
            &$redis,
            "any",
            &$crate::testing::__private::Expectation::any(),
        )
    };
    ($redis:expr, $($call:tt)+) => {
        $crate::testing::__private::assert_enqueued(
            &$redis,
            ::core::stringify!($($call)+),
            &$crate::testing::__private::expected_call!($($call)+),
        )
    };
}

/// Checks that no such call is enqueued; without a task and options, that nothing is. It takes what
/// [`assert_enqueued!`](crate::testing::assert_enqueued) takes.
///
/// # Panics
/// There is such a call. The message lists all of them.
#[doc(hidden)]
#[macro_export]
macro_rules! __refute_enqueued {
    ($redis:expr $(,)?) => {
        $crate::testing::__private::refute_enqueued(
            &$redis,
            "any",
            &$crate::testing::__private::Expectation::any(),
        )
    };
    ($redis:expr, $($call:tt)+) => {
        $crate::testing::__private::refute_enqueued(
            &$redis,
            ::core::stringify!($($call)+),
            &$crate::testing::__private::expected_call!($($call)+),
        )
    };
}

/// What is expected of a call: the task, then its options one by one.
#[doc(hidden)]
#[macro_export]
macro_rules! __expected_call {
    (@ $so_far:expr ;) => { $so_far };
    (@ $so_far:expr ; queue: $queue:expr $(, $($rest:tt)*)?) => {
        $crate::testing::__private::expected_call!(@ $so_far.in_queue(&$queue) ; $($($rest)*)?)
    };
    (@ $so_far:expr ; after: $due:expr $(, $($rest:tt)*)?) => {
        $crate::testing::__private::expected_call!(@ $so_far.due($due) ; $($($rest)*)?)
    };
    (@ $so_far:expr ; times: $times:expr $(, $($rest:tt)*)?) => {
        $crate::testing::__private::expected_call!(@ $so_far.times($times) ; $($($rest)*)?)
    };
    (@ $so_far:expr ; args: [$($args:tt)*] $(, $($rest:tt)*)?) => {
        $crate::testing::__private::expected_call!(@ $crate::testing::__private::expected_args!($so_far ; [] $($args)*) ; $($($rest)*)?)
    };
    (@ $so_far:expr ; args: |$($name:ident : $ty:ty),* $(,)?| $check:expr $(, $($rest:tt)*)?) => {
        $crate::testing::__private::expected_call!(@ $so_far.all(
            [$(::core::stringify!($name)),*].len(),
            $crate::testing::__private::Position::check(|reader| {
                $(let $name: $ty = $crate::testing::__private::next(reader)?;)*
                ::core::option::Option::Some($check)
            }),
        ) ; $($($rest)*)?)
    };
    (@ $so_far:expr ; $option:ident : $($rest:tt)*) => {
        ::core::compile_error!(::core::concat!(
            "unknown option or invalid value: `", ::core::stringify!($option),
            "`; expected `args: […]`, `args: |name: Type| …`, `queue: …`, `after: …` or `times: …`"
        ))
    };
    ($option:ident : $($rest:tt)*) => {
        $crate::testing::__private::expected_call!(@ $crate::testing::__private::Expectation::any() ; $option : $($rest)*)
    };
    ($path:literal $(, $($rest:tt)*)?) => {
        $crate::testing::__private::expected_call!(@ $crate::testing::__private::Expectation::of_path($path) ; $($($rest)*)?)
    };
    ($task:path $(, $($rest:tt)*)?) => {
        $crate::testing::__private::expected_call!(@ $crate::testing::__private::Expectation::of_task::<$task>() ; $($($rest)*)?)
    };
}

/// What is expected of arguments, one by one.
#[doc(hidden)]
#[macro_export]
macro_rules! __expected_args {
    ($so_far:expr ; [$($done:tt)*]) => { $so_far.each(::std::vec![$($done)*], false) };
    ($so_far:expr ; [$($done:tt)*] .. $(,)?) => { $so_far.each(::std::vec![$($done)*], true) };
    ($so_far:expr ; [$($done:tt)*] _ $(, $($rest:tt)*)?) => {
        $crate::testing::__private::expected_args!(
            $so_far ; [$($done)* $crate::testing::__private::Position::Any,] $($($rest)*)?
        )
    };
    ($so_far:expr ; [$($done:tt)*] None $(, $($rest:tt)*)?) => {
        $crate::testing::__private::expected_args!(
            $so_far ; [$($done)* $crate::testing::__private::Position::value(&()),] $($($rest)*)?
        )
    };
    ($so_far:expr ; [$($done:tt)*] |$name:ident : $ty:ty| $check:expr $(, $($rest:tt)*)?) => {
        $crate::testing::__private::expected_args!($so_far ; [$($done)* $crate::testing::__private::Position::check(|reader| {
            let $name: $ty = $crate::testing::__private::next(reader)?;
            ::core::option::Option::Some($check)
        }),] $($($rest)*)?)
    };
    ($so_far:expr ; [$($done:tt)*] $value:expr $(, $($rest:tt)*)?) => {
        $crate::testing::__private::expected_args!(
            $so_far ; [$($done)* $crate::testing::__private::Position::value(&$value),] $($($rest)*)?
        )
    };
}

#[doc(inline)]
pub use __assert_enqueued as assert_enqueued;
pub use __expected_args as expected_args;
pub use __expected_call as expected_call;
#[doc(inline)]
pub use __refute_enqueued as refute_enqueued;
