"""A call of a Rust task: what it looks like on the wire, and which calls are refused."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from delayed.task import GoTask, PyTask
from msgpack import ExtType, Timestamp, packb

from .backoff import Backoff, backoff_text
from .call_id import CallId, new_id, parse_id
from .errors import InvalidTaskError, shown
from .times import Duration, Moment, delay_ms, moment_ms, timeout_ms

__all__ = ["GoTask", "PyTask", "RustTask"]

MAX_DEPTH = 100
"""Deeper arguments are refused; it also catches a list that contains itself."""

MAX_HEADERS, MAX_HEADER_BYTES = 32, 4096
"""How many headers a call has at most, and how many bytes, names and values together."""

MAX_TRACEPARENT, MAX_TRACESTATE = 256, 512
"""How many characters they have at most."""

_TRACEPARENT = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[\s\S]*)?"
)
_TRACESTATE = re.compile(r"[\t -~]*")

INT_MIN, INT_MAX = -(2**63), 2**64 - 1
"""What a MessagePack integer holds."""

_Place = tuple[Any, Any]
"""A place within the arguments: its parent's place (or the word `args`), and an index or key."""


class RustTask:
    """A call of a Rust task by its path, for the queues of this package.

    The arguments are encoded when the task is made: a mistake is raised where it was made, and a
    later change of a list does not change what is sent. One `RustTask` is one call: a scheduled
    one has an id, under which it is scheduled once.

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
        backoff: How long it waits after each failed attempt: a `Backoff` or its text.
        timeout: How long one run may go on, at least 1 ms.
        deadline: When it is of no use any more. A run that has not begun by then does not begin,
            and one that has is asked to end. A call that is too late becomes a dead letter.
        after: How long after it was enqueued it is due, by the clock of Redis; 0 or more.
        at: When it is due, by the clock of Redis; at once where that has passed.
        id: The call's id: a UUID, its 16 bytes, or its text. A scheduled call without one gets one.
        headers: Texts that the Rust task reads by name and that are no arguments, such as a tenant:
            at most 32 with 4096 bytes, names and values together.
        traceparent: The trace that the call belongs to, as W3C Trace Context writes it.
        tracestate: What vendors add to it; not sent without a traceparent.

    Raises:
        InvalidTaskError: When the call cannot be sent; it names the argument and what to do.
    """

    __slots__ = ("_data", "_due", "_func_path", "_id", "_retry")

    def __init__(
        self,
        path: str,
        args: list[Any] | tuple[Any, ...] | None = (),
        kwargs: Mapping[str, Any] | None = None,
        retry: int | None = None,
        *,
        max_attempts: int | None = None,
        backoff: Backoff | str | None = None,
        timeout: Duration | None = None,
        deadline: Moment | None = None,
        after: Duration | None = None,
        at: Moment | None = None,
        id: CallId | None = None,
        headers: Mapping[str, str] | None = None,
        traceparent: str | None = None,
        tracestate: str | None = None,
    ) -> None:
        _check(path, args, kwargs)
        try:
            places = [_plain(value, ("args", n)) for n, value in enumerate(args or ())]
            keywords = {
                _text(key, ("kwargs", key)): _plain(value, ("kwargs", key))
                for key, value in (kwargs or {}).items()
            }
            self._retry = _retries(retry, max_attempts)
            self._due = _due(after, at)
            self._id = None if id is None else parse_id(id)
            if self._due is not None and self._id is None:
                self._id = new_id()
            meta = {
                "b": None if backoff is None else backoff_text(backoff),
                "d": None if deadline is None else moment_ms(deadline, "deadline"),
                "h": _headers(headers) or None,
                "i": None if self._id is None else self._id.bytes,
                "t": None if timeout is None else timeout_ms(timeout, "timeout"),
                "w": _trace(traceparent, tracestate),
            }
        except InvalidTaskError as error:
            raise InvalidTaskError(f"RustTask {path!r}: {error}") from None
        self._func_path = path
        if self._retry == 0 or any(value is not None for value in meta.values()):
            self._data = _native(path, places, {**meta, "k": keywords, "r": self._retry})
        else:
            self._data = _original(path, places, keywords, self._retry)

    @property
    def path(self) -> str:
        """The path of the Rust task."""
        return self._func_path

    @property
    def retry(self) -> int | None:
        """How many times a failed run is tried again; below 0 is for ever, None the task's own."""
        return self._retry

    @property
    def id(self) -> UUID | None:
        """The call's id, when it has one; a scheduled call has."""
        return self._id

    @property
    def is_scheduled(self) -> bool:
        """Whether it is to be scheduled: it was made with `after` or `at`."""
        return self._due is not None

    def serialize(self) -> bytes:
        """Return the message, as `delayed.queue.Queue.enqueue` wants it.

        Raises:
            InvalidTaskError: When the call is scheduled: the original would enqueue it at once.
        """
        if self._due is not None:
            raise InvalidTaskError(
                f"RustTask {self._func_path!r} is scheduled, and cannot be enqueued at once; "
                "enqueue it with delayed_compat.Queue or AsyncQueue"
            )
        return self._data

    def __repr__(self) -> str:
        scheduled = f", scheduled as {self._id}" if self._due is not None else ""
        said = f"retry={self._retry}, {len(self._data)} bytes{scheduled}"
        return f"RustTask({self._func_path!r}, {said})"


