"""Makes and reads the ids of calls: UUIDs of version 7, which sort by time, or of a text."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Union
from uuid import UUID, uuid5

from .errors import InvalidTaskError, shown

__all__ = ["CallId", "new_id", "parse_id"]

CallId = Union[UUID, bytes, str]
"""A call's id as a caller may give it: a `UUID`, its 16 bytes or its text, or any other text, such
as `order:7`, which becomes the same id in each language.
"""

_NAMESPACE = UUID("2510aeec-3d9c-5138-86ed-71103aeacdb2")
"""Of the ids that are hashed from texts: the UUID of version 5 of `delayed` for DNS names."""

_TEXT = re.compile(r"[0-9a-fA-F]{32}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def new_id() -> UUID:
    """Return a new id: a UUID of version 7, with the time to about 250 ns (RFC 9562, method 3)."""
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = (nanoseconds << 12) // 1_000_000
    random = int.from_bytes(os.urandom(8), "big") >> 2
    return UUID(int=milliseconds << 80 | 7 << 76 | fraction << 64 | 0b10 << 62 | random)


def parse_id(value: Any) -> UUID:
    """Return the id that `value` is, or stands for.

    Raises:
        InvalidTaskError: When it is no id: no UUID, not 16 bytes, no text of valid Unicode.
    """
    if isinstance(value, UUID):
        return value
    if isinstance(value, bytes) and len(value) == 16:
        return UUID(bytes=value)
    if isinstance(value, str) and _TEXT.fullmatch(value):
        return UUID(value)
    if isinstance(value, str) and value:
        try:
            return uuid5(_NAMESPACE, value)
        except UnicodeEncodeError:
            raise InvalidTaskError("id is not valid Unicode") from None
    given = f"{len(value)} bytes" if isinstance(value, bytes) else shown(value)
    raise InvalidTaskError(f"id is {given}; give a UUID, its 16 bytes, or a text such as 'order:7'")
