"""A call of a Rust task: what it looks like on the wire, and which calls are refused."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Protocol
from uuid import UUID

from msgpack import Unpacker, packb

from .annotations import headers_of, limits_of, trace_of
from .arguments import check, keyword_arguments, kind_of, places_of, standard_payload
from .backoff import Backoff, backoff_text
from .call_id import CallId, new_id, parse_id
from .errors import InvalidTaskError, shown
from .times import Duration, Moment, delay_ms, moment_ms, span_ms, timeout_ms
from .unique import REPLACES, Unique, lock_of, lock_of_order, mode_of

__all__ = ["Call", "RustStep", "RustTask"]


Overflow = Literal["reject", "bury_oldest"]
"""What happens to a call for a full queue: it is refused, or the oldest becomes a dead letter."""


class Bound(NamedTuple):
    """How many messages may wait before a call, and what happens when as many do."""

    max_len: int
    """0: any number."""
    buries: bool
    """Whether the oldest makes room; else the new one is refused."""


class Submission(NamedTuple):
    """What `lua/submit.lua` is told of a call beside its id, when it is due, and its message."""

    keep: int | None
    lock: bytes
    period: int
    front: bool
    bound: Bound


class Call:
    """A call of a Rust task with its options: what a `RustTask` and a `RustStep` have in common."""

    __slots__ = (
        *("_data", "_due", "_expires", "_func_path", "_has_own_id", "_id", "_queue", "_retry"),
        "_submission",
    )

    _taken: ClassVar[tuple[None, ...]] = ()
    """What stands for arguments that are known later."""

    def __init__(
        self,
        path: str,
        args: list[Any] | tuple[Any, ...] | None = (),
        kwargs: Mapping[str, Any] | None = None,
        retry: int | None = None,
        *,
        max_attempts: int | None = None,
        retry_for: Duration | None = None,
        backoff: Backoff | str | None = None,
        timeout: Duration | None = None,
        expires: Duration | None = None,
        expires_at: Moment | None = None,
        after: Duration | None = None,
        at: Moment | None = None,
        id: CallId | None = None,
        queue: str | None = None,
        headers: Mapping[str, str] | None = None,
        traceparent: str | None = None,
        tracestate: str | None = None,
        limit: str | list[str] | tuple[str, ...] | None = None,
        keep: Duration | None = None,
        unique: Unique | None = None,
        unique_key: str | None = None,
        ordered: str | None = None,
        front: bool = False,
        max_len: int | None = None,
        overflow: Overflow | None = None,
    ) -> None:
        about = self._about(path)
        check(about, path, args, kwargs)
        try:
            places, keywords = [*self._taken, *places_of(args)], keyword_arguments(kwargs)
            self._retry = _retries(retry, max_attempts)
            self._due = due_of(after, at)
            lock, period = _lock(path, places, keywords, unique, unique_key)
            if ordered is not None:
                lock = _order(ordered, bool(lock), self._due is not None)
            is_followed = bool(lock) or id is not None
            keep_ms = span_ms(keep, "keep") if keep is not None else 0 if is_followed else None
            bound = bound_of(max_len, overflow)
            self._submission = submission(keep_ms, lock, period, front, bound)
            self._has_own_id = id is not None
            self._id = None if id is None else parse_id(id)
            self._expires = None if expires is None else span_ms(expires, "expires")
            meta = {
                "b": None if backoff is None else backoff_text(backoff),
                "d": _expires_ms(expires, expires_at, self._due),
                "g": None if retry_for is None else timeout_ms(retry_for, "retry_for"),
                "h": headers_of(headers) or None,
                "l": limits_of(limit),
                "s": keep_ms,
                "t": None if timeout is None else timeout_ms(timeout, "timeout"),
                "u": lock or None,
                "w": trace_of(traceparent, tracestate),
            }
            if self._id is None and (
                self._due is not None
                or self._submission is not None
                or self._retry == 0
                or any(value is not None for value in meta.values())
            ):
                self._id = new_id()
            meta["i"] = None if self._id is None else self._id.bytes
        except InvalidTaskError as error:
            raise InvalidTaskError(f"{about}: {error}") from None
        self._func_path, self._queue = path, queue
        self._data = self._encoded(places, keywords, meta)

    def _about(self, path: str) -> str:
        """Return what an error begins with."""
        return f"{type(self).__name__} {path!r}"

    def _encoded(self, places: list[Any], keywords: dict[str, Any], meta: dict[str, Any]) -> bytes:
        """Return the message."""
        path, retry = self._func_path, self._retry
        if retry == 0 or any(value is not None for value in meta.values()):
            return _native(path, places, {**meta, "k": keywords, "r": retry})
        return _original(path, places, keywords, retry)

    @property
    def path(self) -> str:
        """The path of the Rust task."""
        return self._func_path

    @property
    def retry(self) -> int | None:
        """How many times a failed run is tried again; below 0 is for ever, None the task's own."""
        return self._retry

    @property
    def queue(self) -> str | None:
        """The name of its queue as a part of a flow; None: that of the flow."""
        return self._queue

    def _message(self) -> bytes:
        return self._data


