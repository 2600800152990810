"""Names the states of a call."""

from __future__ import annotations

from enum import Enum

__all__ = ["CallState"]


class CallState(str, Enum):
    """The state of a call."""

    SCHEDULED = "scheduled"
    """In the timetable, until it is due."""
    WAITING = "waiting"
    """In its queue, or claimed by a worker that has not begun it."""
    RUNNING = "running"
    """A worker runs it."""
    RETRYING = "retrying"
    """In the timetable after a failed attempt."""
    SUCCEEDED = "succeeded"
    """It has run and succeeded."""
    DEAD = "dead"
    """It is a dead letter."""
    CANCELLED = "cancelled"
    """It was cancelled."""
    EXPIRED = "expired"
    """It expired before it could run."""

    def __str__(self) -> str:
        return self.value

    @property
    def is_final(self) -> bool:
        """Whether the call has ended."""
        return self in _FINAL

    @classmethod
    def parse(cls, name: bytes | None) -> CallState | None:
        """Return the state of this name, if there is one."""
        return _BY_NAME.get(name or b"")


_FINAL = {CallState.SUCCEEDED, CallState.DEAD, CallState.CANCELLED, CallState.EXPIRED}
_BY_NAME = {state.value.encode(): state for state in CallState}
