"""Says for how long a call is unique, and among which calls: the lock that travels."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any, Literal, Union

from .errors import InvalidTaskError, shown
from .times import span_ms

__all__ = ["REPLACES", "Unique", "lock_of", "lock_of_order", "mode_of"]

Unique = Union[Literal["until_started", "until_done", "replace"], timedelta, float]
"""For how long a call is unique: until it begins to run; until it has ended; for a duration from
its enqueue on, whatever becomes of it; or, with `replace`, while it is scheduled: a newer one takes
its place.
"""

REPLACES = b"r"
_MODES = {"until_started": b"s", "until_done": b"d", "replace": REPLACES}
_PERIOD = b"p"
_ORDERED = b"o"


def mode_of(unique: Any, has_key: bool) -> tuple[bytes, int] | None:
    """Return the letter of the mode, and the milliseconds of a period, else 0; None: not unique.

    Raises:
        InvalidTaskError: When it is no mode and no duration.
    """
    if unique is None:
        return (_MODES["until_done"], 0) if has_key else None
    if isinstance(unique, str) and unique in _MODES:
        return _MODES[unique], 0
    if isinstance(unique, bool) or not isinstance(unique, (int, float, timedelta)):
        raise InvalidTaskError(
            f"unique is {shown(unique)}; give 'until_started', 'until_done', 'replace', or a "
            "timedelta or a number of seconds"
        )
    return _PERIOD, max(span_ms(unique, "unique"), 1)


def lock_of(mode: bytes, path: str, payload: bytes, key: str | None) -> bytes:
    """Return the lock of a call, by its payload as Rust writes it, or by its key: 17 bytes.

    It is the letter of the mode and the first 16 bytes of the SHA-1 of the path, a byte that says
    what follows, and the payload or the key.
    """
    try:
        rest = b"\0" + payload if key is None else b"\1" + key.encode()
    except UnicodeEncodeError:
        raise InvalidTaskError("unique_key is not valid Unicode") from None
    return mode + hashlib.sha1(path.encode() + rest, usedforsecurity=False).digest()[:16]


def lock_of_order(key: str) -> bytes:
    """Return the lock of calls of any task with this key that run one after the other."""
    try:
        return lock_of(_ORDERED, "", b"", key)
    except InvalidTaskError:
        raise InvalidTaskError("ordered is not valid Unicode") from None
