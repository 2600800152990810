"""Calls of Python and Go functions, with options of their place in a queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from delayed.task import GoTask as OriginalGoTask
from delayed.task import PyTask as OriginalPyTask

from .call_id import CallId, new_id, parse_id
from .errors import InvalidTaskError
from .task import Overflow, Submission, bound_of, due_of, submission
from .times import Duration, Moment

__all__ = ["GoTask", "PyTask"]


def _placed(
    name: str,
    after: Any,
    at: Any,
    id: Any,
    front: Any,
    max_len: Any,
    overflow: Any,
) -> tuple[str | None, UUID | None, Submission | None]:
    """Return when a call is due, its id, and what `lua/submit.lua` is told of it."""
    try:
        due = due_of(after, at)
        if id is not None and due is None:
            raise InvalidTaskError("only a scheduled call has an id; give after or at, too")
        known = parse_id(id) if id is not None else None if due is None else new_id()
        return due, known, submission(None, b"", 0, front, bound_of(max_len, overflow))
    except InvalidTaskError as error:
        raise InvalidTaskError(f"{name}: {error}") from None


class _Placed:
    """The options of a message that has no place for options."""

    __slots__ = ()

    _due: str | None
    _func_path: str
    _id: UUID | None
    _submission: Submission | None

    @property
    def id(self) -> UUID | None:
        """The id under which the call is scheduled; None for one that is not."""
        return self._id

    @property
    def is_scheduled(self) -> bool:
        """Whether it is to be scheduled: it was made with `after` or `at`."""
        return self._due is not None

    @property
    def needs_script(self) -> bool:
        """Whether only the queues of this package can enqueue it."""
        return self._due is not None or self._submission is not None

    def serialize(self) -> bytes | None:
        """Return the message, as `delayed.queue.Queue.enqueue` wants it.

        Raises:
            InvalidTaskError: When the call has options: the original would just enqueue it.
        """
        if self.needs_script:
            raise InvalidTaskError(
                f"{type(self).__name__} {self._func_path!r} has options, and cannot be enqueued by "
                "the original package; enqueue it with delayed_compat.Queue or AsyncQueue"
            )
        return super().serialize()  # type: ignore[misc, no-any-return]

    def _message(self) -> bytes:
        return bytes(super().serialize())  # type: ignore[misc]


class PyTask(_Placed, OriginalPyTask):
    """The original `delayed.task.PyTask`, a call of a Python function, with more options.

    The message is that of the original: a Python worker runs it.

    Args:
        func: The function, or its path: `package.module:function`.
        args: The positional arguments.
        kwargs: The keyword arguments.
        retry: How many times a failed run is tried again; below 0 is for ever.
        after: As of `RustTask`.
        at: As of `RustTask`.
        id: The id under which it is scheduled, as of `RustTask`; the worker does not see it.
        front: As of `RustTask`.
        max_len: As of `RustTask`.
        overflow: As of `RustTask`.

    Raises:
        InvalidTaskError: For options that cannot be meant.
    """

    __slots__ = ("_due", "_id", "_submission")

    def __init__(
        self,
        func: Callable[..., Any] | str,
        args: list[Any] | tuple[Any, ...] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        retry: int = 0,
        *,
        after: Duration | None = None,
        at: Moment | None = None,
        id: CallId | None = None,
        front: bool = False,
        max_len: int | None = None,
        overflow: Overflow | None = None,
    ) -> None:
        OriginalPyTask.__init__(self, func, args, None if kwargs is None else dict(kwargs), retry)
        name = f"PyTask {self._func_path!r}"
        placed = _placed(name, after, at, id, front, max_len, overflow)
        self._due, self._id, self._submission = placed


class GoTask(_Placed, OriginalGoTask):
    """The original `delayed.task.GoTask`, a call of a Go function, with more options.

    The message is that of the original: a Go worker runs it.

    Args:
        func_path: The path of the function, as it is registered in Go: `package.Function`.
        args: The arguments.
        after: As of `RustTask`.
        at: As of `RustTask`.
        id: The id under which it is scheduled, as of `RustTask`; the worker does not see it.
        front: As of `RustTask`.
        max_len: As of `RustTask`.
        overflow: As of `RustTask`.

    Raises:
        InvalidTaskError: For options that cannot be meant.
    """

    __slots__ = ("_due", "_id", "_submission")

    def __init__(
        self,
        func_path: str,
        args: Any = None,
        *,
        after: Duration | None = None,
        at: Moment | None = None,
        id: CallId | None = None,
        front: bool = False,
        max_len: int | None = None,
        overflow: Overflow | None = None,
    ) -> None:
        OriginalGoTask.__init__(self, func_path, args)
        placed = _placed(f"GoTask {func_path!r}", after, at, id, front, max_len, overflow)
        self._due, self._id, self._submission = placed