def entry_of(task: RustTask) -> tuple[bytes, str, bytes] | None:
    """Return what `lua/schedule.lua` takes of a scheduled call: id, when it is due, message."""
    if task._due is None or task._id is None:
        return None
    return task._id.bytes, task._due, task._data


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
        raise InvalidTaskError(f"{name} is a {_kind(value)}; give {expected}")
    if not -(2**63) <= value < 2**63:
        raise InvalidTaskError(f"{name} is {shown(value)}, beyond 64 bits; give {expected}")
    return value


def _due(after: Any, at: Any) -> str | None:
    """Return when a call is due, as `lua/schedule.lua` takes it."""
    if after is not None and at is not None:
        raise InvalidTaskError("after and at are both given; give one of them")
    if after is not None:
        return f"+{delay_ms(after, 'after')}"
    return None if at is None else str(moment_ms(at, "at", is_due=True))


def _headers(headers: Any) -> dict[str, str]:
    """Return the headers, sorted by name as Rust sorts them: by code points."""
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise InvalidTaskError(f"headers is a {_kind(headers)}; give a dict of str to str")
    size = 0
    for name, value in headers.items():
        if not isinstance(name, str) or not name:
            raise InvalidTaskError(f"headers has the name {shown(name)}; give a str, not empty")
        if not isinstance(value, str):
            raise InvalidTaskError(f"headers[{name!r}] is a {_kind(value)}; give a str")
        size += sum(len(_text(text, ("headers", name)).encode()) for text in (name, value))
    if len(headers) > MAX_HEADERS:
        raise InvalidTaskError(
            f"headers has {len(headers)} of them, at most {MAX_HEADERS} are allowed; "
            "send them as arguments"
        )
    if size > MAX_HEADER_BYTES:
        raise InvalidTaskError(
            f"headers has {size} bytes, at most {MAX_HEADER_BYTES} are allowed; "
            "send large values as arguments"
        )
    return dict(sorted(headers.items()))


def _trace(parent: Any, state: Any) -> list[str] | None:
    """Return the trace context; none without a traceparent."""
    for name, value in (("traceparent", parent), ("tracestate", state)):
        if value is not None and not isinstance(value, str):
            raise InvalidTaskError(f"{name} is a {_kind(value)}; give a str")
    if not parent:
        return None
    match = _TRACEPARENT.fullmatch(parent)
    if not match or len(parent) > MAX_TRACEPARENT or (match[1] == "00" and match[2]):
        raise InvalidTaskError(
            f"traceparent is {shown(parent)}; give 00-, 32 hex digits, -, 16 hex digits, -01 or -00"
        )
    if not state:
        return [parent]
    if len(state) > MAX_TRACESTATE or not _TRACESTATE.fullmatch(state):
        raise InvalidTaskError(
            f"tracestate is {shown(state)}; "
            f"give printable ASCII characters, at most {MAX_TRACESTATE}"
        )
    return [parent, state]