class RustTask(Call):
    """A call of a Rust task by its path, for the queues of this package.

    The arguments are encoded when the task is made: a mistake is raised where it was made, and a
    later change of a list does not change what is sent. One `RustTask` is one call: one with
    options has an id, under which it is scheduled once.

    On the wire it is the array `[path, args, kwargs, retry]`, trailing empty parts cut, as the
    original sends it. With one of the options that have no place there it is `[path, payload,
    meta]`, as a Rust client sends it, with the arguments by place and by keyword
    (docs/protocol.md).

    Durations are a `timedelta` or a number of seconds; moments are a `datetime` with a time zone or
    a number of seconds since 1970. Both travel in whole milliseconds.

    Args:
        path: The task's path, such as `my_crate::tasks::add`.
        args: The positional arguments. Allowed are None, bool, int (64 bits), float, str, bytes,
            datetime with a time zone, dataclass (sent as a map by field name), list, tuple and
            dict of those, `msgpack.Timestamp` and `msgpack.ExtType`.
        kwargs: Further arguments by the name of the Rust parameter.
        retry: How many times a failed run is tried again, whatever the task's own `retry` says;
            below 0 is for ever. None: the task's own holds.
        max_attempts: How many runs there may be in all, at least 1: `retry` and one more.
        retry_for: How long after its first failed attempt it is tried again, at least 1 ms. Without
            `retry`, that is as often as its back-off allows until then. None: the task's own.
        backoff: How long it waits after each failed attempt: a `Backoff` or its text.
        timeout: How long one run may go on, at least 1 ms.
        expires: How long after it could run it expires: after it was made, or after it is due. A
            run that has not begun by then does not begin, and one that has is asked to end. A call
            that has expired becomes a dead letter.
        expires_at: The moment at which it expires.
        after: How long after it was enqueued it is due, by the clock of Redis; 0 or more.
        at: When it is due, by the clock of Redis; at once where that has passed.
        id: The call's id: a UUID, its 16 bytes or its text, or any other text, such as `order:7`,
            which is the same id in each language. Another call with it is refused from the enqueue
            of this one to its end, and as long as its record is kept. A call with any other option
            gets a new one, which is not compared with others; a plain call has none, and neither
            has one with only a `retry` other than 0, whose form has no place for it.
        headers: Texts that the Rust task reads by name and that are no arguments, such as a tenant:
            at most 32 with 4096 bytes, names and values together.
        traceparent: The trace that the call belongs to, as W3C Trace Context writes it.
        tracestate: What vendors add to it; not sent without a traceparent.
        limit: The name of a limit, or several, that hold for the call beside that of its task: it
            runs only while they allow it.
        keep: For how long its record, with the state and the result, is kept after its end.
        unique: Until when it is the only one of its task with these arguments: `until_started`,
            `until_done`, a duration from its enqueue on, or `replace`: a newer one takes its place
            while it is scheduled. The task's own `unique` and `keep` are known to Rust only.
        unique_key: Compares unique calls of the task by this text instead of by their arguments.
            Without `unique` it holds until the call has ended.
        ordered: Calls of the queue with this text run one after the other, in the order of their
            enqueue: each begins when the one before it has ended. Neither with `unique` nor with
            `after` or `at`.
        front: Whether it goes to the head of its queue; not while it is scheduled.
        max_len: It is refused when so many messages wait in its queue; not when it is scheduled.
        queue: The name of its queue, as a part of a flow; by default it is that of the flow.
            Outside of a flow only the queue of this name takes it.
        overflow: With `bury_oldest` the oldest message becomes a dead letter then, with the reason
            `overflow`, and the call takes its place. `reject` is the default.

    Raises:
        InvalidTaskError: When the call cannot be sent; it names the argument and what to do.
    """

    __slots__ = ()

    @property
    def id(self) -> UUID | None:
        """The call's id; None for a call without one that has no option that needs it."""
        return self._id

    @property
    def is_scheduled(self) -> bool:
        """Whether it is to be scheduled: it was made with `after` or `at`."""
        return self._due is not None

    @property
    def needs_script(self) -> bool:
        """Whether only the queues of this package can enqueue it: it is scheduled, has the `id`
        that it was given, keeps a record, is unique, or has `front` or `max_len`."""
        return self._due is not None or self._submission is not None

    def serialize(self) -> bytes:
        """Return the message, as `delayed.queue.Queue.enqueue` wants it.

        Raises:
            InvalidTaskError: When the call is scheduled, has the `id` that it was given, keeps a
                record, is unique, or has `front` or `max_len`: the original would just enqueue it.
        """
        if self.needs_script:
            what = "is scheduled, and" if self._due is not None else "has options that"
            raise InvalidTaskError(
                f"RustTask {self._func_path!r} {what} cannot be enqueued by the original package; "
                "enqueue it with delayed_compat.Queue or AsyncQueue"
            )
        return self._data

    def __repr__(self) -> str:
        scheduled = f", scheduled as {self._id}" if self._due is not None else ""
        said = f"retry={self._retry}, {len(self._data)} bytes{scheduled}"
        return f"RustTask({self._func_path!r}, {said})"


