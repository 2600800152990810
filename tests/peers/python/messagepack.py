"""Lets schemathesis send bodies of MessagePack."""

from __future__ import annotations

from typing import Any

import msgpack
import schemathesis


@schemathesis.serializer("application/msgpack")
def pack(_context: Any, value: Any) -> bytes:
    """Encode a body that was generated."""
    # An integer that does not fit becomes a text.
    packed: bytes = msgpack.packb(value, default=str)
    return packed