def _check(path: Any, args: Any, kwargs: Any) -> None:
    """Refuse what has the wrong shape, whatever a type checker may have let through."""
    if not isinstance(path, str):
        raise InvalidTaskError(
            f"path is a {_kind(path)}; give the Rust task's path as a str, such as "
            "'my_crate::tasks::add' (a Python function is sent with delayed.task.PyTask)"
        )
    if not path or path != path.strip():
        raise InvalidTaskError(
            f"path is {path!r}; give the Rust task's path without spaces around it, such as "
            "'my_crate::tasks::add'"
        )
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InvalidTaskError(f"path is {path!r}, which is not valid Unicode") from None

    about = f"RustTask {path!r}: "
    if args is not None and not isinstance(args, (list, tuple)):
        raise InvalidTaskError(
            f"{about}args is a {_kind(args)}; give a list or a tuple, for one argument (value,)"
        )
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise InvalidTaskError(
            f"{about}kwargs is a {_kind(kwargs)}; give a dict by the Rust parameters' names"
        )
    for key in kwargs or {}:
        if not isinstance(key, str) or not key:
            raise InvalidTaskError(
                f"{about}kwargs has the key {key!r}; every key must be a Rust parameter's name"
            )


def _plain(value: Any, place: _Place, depth: int = 0) -> Any:
    """Turn `value` into what msgpack packs without a question, or say where it cannot."""
    if depth > MAX_DEPTH:
        raise _refuse(
            place, f"is nested deeper than {MAX_DEPTH}, or contains itself; send less or flatten it"
        )
    if value is None or isinstance(value, (bool, float, bytes, bytearray, ExtType, Timestamp)):
        return value
    if isinstance(value, int):
        if INT_MIN <= value <= INT_MAX:
            return value
        raise _refuse(place, f"is {shown(value)}, beyond 64 bits; send it as a str or as bytes")
    if isinstance(value, str):
        return _text(value, place)
    if isinstance(value, memoryview):
        return value.tobytes()
    if isinstance(value, datetime):
        if value.utcoffset() is not None:
            return value
        raise _refuse(
            place,
            f"is the naive datetime {value}; give it a time zone, "
            "such as value.replace(tzinfo=timezone.utc)",
        )
    if isinstance(value, (list, tuple)):
        return [_plain(item, (place, at), depth + 1) for at, item in enumerate(value)]
    if isinstance(value, dict):
        return {
            _key(key, place): _plain(item, (place, key), depth + 1) for key, item in value.items()
        }
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name), (place, field.name), depth + 1)
            for field in dataclasses.fields(value)
        }
    raise _refuse(
        place,
        f"is a {_kind(value)}, which MessagePack cannot carry; "
        "turn it into a number, str, bytes, list, dict or dataclass first",
    )


def _text(value: str, place: _Place) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _refuse(place, "is not valid Unicode; send it as bytes") from None
    return value


def _key(key: Any, place: _Place) -> Any:
    if isinstance(key, str):
        return _text(key, (place, key))
    if isinstance(key, bytes) or (isinstance(key, int) and INT_MIN <= key <= INT_MAX):
        return key
    raise _refuse(place, f"has the key {shown(key)}; a key is a str, bytes or an int of 64 bits")


def _refuse(place: _Place, why: str) -> InvalidTaskError:
    steps: list[str] = []
    parent: Any = place
    while isinstance(parent, tuple):
        parent, step = parent
        steps.append(f"[{step!r}]")
    return InvalidTaskError(f"{parent}{''.join(reversed(steps))} {why}")


def _kind(value: Any) -> str:
    return type(value).__qualname__
