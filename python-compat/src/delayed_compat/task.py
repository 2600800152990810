"""A call of a Rust task: what it looks like on the wire, and which calls are refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgpack import ExtType, Timestamp, packb

from .errors import InvalidTaskError

__all__ = ["RustTask"]

MAX_DEPTH = 100
"""Deeper arguments are refused; it also catches a list that contains itself."""

INT_MIN, INT_MAX = -(2**63), 2**64 - 1
"""What a MessagePack integer holds."""

_Place = tuple[Any, Any]
"""A place within the arguments: its parent's place (or the word `args`), and an index or key."""


class RustTask:
    """A call of a Rust task by its path, for `delayed.queue.Queue.enqueue` and `enqueue_many`.

    The arguments are encoded when the task is made: a mistake is raised where it was made, and a
    later change of a list does not change what is sent.

    On the wire it is the array `[path, args, kwargs, retry]`, trailing empty parts cut, never the
    form with a bin payload: there the one argument `[1]` and the two arguments `1` look alike.

    Args:
        path: The task's path, such as `my_crate::tasks::add`.
        args: The positional arguments. Allowed are None, bool, int (64 bits), float, str, bytes,
            datetime with a time zone, dataclass (sent as a map by field name), list, tuple and
            dict of those, `msgpack.Timestamp` and `msgpack.ExtType`.
        kwargs: Further arguments by the name of the Rust parameter.
        retry: How many times a failed run is tried again; below 0 is for ever.

    Raises:
        InvalidTaskError: When the call cannot be sent; it names the argument and what to do.
    """

    __slots__ = ("_data", "_func_path", "_retry")

    def __init__(
        self,
        path: str,
        args: list[Any] | tuple[Any, ...] | None = (),
        kwargs: Mapping[str, Any] | None = None,
        retry: int = 0,
    ) -> None:
        _check(path, args, kwargs, retry)
        try:
            parts = [
                path,
                [_plain(value, ("args", at)) for at, value in enumerate(args or ())],
                {
                    _text(key, ("kwargs", key)): _plain(value, ("kwargs", key))
                    for key, value in (kwargs or {}).items()
                },
                retry,
            ]
        except InvalidTaskError as error:
            raise InvalidTaskError(f"RustTask {path!r}: {error}") from None
        while not parts[-1]:
            parts.pop()
        self._func_path = path
        self._retry = retry
        self._data: bytes = packb(parts, datetime=True)

    @property
    def path(self) -> str:
        """The path of the Rust task."""
        return self._func_path

    @property
    def retry(self) -> int:
        """How many times a failed run is tried again; below 0 is for ever."""
        return self._retry

    def serialize(self) -> bytes:
        """Return the message, as `delayed.queue.Queue.enqueue` wants it."""
        return self._data

    def __repr__(self) -> str:
        return f"RustTask({self._func_path!r}, retry={self._retry}, {len(self._data)} bytes)"


def _check(path: Any, args: Any, kwargs: Any, retry: Any) -> None:
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
    if isinstance(retry, bool) or not isinstance(retry, int):
        raise InvalidTaskError(
            f"{about}retry is a {_kind(retry)}; give a whole number of retries, -1 for ever"
        )
    if not -(2**63) <= retry < 2**63:
        raise InvalidTaskError(f"{about}retry is {retry}, beyond 64 bits; give -1 for ever")


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
        raise _refuse(place, f"is {value}, beyond 64 bits; send it as a str or as bytes")
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
    raise _refuse(place, f"has the key {key!r}; a key is a str, bytes or an int of 64 bits")


def _refuse(place: _Place, why: str) -> InvalidTaskError:
    steps: list[str] = []
    parent: Any = place
    while isinstance(parent, tuple):
        parent, step = parent
        steps.append(f"[{step!r}]")
    return InvalidTaskError(f"{parent}{''.join(reversed(steps))} {why}")


def _kind(value: Any) -> str:
    return type(value).__qualname__
