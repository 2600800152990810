"""Turns the arguments of a call into what travels, and refuses what cannot."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Union

from msgpack import ExtType, Timestamp, packb

from .errors import InvalidTaskError, shown

__all__ = [
    "check",
    "item_of",
    "keyword_arguments",
    "kind_of",
    "places_of",
    "standard_payload",
    "text_of",
]

MAX_DEPTH = 100
"""Deeper arguments are refused; it also catches a list that contains itself."""

INT_MIN, INT_MAX = -(2**63), 2**64 - 1
"""What a MessagePack integer holds."""

_Place = Union[str, tuple[Any, Any]]
"""A place within the arguments: a word for all of them, or a place and an index or key in it."""


def check(about: str, path: Any, args: Any, kwargs: Any) -> None:
    """Refuse what has the wrong shape, whatever a type checker may have let through.

    Args:
        about: What an error begins with.
        path: The path of the task.
        args: The arguments by place.
        kwargs: The arguments by keyword.
    """
    if not isinstance(path, str):
        raise InvalidTaskError(
            f"path is a {kind_of(path)}; give the Rust task's path as a str, such as "
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

    if args is not None and not isinstance(args, (list, tuple)):
        raise InvalidTaskError(
            f"{about}: args is a {kind_of(args)}; give a list or a tuple, for one argument (value,)"
        )
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise InvalidTaskError(
            f"{about}: kwargs is a {kind_of(kwargs)}; give a dict by the Rust parameters' names"
        )
    for key in kwargs or {}:
        if not isinstance(key, str) or not key:
            raise InvalidTaskError(
                f"{about}: kwargs has the key {key!r}; every key must be a Rust parameter's name"
            )


def places_of(args: Any) -> list[Any]:
    """Return the positional arguments as what msgpack packs without a question."""
    return [_plain(value, ("args", n)) for n, value in enumerate(args or ())]


def item_of(value: Any) -> Any:
    """Return the item of a batch as what msgpack packs without a question."""
    return _plain(value, "item")


def keyword_arguments(kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the keyword arguments as what msgpack packs without a question."""
    return {
        text_of(key, ("kwargs", key)): _plain(value, ("kwargs", key))
        for key, value in (kwargs or {}).items()
    }


def standard_payload(places: list[Any]) -> bytes:
    """Return the payload that Rust and Go write for these arguments: a single one by itself."""
    value: Any = places if len(places) > 1 else places[0] if places else None
    return bytes(packb(value, datetime=True))


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
        return text_of(value, place)
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
        f"is a {kind_of(value)}, which MessagePack cannot carry; "
        "turn it into a number, str, bytes, list, dict or dataclass first",
    )


def text_of(value: str, place: _Place) -> str:
    """Return a text that is valid Unicode, or say where it is not."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _refuse(place, "is not valid Unicode; send it as bytes") from None
    return value


def _key(key: Any, place: _Place) -> Any:
    if isinstance(key, str):
        return text_of(key, (place, key))
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


def kind_of(value: Any) -> str:
    """Return the name of a value's type, for an error."""
    return type(value).__qualname__
