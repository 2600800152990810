"""Makes and reads the ids of calls: UUIDs of version 7, which sort by time."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Union
from uuid import UUID

from .errors import InvalidTaskError, shown

__all__ = ["CallId", "new_id", "parse_id"]

CallId = Union[UUID, bytes, str]
"""A call's id as a caller may give it: a `UUID`, its 16 bytes, or its text."""

_TEXT = re.compile(r"[0-9a-fA-F]{32}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def new_id() -> UUID:
    """Return a new id: a UUID of version 7, with the time to about 250 ns (RFC 9562, method 3)."""
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = (nanoseconds << 12) // 1_000_000
    random = int.from_bytes(os.urandom(8), "big") >> 2
    return UUID(int=milliseconds << 80 | 7 << 76 | fraction << 64 | 0b10 << 62 | random)


def parse_id(value: Any) -> UUID:
    """Return the id that `value` is.

    Raises:
        InvalidTaskError: When it is no id: no UUID, not 16 bytes, no text of 32 hexadecimal digits.
    """
    if isinstance(value, UUID):
        return value
    if isinstance(value, bytes) and len(value) == 16:
        return UUID(bytes=value)
    if isinstance(value, str) and _TEXT.fullmatch(value):
        return UUID(value)
    given = f"{len(value)} bytes" if isinstance(value, bytes) else shown(value)
    raise InvalidTaskError(
        f"id is {given}; "
        "give a UUID, its 16 bytes, or its 32 hexadecimal digits with or without hyphens"
    )
