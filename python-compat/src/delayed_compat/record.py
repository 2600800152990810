"""Reads what is known of a call: its state, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from msgpack import unpackb

from .call_state import CallState
from .errors import (
    CallCancelledError,
    CallExpiredError,
    CallFailedError,
    CallNotFoundError,
    CallTimeoutError,
    ResultError,
    ResultTooLargeError,
)

__all__ = ["Record", "key_of_record", "read_command"]


_FIELDS = ("state", "result", "too_large", "unencodable", "reason", "error", "letter", "by")


def key_of_record(queue: str, id: UUID) -> str:
    """Return the key of a call's record, which is also the channel on which its end is told."""
    return f"{queue}:c:{id.hex}"


def read_command(queue: str, id: UUID) -> tuple[str, ...]:
    """Return the command whose reply `Record.of_reply` reads."""
    return "HMGET", key_of_record(queue, id), *_FIELDS


class Record:
    """What is known of a call."""

    def __init__(self, fields: Mapping[str, bytes | None]) -> None:
        self._fields = fields
        self.state = CallState.parse(fields.get("state"))
        """Its state; None where there is no record."""

    @classmethod
    def of_reply(cls, values: Sequence[bytes | None]) -> Record:
        """Read the reply to `read_command`."""
        return cls(dict(zip(_FIELDS, values)))

    @classmethod
    def of_end(cls, published: bytes) -> Record:
        """Read what is published at the end of a call: its state, then names and values."""
        state, *pairs = (
            value if isinstance(value, bytes) else str(value).encode()
            for value in unpackb(published, raw=True)
        )
        names = (name.decode() for name in pairs[::2])
        return cls({"state": state, **dict(zip(names, pairs[1::2]))})

    def result(self, id: UUID, queue: str) -> Any:
        """Return what the task returned, or raise why there is nothing."""
        if self.state is None:
            raise CallNotFoundError(id, queue)
        if self.state is CallState.DEAD:
            texts = (self._text(name) for name in ("reason", "error", "letter"))
            raise CallFailedError(id, queue, *texts)
        if self.state is CallState.CANCELLED:
            raise CallCancelledError(id, queue, self._text("by"))
        if self.state is CallState.EXPIRED:
            raise CallExpiredError(id, queue)
        if self.state is not CallState.SUCCEEDED:
            raise CallTimeoutError(id, queue, self.state)
        if self._fields.get("too_large"):
            raise ResultTooLargeError(id, queue, int(self._text("too_large")))
        if self._fields.get("unencodable"):
            raise ResultError(id, queue, self._text("unencodable"))
        packed = self._fields.get("result")
        if packed is None:  # a unique call without `keep` tells of its end, and of no result
            return None
        try:
            return unpackb(packed, timestamp=3, strict_map_key=False)
        except Exception as error:  # msgpack raises all kinds of them
            raise ResultError(id, queue, str(error)) from error

    def _text(self, name: str) -> str:
        return (self._fields.get(name) or b"").decode(errors="replace")