class RustStep(Call):
    """A call of a flow whose first argument is the result of the part before it.

    After a group it is the list of the results of its members; in `on_error` it is why the flow
    failed. All other arguments and options are those of `RustTask`, but `id` and `overflow`.

        chain(RustTask("my_crate::fetch", ("https://example.org",))).then(
            RustStep("my_crate::count", ("Rust",), retry=3)
        )

    Args:
        path: The task's path.
        args: The positional arguments behind the first one.
        kwargs: Further arguments by the name of the Rust parameter.

    Raises:
        InvalidTaskError: When the call cannot be sent; it names the argument and what to do.
    """

    __slots__ = ()

    _taken = (None,)

    def __repr__(self) -> str:
        return f"RustStep({self._func_path!r}, retry={self._retry}, {len(self._data)} bytes)"


class Sendable(Protocol):
    """A task with options: a `RustTask`, or one of `foreign.py`."""

    _due: str | None
    _func_path: str
    _id: UUID | None
    _submission: Submission | None

    def _message(self) -> bytes:
        """Return the message."""


def entry_of(task: Sendable) -> tuple[bytes, str, bytes] | None:
    """Return what `lua/schedule.lua` takes of a scheduled call: id, when it is due, message."""
    if task._due is None or task._id is None or task._submission:
        return None
    return task._id.bytes, task._due, task._message()


def submission_of(task: Sendable) -> tuple[Bound, list[bytes | str | int]] | None:
    """Return the bound of the queue, and what `lua/submit.lua` takes of a call."""
    if task._submission is None:
        return None
    keep, lock, period, front, bound = task._submission
    id, path, message = task._id or new_id(), task._func_path, task._message()
    at = _place_of_id(message, id) if lock.startswith(REPLACES) else 0
    kept = "" if keep is None else keep
    return bound, [id.bytes, task._due or "", int(front), kept, lock, period, at, path, message]


def _place_of_id(message: bytes, id: UUID) -> int:
    """Return where in a message of ours the id begins."""
    unpacker = Unpacker(max_buffer_size=0)
    unpacker.feed(message)
    unpacker.read_array_header()
    unpacker.skip()
    unpacker.skip()
    unpacker.read_map_header()
    while unpacker.unpack() != "i":
        unpacker.skip()
    return message.index(id.bytes, unpacker.tell())


def _original(path: str, args: list[Any], kwargs: dict[str, Any], retry: int | None) -> bytes:
    """Write what the original makes of a `PyTask`."""
    parts = [path, args, kwargs, retry]
    while not parts[-1]:
        parts.pop()
    return bytes(packb(parts, datetime=True))


