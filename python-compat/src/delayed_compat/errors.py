"""The errors of this package: what went wrong, and what the caller can do."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from uuid import UUID

from .call_state import CallState

__all__ = [
    "AlreadyScheduledError",
    "CallCancelledError",
    "CallExistsError",
    "CallExpiredError",
    "CallFailedError",
    "CallNotFoundError",
    "CallTimeoutError",
    "CompatError",
    "EnqueueError",
    "Fate",
    "InvalidTaskError",
    "QueueFullError",
    "ResultError",
    "ResultTooLargeError",
    "WaitError",
]


class CompatError(Exception):
    """Any error that this package raises itself."""


class InvalidTaskError(CompatError, ValueError):
    """The task cannot be sent as it is: mend the call. Nothing was sent."""


class CallExistsError(CompatError):
    """A call with this id exists already: this one was not enqueued.

    After an error that left a call in doubt it means that the call had been enqueued.
    """

    def __init__(self, id: UUID, queue: str, state: CallState | None) -> None:
        super().__init__(id, queue, state)
        self.id = id
        """The id."""
        self.queue = queue
        """The name of the queue."""
        self.state = state
        """The state of the call that exists; None: one that this version does not know."""

    def __str__(self) -> str:
        return (
            f"a call with the id {self.id} is already {self.state or 'known'} in {self.queue}: "
            "this call was not enqueued; use another id"
        )


class AlreadyScheduledError(CallExistsError):
    """The timetable of the queue has a call with this id already: this one was not scheduled."""

    def __init__(self, id: UUID, queue: str, state: CallState | None = CallState.SCHEDULED) -> None:
        super().__init__(id, queue, state)


class QueueFullError(CompatError):
    """As many messages wait as the call's `max_len`, or more: it was not enqueued."""

    def __init__(self, queue: str, waiting: int) -> None:
        super().__init__(queue, waiting)
        self.queue = queue
        """The name of the queue."""
        self.waiting = waiting
        """How many messages wait."""

    def __str__(self) -> str:
        return f"{self.queue} is full: {self.waiting} messages wait; the call was not enqueued"


class Fate(Enum):
    """What became of one task."""

    APPLIED = "applied"
    """It is on its queue, or in the timetable, for certain."""
    IN_DOUBT = "in doubt"
    """It was sent, and no answer came: it may be there."""
    NOT_APPLIED = "not applied"
    """It is not there."""


class EnqueueError(CompatError):
    """Not all tasks were enqueued: see what is on the queue, and send the rest.

    `fates` says of each task what became of it. Where none is scheduled, `tasks[: error.applied]`
    are on the queue for certain; the next `error.in_doubt` tasks were sent, but no answer came:
    either all of them are on the queue or none is. Nothing after those was sent. The error that
    Redis or its client gave is `__cause__`, or a `CallExistsError` or a `QueueFullError`.
    """

    def __init__(
        self,
        applied: int,
        in_doubt: int,
        total: int,
        reason: str,
        fates: Sequence[Fate] | None = None,
    ) -> None:
        super().__init__(applied, in_doubt, total, reason, fates)
        self.applied = applied
        """How many tasks are on the queue, or in the timetable, for certain."""
        self.in_doubt = in_doubt
        """How many more may be there, all or none; 0 when the failing chunk surely is not."""
        self.total = total
        """How many tasks there were to send."""
        self.reason = reason
        """What Redis or its client said."""
        self._fates = fates

    @property
    def not_sent(self) -> int:
        """How many tasks are not on the queue for certain."""
        return self.total - self.applied - self.in_doubt

    @property
    def fates(self) -> list[Fate]:
        """What became of each task, in the order in which they were given."""
        if self._fates is not None:
            return list(self._fates)
        return (
            [Fate.APPLIED] * self.applied
            + [Fate.IN_DOUBT] * self.in_doubt
            + [Fate.NOT_APPLIED] * self.not_sent
        )

    def __str__(self) -> str:
        chunk = (
            f"the next {self.in_doubt} may have been applied, all or none"
            if self.in_doubt
            else "the failing chunk was not applied"
        )
        if self._fates is not None:
            chunk = f"{self.in_doubt} may have been, {self.not_sent} were not"
        return f"{self.applied} of {self.total} tasks were enqueued, {chunk}: {self.reason}"


class WaitError(CompatError):
    """The call has no result, at least not yet."""

    def __init__(self, id: UUID | None, queue: str, *details: object) -> None:
        Exception.__init__(self, id, queue, *details)  # a TimeoutError would take it for an errno
        self.id = id
        """The id of the call, if it has one."""
        self.queue = queue
        """The name of the queue."""

    def __str__(self) -> str:
        return f"the call {self.id} in {self.queue} {self._said()}"

    def _said(self) -> str:
        raise NotImplementedError


class CallNotFoundError(WaitError):
    """The call keeps no record: it was enqueued without `keep`, or its record is gone."""

    def _said(self) -> str:
        return "has no record: enqueue it with keep, and wait before that time has passed"


class CallTimeoutError(WaitError, TimeoutError):
    """The call has not ended in time. It goes on."""

    def __init__(self, id: UUID, queue: str, state: CallState) -> None:
        super().__init__(id, queue, state)
        self.state = state
        """The state of the call."""

    def __str__(self) -> str:
        return WaitError.__str__(self)

    def _said(self) -> str:
        return f"has not ended in time: it is {self.state}"


class CallFailedError(WaitError):
    """The call became a dead letter."""

    def __init__(self, id: UUID, queue: str, reason: str, error: str, letter: str) -> None:
        super().__init__(id, queue, reason, error, letter)
        self.reason = reason
        """One word, such as `failed`, `timed_out` or `lost`."""
        self.error = error
        """The error of the last attempt; empty for a call that was lost."""
        self.letter = letter
        """The id of the dead letter."""

    def _said(self) -> str:
        return f"is dead ({self.reason}): {self.error}"


class CallExpiredError(WaitError):
    """The call expired before it could run."""

    def _said(self) -> str:
        return "expired before it could run"


class CallCancelledError(WaitError):
    """The call was cancelled."""

    def __init__(self, id: UUID, queue: str, by: str) -> None:
        super().__init__(id, queue, by)
        self.by = by
        """Who cancelled it: a host and a process id, or what the command line was given."""

    def _said(self) -> str:
        return f"was cancelled by {self.by}"


class ResultError(WaitError):
    """The call succeeded, and its result cannot be read, or Rust could not encode it."""

    def __init__(self, id: UUID, queue: str, reason: str) -> None:
        super().__init__(id, queue, reason)
        self.reason = reason
        """What is wrong."""

    def _said(self) -> str:
        return f"succeeded, and its result cannot be read: {self.reason}"


class ResultTooLargeError(WaitError):
    """The call succeeded, and its result is larger than the limit of 1 MiB."""

    def __init__(self, id: UUID, queue: str, size: int) -> None:
        super().__init__(id, queue, size)
        self.size = size
        """The size of the encoded result, in bytes."""

    def _said(self) -> str:
        return (
            f"succeeded, and its result has {self.size} bytes: at most 1 MiB is kept; "
            "return a reference to large data"
        )


def shown(value: object) -> str:
    """Return `value` as an error shows it, however long it is."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than 4300 digits
        return f"a {type(value).__qualname__} of too many digits"
    return text if len(text) <= 80 else f"{text[:80]}…"
