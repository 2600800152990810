"""Checks what a call carries beside its arguments: headers, its trace, and the limits it names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .arguments import kind_of, text_of
from .errors import InvalidTaskError, shown

__all__ = ["MAX_NAME", "headers_of", "is_name", "limits_of", "trace_of"]

MAX_HEADERS, MAX_HEADER_BYTES = 32, 4096
"""How many headers a call has at most, and how many bytes, names and values together."""

MAX_LIMITS, MAX_NAME = 16, 200
"""How many limits a call names at most, and how many bytes the name of one has."""

MAX_TRACEPARENT, MAX_TRACESTATE = 256, 512
"""How many characters they have at most."""

_TRACEPARENT = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[\s\S]*)?"
)
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]|\\s"
)
_TRACESTATE = re.compile(r"[\t -~]*")


def headers_of(headers: Any) -> dict[str, str]:
    """Return the headers, sorted by name as Rust sorts them: by code points."""
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise InvalidTaskError(f"headers is a {kind_of(headers)}; give a dict of str to str")
    size = 0
    for name, value in headers.items():
        if not isinstance(name, str) or not name:
            raise InvalidTaskError(f"headers has the name {shown(name)}; give a str, not empty")
        if not isinstance(value, str):
            raise InvalidTaskError(f"headers[{name!r}] is a {kind_of(value)}; give a str")
        size += sum(len(text_of(text, ("headers", name)).encode()) for text in (name, value))
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


def trace_of(parent: Any, state: Any) -> list[str] | None:
    """Return the trace context; none without a traceparent."""
    for name, value in (("traceparent", parent), ("tracestate", state)):
        if value is not None and not isinstance(value, str):
            raise InvalidTaskError(f"{name} is a {kind_of(value)}; give a str")
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


def limits_of(limit: Any) -> list[str] | None:
    """Return the names of limits, each once; None without one."""
    if limit is None:
        return None
    if not isinstance(limit, (str, list, tuple)):
        raise InvalidTaskError(f"limit is a {kind_of(limit)}; give a str or a list of str")
    names = [limit] if isinstance(limit, str) else list(dict.fromkeys(limit))
    for name in names:
        if not isinstance(name, str):
            raise InvalidTaskError(f"limit has a {kind_of(name)} in it; give a str")
        text_of(name, ("limit", name))
        if not is_name(name):
            raise InvalidTaskError(
                f"limit is {shown(name)}; give 1 to {MAX_NAME} bytes of printable text "
                "without spaces"
            )
    if len(names) > MAX_LIMITS:
        raise InvalidTaskError(f"limit has {len(names)} names, at most {MAX_LIMITS} are allowed")
    return names or None


def is_name(text: str) -> bool:
    """Whether it can be the name of a limit, or the key of a batch."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return False
    return 1 <= size <= MAX_NAME and not _UNSEEN.search(text)