def _native(path: str, args: list[Any], meta: dict[str, Any]) -> bytes:
    """Write what a Rust client makes of a call; `k` says that the arguments are by place."""
    said = {key: value for key, value in sorted(meta.items()) if value is not None}
    return bytes(packb([path, packb(args, datetime=True), said], datetime=True))


def _retries(retry: Any, max_attempts: Any) -> int | None:
    if max_attempts is None:
        expected = "a whole number of retries, -1 for ever"
        return None if retry is None else _count(retry, "retry", expected)
    if retry is not None:
        raise InvalidTaskError("retry and max_attempts are both given; give one of them")
    attempts = _count(max_attempts, "max_attempts", "a whole number from 1 on")
    if not 0 <= attempts < 2**32:
        raise InvalidTaskError(f"max_attempts is {attempts}; give a whole number from 1 to 2^32-1")
    return max(attempts, 1) - 1


def _count(value: Any, name: str, expected: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidTaskError(f"{name} is a {kind_of(value)}; give {expected}")
    if not -(2**63) <= value < 2**63:
        raise InvalidTaskError(f"{name} is {shown(value)}, beyond 64 bits; give {expected}")
    return value


def due_of(after: Any, at: Any) -> str | None:
    """Return when a call is due, as `lua/schedule.lua` takes it."""
    if after is not None and at is not None:
        raise InvalidTaskError("after and at are both given; give one of them")
    if after is not None:
        return f"+{delay_ms(after, 'after')}"
    return None if at is None else str(moment_ms(at, "at", is_due=True))


def _expires_ms(expires: Any, expires_at: Any, due: str | None) -> int | None:
    """Return when a call expires, in milliseconds since 1970."""
    if expires is not None and expires_at is not None:
        raise InvalidTaskError("expires and expires_at are both given; give one of them")
    if expires is None:
        return None if expires_at is None else moment_ms(expires_at, "expires_at")
    now, left = time.time_ns() // 1_000_000, span_ms(expires, "expires")
    if due is None:
        return now + left
    return left + (now + int(due) if due.startswith("+") else max(now, int(due)))


def _lock(
    path: str, places: list[Any], keywords: dict[str, Any], unique: Any, key: Any
) -> tuple[bytes, int]:
    """Return the lock of a call, empty where it is not unique, and the period of that in ms."""
    if key is not None and not isinstance(key, str):
        raise InvalidTaskError(f"unique_key is a {kind_of(key)}; give a str")
    mode = mode_of(unique, key is not None)
    if mode is None:
        return b"", 0
    if keywords and key is None:
        raise InvalidTaskError(
            "unique compares arguments by place, and there are some by keyword; "
            "give all of them in args, or give a unique_key"
        )
    letter, period = mode
    return lock_of(letter, path, standard_payload(places), key), period


def _order(key: Any, is_unique: bool, is_scheduled: bool) -> bytes:
    """Return the lock of a call that runs in its order."""
    if not isinstance(key, str):
        raise InvalidTaskError(f"ordered is a {kind_of(key)}; give a str")
    if is_unique or is_scheduled:
        raise InvalidTaskError("ordered goes with neither unique nor after nor at; leave one out")
    return lock_of_order(key)


def bound_of(max_len: Any, overflow: Any) -> Bound:
    """Return the bound of a queue, by the options of a call."""
    if max_len is not None and _count(max_len, "max_len", "a whole number from 1 on") < 1:
        raise InvalidTaskError(f"max_len is {max_len}; give a whole number from 1 on")
    if overflow not in (None, "reject", "bury_oldest"):
        raise InvalidTaskError(f"overflow is {shown(overflow)}; give 'reject' or 'bury_oldest'")
    if overflow is not None and max_len is None:
        raise InvalidTaskError("overflow says what happens at max_len; give that, too")
    return Bound(max_len or 0, overflow == "bury_oldest")


def submission(
    keep: int | None, lock: bytes, period: int, front: Any, bound: Bound
) -> Submission | None:
    """Return what `lua/submit.lua` is told of a call; None for one that does not need it."""
    if not isinstance(front, bool):
        raise InvalidTaskError(f"front is a {kind_of(front)}; give True or False")
    if keep is None and not front and not bound.max_len:
        return None
    return Submission(keep, lock, period, front, bound)
