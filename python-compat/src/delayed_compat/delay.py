"""The original's decorator, whose functions can also stand for Rust tasks."""

from __future__ import annotations

from functools import partial, wraps
from typing import TYPE_CHECKING, Any, overload

from delayed.queue import Queue as OriginalQueue
from delayed.task import PyTask

from .backoff import Backoff
from .errors import InvalidTaskError
from .handle import AsyncHandle, Handle
from .queue import AsyncQueue, Queue
from .task import Overflow, RustStep, RustTask
from .times import Duration
from .unique import Unique

if TYPE_CHECKING:  # a Python 3.9 has no ParamSpec
    from collections.abc import Awaitable, Callable
    from typing import ParamSpec, Protocol, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")
    R_co = TypeVar("R_co", covariant=True)
    S_co = TypeVar("S_co", covariant=True)

    class Delayed(Protocol[P, R_co, S_co]):
        """A function with a method `delay`, which enqueues a call of it, and more of them."""

        @property
        def delay(self) -> Callable[P, S_co]:
            """Enqueue a call with these arguments."""

        @property
        def call(self) -> Callable[P, RustTask]:
            """Return a call with these arguments, as a part of a flow or to be enqueued."""

        @property
        def step(self) -> Callable[..., RustStep]:
            """Return a step of a flow, with the arguments behind the first one."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
            """Call the function itself, here and now."""

    class Decorator(Protocol[S_co]):
        """What `delayed` returns."""

        @overload
        def __call__(
            self,
            func: Callable[P, R],
            *,
            path: str | None = None,
            retry: int | None = None,
            max_attempts: int | None = None,
            retry_for: Duration | None = None,
            backoff: Backoff | str | None = None,
            timeout: Duration | None = None,
            expires: Duration | None = None,
            after: Duration | None = None,
            keep: Duration | None = None,
            unique: Unique | None = None,
            unique_key: str | None = None,
            front: bool = False,
            max_len: int | None = None,
            overflow: Overflow | None = None,
        ) -> Delayed[P, R, S_co]: ...

        @overload
        def __call__(
            self,
            func: None = None,
            *,
            path: str | None = None,
            retry: int | None = None,
            max_attempts: int | None = None,
            retry_for: Duration | None = None,
            backoff: Backoff | str | None = None,
            timeout: Duration | None = None,
            expires: Duration | None = None,
            after: Duration | None = None,
            keep: Duration | None = None,
            unique: Unique | None = None,
            unique_key: str | None = None,
            front: bool = False,
            max_len: int | None = None,
            overflow: Overflow | None = None,
        ) -> Callable[[Callable[P, R]], Delayed[P, R, S_co]]: ...


__all__ = ["delayed"]


@overload
def delayed(queue: Queue) -> Decorator[Handle]: ...  # type: ignore[overload-overlap]


@overload
def delayed(queue: OriginalQueue) -> Decorator[None]: ...


@overload
def delayed(queue: AsyncQueue) -> Decorator[Awaitable[AsyncHandle]]: ...


def delayed(queue: OriginalQueue | AsyncQueue) -> Any:
    """Return a decorator, which gives a function a method `delay` that enqueues a call of it.

    The decorated function itself stays as it is: to call it runs it here and now. With `path` its
    `delay` calls the Rust task of that path, by the arguments that it was given; the Python
    function then shows the parameters to readers and type checkers, and its body may raise.

        delayed = delayed(queue)

        @delayed(path="my_crate::tasks::add", retry=3)
        def add(a: int, b: int) -> None:
            raise NotImplementedError  # it runs in Rust

        add.delay(1, b=2)

    `add.call(1, 2)` is such a call that is not enqueued, and `add.step(2)` a `RustStep`: parts of a
    flow, in the queue of the decorator.

    Without `path` it is as in the original: `delay` calls this function in a Python worker, and
    `@delayed`, `@delayed(retry=3)` and `delayed(func, retry=3)` are allowed.

    Args:
        queue: Where `delay` enqueues. With a `Queue` it returns a `Handle`, with an `AsyncQueue` an
            `AsyncHandle` that is to be awaited.

    The decorator takes `path`, and `retry`, `max_attempts`, `retry_for`, `backoff`, `timeout`,
    `expires`, `after`, `keep`, `unique`, `unique_key`, `front`, `max_len` and `overflow` as
    `RustTask` does; without `path` only `retry`.

    Raises:
        InvalidTaskError: The decorator, for options that are not allowed; `delay`, for arguments
            that cannot be sent.
    """

    def decorate(
        func: Callable[..., Any] | None = None,
        *,
        path: str | None = None,
        retry: int | None = None,
        **options: Any,
    ) -> Any:
        if path is not None:
            RustTask(path, retry=retry, **options)  # raises for what is wrong, here and now
        elif any(value is not None and value is not False for value in options.values()):
            raise InvalidTaskError(
                f"{', '.join(options)} is for Rust tasks; give the path of one, such as "
                "path='my_crate::tasks::add'"
            )

        def give_delay(func: Any) -> Any:
            @wraps(func)
            def delay(*args: Any, **kwargs: Any) -> Any:
                if path is None:
                    task: Any = PyTask(func, args, kwargs, retry or 0)
                else:
                    task = RustTask(path, args, kwargs, retry, **options)
                return queue.enqueue(task)

            func.delay = delay
            if path is not None:
                part = partial(_part, path, {"retry": retry, "queue": queue._name, **options})
                func.call, func.step = partial(part, RustTask), partial(part, RustStep)
            return func

        return give_delay(func) if func else give_delay

    return decorate


def _part(
    path: str,
    options: dict[str, Any],
    make: type[RustTask | RustStep],
    /,  # a parameter of the Rust task may have one of these names
    *args: Any,
    **kwargs: Any,
) -> RustTask | RustStep:
    return make(path, args, kwargs, **options)
